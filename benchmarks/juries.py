"""Whether a jury of recorded judges beats its best member, and whether a cascade keeps its promise, on LLMBar.

419 labelled pairs, what four models said of each in both orders under five prompts. Juries: of half
of the rows n get
a label, the other half is held out, 200 times. Cascades: the threshold is chosen on rows drawn with
replacement, and its promise is checked on all rows, 400 times.

    python -m benchmarks.juries [--splits 200] [--resamples 400]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from judgegym_trials.replay.threshold import choose_threshold
from judgegym_trials.replay.weights import dawid_skene, learn_weights, points

LLMBAR = Path(__file__).parents[2] / "shared" / "data" / "llmbar"
MODELS = ("GPT-4", "ChatGPT", "LLaMA2", "PaLM2")
PROMPTS = ("Vanilla", "CoT", "Metrics", "Reference", "Metrics_Reference")
LABELS = (60, 100, 200)
LEAST_GAIN: Mapping[tuple[str, int], float] = {
    ("PaLM2, five prompts", 60): 0.01,
    ("four best prompts", 100): 0.008,
}
"""Points that a jury has to gain over the best member by the labels; elsewhere it may lose 0.3 of 100."""

Votes = NDArray[np.float64]


@dataclass(frozen=True)
class RecordedVerdicts:
    """The recorded verdicts: gold as −1 or 1 by row, and the mean vote over both orders by model and prompt."""

    gold: Votes
    votes: Mapping[tuple[str, str], Votes]

    @classmethod
    def read(cls) -> RecordedVerdicts:
        """Read LLMBar."""
        rows = [
            json.loads(line) for line in (LLMBAR / "rows.jsonl").read_text("utf-8").splitlines()
        ]
        worth = {None: 0.0, 1: 1.0, 2: -1.0}
        votes = {}
        for line in (LLMBAR / "verdicts.jsonl").read_text("utf-8").splitlines():
            found = json.loads(line)
            of_rows = [[worth[winner] for winner in found["winner"][row["uid"]]] for row in rows]
            votes[found["judge"], found["prompt"]] = np.mean(of_rows, axis=1)
        return cls(np.array([worth[row["label"]] for row in rows]), votes)

    def accuracy(self, member: tuple[str, str]) -> float:
        """Points per row of one member."""
        return float(points(self.votes[member], self.gold).mean())

    def pools(self) -> dict[str, list[tuple[str, str]]]:
        """The juries."""
        best = [max(((model, prompt) for prompt in PROMPTS), key=self.accuracy) for model in MODELS]
        return {
            "four judges, Vanilla": [(model, "Vanilla") for model in MODELS],
            "four best prompts": best,
            "GPT-4, five prompts": [("GPT-4", prompt) for prompt in PROMPTS],
            "PaLM2, five prompts": [("PaLM2", prompt) for prompt in PROMPTS],
            "GPT-4 and PaLM2, five prompts": [
                (model, prompt) for model in ("GPT-4", "PaLM2") for prompt in PROMPTS
            ],
            "all twenty": list(self.votes),
        }


@dataclass(frozen=True)
class JuryResult:
    """Held-out points per row of one pool with n labels, by split."""

    pool: str
    labels: int
    jury: Votes
    single: Votes
    majority: Votes
    consensus: Votes
    """Dawid and Skene."""

    @property
    def gains(self) -> Votes:
        """Jury − best member by the labels."""
        return self.jury - self.single

    @property
    def is_met(self) -> bool:
        """Whether it is as required."""
        least = LEAST_GAIN.get((self.pool, self.labels), -0.003)
        gains = self.gains
        return bool(
            gains.mean() >= least
            and (gains < -0.02).mean() <= 0.05
            and (gains < -0.01).mean() <= 0.12
        )


def judge_pool(recorded: RecordedVerdicts, pool: str, labels: int, splits: int) -> JuryResult:
    """Learn a jury's weights on labels, and judge the held-out half, in each split."""
    members = recorded.pools()[pool]
    votes, gold = np.stack([recorded.votes[member] for member in members], axis=1), recorded.gold
    classes = [[None if vote == 0 else int(vote > 0) for vote in row] for row in votes]
    consensus = dawid_skene(classes, 2, tolerance=1e-4)[:, 1] - 0.5
    found = []
    for split in range(splits):
        order = np.random.default_rng([split, 7]).permutation(len(gold))
        held_out, labelled = order[:210], order[210:][:labels]
        weights = learn_weights(votes[labelled], gold[labelled], seed=split)
        assert not isinstance(weights, str), weights
        verdicts = (
            votes[held_out] @ weights.weights,
            votes[held_out, weights.best],
            np.sign(votes[held_out]).sum(1),
        )
        found.append(
            [points(each, gold[held_out]).mean() for each in (*verdicts, consensus[held_out])]
        )
    return JuryResult(pool, labels, *np.array(found).T)


