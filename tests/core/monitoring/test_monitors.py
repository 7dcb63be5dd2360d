"""The numbers of a step, from groups that are counted by hand."""

from __future__ import annotations

import math
import random
import statistics
from typing import Any

import pytest

from judgegym.monitoring.monitors import MONITORS, StepMonitors
from judgegym.monitoring.texts import NEAR, NearDuplicates, estimate_resemblance, measure_text
from judgegym.monitoring.texts import is_refusal as refuses
from tests.core.monitoring.watched import group, rollout

WORDS = [f"word{number}" for number in range(2_000)]


def step(*groups: Any) -> dict[str, Any]:
    monitors = StepMonitors()
    for each in groups:
        monitors.add(each)
    return monitors.finish_step(7, {})


def text(seed: int, words: int = 120) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=words))


def test_rewards_scores_and_groups_that_teach_nothing() -> None:
    line = step(
        group(
            1,
            rollout(text(1), 1.0),
            rollout(text(2), 0.0),
            rollout(text(3), None, status="judge_failed"),
        ),
        group(2, rollout(text(4), 1.0), rollout(text(5), 1.0)),
        group(3, rollout(text(6), None, status="unparsable"), rollout(text(7), 0.5)),
        group(
            4,
            rollout(
                "", None, reward=0.0, status="invalid_completion", format_fault="no closing tag"
            ),
        ),
    )
    values = line["values"]
    rewards = [1.0, 0.0, 1.0, 1.0, 0.5, 0.0]
    assert (values["reward_mean"], values["reward_spread"]) == pytest.approx(
        (statistics.fmean(rewards), statistics.stdev(rewards))
    )
    assert values["reward_spread_within"] == pytest.approx(math.sqrt(0.5 / 2))
    assert (
        values["groups_without_spread"],
        values["at_top"],
        values["at_bottom"],
    ) == pytest.approx((1 / 2, 3 / 5, 1 / 5))
    assert (values["judge_failed_rate"], values["unparsable_rate"], values["masked_rate"]) == (
        1 / 8,
        1 / 8,
        2 / 8,
    )
    assert (values["format_fault_rate"], values["empty_rate"]) == (1 / 8, 1 / 8)
    assert line["causes"] == {"judge_failed": 1, "unparsable": 1, "invalid_completion": 1}
    assert (line["step"], line["groups"], line["rollouts"], line["masked"]) == (7, 4, 8, 2)
    assert {*values} | {*line["left_out"]} == {*MONITORS}, "each monitor has a value or a reason"


def test_length_and_reward_within_groups_beside_what_chance_makes() -> None:
    """Between groups long answers have low rewards here; within each, they have high ones."""
    groups = [
        group(
            number,
            *(
                rollout("x", 0.2 * place - 0.1 * number, tokens=100 * number + 10 * place)
                for place in range(4)
            ),
        )
        for number in range(1, 8)
    ]
    line = step(*groups)
    assert line["values"]["length_reward_correlation"] == pytest.approx(1.0)
    limit = math.tanh(2.576 / math.sqrt(7 * 3 - 2))
    assert line["limits"] == {"length_reward_correlation": pytest.approx([-limit, limit])}
    assert line["length_unit"] == "tokens"
    few = step(groups[0])
    assert "too few rollouts" in few["left_out"]["length_reward_correlation"]
    assert few["limits"] == {}


def test_the_limit_of_chance_is_exceeded_once_in_100_times() -> None:
    draw, beyond = random.Random(3), 0
    for _ in range(300):
        line = step(
            *(
                group(
                    number,
                    *(rollout("x", draw.random(), tokens=draw.randrange(500)) for _ in range(4)),
                )
                for number in range(6)
            )
        )
        low, high = line["limits"]["length_reward_correlation"]
        beyond += not low <= line["values"]["length_reward_correlation"] <= high
    assert 0 < beyond <= 8


def test_parts_and_criteria() -> None:
    """Shares of the reward's variance within groups add up to 1."""
    rollouts = [
        rollout(
            "x",
            0.5 * one + 0.5 * two,
            parts={"style": 0.5 * one, "facts": 0.5 * two},
            criteria={"a": one, "b": 0.5},
        )
        for one, two in ((1.0, 0.5), (0.0, 0.0), (1.0, 0.25), (0.0, 0.75))
    ]
    line = step(group(1, *rollouts))
    assert sum(line["parts"].values()) == pytest.approx(1.0)
    assert line["parts"]["style"] > line["parts"]["facts"]
    assert line["criteria"] == {"a": [0.5, 0.5, 0.5], "b": [0.5, 0.0, 0.0]}


def test_a_server_is_not_told_of_formats() -> None:
    line = step(
        group(1, rollout(text(1), 1.0), knows_policy=False, cost={"judge": 0.5}),
        group(2, rollout(text(2), 0.0), cost={"judge": None}),
    )
    assert line["cost"] == {"judge": None}
    left_out = step(group(1, rollout("x", 1.0), knows_policy=False))["left_out"]
    assert "reward server" in left_out["redraw_rate"]


def test_near_duplicates_are_told_from_texts_that_share_some_words() -> None:
    near = NearDuplicates()
    base, other = text(1).split(), text(2).split()
    for number, (words, expected) in enumerate(
        [
            (base, (False, False)),
            ([*base[:60], "changed", *base[61:]], (False, True)),
            ([*base[:60], *other[60:]], (False, False)),
            (other, (False, False)),
            ([*other[:-1], "end"], (False, True)),
        ]
    ):
        assert near.add(number, f"row-{number}", measure_text(" ".join(words)).sketch) == expected
    assert near.add(9, "row-0", measure_text(" ".join(base)).sketch) == (False, True), (
        "of another row, too"
    )
    assert near.add(9, "row-0", measure_text(" ".join(base)).sketch)[0], "of its group"
    assert NearDuplicates().add(1, "a", measure_text("  ").sketch) == (False, False)


def test_the_sketch_estimates_what_two_texts_share() -> None:
    errors = []
    for seed in range(40):
        words, keep = text(seed, 120).split(), 120 - 2 * seed
        mixed = [*words[:keep], *text(1_000 + seed, 120 - keep).split()]
        runs = [{*zip(each, each[1:], each[2:], strict=False)} for each in (words, mixed)]
        truth = len(runs[0] & runs[1]) / len(runs[0] | runs[1])
        errors.append(
            estimate_resemblance(
                measure_text(" ".join(words)).sketch, measure_text(" ".join(mixed)).sketch
            )
            - truth
        )
    assert abs(statistics.fmean(errors)) < 0.05
    assert statistics.stdev(errors) < 0.12 < NEAR


@pytest.mark.parametrize(
    ("said", "is_refusal"),
    [
        ("I'm sorry, but I can't help with that.", True),
        ("As an AI language model, …", True),
        ("Sorry, no.", True),
        ("I cannot stress enough how important this is.", False),
        ("The answer is that I cannot help laughing.", False),
        ("", False),
    ],
)
def test_refusals(said: str, is_refusal: bool) -> None:
    assert refuses(said) is is_refusal


def test_repetition() -> None:
    assert measure_text("Again and again and again and").repetition == pytest.approx(0.5)
    assert measure_text(text(1)).repetition < 0.05
    assert measure_text("no no no no no no no no").repetition == pytest.approx(5 / 6)
    assert measure_text("two words").repetition == 0.0
