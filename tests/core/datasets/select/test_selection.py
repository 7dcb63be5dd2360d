"""What is selected, by properties that hold for any scores: no failure, margins, counts that add up, one order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judgegym.datasets.select.candidates import Group, ResponseCandidate
from judgegym.datasets.select.selection import REASONS, SELECTED, Rule, Selection, select

Scored = tuple[float | None, str]
OK, FAILED = "ok", ("judge_failed", "unparsable", "invalid_completion", "policy_failed")
TENTHS = st.one_of(st.none(), st.integers(0, 10).map(lambda tenth: tenth / 10))
RESPONSES = st.lists(st.tuples(TENTHS, st.text("ab", max_size=3)), min_size=1, max_size=5)
PROMPTS = st.lists(RESPONSES, min_size=1, max_size=6)
RULES = st.builds(
    Rule,
    st.sampled_from(["best", "threshold", "labels", "pairs"]),
    st.integers(1, 3),
    st.sampled_from([None, 0.0, 0.5, 0.7]),
    st.sampled_from([0.0, 0.1, 0.2, 0.5]),
    st.sampled_from(["one", "all"]),
    st.booleans(),
    st.one_of(st.none(), st.integers(1, 4)),
)
AtLeast, Best, Pairs = (partial(Rule, take) for take in ("threshold", "best", "pairs"))


def gathered(prompts: Sequence[Sequence[Scored]]) -> list[Group]:
    """A prompt is a row."""
    groups = [Group(str(number).encode()) for number in range(len(prompts))]
    for row, (group, responses) in enumerate(zip(groups, prompts, strict=True)):
        for place, (score, text) in enumerate(responses):
            status = OK if score is not None else FAILED[place % len(FAILED)]
            group.candidates.append(
                ResponseCandidate.from_response(row, place, score, status, text)
            )
    return groups


def selected(prompts: Sequence[Sequence[Scored]], rule: Rule, seed: int = 0) -> Selection:
    return select(gathered(prompts), rule, seed)


def numbers(selection: Selection) -> list[int]:
    """The singles of one prompt."""
    return [single.number for single in selection.singles]


def paired(selection: Selection) -> list[tuple[int, int]]:
    """The pairs of one prompt, in order."""
    return sorted((chosen.number, rejected.number) for chosen, rejected in selection.pairs)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(PROMPTS, RULES, st.integers(0, 3))
def test_what_holds_for_any_rule(prompts: list[list[Scored]], rule: Rule, seed: int) -> None:
    found = gathered(prompts)
    selection = select(found, rule, seed)
    taken = {*selection.singles, *(each for pair in selection.pairs for each in pair)}
    assert None not in [candidate.score for candidate in taken]
    assert sum(selection.responses.values()) == sum(map(len, prompts))
    assert sum(selection.prompts.values()) == len(prompts)
    assert selection.responses[SELECTED] == len(taken)
    assert {*selection.responses, *selection.prompts} <= {SELECTED, *REASONS}
    for status in FAILED:
        failed = [each for group in found for each in group.candidates if each.status == status]
        assert selection.responses[status] == len(failed)
    assert select(gathered(prompts), rule, seed) == selection
    for group in found:
        texts = [each.text for each in group.candidates if each in taken]
        assert len(texts) == len(set(texts))
    for chosen, rejected in selection.pairs:
        assert chosen.score is not None and rejected.score is not None
        assert round(chosen.score - rejected.score, 9) >= rule.margin
        assert (
            chosen.score > rejected.score
            and chosen.text != rejected.text
            and chosen.row == rejected.row
        )
    if rule.take == "pairs" and rule.per_prompt == "one":
        assert len({chosen.row for chosen, _ in selection.pairs}) == len(selection)
    if rule.take == "pairs" and rule.max_pairs is not None:
        assert len(selection) <= rule.max_pairs
    if rule.length_balanced:
        differences = selection.lengths[1].differences
        assert sum(each > 0 for each in differences) == sum(each < 0 for each in differences)


def test_best_and_ties() -> None:
    prompt = [(0.5, "a"), (0.9, "b"), (None, "c"), (0.9, "d"), (0.1, "e")]
    drawn = {numbers(selected([prompt], Best(), seed))[0] for seed in range(20)}
    assert drawn == {1, 3}
    assert selected([prompt], Best()).responses == {
        SELECTED: 1,
        "tie": 1,
        "not_best": 2,
        "invalid_completion": 1,
    }
    assert numbers(selected([prompt], Best(count=2))) in ([1, 3], [3, 1])
    none = selected([prompt], Best(min_score=0.95))
    assert (len(none), none.prompts) == (0, {"below": 1})


def test_a_draw_does_not_depend_on_the_order_of_the_file() -> None:
    prompt = [(0.9, text) for text in "abcdef"]
    for seed in range(5):
        first = numbers(selected([prompt], Best(), seed))[0]
        reverse = numbers(selected([prompt[::-1]], Best(), seed))[0]
        assert prompt[first] == prompt[::-1][reverse]


def test_scores_are_compared_to_nine_decimals() -> None:
    assert numbers(selected([[(0.7 + 0.1, "a"), (0.1, "b")]], AtLeast(min_score=0.8))) == [0]
    assert len(selected([[(0.7, "a"), (0.5, "b")]], Pairs(margin=0.2))) == 1
    assert selected([[(0.1 + 0.2, "a"), (0.3, "b")]], Pairs()).prompts == {"tie": 1}


def test_pairs_one_is_the_best_against_the_worst_and_all_are_all() -> None:
    prompt = [(0.2, "aa"), (1.0, "b"), (0.6, "cccc"), (None, "d"), (0.2, "eeeee")]
    for seed in range(8):
        one = selected([prompt], Pairs(), seed)
        assert paired(one) in ([(1, 0)], [(1, 4)])
    assert one.responses == {SELECTED: 2, "policy_failed": 1, "not_paired": 2}
    every = selected([prompt], Pairs(per_prompt="all"))
    assert paired(every) == [(1, 0), (1, 2), (1, 4), (2, 0), (2, 4)]
    apart = selected([prompt], Pairs(margin=0.5, per_prompt="all"))
    assert paired(apart) == [(1, 0), (1, 4)]
    assert apart.responses["margin"] == 1
    balance = selected([prompt], Pairs(length_balanced=True))
    assert len(balance.lengths[0].differences) == 1


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        ([(0.5, "a"), (0.5, "b")], "tie"),
        ([(0.5, "a"), (None, "b")], "too_few"),
        ([(0.5, "a"), (0.9, "a")], "too_few"),
        ([(0.5, "a"), (0.6, "b")], "margin"),
        ([(0.1, "a"), (0.4, "b")], "below"),
        ([(None, "a"), (None, "b")], "no_score"),
    ],
)
def test_why_a_prompt_has_no_pair(prompt: list[Scored], reason: str) -> None:
    selection = selected([prompt], Pairs(margin=0.2, min_score=0.5))
    assert (len(selection), selection.prompts) == (0, {reason: 1})


def test_lengths_are_balanced_and_the_share_is_told() -> None:
    longer = [[(0.9, "long answer"), (0.1, f"s{number}")] for number in range(6)]
    shorter = [[(0.9, f"s{number}"), (0.1, "long answer")] for number in range(2)]
    selection = selected([*longer, *shorter], Pairs(length_balanced=True))
    before, after = selection.lengths
    assert (before.longer_share, after.longer_share) == (0.75, 0.5)
    assert (
        len(selection),
        selection.prompts["length_balance"],
        selection.responses["length_balance"],
    ) == (4, 4, 8)
    assert sum(after.differences) == 0
    near = [(0.9, "x" * 50), (0.1, "y"), (0.3, "z" * 49)]
    one = selected([near, [(0.9, "a"), (0.1, "bb")]], Pairs(length_balanced=True, margin=0.5))
    assert [each.number for each in one.pairs[0]] == [0, 2]
