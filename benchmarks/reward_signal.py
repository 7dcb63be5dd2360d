"""The signal of a reward on recorded scores: the meter on two scores, compared with a third one.

80 prompts with 4 responses, each scored three times by one judge from 1 to 5. For all six orders of
the three scores: reliability, the share that does not repeat, groups without a difference, and the
agreement that the meter predicts from two scores beside that with the third one. Then the range
over samples of 16, 32 and 64 prompts, drawn with replacement.

At last simulated judges of known noise: normal completions, a share of the groups without a true
difference, scores rounded to a step. Of 100 runs of 64 groups, how many intervals hold the share
that 50,000 groups have.

    python -m benchmarks.reward_signal [--samples 2000] [--runs 100]
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import permutations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from judgegym.statistics.signal import (
    Advantage,
    GroupPair,
    Signal,
    compute_advantages,
    measure_signal,
)

VICUNA = Path(__file__).parents[2] / "shared" / "data" / "rubric_absolute" / "vicuna_eval.jsonl"
ADVANTAGES: tuple[Advantage, ...] = ("deviation", "centre")
SIZES = (16, 32, 64)
JUDGES = ((0.5, 0.0, 0.0), (0.7, 0.4, 0.0), (0.6, 0.3, 1.0), (1.0, 0.5, 0.5))
"""Simulated judges: standard deviation of the noise, groups without a difference, step."""
FEWEST_COVERED = 0.85
GROUPS, MANY_GROUPS = 64, 50_000
TOLERANCE = 0.01
"""Most by which a predicted agreement may differ from the one with the third score."""
EXPECTED = {"deviation": 0.40, "centre": 0.29}
"""The shares that do not repeat, known from an independent computation."""

Scores = NDArray[np.float64]


def read_scores() -> Scores:
    """Return the scores by prompt, response and repeat."""
    scores_by_prompt: dict[str, list[list[float]]] = defaultdict(list)
    for line in VICUNA.read_text("utf-8").splitlines():
        row = json.loads(line)
        scores_by_prompt[row["instruction"]].append(row["gpt4_scores"])
    return np.array([scores for scores in scores_by_prompt.values() if len(scores) == 4], float)


def measure(scores: Scores, advantage: Advantage) -> Signal:
    """Measure the signal from the first two repeats."""
    pairs = [GroupPair(group[:, 0].tolist(), group[:, 1].tolist(), 4) for group in scores]
    signal = measure_signal(pairs, advantage)
    if isinstance(signal, str):
        raise SystemExit(signal)
    return signal


def centre(rewards: Scores) -> Scores:
    """Centre rewards on the means of their groups."""
    centred: Scores = rewards - rewards.mean(axis=1, keepdims=True)
    return centred


def agree(advantages: Scores, rewards: Scores) -> float:
    """Return the cosine of advantages and centred rewards."""
    centred = centre(rewards)
    size = np.sqrt((advantages**2).sum() * (centred**2).sum())
    return float((advantages * centred).sum() / size)


def compare_predictions(scores: Scores) -> Iterator[tuple[str, float, float]]:
    """Yield each advice, its predicted agreement and that with the third score; means of orders."""
    predicted, observed = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    for order in permutations(range(3)):
        ordered = scores[:, :, order]
        first, second, third = (ordered[:, :, repeat] for repeat in range(3))
        mean = centre((first + second) / 2)
        differs = np.ptp(first, axis=1)[:, None] > 0
        results = [agree(mean * differs, third), agree(mean, third)]
        for advice, result in zip(measure(ordered, "centre").advice, results, strict=True):
            predicted[advice.change].append(advice.after)
            observed[advice.change].append(result)
    for change, values in predicted.items():
        yield change, float(np.mean(values)), float(np.mean(observed[change]))


def sample_shares(scores: Scores, size: int, samples: int) -> tuple[float, float]:
    """Return the 5 % and 95 % quantiles of the share with division over samples of prompts."""
    generator = np.random.default_rng(size)
    shares = []
    for _ in range(samples):
        chosen = scores[generator.integers(len(scores), size=size)]
        repeated = total = 0.0
        for group in chosen:
            first, second = group[:, generator.permutation(3)[:2]].T
            advantages = compute_advantages(first, "deviation")
            repeated += float(advantages @ (second - second.mean()))
            total += float(advantages @ (first - first.mean()))
        shares.append(1 - repeated / total)
    low, high = np.quantile(shares, [0.05, 0.95])
    return float(low), float(high)


def simulate(count: int, judge: tuple[float, float, float], seed: int) -> Scores:
    """Return the rewards of a simulated judge by group, completion and repeat."""
    noise, flat, step = judge
    generator = np.random.default_rng(seed)
    truth = generator.standard_normal((count, 4, 1)) * (generator.random((count, 1, 1)) >= flat)
    rewards = truth + noise * generator.standard_normal((count, 4, 2))
    if step:
        rewards = np.round(rewards / step) * step
    return rewards


def measure_coverage(
    judge: tuple[float, float, float], advantage: Advantage, runs: int
) -> tuple[float, int]:
    """Return the true share that does not repeat, and the number of runs whose interval holds it."""
    many = simulate(MANY_GROUPS, judge, 0)
    advantages = centred = centre(many)
    if advantage == "deviation":
        advantages = centred / (many.std(axis=1, ddof=1, keepdims=True) + 1e-4)
    truth = 1 - float((advantages * centred[:, :, ::-1]).sum() / (advantages * centred).sum())
    covered = 0
    for run in range(runs):
        interval = measure(simulate(GROUPS, judge, run + 1), advantage).unrepeated.interval
        covered += interval.low <= truth <= interval.high
    return truth, covered


def compare_agreements(scores: Scores) -> Iterator[str]:
    """Yield the agreement with a further score of one score, and of the mean of two."""
    for advantage in ADVANTAGES:
        single, mean = [], []
        for order in permutations(range(3)):
            first, second, third = (scores[:, :, repeat] for repeat in order)
            for values, agreements in ((first, single), ((first + second) / 2, mean)):
                advantages = np.array([compute_advantages(group, advantage) for group in values])
                agreements.append(agree(advantages, third))
        yield (
            f"{advantage}: agreement with a third score {np.mean(single):.3f}, of the mean of two "
            f"{np.mean(mean):.3f}"
        )


def lines(samples: int, runs: int) -> Iterator[tuple[str, bool]]:
    """Yield the tables' lines, and whether each requirement is met."""
    scores = read_scores()
    for advantage in ADVANTAGES:
        signals = [measure(scores[:, :, order], advantage) for order in permutations(range(3))]
        share = float(np.mean([signal.unrepeated.value for signal in signals]))
        reliability = float(np.mean([signal.reliability.value for signal in signals]))
        undecided = float(np.mean([signal.no_difference for signal in signals]))
        weight = float(np.mean([signal.no_difference_weight for signal in signals]))
        text = (
            f"{advantage}: {share:.1%} does not repeat, reliability {reliability:.3f}; "
            f"{undecided:.0%} of groups without a difference have {weight:.0%} of the squares"
        )
        yield text, abs(share - EXPECTED[advantage]) <= TOLERANCE
    for text in compare_agreements(scores):
        yield text, True
    for change, predicted, observed in compare_predictions(scores):
        text = f"{change}: predicted {predicted:.3f}, with the third score {observed:.3f}"
        yield text, abs(predicted - observed) <= TOLERANCE
    for size in SIZES:
        low, high = sample_shares(scores, size, samples)
        yield f"{size} groups read the share with division as {low:.0%} to {high:.0%}", True
    for judge in JUDGES:
        for advantage in ADVANTAGES:
            truth, covered = measure_coverage(judge, advantage, runs)
            noise, flat, step = judge
            text = (
                f"noise {noise}, {flat:.0%} of groups flat, step {step}, {advantage}: "
                f"{truth:.1%} do not repeat, in the interval of {covered} of {runs} runs"
            )
            yield text, covered >= FEWEST_COVERED * runs


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables; 1 if a requirement is not met."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=100)
    options, missed = parser.parse_args(argv), 0
    for text, is_met in lines(options.samples, options.runs):
        missed += not is_met
        print(text if is_met else f"{text}  NOT MET", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