@dataclass(frozen=True)
class CascadeCase:
    """A cheap and a strong judge, and what is promised and required."""

    name: str
    cheap: Sequence[tuple[str, str]]
    strong: tuple[str, str]
    harm: float
    has_labels: bool
    kept_at_least: float = 0.0
    escalated_at_most: float = 1.0


_PALM = [("PaLM2", prompt) for prompt in PROMPTS]
CASCADES = (
    CascadeCase(
        "five votes of PaLM2, then GPT-4", _PALM, ("GPT-4", "Vanilla"), 0.05, True, 0.97, 0.85
    ),
    CascadeCase("five votes of PaLM2, then GPT-4", _PALM, ("GPT-4", "Vanilla"), 0.05, False),
    CascadeCase("five votes of PaLM2, then GPT-4", _PALM, ("GPT-4", "Vanilla"), 0.02, True),
    CascadeCase(
        "GPT-4, then its best prompt",
        [("GPT-4", "Vanilla")],
        ("GPT-4", "Metrics_Reference"),
        0.05,
        True,
        0.975,
        0.65,
    ),
    CascadeCase(
        "GPT-4, then its best prompt",
        [("GPT-4", "Vanilla")],
        ("GPT-4", "Metrics_Reference"),
        0.05,
        False,
    ),
    CascadeCase("PaLM2, then GPT-4", [("PaLM2", "Vanilla")], ("GPT-4", "Vanilla"), 0.05, True),
)


@dataclass(frozen=True)
class CascadeResult:
    """In how many resamples the promise was broken, and what the cascades keep and escalate on average."""

    case: CascadeCase
    broken: float
    kept: float
    escalated: float

    def is_met(self, most_broken: float) -> bool:
        """Whether it is as required."""
        case = self.case
        is_useful = self.kept >= case.kept_at_least and self.escalated <= case.escalated_at_most
        return is_useful and self.broken <= most_broken


def judge_cascade(
    recorded: RecordedVerdicts, case: CascadeCase, resamples: int, *, rows: int = 210
) -> CascadeResult:
    """Choose the threshold on each resample, and look at all rows."""
    gold, cheap = recorded.gold, np.sum([recorded.votes[member] for member in case.cheap], axis=0)
    strong = recorded.votes[case.strong]
    of_cheap, of_strong = points(cheap, gold), points(strong, gold)
    harms = of_strong > of_cheap if case.has_labels else np.sign(cheap) != np.sign(strong)
    confidences = np.abs(cheap)
    broken, kept, escalated = 0, list[float](), list[float]()
    for number in range(resamples):
        draw = np.random.default_rng([number, 3])
        sample = draw.integers(0, len(gold), rows)
        orders = draw.random(rows).tolist()
        chosen = choose_threshold(
            confidences[sample].tolist(), harms[sample].tolist(), orders, harm=case.harm, level=0.9
        )
        share = np.zeros(len(gold))
        if not isinstance(chosen, str):
            at = np.where(confidences == chosen.confidence, chosen.share_at, 0.0)
            share = np.where(confidences > chosen.confidence, 1.0, at)
        broken += float((share * harms).mean()) > case.harm
        kept.append(float((share * of_cheap + (1.0 - share) * of_strong).mean() / of_strong.mean()))
        escalated.append(float(1.0 - share.mean()))
    return CascadeResult(case, broken / resamples, float(np.mean(kept)), float(np.mean(escalated)))


def lines(splits: int, resamples: int) -> Iterator[tuple[str, bool]]:
    """The lines of both tables, and whether each is as required."""
    recorded = RecordedVerdicts.read()
    yield (
        f"{'jury':<30} {'n':>3}  majority  Dawid-Skene  single   jury   gain  below by >2  >1",
        True,
    )
    for pool in recorded.pools():
        for labels in LABELS:
            found = judge_pool(recorded, pool, labels, splits)
            means = [
                each.mean() for each in (found.majority, found.consensus, found.single, found.jury)
            ]
            gains = found.gains
            yield (
                f"{pool:<30} {labels:>3}  {means[0]:>8.3f}  {means[1]:>11.3f}  {means[2]:>6.3f}  "
                f"{means[3]:>5.3f}  "
                f"{100 * gains.mean():>+5.2f}  {(gains < -0.02).mean():>11.1%}  "
                f"{(gains < -0.01).mean():.1%}",
                found.is_met,
            )
    yield f"{'cascade':<32} promise  labels  escalated   kept  broken", True
    for case in CASCADES:
        result = judge_cascade(recorded, case, resamples)
        yield (
            f"{case.name:<32} {case.harm:>7.0%}  {'yes' if case.has_labels else 'no':>6}  "
            f"{result.escalated:>9.1%}  "
            f"{result.kept:.1%}  {result.broken:.1%}",
            result.is_met(0.10),
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Print both tables; 1 if a requirement is not met."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--resamples", type=int, default=400)
    options = parser.parse_args(argv)
    missed = 0
    for text, is_met in lines(options.splits, options.resamples):
        missed += not is_met
        print(text if is_met else f"{text}  NOT MET", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
