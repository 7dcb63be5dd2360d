"""`judgegym repair RUN`: drop what cannot be read of a damaged run, and keep the rest, so that it can be resumed."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from judgegym.engine import terminal
from judgegym.judges.config.exit_code import exit_code
from judgegym.judges.config.extras import require
from judgegym.judges.config.one_line_parser import OneLineParser
from judgegym.llm.errors import SettingsError, UserError

if TYPE_CHECKING:  # --help comes at once
    from judgegym.engine.runs.repair import CheckLine, Repair

_ABOUT = (
    "Drop what cannot be read of a damaged run, and keep the rest, so that --resume goes on. The originals stay "
    "beside, with the ending .before_repair; what is dropped is listed, with what it costs."
)
_BEGAN = re.compile(r"INFO (?:begun|resumed): (evaluate|process|serve|score)(?: (\S+))?, judgegym")
_SHOWN = 10


def main(argv: Sequence[str], *, prog: str) -> int:
    """Run the command.

    Args:
        argv: its words.
        prog: what the user typed to start it.

    Returns:
        The exit code: 0, or 2 if there is no such run, it is in use, or its settings cannot be read.
    """
    options = parser_of(prog).parse_args(argv)
    return exit_code(lambda: _repair(options.run, prog.rpartition(" ")[0] or "judgegym"))


def parser_of(prog: str) -> argparse.ArgumentParser:
    """Its arguments."""
    parser = OneLineParser(prog, _ABOUT)
    parser.add_argument(
        "run", type=Path, metavar="RUN", help="a run directory, a file of score, or a file of groups of process"
    )
    return parser


def _repair(path: Path, program: str) -> int:
    require("environments")
    from judgegym.engine.runs.repair import repair

    try:
        done = repair(path, _check_of)
    except OSError as error:
        raise SettingsError(f"{error.filename or path} cannot be repaired: {error.strerror or error}") from error
    if not done.dropped:
        terminal.say(f"{done.run}: nothing to repair, every line can be read")
        return 0
    for file, dropped in done.dropped.items():
        terminal.say(f"{file}: {dropped.kept:,} lines are kept; dropped:")
        for place in dropped.places[:_SHOWN]:
            terminal.say(f"  {place}")
        if len(dropped.places) > _SHOWN:
            terminal.say(f"  … and {len(dropped.places) - _SHOWN:,} more")
    for cost in _costs(done):
        terminal.say(cost)
    terminal.say("The originals:\n" + "\n".join(f"  {kept}" for kept in done.kept))
    terminal.say(f"To go on:\n  {_resume_command(done, program)}")
    return 0


def _costs(done: Repair) -> list[str]:
    from judgegym.engine.runs.recorded_calls import PACKED_CALLS

    costs = []
    if done.rows:
        kept = "answers that calls.jsonl still holds are not asked for again"
        costs.append(f"Rows that have lost their lines: at least {done.rows:,}. They are judged again; {kept}.")
    if done.calls:
        costs.append(f"Answers that are lost: about {done.calls:,}. Those of unfinished rows are asked and paid again.")
    if any(file.name == PACKED_CALLS for file in done.dropped):
        costs.append("How many answers the damaged parts of calls.jsonl.gz held is not known; they are lost, too.")
    if done.lost_texts:
        costs.append(f"Calls that no longer say what was asked (their answers are there): {done.lost_texts:,}.")
    return costs


def _began(run: Path) -> tuple[str, str]:
    """The verb and the environment of a run, by its log; empty if that does not say."""
    from judgegym.engine.runs.log import LOG

    found = _BEGAN.findall((run / LOG).read_text("utf-8", "replace")) if (run / LOG).is_file() else []
    return found[-1] if found else ("", "")


def _check_of(run: Path) -> CheckLine:
    """The check of a line of samples: by its environment, or by the fields of all if that is not a built-in one."""
    from judgegym.engine.records import SampleReader

    verb, environment = _began(run)
    if verb == "score":
        from judgegym.datasets.score.saved import ScoreDetail

        return SampleReader(ScoreDetail).read
    if verb == "evaluate":
        from judgegym.cli.environments import load_environment
        from judgegym.engine.runs.directory import CONFIG
        from judgegym.environments.command_line.arguments import load_settings

        try:
            env_type = load_environment(environment)
            settings = load_settings(env_type, [f"--config={run / CONFIG}"], verb="evaluate").settings
            return SampleReader(env_type.kind_for(settings).detail_type).read
        except UserError:  # one of the user's own, which may be anywhere: what all lines share is checked
            pass
    return SampleReader(object).read


def _resume_command(done: Repair, program: str) -> str:
    """The command that resumes the run, with the settings in its `config.yaml`."""
    verb, environment = _began(done.run)
    if not verb:
        return "the command that began the run, with --resume"
    place = [f"--env.data_dir_to_save_evals={done.run}"] if verb == "evaluate" else []
    if verb in ("process", "serve"):
        flag = "data_path_to_save_groups" if done.groups is not None else "data_dir_to_save_evals"
        place = [f"--env.{flag}={done.groups or done.run}"]
    words = [verb, *([environment] if environment else []), f"--config={done.run / 'config.yaml'}", *place, "--resume"]
    return f"{program} {shlex.join(words)}"
