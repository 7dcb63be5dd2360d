"""Which responses have the key of one cohort."""

from __future__ import annotations

from dataclasses import replace

from judgegym.judges.core.tasks import Item
from judgegym.server.cohorts.register import cohort_key

ITEM = Item("Why?", ("Because.",), reference="So.", rubric="Is it clear?")


def test_key_of_two_responses_to_one_prompt_is_the_same() -> None:
    assert cohort_key("m", replace(ITEM, responses=("Therefore.",), member="2")) == cohort_key("m", ITEM)


def test_key_differs_by_judge_group_prompt_and_label() -> None:
    others = [
        replace(ITEM, prompt="Who?"),
        replace(ITEM, reference="Thus."),
        replace(ITEM, rubric="Is it short?"),
        replace(ITEM, group="7"),
        replace(ITEM, group="8"),
    ]
    assert len({cohort_key("m", item) for item in [ITEM, *others]} | {cohort_key("n", ITEM)}) == len(others) + 2


def test_items_of_two_members_are_equal_where_they_are_judged_alone() -> None:
    first, second = replace(ITEM, group="1", member="1"), replace(ITEM, group="2", member="2")
    assert first == second
    assert (hash(first), first.key("m")) == (hash(second), second.key("m"))
