"""Replay of recorded runs: a named jury or cascade, or a sweep over all, measured and shown.

The result is a table on the terminal, JSON, and a page with a chart.
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
    check_two_runs,
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
_RULE_FLAGS = ("jury_weights", "jury_quorum", "jury_scale", "cascade_threshold")
"""Flags that are settings of the jury or the cascade."""
_STATIC = Path(__file__).parent / "static"
_MOST_SHOWN = 20
_WIDTH, _HEIGHT = 640, 360
_HARM = (
    "A majority vote can do harm if members are unequal, and Dawid-Skene if they err together: "
    "trust only what is measured here."
)
_SELECTION = "The best of many candidates is optimistic: confirm what you choose on other rows."


@dataclass(frozen=True)
class ReplayReport:
    """All measurements.

    Attributes:
        value: the name of the measured value.
        cost_unit: the unit of costs.
        rows: number of rows.
        left_out: number of rows that could not be compared.
        candidates: all judges, the cheapest first.
        said: the conclusions, in sentences.
    """

    value: str
    cost_unit: str
    rows: int
    left_out: int
    candidates: Sequence[ReplayedJudge]
    said: Sequence[str]

    def table(self, shown: Sequence[ReplayedJudge]) -> Table:
        """Return the table of some judges."""
        count = len(self.candidates)
        title = f"{count:,} judges on {self.rows:,} recorded rows: {self.value}"
        header = "judge", "value", "95 %", f"cost ({self.cost_unit})", "escalated", "front"
        return Table(title, header, tuple(map(_format_cells, shown)))

    def show(self) -> None:
        """Print single judges, the front, and judges requested by name; the page has all."""
        shown = self.candidates
        if len(shown) > _MOST_SHOWN:
            shown = [judge for judge in shown if _is_listed(judge)]
        show_table(self.table(shown))
        for line in self.said:
            say(line)

    def html(self) -> Iterator[bytes]:
        """Yield the page, part by part: no script, no network, every text escaped."""
        costs = [candidate.cost for candidate in self.candidates]
        values = [judge.value for judge in self.candidates]
        ends = {
            "least_cost": min(costs),
            "most_cost": max(costs),
            "least": min(values),
            "most": max(values),
        }
        across = np.interp(costs, (min(costs), max(costs)), (48, _WIDTH - 14)).round(1).tolist()
        up = np.interp(values, (min(values), max(values)), (_HEIGHT - 40, 20)).round(1).tolist()
        points = [*zip(across, up, self.candidates, strict=True)]
        table = self.table(self.candidates)
        sizes = {"width": _WIDTH, "height": _HEIGHT, **ends}
        body = render(_STATIC / "replay.html", report=self, table=table, points=points, **sizes)
        yield from document(title=table.title, body=body, styles=[_STATIC / "replay.css"])


def _is_listed(judge: ReplayedJudge) -> bool:
    return judge.is_on_front or judge.kind == SINGLE


def _format_cells(judge: ReplayedJudge) -> tuple[str, ...]:
    escalated = "" if judge.escalated is None else percent(judge.escalated)
    interval = f"{judge.interval.low:.3f} to {judge.interval.high:.3f}"
    return (
        judge.name,
        f"{judge.value:.3f}",
        interval,
        f"{judge.cost:.3g}",
        escalated,
        "yes" if judge.is_on_front else "",
    )


def _describe_gain(judge: ReplayedJudge, value: str) -> str:
    """Say whether a jury beats its best member, by how much, with what certainty."""
    gain, at_least = judge.gain or (0.0, 0.0)
    by = f"{100 * gain:+.1f} points of {value}, at least {100 * at_least:+.1f} with 90 % certainty"
    if at_least > 0.0:
        return f"{judge.name} beats its best member, {judge.best}: {by}."
    return (
        f"{judge.name} is not known to beat its best member, {judge.best}: {by}. {judge.best} "
        "alone costs less."
    )


def run(flags: argparse.Namespace) -> int:
    """Measure what the flags name, show and write it; return the exit code.

    Raises:
        UserError: flags, runs or labels are wrong, or a file cannot be written.
    """
    kind, word = CASCADE, flags.cascade
    if flags.jury:
        kind, word = JURY, flags.jury
    if not word and not flags.sweep:
        raise SettingsError(
            "nothing to compute; expected --jury RULE, --cascade RULE, --choose or --sweep"
        )
    if not word and flags.out is not None:
        raise SettingsError(
            "--out: a sweep chooses no judge to write; add --jury RULE or --cascade RULE"
        )
    if flags.cascade:
        check_two_runs(flags.runs, "--cascade: ")
    members = open_members(flags.runs)
    rules, names = read_rules(word, kind) if word else ({}, [])
    rules |= {
        name: getattr(flags, name) for name in _RULE_FLAGS if getattr(flags, name) is not None
    }
    if names:
        if len(names) != len(members):
            name_count = len(names)
            run_count = len(members)
            listed = ", ".join(names)
            raise SettingsError(
                f"{word}: it has {name_count} judges ({listed}), found {run_count} runs"
            )
        members = [replace(member, name=name) for member, name in zip(members, names, strict=True)]
    if flags.out is not None:
        check_out(members, kind, flags.out, flags.data)
    table = open_table(members, flags, replays=bool(flags.sweep or flags.cascade))
    if flags.reference is not None and flags.reference not in table.names:
        listed = ", ".join(table.names)
        raise SettingsError(f"--reference: no run is called {flags.reference}, but {listed}")
    if flags.cascade and table.labels is None and flags.reference is None:
        flags.reference = table.names[1]
    bench = Bench.from_table(table, flags.reference)
    candidates = [bench.measure(SINGLE, name, [name], table.scores[name]) for name in table.names]
    sentences: list[str] = []
    if flags.cascade:
        candidates.append(
            bench.cascade(settings_from_keywords(CascadeSettings, rules), *table.names)
        )
    elif flags.jury:
        candidates.append(_measure_jury(flags, rules, bench))
        is_known = table.labels is not None or flags.reference is not None
        if is_known:
            sentences.append(_describe_gain(candidates[-1], bench.value))
    if flags.sweep:
        candidates += bench.sweep(flags.seed)
        sentences.append(_SELECTION)
    if any(candidate.kind == JURY for candidate in candidates):
        sentences.append(_HARM)
    report = ReplayReport(
        bench.value,
        table.cost_unit,
        len(table.uids),
        table.left_out,
        mark_front(candidates),
        sentences,
    )
    write_outputs(flags, asdict(report), report.html, report.show)
    if flags.out is None:
        return 0
    judge = judge_settings(members, kind, rules)
    settings = replay_settings(members, judge, flags.data)
    if is_preset(flags.out):
        write_preset(flags.out, judge, "\n".join(sentences))
        return 0
    show_result(event_loop.run(replay_run(members, settings, flags.out)), flags.out)
    return 0


def _measure_jury(flags: argparse.Namespace, rules: dict[str, JSON], bench: Bench) -> ReplayedJudge:
    """Measure the requested jury; its settings are added to `rules`."""
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
    judge = bench.jury(f"jury: {settings.jury_rule}", table.names, settings)
    if learned is None:
        return judge
    of_others = measuring.cross_validate_scores(table, table.names, flags.seed)
    if not isinstance(
        of_others, str
    ):  # a row's labels cannot test weights that were learned from them
        judge = bench.measure(JURY, judge.name, table.names, of_others)
    return replace(judge, best=table.names[learned.best], gain=(learned.gain, learned.at_least))


def _set_weights(
    flags: argparse.Namespace, rules: dict[str, JSON], table: JudgedTable
) -> JuryWeights | None:
    """Put a jury's learned weights into its settings; return those learned from labels."""
    if rules.get("jury_rule", "mean") != "mean":
        raise SettingsError(
            f"--jury_weights {flags.jury_weights}: weights apply only to a mean; expected --jury "
            "mean"
        )
    if flags.jury_weights == UNLABELLED:
        rules["jury_weights"] = {**measuring.estimate_jury_weights(table, table.names)}
        return None
    if table.labels is None:
        raise SettingsError(
            f"--jury_weights {AUTO}: expected --labels, from which they are learned"
        )
    learned = measuring.learn_jury_weights(table, table.names, flags.seed)
    if isinstance(learned, str):
        raise SettingsError(f"--jury_weights {AUTO}: {learned}")
    rules["jury_weights"] = {
        name: round(weight, 6) for name, weight in zip(table.names, learned.weights, strict=True)
    }
    return learned
