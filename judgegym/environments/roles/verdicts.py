"""Compare yes/no verdicts on aspects with gold verdicts: those of a policy as judge, and those of any judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from judgegym.data.aspect_rows import AspectTask
from judgegym.engine.completions import Completion
from judgegym.engine.metrics import MetricAggregator, slug
from judgegym.judges.aspects.judge import AspectDetail, PanelDetail, cast_vote, count_votes, read_verdict
from judgegym.judges.aspects.prompt import Aspect
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.statistics.agreement import verdict_agreement


@dataclass(frozen=True, slots=True)
class ComparedVerdict:
    """A verdict on an aspect (`None` if none could be read), the one before any critique, and the gold verdict."""

    aspect: str
    yes: bool | None
    before: bool | None
    gold: bool


def judgment_of_votes(
    aspect: Aspect, completions: Sequence[Completion], *, strictness: int, gold: bool
) -> Judgment[PanelDetail]:
    """Judge a policy's verdicts: 1.0 if their majority is the gold verdict, else 0.0; invalid without a majority."""
    votes = [
        cast_vote(completion.answer, read_verdict(completion.answer), completion.unreadable)
        for completion in completions
    ]
    # In training there is one completion, and it is the only vote.
    verdict = count_votes(aspect, votes, min(strictness, len(completions)))
    detail = PanelDetail((verdict,), gold=gold)
    if verdict.yes is None:
        return Judgment(None, Status.INVALID_COMPLETION, explanation="no readable majority", detail=detail)
    return Judgment(float(verdict.yes == gold), Status.OK, "yes" if verdict.yes else "no", detail=detail)


def compare_verdicts(task: AspectTask, judgment: Judgment[PanelDetail] | None) -> list[ComparedVerdict]:
    """Return the judge's verdict for each gold verdict of a row."""
    detail = judgment.detail if judgment is not None else None
    verdicts = {verdict.aspect: verdict.yes for verdict in detail.aspects} if detail is not None else {}
    rounds = judgment.critique.rounds if judgment is not None and judgment.critique is not None else ()
    before = {round_.component: round_.before == "yes" for round_ in reversed(rounds)}  # the first round's stays
    return [
        ComparedVerdict(name, verdicts.get(name), before.get(name, verdicts.get(name)), gold)
        for name, gold in task.golds.items()
    ]


def record_agreement(
    metrics: MetricAggregator, compared: Sequence[ComparedVerdict], aspects: Sequence[Aspect], *, with_critique: bool
) -> None:
    """Record the agreement with gold: over all verdicts, for each aspect and, with critique, before critique."""
    used = [verdict for verdict in compared if verdict.yes is not None]
    metrics.count("n_used", len(used))
    metrics.count("n_failed", len(compared) - len(used))
    _take_agreement(metrics, used)
    for aspect in aspects:
        of_aspect = [verdict for verdict in used if verdict.aspect == aspect.name]
        _take_agreement(metrics, of_aspect, f"_{slug(aspect.name)}")
    if with_critique:
        _take_agreement(metrics, [replace(verdict, yes=verdict.before) for verdict in used], "_before_critique")


def _take_agreement(metrics: MetricAggregator, compared: Sequence[ComparedVerdict], suffix: str = "") -> None:
    verdicts, golds = [bool(verdict.yes) for verdict in compared], [verdict.gold for verdict in compared]
    metrics.take(verdict_agreement(verdicts, golds), suffix)


def record_votes(metrics: MetricAggregator, verdicts: Sequence[AspectDetail]) -> None:
    """Record how far the votes of each aspect agree, how many there were, and how many had no verdict."""
    for verdict in verdicts:
        if verdict.agreement is not None:
            metrics.mean(f"agreement_{slug(verdict.aspect)}", verdict.agreement)
        metrics.mean("votes_per_verdict", len(verdict.votes) - verdict.redrawn)
        metrics.rate("redraw_rate", verdict.redrawn > 0)
