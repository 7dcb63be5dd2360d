"""The command on a small tree of its own."""

import json
from pathlib import Path

import pytest

from benchmarks.mutation.__main__ import main

MODULE = "judgegym/judges/order.py"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # plugins are slow to import
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p _hypothesis_pytestplugin")
    files = {
        "judgegym/judges/__init__.py": "",
        MODULE: "def less(a, b):\n    return a < b\n",
        "tests/core/judges/test_order.py": "from judgegym.judges.order import less\n\n"
        "def test_order():\n    assert less(1, 2) is True\n    assert less(2, 1) is False\n",
        "tests/test_equal.py": "from judgegym.judges.order import less\n\n"
        "def test_equal():\n    assert not less(1, 1)\n",
    }
    for name, text in files.items():
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "tree"


def statuses(path: Path) -> dict[str, str]:
    return {
        entry["mutant"]["kind"]: entry["status"]
        for entry in json.loads(path.read_text())["mutants"]
    }


def test_a_mutant_is_killed_by_a_failing_test_and_survives_if_all_pass(
    checkout: Path, tmp_path: Path
) -> None:
    before = (checkout / MODULE).read_bytes()
    out = tmp_path / "out.json"
    words = ["--checkout", str(checkout), "--importers", "0", "--out", str(out)]

    assert main([*words, "--check"]) == 0
    assert statuses(out) == {"None returned": "killed", "comparison": "survived"}
    assert (checkout / MODULE).read_bytes() == before

    assert main([*words, "--tests", "tests/test_equal.py"]) == 0
    assert statuses(out) == {"None returned": "killed", "comparison": "killed"}


def test_tests_that_do_not_exist_are_named_and_nothing_is_run(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["--checkout", str(checkout), "--tests", "tests/test_equal.py", "tests/test_none.py"])
        == 2
    )

    printed = capsys.readouterr()
    assert printed.out == ""
    assert "tests/test_none.py" in printed.err
    assert "test_equal" not in printed.err


def test_check_refuses_tests_that_fail_without_a_mutant(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / "tests/core/judges/test_order.py").write_text(
        "def test_order():\n    assert False\n"
    )

    assert main(["--checkout", str(checkout), "--check"]) == 2

    assert "fail on the unchanged tree" in capsys.readouterr().err


def test_the_same_seed_draws_the_same_mutants(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lists = []
    for seed in ("1", "1", "2"):
        (checkout / MODULE).write_text("\n".join(f"x{i} = {i}" for i in range(50)))
        assert main(["--checkout", str(checkout), "--list", "--count", "5", "--seed", seed]) == 0
        lists.append(capsys.readouterr().out)

    assert lists[0] == lists[1] != lists[2]
