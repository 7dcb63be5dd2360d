"""Which tests are run for a module."""

from pathlib import Path

import pytest

from benchmarks.mutation.selection import (
    TestSelection as Selection,
)  # pytest would collect it under its own name


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    files = {
        "judgegym/judges/scale.py": "",
        "judgegym/judges/parser.py": "from judgegym.judges.scale import Scale\n",
        "judgegym/judges/lonely.py": "",
        "tests/core/judges/test_scale.py": "",
        "tests/core/judges/test_scale_errors.py": "",
        "tests/core/judges/test_scales.py": "",
        "tests/core/judges/test_parser.py": "from judgegym.judges import parser\n",
        "tests/test_direct.py": "import judgegym.judges.scale\n",
        "tests/helper.py": "from judgegym.judges import scale\n",
        "tests/test_with_helper.py": "from tests.helper import a\n",
        "tests/commands/conftest.py": "from judgegym.judges.lonely import b\n",
        "tests/commands/test_command.py": "",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_mirror_comes_first_then_importers_then_tests_of_importing_modules(checkout: Path) -> None:
    mirror = ("tests/core/judges/test_scale.py", "tests/core/judges/test_scale_errors.py")
    others = (
        "tests/test_direct.py",
        "tests/test_with_helper.py",
        "tests/core/judges/test_parser.py",
    )
    assert Selection(checkout, [], limit=8).files_for("judgegym/judges/scale.py") == (
        *mirror,
        *others,
    )
    assert Selection(checkout, [], limit=1).files_for("judgegym/judges/scale.py") == (
        *mirror,
        others[0],
    )
    lonely = Selection(checkout, [], limit=8).files_for("judgegym/judges/lonely.py")
    assert lonely == ("tests/commands/test_command.py",), (
        "a conftest counts for the tests of its folder"
    )
