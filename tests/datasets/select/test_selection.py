"""What is selected, by properties that hold for any scores: no failure, margins, counts that add up, one order."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judgegym.datasets.select.candidates import Candidates, digest_of
from judgegym.datasets.select.rules import REASONS, AtLeast, Best, Labels, Pairs, Rule
from judgegym.datasets.select.selection import SELECTED, Selection, select

Scored = tuple[float | None, str]
OK, FAILED = "ok", ("judge_failed", "unparsable", "invalid_completion", "policy_failed")
TENTHS = st.one_of(st.none(), st.integers(0, 10).map(lambda tenth: tenth / 10))
RESPONSES = st.lists(st.tuples(TENTHS, st.text("ab", max_size=3)), min_size=1, max_size=5)
PROMPTS = st.lists(RESPONSES, min_size=1, max_size=6)
MARGINS = st.sampled_from([0.0, 0.1, 0.2, 0.5])
RULES: st.SearchStrategy[Rule] = st.one_of(
    st.builds(Best, st.integers(1, 3), st.one_of(st.none(), st.just(0.5))),
    st.builds(AtLeast, st.sampled_from([0.0, 0.7])),
    st.builds(Labels, st.just(0.5)),
    st.builds(
        Pairs,
        MARGINS,
        st.sampled_from(["one", "all"]),
        st.one_of(st.none(), st.just(0.5)),
        st.booleans(),
        st.one_of(st.none(), st.integers(1, 4)),
    ),
)


def gathered(prompts: Sequence[Sequence[Scored]]) -> Candidates:
    found = Candidates()
    for number, responses in enumerate(prompts):
        rows = [
            (score, OK if score is not None else FAILED[place % len(FAILED)], text)
            for place, (score, text) in enumerate(responses)
        ]
        found.add(digest_of(str(number).encode()), rows)
    found.gather(by_key=True)
    return found


def selected(prompts: Sequence[Sequence[Scored]], rule: Rule, seed: int = 0) -> Selection:
    return select(gathered(prompts), rule, seed)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(PROMPTS, RULES, st.integers(0, 3))
def test_what_holds_for_any_rule(prompts: list[list[Scored]], rule: Rule, seed: int) -> None:
    found = gathered(prompts)
    selection = select(found, rule, seed)
    places = [*selection.singles, *selection.chosen, *selection.rejected]
    taken = {place: found.candidate(place) for place in places}
    assert None not in [candidate.score for candidate in taken.values()]
    assert sum(selection.responses.values()) == sum(map(len, prompts)) == len(found)
    assert sum(selection.prompts.values()) == len(prompts)
    assert selection.responses[SELECTED] == len(taken)
    assert {*selection.responses, *selection.prompts} <= {SELECTED, *REASONS}
    for status in FAILED:
        failed = [each for group in found for each in group.candidates if each.status == status]
        assert selection.responses[status] == len(failed)
    again = select(gathered(prompts), rule, seed)
    assert again == selection
    for group in found:
        texts = [taken[each.place].text for each in group.candidates if each.place in taken]
        assert len(texts) == len(set(texts))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(PROMPTS, MARGINS, st.sampled_from(["one", "all"]), st.booleans(), st.one_of(st.none(), st.integers(1, 4)))
def test_pairs(prompts: list[list[Scored]], margin: float, per_prompt: str, balance: bool, limit: int | None) -> None:
    found = gathered(prompts)
    rule = Pairs(margin, "one" if per_prompt == "one" else "all", length_balanced=balance, max_pairs=limit)
    selection = select(found, rule, 0)
    of_prompt = {each.place: number for number, group in enumerate(found) for each in group.candidates}
    for one, other in zip(selection.chosen, selection.rejected, strict=True):
        chosen, rejected = found.candidate(one), found.candidate(other)
        assert chosen.score is not None and rejected.score is not None
        assert round(chosen.score - rejected.score, 9) >= margin
        assert chosen.score > rejected.score and chosen.text != rejected.text
        assert of_prompt[one] == of_prompt[other]
    if per_prompt == "one":
        assert len({of_prompt[place] for place in selection.chosen}) == len(selection.chosen)
    if limit is not None:
        assert len(selection) <= limit
    if balance:
        assert selection.lengths[1].longer == selection.lengths[1].shorter


def test_best_and_ties() -> None:
    prompt = [(0.5, "a"), (0.9, "b"), (None, "c"), (0.9, "d"), (0.1, "e")]
    drawn = {selected([prompt], Best(), seed).singles[0] for seed in range(20)}
    assert drawn == {1, 3}
    assert selected([prompt], Best()).responses == {SELECTED: 1, "tie": 1, "not_best": 2, "invalid_completion": 1}
    assert list(selected([prompt], Best(2)).singles) in ([1, 3], [3, 1])
    none = selected([prompt], Best(min_score=0.95))
    assert (len(none), none.prompts) == (0, {"below": 1})


def test_a_draw_does_not_depend_on_the_order_of_the_file() -> None:
    prompt = [(0.9, text) for text in "abcdef"]
    for seed in range(5):
        first = selected([prompt], Best(), seed).singles[0]
        reverse = selected([prompt[::-1]], Best(), seed).singles[0]
        assert prompt[first] == prompt[::-1][reverse]


def test_scores_are_compared_to_nine_decimals() -> None:
    assert list(selected([[(0.7 + 0.1, "a"), (0.1, "b")]], AtLeast(0.8)).singles) == [0]
    assert len(selected([[(0.7, "a"), (0.5, "b")]], Pairs(margin=0.2))) == 1
    assert selected([[(0.1 + 0.2, "a"), (0.3, "b")]], Pairs()).prompts == {"tie": 1}


def test_pairs_one_is_the_best_against_the_worst_and_all_are_all() -> None:
    prompt = [(0.2, "aa"), (1.0, "b"), (0.6, "cccc"), (None, "d"), (0.2, "eeeee")]
    for seed in range(8):
        one = selected([prompt], Pairs(), seed)
        assert list(one.chosen) == [1] and one.rejected[0] in (0, 4)
    assert one.responses == {SELECTED: 2, "policy_failed": 1, "not_paired": 2}
    every = selected([prompt], Pairs(per_prompt="all"))
    assert sorted(zip(every.chosen, every.rejected, strict=True)) == [(1, 0), (1, 2), (1, 4), (2, 0), (2, 4)]
    apart = selected([prompt], Pairs(margin=0.5, per_prompt="all"))
    assert sorted(zip(apart.chosen, apart.rejected, strict=True)) == [(1, 0), (1, 4)]
    assert apart.responses["margin"] == 1
    balance = selected([prompt], Pairs(length_balanced=True))
    assert balance.lengths[0].pairs == 1


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
    assert (before.share, after.share) == (0.75, 0.5)
    assert (len(selection), selection.prompts["length_balance"], selection.responses["length_balance"]) == (4, 4, 8)
    assert after.total == 0
    near = [(0.9, "x" * 50), (0.1, "y"), (0.3, "z" * 49)]
    one = selected([near, [(0.9, "a"), (0.1, "bb")]], Pairs(length_balanced=True, margin=0.5))
    assert (one.chosen[0], one.rejected[0]) == (0, 2)
