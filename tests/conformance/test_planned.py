"""`--plan` is what the run then asks: every kind and form of a judge, and every environment, on three data sets.

`tests/core/datasets/score/test_plan.py` and `tests/core/environments/command_line/test_plan.py`
have a cheap case each.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.planned import Case, cases, differences, made, planned, write_data

CASES = [*cases()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the rows of all runs."""
    made_in = tmp_path_factory.mktemp("planned")
    write_data(made_in / "rows")
    return made_in


def test_there_are_three_data_sets_for_each_kind() -> None:
    kinds = [
        case.name.rpartition("-")[0]
        for case in CASES
        if case.name.startswith(("score-rubric", "score-tournament"))
    ]
    assert (kinds.count("score-rubric"), kinds.count("score-tournament"), len(CASES) > 120) == (
        3,
        3,
        True,
    )


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_plan_is_what_the_run_asks(folder: Path, case: Case) -> None:
    assert not differences(planned(folder / case.name, case), made(folder / case.name, case))
