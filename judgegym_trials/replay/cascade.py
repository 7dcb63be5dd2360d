"""Threshold of a cascade from two recorded runs, with a certified promise (`replay --choose`).

The threshold is chosen on a seeded half of the rows (`choose_threshold`); its effect is reported on
the other half, which it has not seen. A row is harmed if the cheap judge decides it and, with
labels, is wrong where the strong one is right; without labels, if its verdict differs from the
strong one's.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from judgegym.engine.terminal.output import Table, say, show_table
from judgegym.judges.core.seeding import derive_seed
from judgegym.judges.parts.cascade import CascadeSettings
from judgegym.judges.scorers.registry import built_in_kind
from judgegym.llm.errors import SettingsError
from judgegym.reports.document import write_outputs
from judgegym.statistics import percent
from judgegym.statistics.cascades import upper_bound
from judgegym_trials.replay.candidates import replay_cascade
from judgegym_trials.replay.members import (
    check_preset,
    check_two_runs,
    is_preset,
    judge_settings,
    open_members,
    write_preset,
)
from judgegym_trials.replay.table import JudgedTable, open_table
from judgegym_trials.replay.threshold import CascadeThreshold, choose_threshold, fewest_rows

UNCERTIFIED = 4
"""Exit code if no threshold can be certified."""
_SHOWN = 10
"""Number of thresholds in the table."""
_CHOSEN = {"cascade_confidence", "cascade_threshold", "cascade_share", "cascade_harm"}
"""Settings that the preset sets itself."""
_HEADER = ("confidence", "escalated", "agreement", "accuracy", "harmed", "cost")


@dataclass(frozen=True)
class CascadeOutcome:
    """Result of a cascade with some threshold on some rows.

    Attributes:
        rows: number of rows; for harm, rows that a cascade decides together count as one.
        escalated: the share that the strong judge decides.
        agreement: agreement with the strong judge.
        accuracy: accuracy against the labels; `None` without labels.
        harmed: number of harmed rows.
        harmed_at_most: the upper bound of their share.
        cost: mean cost of a row.
        cost_alone: mean cost of a row with the strong judge alone.
    """

    rows: int
    escalated: float
    agreement: float
    accuracy: float | None
    harmed: int
    harmed_at_most: float
    cost: float
    cost_alone: float

    def format_cells(self) -> tuple[str, ...]:
        """Return the cells of the table."""
        accuracy = "–" if self.accuracy is None else percent(self.accuracy)
        return (
            percent(self.escalated),
            percent(self.agreement),
            accuracy,
            f"{self.harmed:,}",
            f"{self.cost:.3g}",
        )


@dataclass(frozen=True)
class CascadeTrial:
    """Cheap and strong judge on the same rows.

    Attributes:
        table: the rows, each with a score of the strong judge; the cheap judge is the first member.
        rule: the rule of the cheap judge's confidence.
        harm: maximum share of harmed rows.
        certainty: certainty of the promise.
        seed: seed of the halves.
    """

    table: JudgedTable
    rule: str
    harm: float
    certainty: float
    seed: int

    @cached_property
    def harms(self) -> NDArray[np.bool_]:
        """Whether each row is harmed if the cheap judge decides it."""
        cheap, strong = (self.table.scores[name] for name in self.table.names)
        right = strong
        if self.table.labels is not None:
            right = self.table.labels
        return self.table.agreement(strong, right) > self.table.agreement(cheap, right)

    @cached_property
    def is_held_out(self) -> NDArray[np.bool_]:
        """Whether each row is in the half that does not choose the threshold."""
        first = np.unique(self.table.units, return_index=True)[1]
        names = [self.table.uids[place] for place in first]
        return np.array([derive_seed(self.seed, name, "half") >= 2**63 for name in names])[
            self.table.units
        ]

    def choose(self) -> CascadeThreshold | str:
        """Choose the threshold on its half, or say why there is none."""
        table = self.table
        chosen = np.flatnonzero(~self.is_held_out)
        units, first = np.unique(table.units[chosen], return_index=True)
        needed = fewest_rows(self.harm, level=self.certainty)
        if len(units) < needed:
            unit_count, count = len(np.unique(table.units)), len(units)
            harm = percent(self.harm)
            certainty = percent(self.certainty, 0)
            return (
                f"not enough rows: {unit_count}, of which {count} are to choose on; to promise "
                f"{harm} with {certainty} certainty takes {needed}, so {2 * needed} in all"
            )
        confidences = table.confidence(table.names[0], self.rule)[chosen[first]].tolist()
        harms = np.isin(units, table.units[self.harms]).tolist()
        numbers = table.numbers[chosen[first]].tolist()
        return choose_threshold(confidences, harms, numbers, harm=self.harm, level=self.certainty)

    def settings(self, threshold: float, share: float = 1.0) -> CascadeSettings:
        """Return the settings of the cascade with a threshold.

        A cheap judge without a score never decides in use.
        """
        rules = {"cascade_confidence": self.rule, "cascade_harm": self.harm}
        chosen = {
            "cascade_threshold": max(0.0, threshold),
            "cascade_share": share if threshold >= 0.0 else 1.0,
        }
        return CascadeSettings.model_validate({**rules, **chosen})

    def measure(self, settings: CascadeSettings, rows: NDArray[np.bool_]) -> CascadeOutcome:
        """Return the result of a cascade on some rows."""
        table, (cheap, strong) = self.table, self.table.names
        cheap_decides, scores, costs = replay_cascade(table, settings, cheap, strong)
        harmed, units = (
            len(np.unique(table.units[rows & selection]))
            for selection in (cheap_decides & self.harms, rows)
        )
        accuracy = None
        if table.labels is not None:
            accuracy = float(table.agreement(scores, table.labels)[rows].mean())
        return CascadeOutcome(
            rows=int(rows.sum()),
            escalated=float(1.0 - cheap_decides[rows].mean()),
            agreement=float(table.agreement(scores, table.scores[strong])[rows].mean()),
            accuracy=accuracy,
            harmed=harmed,
            harmed_at_most=upper_bound(harmed, units, level=self.certainty) if units else 1.0,
            cost=float(costs[rows].mean()),
            cost_alone=float(table.costs[strong][rows].mean()),
        )

    def measure_levels(self) -> Iterator[tuple[float, CascadeOutcome]]:
        """Yield about ten thresholds, highest first, with the result of each on all rows."""
        confidences = self.table.confidence(self.table.names[0], self.rule)
        levels = np.quantile(confidences, [step / _SHOWN for step in range(_SHOWN)], method="lower")
        for level in sorted({max(0.0, float(quantile)) for quantile in levels}, reverse=True):
            yield level, self.measure(self.settings(level), np.full(len(confidences), True))

    def describe(self, measured: CascadeOutcome, settings: CascadeSettings) -> str:
        """Describe the chosen cascade's result on the held-out rows."""
        cheap, strong = self.table.names
        cost, right = "", ""
        if measured.cost_alone:
            share = percent(measured.cost / measured.cost_alone, 0)
            cost = f", and costs {share} of {strong} alone"
        if measured.accuracy is not None:
            accuracy = percent(measured.accuracy)
            right = f", is right on {accuracy}"
        at_threshold = percent(settings.cascade_share, 0)
        escalated = percent(measured.escalated)
        agreement = percent(measured.agreement)
        bound = percent(measured.harmed_at_most)
        promise = percent(self.harm)
        certainty = percent(self.certainty, 0)
        return (
            f"{cheap} decides where its confidence ({self.rule}) is above "
            f"{settings.cascade_threshold:.4g} (of rows at it, {at_threshold}); {strong} decides "
            "the rest.\n"
            f"On the {measured.rows:,} rows that did not choose it: it escalates {escalated}, "
            f"agrees with {strong} on {agreement}{right}{cost}.\n"
            f"Harmed there: {measured.harmed:,}, so at most {bound} with {certainty} certainty; "
            f"promised: at most {promise}, for rows of the same population."
        )


