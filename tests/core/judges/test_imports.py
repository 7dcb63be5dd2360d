"""What importing a judge costs: only what asking a model needs. The statistics come when they are called."""

import subprocess
import sys

import pytest

MODULES = [
    *(
        "judgegym.judges.arena",
        "judgegym.eval_environments.arena.standings",
        "judgegym.judges.aspects.judge",
    ),
    "judgegym.judges.checklists.judge",
    *("judgegym.judges.pairwise", "judgegym.judges.listwise.judge", "judgegym.judges.peers"),
    *(
        "judgegym.judges.rubrics.judge",
        "judgegym.statistics.agreement",
        "judgegym.statistics.agreement",
    ),
    *("judgegym.server.core", "judgegym_trainers.trl", "judgegym_trainers.verl"),
]
LATE = ("numpy", "scipy", "sklearn", "tiktoken", "datasets", "transformers", "wandb", "atroposlib")


@pytest.fixture(scope="module")
def loaded() -> list[str]:
    """Half a second of CPU, which is no test's own: also the gate tells that a judge has become heavy."""
    code = (
        f"import sys, {', '.join(MODULES)}; print(*(name for name in {LATE!r} if name in "
        "sys.modules))"
    )
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()


def test_import_of_the_judges_loads_no_statistics_and_no_tokenizer(loaded: list[str]) -> None:
    assert loaded == []
