"""A jury or a cascade of recorded runs that is asked for by name, or a sweep over all: measured, shown, written.

A reader sees a table on the terminal, JSON, and a page with a chart.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from judgegym.datasets.score.results import show_result
from judgegym.engine.terminal.output import Table, say, show_table
from judgegym.judges.config.sources import settings_from_keywords
from judgegym.judges.core import event_loop
from judgegym.judges.parts.cascade import CascadeSettings
from judgegym.judges.parts.jury import JurySettings
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON
from judgegym.reports.document import document, render, write_outputs
from judgegym.statistics import percent
from judgegym_trials.replay import candidates as measuring
from judgegym_trials.replay.candidates import (
    CASCADE,
    JURY,
    SINGLE,
    Bench,
    ReplayedJudge,
    mark_front,
)
from judgegym_trials.replay.members import (
    check_out,
    check_two,
    is_preset,
    judge_settings,
    open_members,
    read_rules,
    replay_run,
    replay_settings,
    write_preset,
)
from judgegym_trials.replay.table import JudgedTable, open_table
from judgegym_trials.replay.weights import JuryWeights

AUTO, UNLABELLED = "auto", "dawid_skene"
"""Values of --jury_weights."""
_GIVEN = ("jury_weights", "jury_quorum", "jury_scale", "cascade_threshold")
"""Flags that are settings of the jury or the cascade."""
_STATIC = Path(__file__).parent / "static"
_WIDTH, _HEIGHT = 640, 360
_HARM = (
    "A majority harms where members are unequal, and Dawid-Skene where they err together: both are "
    "worth what they are "
    "measured to be, and no more."
)
_SELECTION = "The best of many candidates is optimistic: confirm what you choose on other rows."


@dataclass(frozen=True)
class ReplayReport:
    """All that was measured.

    Attributes:
        value: what is measured, in words.
        cost_unit: of costs.
        rows: how many rows.
        left_out: rows that could not be compared.
        candidates: all judges, the cheapest first.
        said: what follows, in sentences.
    """

    value: str
    cost_unit: str
    rows: int
    left_out: int
    candidates: Sequence[ReplayedJudge]
    said: Sequence[str]

    def table(self, shown: Sequence[ReplayedJudge]) -> Table:
        """Return the table of some judges."""
        title = f"{len(self.candidates):,} judges on {self.rows:,} recorded rows: {self.value}"
        header = "judge", "value", "95 %", f"cost ({self.cost_unit})", "escalated", "front"
        return Table(title, header, tuple(map(_cells, shown)))

    def show(self) -> None:
        """Print single judges, the front, and what was asked for by name; the page has all."""
        few = len(self.candidates) <= 20
        show_table(
            self.table(
                [one for one in self.candidates if few or one.is_on_front or one.kind == SINGLE]
            )
        )
        for line in self.said:
            say(line)

    def html(self) -> Iterator[bytes]:
        """Write the page, part by part: no script, no network, every text escaped."""
        costs, values = (
            [each.cost for each in self.candidates],
            [each.value for each in self.candidates],
        )
        ends = {
            "least_cost": min(costs),
            "most_cost": max(costs),
            "least": min(values),
            "most": max(values),
        }
        across = np.interp(costs, (min(costs), max(costs)), (48, _WIDTH - 14)).round(1).tolist()
        up = np.interp(values, (min(values), max(values)), (_HEIGHT - 40, 20)).round(1).tolist()
        points, table = (
            [*zip(across, up, self.candidates, strict=True)],
            self.table(self.candidates),
        )
        sizes = {"width": _WIDTH, "height": _HEIGHT, **ends}
        body = render(_STATIC / "replay.html", report=self, table=table, points=points, **sizes)
        yield from document(title=table.title, body=body, styles=[_STATIC / "replay.css"])


def _cells(each: ReplayedJudge) -> tuple[str, ...]:
    escalated = "" if each.escalated is None else percent(each.escalated)
    interval = f"{each.interval.low:.3f} to {each.interval.high:.3f}"
    return (
        each.name,
        f"{each.value:.3f}",
        interval,
        f"{each.cost:.3g}",
        escalated,
        "yes" if each.is_on_front else "",
    )


def _jury_words(each: ReplayedJudge, value: str) -> str:
    """Say whether a jury beats its best member, by how much, with what certainty."""
    gain, at_least = each.gain or (0.0, 0.0)
    by = f"{100 * gain:+.1f} points of {value}, at least {100 * at_least:+.1f} with 90 % certainty"
    if at_least > 0.0:
        return f"{each.name} beats its best member, {each.best}: {by}."
    return (
        f"{each.name} is not known to beat its best member, {each.best}: {by}. {each.best} alone "
        "costs less."
    )


def run(flags: argparse.Namespace) -> int:
    """Measure what the flags ask for, show and write it; return the exit code.

    Raises:
        UserError: flags, runs or labels are wrong, or a file cannot be written.
    """
    kind, word = (JURY, flags.jury) if flags.jury else (CASCADE, flags.cascade)
    if not word and not flags.sweep:
        raise SettingsError(
            "expected what to compute: --jury RULE, --cascade RULE, --choose or --sweep"
        )
    if not word and flags.out is not None:
        raise SettingsError(
            "--out: a sweep chooses nothing; name what to write: --jury RULE or --cascade RULE"
        )
    if flags.cascade:
        check_two(flags.runs, "--cascade: ")
    members = open_members(flags.runs)
    rules, names = read_rules(word, kind) if word else ({}, [])
    rules |= {name: getattr(flags, name) for name in _GIVEN if getattr(flags, name) is not None}
    if names:
        if len(names) != len(members):
            raise SettingsError(
                f"{word}: it has {len(names)} judges ({', '.join(names)}), found {len(members)} "
                "runs"
            )
        members = [replace(member, name=name) for member, name in zip(members, names, strict=True)]
    if flags.out is not None:
        check_out(members, kind, flags.out, flags.data)
    table = open_table(members, flags, replays=bool(flags.sweep or flags.cascade))
    if flags.reference is not None and flags.reference not in table.names:
        raise SettingsError(
            f"--reference: no run is called {flags.reference}, but {', '.join(table.names)}"
        )
    if flags.cascade and table.labels is None and flags.reference is None:
        flags.reference = table.names[1]
    bench = Bench.from_table(table, flags.reference)
    candidates, said = (
        [bench.measure(SINGLE, name, [name], table.scores[name]) for name in table.names],
        list[str](),
    )
    if flags.cascade:
        candidates.append(
            bench.cascade(settings_from_keywords(CascadeSettings, rules), *table.names)
        )
    elif flags.jury:
        candidates.append(_jury(flags, rules, bench))
        is_known = table.labels is not None or flags.reference is not None
        said += [_jury_words(candidates[-1], bench.value)] if is_known else []
    if flags.sweep:
        candidates += bench.sweep(flags.seed)
        said.append(_SELECTION)
    if any(each.kind == JURY for each in candidates):
        said.append(_HARM)
    report = ReplayReport(
        bench.value, table.cost_unit, len(table.uids), table.left_out, mark_front(candidates), said
    )
    write_outputs(flags, asdict(report), report.html, report.show)
    if flags.out is None:
        return 0
    judge = judge_settings(members, kind, rules)
    settings = replay_settings(members, judge, flags.data)
    if is_preset(flags.out):
        write_preset(flags.out, judge, "\n".join(said))
        return 0
    show_result(event_loop.run(replay_run(members, settings, flags.out)), flags.out)
    return 0


def _jury(flags: argparse.Namespace, rules: dict[str, JSON], bench: Bench) -> ReplayedJudge:
    """Measure the jury that was asked for; its settings go into `rules`."""
    table, learned = bench.table, None
    if flags.jury_weights in (AUTO, UNLABELLED):
        learned = _set_weights(flags, rules, table)
    if flags.jury_scale not in (None, "own"):
        samples = (
            (name, np.nanquantile(scores, np.linspace(0.0, 1.0, 101)))
            for name, scores in table.scores.items()
        )
        rules["jury_sample"] = {name: sample.round(6).tolist() for name, sample in samples}
    settings = settings_from_keywords(JurySettings, rules)
    try:
        settings.check_members(table.names)
    except ValueError as error:
        raise SettingsError(f"--jury: {error}") from None
    found = bench.jury(f"jury: {settings.jury_rule}", table.names, settings)
    if learned is None:
        return found
    of_others = measuring.learned_scores(table, table.names, flags.seed)
    if not isinstance(
        of_others, str
    ):  # the labels of a row say nothing of weights that were learned from them
        found = bench.measure(JURY, found.name, table.names, of_others)
    return replace(found, best=table.names[learned.best], gain=(learned.gain, learned.at_least))


def _set_weights(
    flags: argparse.Namespace, rules: dict[str, JSON], table: JudgedTable
) -> JuryWeights | None:
    """Put learned weights of the jury into its settings; return those that were learned from labels."""
    if rules.get("jury_rule", "mean") != "mean":
        raise SettingsError(
            f"--jury_weights {flags.jury_weights}: such weights are of a mean; expected --jury mean"
        )
    if flags.jury_weights == UNLABELLED:
        rules["jury_weights"] = {**measuring.weights_without_labels(table, table.names)}
        return None
    if table.labels is None:
        raise SettingsError(
            f"--jury_weights {AUTO}: expected --labels, from which they are learned"
        )
    learned = measuring.weights_by_labels(table, table.names, flags.seed)
    if isinstance(learned, str):
        raise SettingsError(f"--jury_weights {AUTO}: {learned}")
    rules["jury_weights"] = {
        name: round(each, 6) for name, each in zip(table.names, learned.weights, strict=True)
    }
    return learned
