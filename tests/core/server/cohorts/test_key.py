"""Which responses have the key of one cohort."""

from __future__ import annotations

from dataclasses import replace

from judgegym.judges.core.tasks import JudgeTask
from judgegym.server.cohorts import cohort_key

TASK = JudgeTask("Why?", ("Because.",), reference="So.", rubric="Is it clear?")


def test_key_of_two_responses_to_one_prompt_is_the_same() -> None:
    assert cohort_key("m", replace(TASK, responses=("Therefore.",), member="2")) == cohort_key("m", TASK)


def test_key_differs_by_judge_group_prompt_and_label() -> None:
    others = [
        replace(TASK, prompt="Who?"),
        replace(TASK, reference="Thus."),
        replace(TASK, rubric="Is it short?"),
        replace(TASK, group="7"),
        replace(TASK, group="8"),
    ]
    assert len({cohort_key("m", item) for item in [TASK, *others]} | {cohort_key("n", TASK)}) == len(others) + 2


def test_items_of_two_members_are_equal_where_they_are_judged_alone() -> None:
    first, second = replace(TASK, group="1", member="1"), replace(TASK, group="2", member="2")
    assert first == second
    assert (hash(first), first.key("m")) == (hash(second), second.key("m"))
