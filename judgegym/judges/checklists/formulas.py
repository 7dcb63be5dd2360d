"""Scores of a row, a tag and a benchmark, computed from the values of criteria.

A value v is 1 for a criterion that is met, 0 for one that is not, or that of an option; p are its
points. g is v where p ≥ 0 and 1 − v where p < 0. Criteria with 0 points count in no formula.

* `healthbench`: Σ p·v / Σ p over p > 0, not clipped: −∞…1; no score without positive points.
  Source: the row score of openai/simple-evals, `healthbench_eval.py`.
* `weighted_mean`: the same, clipped to 0…1; if all are negative, 1 + Σ p·v / Σ |p|. Source:
  autorubric 1.6.
* `rar`: Σ |p|·g / Σ |p|, from 0 to 1. Source: the explicit sum of Gunjal et al., Rubrics as Rewards
  (2025), whose weights are positive; for built-in aspects this is the score, too.
* `all`: 1 if every g is 1, else 0.
* `min`: the least g.

A `required` criterion with g < 0.5 gives the row its lowest possible score. A criterion that the
judge cannot assess is left out of numerator and denominator (`leave_out`), or has v = 0 (`zero`), v
= 0.5 (`partial`), or g = 0 (`worst`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Literal, NamedTuple

from judgegym.judges.checklists.criteria import Criterion

Formula = Literal["healthbench", "weighted_mean", "rar", "all", "min"]
CannotAssess = Literal["never", "leave_out", "zero", "partial", "worst"]


class GradedCriterion(NamedTuple):
    """Criterion with its value from 0 to 1; `None` if the judge could not assess it."""

    criterion: Criterion
    value: float | None


class Term(NamedTuple):
    """Points and value of a criterion that counts, and how good that value is, from 0 to 1."""

    points: float
    value: float
    good: float


def checklist_score(
    graded: Sequence[GradedCriterion], formula: Formula, cannot_assess: CannotAssess = "leave_out"
) -> float | None:
    """Return the score of a row, or `None` if it has none.

    There is no score if no criterion counts, or for `healthbench` without positive points.
    """
    terms = _counted_terms(graded, cannot_assess)
    if unmet_requirements(graded, cannot_assess):
        terms = [Term(term.points, float(term.points < 0), 0.0) for term in terms]
    if not terms:
        return None
    return FORMULAS[formula](terms)


def unmet_requirements(
    graded: Sequence[GradedCriterion], cannot_assess: CannotAssess
) -> tuple[str, ...]:
    """Return the names of the required criteria that are not met."""
    values = (
        (criterion, _resolve_value(criterion, value, cannot_assess)) for criterion, value in graded
    )
    oriented = [
        (criterion, criterion.orient_value(value))
        for criterion, value in values
        if value is not None
    ]
    unmet = [criterion for criterion, good in oriented if good < 0.5]
    return tuple(criterion.name for criterion in unmet if criterion.required)


def tag_scores(
    graded: Sequence[GradedCriterion], formula: Formula, cannot_assess: CannotAssess = "leave_out"
) -> Mapping[str, float]:
    """Return the score of each tag by the same formula over its criteria.

    Tags without a score are left out.
    """
    tags = dict.fromkeys(chain.from_iterable(criterion.tags for criterion, _ in graded))
    scores = {
        tag: checklist_score(
            [
                graded_criterion
                for graded_criterion in graded
                if tag in graded_criterion.criterion.tags
            ],
            formula,
            cannot_assess,
        )
        for tag in tags
    }
    return {tag: score for tag, score in scores.items() if score is not None}


def has_score(criteria: Sequence[Criterion], formula: Formula) -> bool:
    """Return whether a row with these criteria can have a score."""
    return (
        checklist_score([GradedCriterion(criterion, 0.0) for criterion in criteria], formula)
        is not None
    )


def _counted_terms(graded: Sequence[GradedCriterion], cannot_assess: CannotAssess) -> list[Term]:
    values = (
        (criterion, _resolve_value(criterion, value, cannot_assess))
        for criterion, value in graded
        if criterion.points
    )
    return [
        Term(criterion.points, value, criterion.orient_value(value))
        for criterion, value in values
        if value is not None
    ]


def _resolve_value(
    criterion: Criterion, value: float | None, cannot_assess: CannotAssess
) -> float | None:
    if value is not None:
        return value
    worst = 0.0 if criterion.points >= 0 else 1.0
    return {"zero": 0.0, "partial": 0.5, "worst": worst}.get(cannot_assess)


def _healthbench(terms: Sequence[Term]) -> float | None:
    possible = sum(term.points for term in terms if term.points > 0)
    if not possible:
        return None
    return sum(term.points * term.value for term in terms) / possible


def _weighted_mean(terms: Sequence[Term]) -> float | None:
    score = _healthbench(terms)
    if score is None:
        score = 1.0 + sum(term.points * term.value for term in terms) / sum(
            abs(term.points) for term in terms
        )
    return min(1.0, max(0.0, score))


def _rar(terms: Sequence[Term]) -> float | None:
    return sum(abs(term.points) * term.good for term in terms) / sum(
        abs(term.points) for term in terms
    )


FORMULAS: Mapping[Formula, Callable[[Sequence[Term]], float | None]] = {
    "healthbench": _healthbench,
    "weighted_mean": _weighted_mean,
    "rar": _rar,
    "all": lambda terms: float(all(term.good == 1.0 for term in terms)),
    "min": lambda terms: min(term.good for term in terms),
}
"""By name; each gets at least one term."""
