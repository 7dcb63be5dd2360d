"""Measure what changes if the second run's judge replaces the first run's (`--succession`).

Guarantees: only files are read, and no score is converted: thresholds and gates apply to the scores
of both judges as they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from judgegym.judges.parts.cascade import ESCALATED, CascadeSettings
from judgegym.judges.parts.composite import CompositeJudgeSettings
from judgegym.judges.scorers.registry import built_in_kind
from judgegym.llm.cost.models import KnownModel, known_models, today
from judgegym.llm.errors import UserError
from judgegym.llm.wire import JSON, mapping_or_empty
from judgegym.reports.compare.conditions import policy_is_judge
from judgegym.reports.compare.difference import Pair, estimate_difference
from judgegym.reports.compare.rows import CommonRows, RunRows
from judgegym.reports.juries import read_part_scores
from judgegym.reports.results.run import Kind, SavedRun
from judgegym.statistics.intervals import UNIT, Ends, find_ends
from judgegym.statistics.paired import RatioTerms, rows_for_half_width

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Scores = NDArray[np.float64]

_COMPOSITE = built_in_kind(CompositeJudgeSettings)
_CASCADE = built_in_kind(CascadeSettings)
_HALF_WIDTHS = (0.01, 0.02, 0.03, 0.05)
"""Default half widths, as shares of the scale."""
_BETWEEN_MODELS = re.compile(r"\+|, ")
"""What is between the names of several judges' models."""
_ROUNDING = 1e-12
"""A score that is below a threshold by less than this reaches it."""


@dataclass(frozen=True, slots=True)
class SuccessionOptions:
    """Options of a succession.

    Attributes:
        thresholds: the least values of rows that pass; if empty, the middle of the scale of scores.
        half_widths: half widths of intervals; if empty, 1, 2, 3 and 5 % of the scale.
    """

    thresholds: tuple[float, ...] = ()
    half_widths: tuple[float, ...] = ()


def check_succession(runs: Sequence[SavedRun], common: CommonRows) -> None:
    """Check that two runs have judged the same completions.

    Raises:
        UserError: they have not, or there are more than two runs.
    """
    if len(runs) != 2:
        count = len(runs)
        raise UserError(f"--succession: expected two runs, OLD and NEW, found {count}")
    if any(policy_is_judge(run) for run in runs if not run.is_scored):
        return  # its completions are verdicts
    old, new = runs
    same, rows = common.same_answers[1], len(common.uids)
    option = "--env.model_answers"
    command = "evaluate"
    if old.is_scored:
        option, command = "--rescore", "score"
    if same is None:
        raise UserError(
            f"--succession: {old.path} or {new.path} has no recorded completions, so it is not "
            "known whether both judges saw the same ones"
        )
    if same < rows:
        raise UserError(
            f"--succession: {new.path} judges other completions than {old.path} in {rows - same} "
            f"of {rows} rows; expected a run that judges those of {old.path} again (judgegym "
            f"{command} with {option})"
        )


def measure_succession(
    runs: Sequence[SavedRun],
    old_rows: RunRows,
    common: CommonRows,
    pair: Pair,
    kind: Kind,
    level: float,
    ends: Ends | None,
    options: SuccessionOptions,
) -> dict[str, Any]:
    """Measure what changes beside the headline.

    Args:
        runs: the old run and the new one.
        old_rows: the rows of the old run.
        common: their common rows.
        pair: both runs over these rows.
        kind: the kind of the rows' values.
        level: the level of intervals.
        ends: the ends of the scale of values; `None` if unknown.
        options: thresholds and half widths.

    Returns:
        The `judges` with the dates of their models; `rows` with a value in the old run;
        `missing_categories`, which no compared row has; `thresholds` and `gates` with crossings
        (`count_crossings`); the `escalation` of a cascade and the `anchors`, or `None`; and for
        each of `half_widths` the rows that it takes.
    """
    import numpy as np

    values = np.concatenate([side.values for side in common.sides])
    thresholds = options.thresholds
    scale = find_ends(values, ends) or Ends(float(values.min()), float(values.max()))
    if not thresholds and kind == "score" and ends is not None:
        thresholds = ((ends.low + ends.high) / 2,)
    half_widths = options.half_widths
    if not half_widths and scale.span > 0:
        half_widths = tuple(share * scale.span for share in _HALF_WIDTHS)
    sides = [side.values for side in common.sides]
    terms = pair.clustered_terms()
    part_scores = _PartScores(runs, common)
    return {
        "judges": [_describe_judge(run.judge) for run in runs],
        "rows": len(old_rows.positions),
        "missing_categories": _list_missing_categories(old_rows, common),
        "thresholds": [
            count_crossings(sides, threshold, common.units, level) for threshold in thresholds
        ],
        "gates": _measure_gates(runs[0], part_scores, level),
        "escalation": _measure_cascade(runs[0], part_scores, level),
        "anchors": _compare_anchors(runs),
        "half_widths": [
            rows_for_half_width(*terms, half_width, ends=ends, level=level)
            for half_width in half_widths
        ],
    }