def run(flags: argparse.Namespace) -> int:
    """Choose a threshold by the flags, show and write it; return the exit code.

    Raises:
        UserError: flags, runs or labels are wrong, or a file cannot be written.
    """
    if not 0 < flags.keep < 1 or not 0 < flags.certainty < 1:
        raise SettingsError("--keep, --certainty: expected a share between 0 and 1")
    if flags.out is not None and not is_preset(flags.out):
        raise SettingsError(
            f"--out: {flags.out}: with --choose expected FILE.yaml, for the preset of the cascade"
        )
    check_two_runs(flags.runs)
    members = open_members(flags.runs)
    if flags.out is not None:
        check_preset(members, built_in_kind(CascadeSettings), flags.out)
    table = open_table(members, flags, strong=members[1].name)
    trial = CascadeTrial(
        table, flags.confidence, round(1.0 - flags.keep, 9), flags.certainty, flags.seed
    )
    chosen = trial.choose()
    outcomes = [*trial.measure_levels()]
    facts = {"members": table.names, "cost_unit": table.cost_unit, "left_out": table.left_out}
    facts |= {
        "confidence": trial.rule,
        "harm": trial.harm,
        "certainty": trial.certainty,
        "seed": trial.seed,
    }
    facts |= {
        "thresholds": [{"confidence": level, **asdict(outcome)} for level, outcome in outcomes]
    }
    if isinstance(chosen, str):
        rules, summary = {}, chosen
        facts |= {"chosen": None, "why": chosen}
    else:
        settings = trial.settings(chosen.confidence, chosen.share_at)
        rules = settings.model_dump(include=_CHOSEN)
        held_out = trial.measure(settings, trial.is_held_out)
        summary = trial.describe(held_out, settings)
        facts |= {"chosen": {**rules, **asdict(chosen)}, "held_out": asdict(held_out)}
    names, row_count = " > ".join(table.names), len(table.uids)
    title = f"{names}, {row_count:,} rows; cost of a row in {table.cost_unit}"
    shown = Table(
        title,
        _HEADER,
        tuple((f"≥ {level:.3f}", *row_outcome.format_cells()) for level, row_outcome in outcomes),
    )

    def show() -> None:
        show_table(shown)
        say(summary)

    write_outputs(flags, facts, lambda: (), show)
    if rules and flags.out is not None:
        write_preset(
            flags.out, judge_settings(members, built_in_kind(CascadeSettings), rules), summary
        )
        say(
            f"judgegym score DATA --out FILE --config {flags.out} judges with it, and evaluate "
            "prompts, too"
        )
    if rules:
        return 0
    return UNCERTIFIED
