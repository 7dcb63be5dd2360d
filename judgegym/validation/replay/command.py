"""`judgegym replay RUN…`: juries and cascades computed from recorded runs, and a sweep over them. Nobody is asked."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from judgegym.engine.terminal.output import say, show_table
from judgegym.judges.config.exit_code import exit_code
from judgegym.judges.config.extras import require
from judgegym.judges.config.one_line_parser import OneLineParser, whole_number
from judgegym.llm import wire
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON
from judgegym.validation.replay.cascade_command import add_shared

if TYPE_CHECKING:
    from judgegym.statistics.juries import JuryWeights
    from judgegym.validation.replay.candidates import ReplayedJudge
    from judgegym.validation.replay.table import JudgedTable

AUTO, UNLABELLED = "auto", "dawid_skene"
_DESCRIPTION = """Compute a jury or a cascade from finished runs of the same rows, or sweep over all of them, without a
call: what it is worth against labels or a reference, and what it costs. With --out FILE.jsonl or .parquet the rows are
judged as a live run of judgegym score would judge them, with the same calls and cost; those runs are of score. Runs of
evaluate take part in tables."""


def parser_of(prog: str) -> argparse.ArgumentParser:
    """The flags of the command."""
    parser = OneLineParser(prog, _DESCRIPTION)
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="a run directory, or a file of score; NAME=RUN names its judge")
    what = parser.add_mutually_exclusive_group()
    words = "a jury of all runs: mean, median, trimmed_mean, majority, unanimous; @FILE reads its settings"
    what.add_argument("--jury", metavar="RULE", help=words)
    words = "a cascade of two runs, the cheap one first: margin, orders, votes, probability, members, or @FILE"
    what.add_argument("--cascade", metavar="RULE", help=words)
    words = f"weights of the jury: a=2,b=1; {AUTO}: learned from --labels; {UNLABELLED}: without labels"
    add("--jury_weights", metavar="WEIGHTS", help=words)
    add("--jury_quorum", type=whole_number(1), metavar="N", help="fewest members with a score (default: the most)")
    scales = ("own", "standardised", "rank")
    add("--jury_scale", choices=scales, help="bring scores to one scale by those of these runs (default: own)")
    add("--cascade_threshold", metavar="X", help="the cheap judge decides above this confidence")
    add("--sweep", action="store_true", help="measure every jury and cascade, and mark the Pareto front")
    add_shared(parser)
    add("--reference", metavar="NAME", help="measure agreement with this run instead")
    words = "FILE.jsonl or .parquet: the rows, judged; FILE.yaml: the preset of the jury or cascade"
    add("--out", type=Path, metavar="FILE", help=words)
    add("--json", type=Path, metavar="FILE", help="write all numbers as JSON")
    add("--html", type=Path, metavar="FILE", help="write them as a page that needs no network")
    return parser


def main(argv: Sequence[str] | None = None, *, prog: str = "judgegym replay") -> int:
    """Run the command.

    Args:
        argv: the command line without the program's name; the process's own by default.
        prog: the program's name in messages.

    Returns:
        0; 2 for wrong input; 130 after Ctrl-C.
    """
    return exit_code(lambda: _run(parser_of(prog).parse_args(argv)))


def _run(flags: argparse.Namespace) -> int:
    require("environments")
    from judgegym.datasets.score.ending import what_is_where  # late, as all of it: help comes at once
    from judgegym.engine.terminal import show_summary
    from judgegym.judges.core import event_loop
    from judgegym.reports.document import as_json, write_file
    from judgegym.validation.replay.candidates import reference_of, single, sweep, with_front
    from judgegym.validation.replay.members import judge_settings, open_members, replay_run, score_settings
    from judgegym.validation.replay.presets import YAML, rules_of, write_preset
    from judgegym.validation.replay.report import HARM, SELECTION, ReplayReport, html
    from judgegym.validation.replay.table import open_table

    kind, word = ("jury", flags.jury) if flags.jury else ("cascade", flags.cascade)
    if not word and not flags.sweep:
        raise SettingsError("expected what to compute: --jury RULE, --cascade RULE or --sweep")
    if not word and flags.out is not None:
        raise SettingsError("--out: a sweep chooses nothing; name what to write: --jury RULE or --cascade RULE")
    members = open_members(flags.runs)
    rules, names = rules_of(word, kind) if word else ({}, [])
    if names:
        if len(names) != len(members):
            raise SettingsError(f"{word}: it has {len(names)} judges ({', '.join(names)}), found {len(members)} runs")
        members = [replace(member, name=name) for member, name in zip(members, names, strict=True)]
    if kind == "cascade" and word and len(members) != 2:
        raise SettingsError(f"--cascade: expected two runs, the cheap one first, found {len(members)}")
    needs_confidences = flags.sweep or kind == "cascade"
    table = open_table(members, flags.labels, flags.tolerance, flags.data, with_confidences=needs_confidences)
    if flags.reference is not None and flags.reference not in table.names:
        raise SettingsError(f"--reference: no run is called {flags.reference}, but {', '.join(table.names)}")
    if kind == "cascade" and word and table.labels is None and flags.reference is None:
        flags.reference = table.names[1]
    reference, value = reference_of(table, flags.reference)
    candidates, said = [single(table, name, reference) for name in table.names], list[str]()
    if word:
        found, words = _chosen(flags, kind, rules, table)
        candidates.append(found)
        said += words
    if flags.sweep:
        candidates += sweep(table, reference, flags.seed)
        said.append(SELECTION)
    if any(each.kind == "jury" for each in candidates):
        said.append(HARM)
    report = ReplayReport(value, table.cost_unit, len(table.uids), table.left_out, with_front(candidates), said)
    show_table(report.table())
    for line in said:
        say(line)
    if flags.json is not None:
        write_file(flags.json, wire.dumps_readable(wire.loads(as_json(report.to_json()))))
    if flags.html is not None:
        write_file(flags.html, b"".join(html(report)))
    if flags.out is None:
        return 0
    judge = judge_settings(members, "judges" if kind == "jury" else "cascade", rules)
    settings = score_settings(members, judge, flags.data)
    if flags.out.suffix in YAML:
        write_preset(flags.out, judge, "\n".join(said))
        return 0
    result = event_loop.run(replay_run(members, settings, flags.out))
    if result.summary is not None:
        show_summary(result.summary)
    for line in what_is_where(flags.out, result.path, []):
        say(line)
    return 0


def _chosen(
    flags: argparse.Namespace, kind: str, rules: dict[str, JSON], table: JudgedTable
) -> tuple[ReplayedJudge, list[str]]:
    """The jury or cascade that was asked for, whose settings go into `rules`, and what is to be said of it."""
    import numpy as np

    from judgegym.judges.config.sources import settings_from_keywords  # late, as all of it
    from judgegym.judges.parts.cascade import CascadeSettings
    from judgegym.judges.parts.jury import JurySettings
    from judgegym.validation.replay.candidates import cascade, jury, jury_scores, learned_scores, reference_of
    from judgegym.validation.replay.report import jury_words

    reference, value = reference_of(table, flags.reference)
    if kind == "cascade":
        rules |= {} if flags.cascade_threshold is None else {"cascade_threshold": flags.cascade_threshold}
        settings = settings_from_keywords(CascadeSettings, rules)
        known = table.confidences[table.names[0]]
        if settings.cascade_confidence not in known:
            raise SettingsError(f"--cascade: {table.names[0]} knows {', '.join(known)}")
        return cascade(table, (table.names[0], table.names[1]), settings, reference), []
    learned = _set_weights(flags, rules, table)
    if flags.jury_quorum is not None:
        rules["jury_quorum"] = flags.jury_quorum
    if flags.jury_scale is not None:
        levels = np.linspace(0.0, 1.0, 101)
        sample = {name: np.nanquantile(table.of(name), levels).round(6).tolist() for name in table.names}
        rules |= {"jury_scale": flags.jury_scale, "jury_sample": sample}
    of_jury = settings_from_keywords(JurySettings, rules)
    scores = jury_scores(table, table.names, of_jury)
    if learned is not None and not isinstance(of_others := learned_scores(table, table.names, flags.seed), str):
        scores = of_others  # the labels of a row say nothing of weights that were learned from them
    found = jury(table, scores, table.names, f"jury: {of_jury.jury_rule}", reference)
    if learned is not None:
        found = replace(found, best=table.names[learned.best], gain=(learned.gain, learned.at_least))
    is_known = table.labels is not None or flags.reference is not None
    return found, [jury_words(found, value)] if is_known else []


def _set_weights(flags: argparse.Namespace, rules: dict[str, JSON], table: JudgedTable) -> JuryWeights | None:
    """Put the weights of the jury into its settings; return those that were learned from labels."""
    from judgegym.validation.replay.candidates import weights_by_labels, weights_without_labels  # late, as all of it

    if flags.jury_weights not in (AUTO, UNLABELLED):
        rules |= {} if flags.jury_weights is None else {"jury_weights": flags.jury_weights}
        return None
    if rules.get("jury_rule", "mean") != "mean":
        raise SettingsError(f"--jury_weights {flags.jury_weights}: such weights are of a mean; expected --jury mean")
    if flags.jury_weights == UNLABELLED:
        rules["jury_weights"] = dict(weights_without_labels(table, table.names))
        return None
    if table.labels is None:
        raise SettingsError(f"--jury_weights {AUTO}: expected --labels, from which they are learned")
    learned = weights_by_labels(table, table.names, flags.seed)
    if isinstance(learned, str):
        raise SettingsError(f"--jury_weights {AUTO}: {learned}")
    weights = [round(each, 6) for each in learned.weights]
    rules["jury_weights"] = dict(zip(table.names, weights, strict=True))
    return learned