def count_crossings(
    sides: Sequence[Scores], threshold: float, units: NDArray[np.int64] | None, level: float
) -> dict[str, Any]:
    """Count the rows that reach a threshold on each side.

    Args:
        sides: the values of the rows, before and after; rows without both are left out.
        threshold: the least value that passes.
        units: for each row the number of its prompt; `None` if rows are independent.
        level: the level of the interval.

    Returns:
        The `threshold`, the `rows`, how many pass `before` and `after`, how many `rise` above it
        and `fall` below it, and the `difference` of the shares that pass.
    """
    import numpy as np

    places = np.isfinite(sides[0]) & np.isfinite(sides[1])
    before, after = (side[places] >= threshold - _ROUNDING for side in sides)
    difference = None
    if places.any():
        terms = [
            RatioTerms(passes.astype(float), np.ones(len(passes))) for passes in (before, after)
        ]
        if units is not None:
            codes = np.unique(units[places], return_inverse=True)[1]
            terms = [side.sum_by_unit(codes) for side in terms]
        difference = estimate_difference(terms[0], terms[1], level, UNIT)[0]
    return {
        "threshold": threshold,
        "rows": int(places.sum()),
        "before": int(before.sum()),
        "after": int(after.sum()),
        "rise": int((~before & after).sum()),
        "fall": int((before & ~after).sum()),
        "difference": difference,
    }


class _PartScores:
    """The scores of the parts of both runs' judges over the common rows, read at first use."""

    def __init__(self, runs: Sequence[SavedRun], common: CommonRows) -> None:
        self._runs = runs
        self._positions = {uid: index for index, uid in enumerate(common.uids)}
        self.units = common.units

    def read(self, names: Sequence[str]) -> dict[str, list[Scores]]:
        """Read the scores of named parts: of the old run and of the new one, NaN without one."""
        import numpy as np

        count = len(self._positions)
        scores: dict[str, list[Scores]] = {
            name: [np.full(count, np.nan) for _ in self._runs] for name in names
        }
        for side, run in enumerate(self._runs):
            for sample in run.samples(self._positions):
                parts = read_part_scores(sample)
                for name in names:
                    score = parts.get(name)
                    if isinstance(score, int | float):
                        scores[name][side][self._positions[sample.uid]] = score
        return scores


def _measure_gates(old: SavedRun, part_scores: _PartScores, level: float) -> list[dict[str, Any]]:
    """Measure which gates of the old run's reward open or close."""
    if old.judge_kind != _COMPOSITE:
        return []
    gates: dict[str, float] = {}
    for name, part in mapping_or_empty(old.judge_settings.get("reward")).items():
        threshold = mapping_or_empty(part).get("gate")
        if isinstance(threshold, int | float):
            gates[name] = float(threshold)
    if not gates:
        return []
    scores = part_scores.read([*gates])
    return [
        {"name": name, **count_crossings(scores[name], threshold, part_scores.units, level)}
        for name, threshold in gates.items()
    ]


def _measure_cascade(
    old: SavedRun, part_scores: _PartScores, level: float
) -> dict[str, Any] | None:
    """Measure how many rows the strong judge decides; `None` without a cascade."""
    if old.judge_kind != _CASCADE:
        return None
    escalated = part_scores.read([ESCALATED])[ESCALATED]
    names = ("cascade_threshold", "cascade_confidence", "cascade_harm")
    settings = {
        name.removeprefix("cascade_"): old.judge_settings.get(name, default.get_default())
        for name, default in CascadeSettings.model_fields.items()
        if name in names
    }
    return {**count_crossings(escalated, 1.0, part_scores.units, level), **settings}


def _compare_anchors(runs: Sequence[SavedRun]) -> dict[str, Any] | None:
    """Return the numbers of the anchors of both runs; `None` if the old run has none."""
    old, new = (mapping_or_empty(run.general.get("anchors")) for run in runs)
    if not old:
        return None
    return {
        "rows": old.get("rows"),
        "agreeing": [old.get("agreeing"), new.get("agreeing")],
        "has_new": bool(new),
    }


def _describe_judge(name: str) -> dict[str, Any]:
    """Return the known dates of a judge's models; several judges have a name of all names."""
    models = [name]
    if _find_model(name) is None:
        models = _BETWEEN_MODELS.split(name)
    return {"name": name, "models": [_describe_model(model) for model in models]}


def _find_model(name: str) -> KnownModel | None:
    """Return the known facts of a model; routers prefix its name with the provider."""
    return known_models().get(name.rpartition("/")[2])


def _describe_model(name: str) -> dict[str, JSON]:
    """Return the known dates of a model."""
    model = _find_model(name)
    dates: dict[str, JSON] = {"name": name, "end": None, "not_before": None, "provider": None}
    if model is None:
        return dates
    dates["provider"] = model.provider
    if model.retired is not None:
        dates["end"] = model.describe_end(name, today())
    if model.not_before is not None:
        dates["not_before"] = f"{model.not_before}"
    return dates


def _list_missing_categories(old_rows: RunRows, common: CommonRows) -> list[str]:
    """Return the old run's categories that no compared row has, as in a pilot of the first rows."""
    compared = {*common.categories}
    categories = dict.fromkeys(old_rows.categories)
    return [category for category in categories if category and category not in compared]
