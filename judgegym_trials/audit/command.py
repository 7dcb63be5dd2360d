"""Command `judgegym audit DATA`: a judge's accuracy and biases, and whether the rows are enough.

With `--out` the judge is called (`calling.py`); without, its recorded judgments are read.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from judgegym.judges.config.exit_code import exit_code
from judgegym.judges.config.extras import require
from judgegym.judges.config.one_line_parser import OneLineParser
from judgegym.llm.errors import SettingsError
from judgegym.reports.document import write_outputs
from judgegym_trials.audit import FAULT

if TYPE_CHECKING:
    from judgegym_trials.audit.audit import Audit
    from judgegym_trials.audit.judgments import Judgments

_DESCRIPTION = """Audit a judge on labelled rows without a call: accuracy in both orders, position,
repeats, agreement, what sways it (length, markdown, lists, its own family, master keys,
instructions) with gold held fixed, drift, calibration, failures. Each check has an effect size, an
interval, a threshold, and a word: passes, fails, suspect, underpowered, with the rows that it would
take, or cannot tell, where it depends on how many labels are wrong (--labels, --label_noise). Exit
code 4 if a check fails. To call the judge instead: --judge KIND --out FOLDER, whose settings --out
--help lists, and --judge KIND --help those of a judge."""
_DATA = """rows with labels and recorded judgments (JSONL, JSON, CSV, TSV, Parquet), a run directory
of evaluate, or a file that score has written with --gold_column"""
_CALLS = frozenset({"--out", "--plan", "--config", "--show_config"})
"""Flags of an audit that calls the judge; each such command has at least one of them."""


def make_parser(prog: str) -> argparse.ArgumentParser:
    """Build the parser of all flags, those of judge calls included, for shell completion."""
    # Imported here, so that help comes at once.
    from judgegym.judges.config.reading.help import make_flags_parser
    from judgegym_trials.audit.asking import CalledAuditSettings

    parser = _make_parser(prog)
    for action in make_flags_parser(CalledAuditSettings)._actions:
        if not {*action.option_strings} & {*parser._option_string_actions}:
            parser._add_action(action)
    return parser


def _make_parser(prog: str) -> argparse.ArgumentParser:
    """Build the parser of an audit of recorded judgments."""
    from judgegym_trials.audit.reading import COLUMNS  # imported here, so that help comes at once

    parser = OneLineParser(prog, _DESCRIPTION)
    add = parser.add_argument
    add("data", metavar="DATA", help=_DATA)
    add(
        "--verdicts",
        type=Path,
        metavar="FILE",
        help="verdicts by uid: JSONL of judge, prompt and winner",
    )
    add(
        "--judge", default="", metavar="NAME", help="the judge: which of --verdicts, and its family"
    )
    add("--prompt", default="", metavar="NAME", help="which prompt of --verdicts")
    add(
        "--paraphrases",
        default="",
        metavar="NAMES",
        help="other prompts of --verdicts, with commas; all: all others",
    )
    add(
        "--labels",
        type=Path,
        metavar="FILE",
        help="labels of two people for the rows, as judgegym label writes them",
    )
    add(
        "--label_noise",
        type=float,
        metavar="SHARE",
        help="the share of gold labels that are wrong; 0: exact",
    )
    add(
        "--settings",
        type=Path,
        metavar="FILE",
        help="thresholds in YAML that differ from the shipped ones",
    )
    add("--html", type=Path, metavar="FILE", help="write the audit as a page that needs no network")
    add(
        "--json",
        metavar="FILE",
        help="write it as JSON, for compare; - is standard output, instead of the table",
    )
    add("--card", type=Path, metavar="FILE", help="add the result to the run's judge's card")
    for name, words in COLUMNS.items():
        add(f"--{name}_column", metavar="NAME", help=words)
    return parser


def main(argv: Sequence[str] | None = None, *, prog: str = "judgegym audit") -> int:
    """Run the command.

    Args:
        argv: the command line without the program's name; the process's own by default.
        prog: the program's name in messages.

    Returns:
        0; 4 if a check fails; 2 for wrong input; 130 after Ctrl-C; 141 if the output pipe is
        closed; if the judge is called, 1 if too many calls fail, 3 if the budget is spent.
    """
    words = sys.argv[1:] if argv is None else argv
    if _calls_judge(words):
        # Imported here, like the modules below.
        from judgegym_trials.audit.calling import main as called

        return called(words, prog=prog)
    return exit_code(lambda: _run(_parse_flags(words, prog)))


def _calls_judge(words: Sequence[str]) -> bool:
    """Return whether the command line calls the judge, or asks for help about a judge."""
    flags = {word.partition("=")[0] for word in words}
    asks_for_help = flags & {"-h", "--help", "--help_all", "--help-all"}
    return bool(flags & _CALLS) or bool(
        asks_for_help and "--judge" in flags and "--verdicts" not in flags
    )


def _parse_flags(words: Sequence[str], prog: str) -> argparse.Namespace:
    """Parse the flags of an audit of recorded judgments.

    Raises:
        SettingsError: a flag belongs to an audit that calls the judge.
    """
    parser = _make_parser(prog)
    flags, unknown = parser.parse_known_args(words)
    if unknown:
        of_calls = make_parser(prog)._option_string_actions
        for word in (argument.partition("=")[0] for argument in unknown):
            if word in of_calls:
                raise SettingsError(
                    f"{prog}: {word} needs an audit that calls the judge: add --out FOLDER"
                )
        listed = " ".join(unknown)
        parser.error(f"unrecognized arguments: {listed}")
    return flags


def _run(flags: argparse.Namespace) -> int:
    require("audit")
    from judgegym_trials.audit.audit import audit  # imported here, like the modules below
    from judgegym_trials.audit.page import html, show
    from judgegym_trials.audit.reading import check_noise
    from judgegym_trials.audit.settings import load_settings

    settings = load_settings(flags.settings)
    noise = check_noise(flags.label_noise)
    result = audit(replace(_read_judgments(flags), label_noise=noise), settings)
    if flags.card is not None:
        _write_evidence(flags, result)
    write_outputs(flags, result.to_json(), lambda: html(result), lambda: show(result))
    if result.fails:
        return FAULT
    return 0


def _write_evidence(flags: argparse.Namespace, result: Audit) -> None:
    """Add the audit to the card of --card.

    Raises:
        SettingsError: the audited rows are no run of the card's judge.
    """
    from judgegym_trials.audit.evidence import write_audit  # imported here, like the next one
    from judgegym_trials.audit.runs import find_named_run

    run = None if flags.verdicts else find_named_run(flags.data)
    if run is None:
        raise SettingsError("--card: expected a run of the card's judge, found other data")
    write_audit(flags.card, run, result)


def _read_judgments(flags: argparse.Namespace) -> Judgments:
    """Read the judgments to audit.

    Raises:
        SettingsError: a flag has no meaning for this source.
    """
    from judgegym_trials.audit.reading import COLUMNS, read_judgments
    from judgegym_trials.audit.runs import find_named_run, read_run_judgments

    columns = {
        name: value for name in COLUMNS if (value := getattr(flags, f"{name}_column")) is not None
    }
    run = None if flags.verdicts or columns else find_named_run(flags.data)
    if run is not None:
        if flags.prompt or flags.paraphrases:
            raise SettingsError(
                "--prompt and --paraphrases choose from --verdicts; a run has one prompt"
            )
        return read_run_judgments(run, flags.judge, flags.labels)
    if not flags.verdicts and (flags.prompt or flags.paraphrases):
        raise SettingsError(
            "--prompt and --paraphrases choose from a file of --verdicts; add --verdicts FILE"
        )
    paraphrases = tuple(filter(None, flags.paraphrases.split(",")))
    return read_judgments(
        flags.data,
        columns=columns,
        verdicts=flags.verdicts,
        judge=flags.judge,
        prompt=flags.prompt,
        paraphrases=paraphrases,
        labels=flags.labels,
    )
