"""Weights of juries: the rule of `learn_weights`, Dawid and Skene's model, and what both do on recorded judges."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from crowdkit.aggregation import DawidSkene

from benchmarks.juries import LABELS, LLMBAR, RecordedVerdicts, judge_pool
from judgegym_trials.replay.weights import FEWEST_LABELS, dawid_skene, learn_weights, points
from tests.docs.tables import DOCS, tables

needs_llmbar = pytest.mark.skipif(
    not LLMBAR.is_dir(), reason="the real data is not there: ../shared/data/llmbar"
)


def votes_of(accuracies: list[float], rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Votes of independent members, a tenth of them ties, and gold."""
    draw = np.random.default_rng(seed)
    gold = draw.choice([-1.0, 1.0], rows)
    right = draw.random((rows, len(accuracies))) < accuracies
    votes = np.where(right, gold[:, None], -gold[:, None])
    return np.where(draw.random(votes.shape) < 0.1, 0.0, votes), gold


def test_points_are_one_for_the_right_sign_and_half_for_a_tie() -> None:
    assert points(np.array([0.5, -2.0, 0.0]), np.array([1.0, 1.0, -1.0])).tolist() == [
        1.0,
        0.0,
        0.5,
    ]


def test_a_strong_member_among_weak_ones_decides_alone_but_for_its_ties() -> None:
    votes, gold = votes_of([0.9, 0.5, 0.5, 0.5], 100, seed=1)
    found = learn_weights(votes, gold)
    assert not isinstance(found, str)
    assert found.best == 0 and found.at_least <= 0.0
    assert found.weights[0] / 2 > sum(found.weights[1:])  # also with a vote of one order alone


def test_independent_members_of_equal_skill_are_a_jury_without_negative_weights() -> None:
    votes, gold = votes_of([0.75] * 5, 200, seed=2)
    found = learn_weights(votes, gold)
    assert not isinstance(found, str)
    assert 0.0 < found.at_least < found.gain
    assert min(found.weights) >= 0.0
    fresh, labels = votes_of([0.75] * 5, 2000, seed=3)
    assert (
        points(fresh @ found.weights, labels).mean()
        > points(fresh[:, found.best], labels).mean() + 0.05
    )


def test_a_member_that_is_always_wrong_has_no_weight() -> None:
    votes, gold = votes_of([0.8, 0.1], 120, seed=4)
    found = learn_weights(votes, gold)
    assert not isinstance(found, str)
    assert found.best == 0 and found.weights[1] == 0.0


def test_too_few_labels_are_said() -> None:
    votes, gold = votes_of([0.8, 0.7], FEWEST_LABELS - 1, seed=5)
    found = learn_weights(votes, gold)
    assert isinstance(found, str) and "29 labels" in found and "30 or more" in found


def test_weights_are_those_of_the_seed() -> None:
    votes, gold = votes_of([0.75, 0.7, 0.7], 60, seed=6)
    assert learn_weights(votes, gold, seed=1) == learn_weights(votes, gold, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_dawid_and_skenes_model_equals_an_independent_implementation(seed: int) -> None:
    draw = np.random.default_rng(seed)
    truth = draw.integers(0, 3, 150)
    said: list[list[int | None]] = [
        [
            None
            if draw.random() < 0.1
            else int(row if draw.random() < skill else draw.integers(0, 3))
            for skill in (0.9, 0.7, 0.6, 0.5)
        ]
        for row in truth
    ]
    said = [row for row in said if any(verdict is not None for verdict in row)]
    table = pd.DataFrame(
        [
            (row, member, verdict)
            for row, verdicts in enumerate(said)
            for member, verdict in enumerate(verdicts)
            if verdict is not None
        ],
        columns=["task", "worker", "label"],
    )
    # Both stop after as many rounds: near the maximum their criterion, a mean, ends on rounding
    # errors.
    theirs = DawidSkene(n_iter=200, tol=-1.0).fit_predict_proba(table).sort_index()
    ours = dawid_skene(said, 3, rounds=200, tolerance=0.0)
    assert np.abs(ours - theirs.to_numpy()).max() < 1e-6


def test_a_row_without_a_verdict_has_the_shares_of_the_classes() -> None:
    found = dawid_skene([[0, 0], [1, 1], [0, 0], [None, None]], 2)
    assert found[3] == pytest.approx(found.mean(axis=0), abs=1e-3)
    assert found.argmax(axis=1)[:3].tolist() == [0, 1, 0]


@needs_llmbar
@pytest.mark.slow
def test_figures_of_the_page_on_juries_are_those_of_the_recorded_judges() -> None:
    recorded, page = RecordedVerdicts.read(), DOCS / "judges" / "juries.md"
    (pools,) = tables(page, header="jury of")
    members = recorded.pools()["four judges, Vanilla"]
    alone = re.findall(
        r"(GPT-4|PaLM2|LLaMA2|ChatGPT)(?: is right in)? (0\.\d+)", page.read_text(encoding="utf-8")
    )
    found = {model: recorded.accuracy((model, prompt)) for model, prompt in members}
    assert found == pytest.approx({name: float(value) for name, value in alone}, abs=5e-4)
    for pool, *figures in pools:
        result = judge_pool(recorded, pool, 60, splits=30)
        means = [float(each.mean()) for each in (result.majority, result.single, result.jury)]
        assert means == pytest.approx([*map(float, figures)], abs=0.012), "30 splits of 200"


@needs_llmbar
@pytest.mark.slow
@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("pool", RecordedVerdicts.read().pools() if LLMBAR.is_dir() else ["none"])
def test_a_learned_jury_of_recorded_judges_is_no_worse_than_its_best_member(
    pool: str, labels: int
) -> None:
    found = judge_pool(RecordedVerdicts.read(), pool, labels, splits=30)
    assert (
        found.gains.mean() >= -0.006
    )  # the requirement, −0.003, and what 30 splits of 200 scatter
    assert (found.gains < -0.02).mean() <= 0.1
    if pool == "four judges, Vanilla":  # a majority of unequal judges harms
        assert found.majority.mean() < found.single.mean() - 0.15
