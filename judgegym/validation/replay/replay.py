"""A jury or a cascade of recorded runs that is asked for by name, or a sweep over all: measured, shown, written."""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace

import numpy as np

from judgegym.datasets.score.ending import what_is_where
from judgegym.engine.terminal import show_summary
from judgegym.engine.terminal.output import say
from judgegym.judges.config.sources import settings_from_keywords
from judgegym.judges.core import event_loop
from judgegym.judges.parts.cascade import CascadeSettings
from judgegym.judges.parts.jury import JurySettings
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON
from judgegym.reports.document import write_outputs
from judgegym.statistics.juries import JuryWeights
from judgegym.validation.replay import candidates as measuring
from judgegym.validation.replay.candidates import Bench, ReplayedJudge, with_front
from judgegym.validation.replay.members import (
    judge_settings,
    open_members,
    read_rules,
    replay_run,
    score_settings,
    write_preset,
)
from judgegym.validation.replay.report import HARM, SELECTION, ReplayReport, jury_words
from judgegym.validation.replay.table import JudgedTable, open_table

AUTO, UNLABELLED = "auto", "dawid_skene"
"""Values of --jury_weights."""


def run(flags: argparse.Namespace) -> int:
    """Measure what the flags ask for, show and write it; return the exit code.

    Raises:
        UserError: flags, runs or labels are wrong, or a file cannot be written.
    """
    kind, word = ("jury", flags.jury) if flags.jury else ("cascade", flags.cascade)
    if not word and not flags.sweep:
        raise SettingsError("expected what to compute: --jury RULE, --cascade RULE or --sweep")
    if not word and flags.out is not None:
        raise SettingsError("--out: a sweep chooses nothing; name what to write: --jury RULE or --cascade RULE")
    members = open_members(flags.runs)
    rules, names = read_rules(word, kind) if word else ({}, [])
    if names:
        if len(names) != len(members):
            raise SettingsError(f"{word}: it has {len(names)} judges ({', '.join(names)}), found {len(members)} runs")
        members = [replace(member, name=name) for member, name in zip(members, names, strict=True)]
    if flags.cascade and len(members) != 2:
        raise SettingsError(f"--cascade: expected two runs, the cheap one first, found {len(members)}")
    table = open_table(members, flags, replays=flags.sweep or flags.cascade)
    if flags.reference is not None and flags.reference not in table.names:
        raise SettingsError(f"--reference: no run is called {flags.reference}, but {', '.join(table.names)}")
    if flags.cascade and table.labels is None and flags.reference is None:
        flags.reference = table.names[1]
    bench = Bench.of(table, flags.reference)
    candidates, said = [bench.measure("single", name, [name], table.of(name)) for name in table.names], list[str]()
    if flags.cascade:
        candidates.append(_cascade(flags, rules, bench))
    elif flags.jury:
        candidates.append(_jury(flags, rules, bench))
        is_known = table.labels is not None or flags.reference is not None
        said += [jury_words(candidates[-1], bench.value)] if is_known else []
    if flags.sweep:
        candidates += bench.sweep(flags.seed)
        said.append(SELECTION)
    if any(each.kind == "jury" for each in candidates):
        said.append(HARM)
    report = ReplayReport(bench.value, table.cost_unit, len(table.uids), table.left_out, with_front(candidates), said)
    write_outputs(flags, asdict(report), report.html, report.show)
    if flags.out is None:
        return 0
    judge = judge_settings(members, kind, rules)
    settings = score_settings(members, judge, flags.data)
    if flags.out.suffix in (".yaml", ".yml"):
        write_preset(flags.out, judge, "\n".join(said))
        return 0
    result = event_loop.run(replay_run(members, settings, flags.out))
    if result.summary is not None:
        show_summary(result.summary)
    for line in what_is_where(flags.out, result.path, []):
        say(line)
    return 0


def _cascade(flags: argparse.Namespace, rules: dict[str, JSON], bench: Bench) -> ReplayedJudge:
    """Measure the cascade that was asked for; its settings go into `rules`."""
    rules |= {} if flags.cascade_threshold is None else {"cascade_threshold": flags.cascade_threshold}
    settings, (cheap, strong) = settings_from_keywords(CascadeSettings, rules), bench.table.names
    return bench.cascade(settings, cheap, strong)


def _jury(flags: argparse.Namespace, rules: dict[str, JSON], bench: Bench) -> ReplayedJudge:
    """Measure the jury that was asked for; its settings go into `rules`."""
    table = bench.table
    learned = _set_weights(flags, rules, table)
    rules |= {} if flags.jury_quorum is None else {"jury_quorum": flags.jury_quorum}
    if flags.jury_scale is not None:
        levels = np.linspace(0.0, 1.0, 101)
        sample = {name: np.nanquantile(table.of(name), levels).round(6).tolist() for name in table.names}
        rules |= {"jury_scale": flags.jury_scale, "jury_sample": sample}
    settings = settings_from_keywords(JurySettings, rules)
    found = bench.jury(f"jury: {settings.jury_rule}", table.names, settings)
    if learned is None:
        return found
    gain = learned.gain, learned.at_least
    of_others = measuring.learned_scores(table, table.names, flags.seed)
    if not isinstance(of_others, str):  # the labels of a row say nothing of weights that were learned from them
        found = bench.measure("jury", found.name, table.names, of_others)
    return replace(found, best=table.names[learned.best], gain=gain)


def _set_weights(flags: argparse.Namespace, rules: dict[str, JSON], table: JudgedTable) -> JuryWeights | None:
    """Put the weights of the jury into its settings; return those that were learned from labels."""
    if flags.jury_weights not in (AUTO, UNLABELLED):
        rules |= {} if flags.jury_weights is None else {"jury_weights": flags.jury_weights}
        return None
    if rules.get("jury_rule", "mean") != "mean":
        raise SettingsError(f"--jury_weights {flags.jury_weights}: such weights are of a mean; expected --jury mean")
    if flags.jury_weights == UNLABELLED:
        rules["jury_weights"] = measuring.weights_without_labels(table, table.names)
        return None
    if table.labels is None:
        raise SettingsError(f"--jury_weights {AUTO}: expected --labels, from which they are learned")
    learned = measuring.weights_by_labels(table, table.names, flags.seed)
    if isinstance(learned, str):
        raise SettingsError(f"--jury_weights {AUTO}: {learned}")
    weights = [round(each, 6) for each in learned.weights]
    rules["jury_weights"] = dict(zip(table.names, weights, strict=True))
    return learned
