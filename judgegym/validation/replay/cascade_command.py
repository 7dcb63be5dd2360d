"""`judgegym cascade CHEAP STRONG`: the threshold of a cascade, chosen from two recorded runs. Nobody is asked."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from judgegym.engine.terminal.output import Table, say, show_table
from judgegym.judges.config.exit_code import exit_code
from judgegym.judges.config.extras import require
from judgegym.judges.config.one_line_parser import OneLineParser, share, whole_number
from judgegym.llm import wire
from judgegym.llm.errors import SettingsError

if TYPE_CHECKING:
    from judgegym.validation.replay.cascade import CascadeOutcome, CascadeTrial

UNCERTIFIED = 4
"""The exit code where no threshold can be promised."""
_DESCRIPTION = """Choose the threshold of a cascade from two finished runs of the same rows: the cheap judge decides
where it is sure enough, the strong one the rest. Nobody is asked. The threshold is chosen on half of the rows with an
exact bound, and what it does is reported on the other half. Exit code 4 if nothing can be promised."""


def parser_of(prog: str) -> argparse.ArgumentParser:
    """The flags of the command."""
    from judgegym.judges.parts.cascade import Confidence  # late: help comes at once

    parser = OneLineParser(prog, _DESCRIPTION)
    add = parser.add_argument
    add("runs", nargs=2, metavar="RUN", help="the cheap judge's run, then the strong one's; NAME=RUN names a judge")
    add_shared(parser)
    words = "how sure the cheap judge is (default: %(default)s)"
    add("--confidence", choices=get_args(Confidence), default="margin", help=words)
    words = "keep this share of the strong judge's verdicts (default: %(default)s)"
    add("--keep", type=share, default=0.98, metavar="X", help=words)
    add("--certainty", type=share, default=0.95, metavar="X", help="certainty of that promise (default: %(default)s)")
    add("--out", type=Path, metavar="FILE", help="write the preset for score and evaluate prompts, in YAML")
    add("--json", type=Path, metavar="FILE", help="write all numbers as JSON")
    return parser


def add_shared(parser: argparse.ArgumentParser) -> None:
    """Add the flags of both commands that read runs."""
    add = parser.add_argument
    add("--labels", type=Path, metavar="FILE", help="labels of people (judgegym label): what is right is known")
    add(
        "--tolerance", type=share, metavar="X", help="scores agree if they differ by at most this; if unset, by verdict"
    )
    add("--data", metavar="DATA", help="where the rows are, if they have moved since the runs")
    add("--seed", type=whole_number(0), default=0, metavar="N", help="seed of halves and folds (default: %(default)s)")


def main(argv: Sequence[str] | None = None, *, prog: str = "judgegym cascade") -> int:
    """Run the command.

    Args:
        argv: the command line without the program's name; the process's own by default.
        prog: the program's name in messages.

    Returns:
        0; 4 if no threshold can be promised; 2 for wrong input; 130 after Ctrl-C.
    """
    return exit_code(lambda: _run(parser_of(prog).parse_args(argv)))


def _run(flags: argparse.Namespace) -> int:
    require("environments")
    from judgegym.validation.replay.cascade import CascadeTrial  # late, as all of it
    from judgegym.validation.replay.members import judge_settings, open_members
    from judgegym.validation.replay.presets import write_preset
    from judgegym.validation.replay.table import open_table

    if not 0 < flags.keep < 1 or not 0 < flags.certainty < 1:
        raise SettingsError("--keep, --certainty: expected a share between 0 and 1")
    members = open_members(flags.runs)
    table = open_table(members, flags.labels, flags.tolerance, flags.data, scored_by=members[1].name)
    known = table.confidences[members[0].name]
    if flags.confidence not in known:
        raise SettingsError(f"--confidence: {members[0].name} knows {', '.join(known)}, and not {flags.confidence}")
    trial = CascadeTrial(table, flags.confidence, round(1.0 - flags.keep, 9), flags.certainty, flags.seed)
    chosen = trial.choose()
    show_table(_table(trial))
    if isinstance(chosen, str):
        say(chosen)
        _write(flags.json, trial, {"chosen": None, "why": chosen})
        return UNCERTIFIED
    settings = trial.settings(chosen)
    held_out = trial.outcome(settings, trial.halves[1])
    said = _said(trial, held_out, settings.cascade_threshold, settings.cascade_share)
    say(said)
    names = ("confidence", "threshold", "share", "harm")
    rules = {f"cascade_{name}": getattr(settings, f"cascade_{name}") for name in names}
    _write(flags.json, trial, {"chosen": {**rules, **asdict(chosen)}, "held_out": asdict(held_out)})
    if flags.out is not None:
        write_preset(flags.out, judge_settings(members, "cascade", rules), said)
        say(f"judgegym score DATA --out FILE --config {flags.out} judges with it, and evaluate prompts, too")
    return 0


_HEADER = ("confidence", "escalated", "agreement", "accuracy", "harmed", "cost")


def _table(trial: CascadeTrial) -> Table:
    rows = [(f"≥ {level:.3f}", *_cells(found)) for level, found in trial.outcomes()]
    title = f"{' > '.join(trial.table.names)}, {len(trial.table.uids):,} rows; cost of a row in {trial.table.cost_unit}"
    return Table(title, _HEADER, tuple(rows))


def _cells(found: CascadeOutcome) -> tuple[str, ...]:
    accuracy = "–" if found.accuracy is None else f"{found.accuracy:.1%}"
    return f"{found.escalated:.1%}", f"{found.agreement:.1%}", accuracy, f"{found.harmed:,}", f"{found.cost:.3g}"


def _said(trial: CascadeTrial, found: CascadeOutcome, threshold: float, kept: float) -> str:
    cheap, strong = trial.table.names
    alone = trial.table.cost_of(strong).mean()
    cost = f", and costs {found.cost / alone:.0%} of {strong} alone" if alone else ""
    right = "" if found.accuracy is None else f", is right on {found.accuracy:.1%}"
    return (
        f"{cheap} decides where its confidence ({trial.rule}) is above {threshold:.4g} (of rows at it, {kept:.0%}); "
        f"{strong} decides the rest.\n"
        f"On the {found.rows:,} rows that did not choose it: it escalates {found.escalated:.1%}, agrees with {strong} "
        f"on {found.agreement:.1%}{right}{cost}.\n"
        f"Harmed there: {found.harmed:,}, so at most {found.harmed_at_most:.1%} with {trial.certainty:.0%} certainty; "
        f"promised: at most {trial.harm:.1%}, for rows of the same population."
    )


def _write(path: Path | None, trial: CascadeTrial, found: dict[str, object]) -> None:
    """Write the numbers, if a file is given."""
    from judgegym.reports.document import as_json, write_file

    if path is not None:
        outcomes = [{"confidence": level, **asdict(each)} for level, each in trial.outcomes()]
        shown = {"members": trial.table.names, "cost_unit": trial.table.cost_unit, "left_out": trial.table.left_out}
        facts = {"confidence": trial.rule, "harm": trial.harm, "certainty": trial.certainty, "seed": trial.seed}
        content = {**shown, **facts, "thresholds": outcomes, **found}
        write_file(path, wire.dumps_readable(wire.loads(as_json(content))))
