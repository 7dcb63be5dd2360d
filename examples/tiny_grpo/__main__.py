"""`python -m examples.tiny_grpo`: train a tiny policy with JudgeGym's environments.

It prints whether the policy learned. Exit codes: 0 all seeds learned (`--hack`: alarms came as
expected); 1 one did not, or a process failed; 2 wrong input; 130 Ctrl-C, 143 SIGTERM.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from pathlib import Path

from examples.tiny_grpo.children import ChildFailed
from examples.tiny_grpo.compare import compare
from examples.tiny_grpo.comparisons import COMPARISONS, Comparison
from examples.tiny_grpo.curve import WINDOW, Curve, write_curves
from examples.tiny_grpo.judge import add_fault_flags, list_fault_flags
from examples.tiny_grpo.picture import draw_curves
from examples.tiny_grpo.progress import show_verdict
from examples.tiny_grpo.run import Plan, train_seeds
from examples.tiny_grpo.tasks import HACKED, ON_REQUEST, SCRIPTED, TASKS, Task
from examples.tiny_grpo.training.settings import TrainingSettings
from judgegym.engine.command import StopSignal, run_until_stopped
from judgegym.engine.terminal.output import say, warn
from judgegym.judges.config.exit_code import exit_code
from judgegym.judges.config.one_line_parser import OneLineParser, make_whole_number_type

PROGRAM = "python -m examples.tiny_grpo"
_NEEDED = ("torch", "example_trainer", "matplotlib")
_JUDGE = "judge_"  # what its flags begin with
_TITLE = "A policy learns from judged groups"


@dataclass(frozen=True)
class Options:
    """The options of the program."""

    tasks: tuple[Task, ...]
    comparisons: tuple[Comparison, ...]
    seeds: tuple[int, ...]
    steps: int | None
    out: Path
    faults: tuple[str, ...] = ()

    def plan(self, task: Task, chosen: str) -> Plan:
        """Return the plan of a task; `chosen` is the flag that selects it."""
        faults = [f"--{_JUDGE}{word.removeprefix('--')}" for word in self.faults]
        steps = self.steps or task.steps or TrainingSettings.steps
        command = shlex.join(
            [*PROGRAM.split(), chosen, f"--seeds={len(self.seeds)}", f"--steps={steps}", *faults]
        )
        return Plan(task, TrainingSettings(steps=steps), self.seeds, self.out / task.name, command)


def make_parser() -> OneLineParser:
    """Return the parser of the flags."""
    flag_parser = OneLineParser(
        PROGRAM, "Train a tiny policy with GRPO on groups that this project serves."
    )
    add = flag_parser.add_argument
    judge_help = f"what rewards the policy; all: {', '.join(TASKS)} (default: %(default)s)"
    add("--judge", choices=[*TASKS, *ON_REQUEST, "all"], default="all", help=judge_help)
    compare_help = (
        "train with one of the project's rules and without it, or with each of them; --judge is "
        "then the scripted one"
    )
    add(
        "--hack",
        action="store_const",
        const="hack",
        dest="compare",
        help="a judge that is hacked, and a gold judge",
    )
    at_least_one = make_whole_number_type(1)
    add("--compare", choices=[*COMPARISONS, "all"], help=compare_help)
    add(
        "--seeds",
        type=at_least_one,
        default=3,
        metavar="N",
        help="train from seeds 0 to N-1 (default: %(default)s)",
    )
    add(
        "--steps",
        type=at_least_one,
        metavar="N",
        help=f"steps of the trainer (default: {TrainingSettings.steps}; with --hack "
        f"{HACKED.steps})",
    )
    add(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="an empty or new folder (default: runs/tiny_grpo/TIME)",
    )
    add_fault_flags(flag_parser, _JUDGE)
    return flag_parser


def read_options(argv: Sequence[str]) -> Options:
    """Read the command line; wrong input ends the program with exit code 2."""
    flag_parser = make_parser()
    flags = flag_parser.parse_args(argv)
    if flags.steps is not None and flags.steps < 2 * WINDOW:
        flag_parser.error(
            f"--steps: {flags.steps} are too few: the first {WINDOW} and the last {WINDOW} are "
            "compared"
        )
    tasks, comparisons, faults = _choose(flag_parser, flags)
    missing = [module for module in _NEEDED if find_spec(module) is None]
    if missing:
        flag_parser.error(
            f"{missing[0]} is not installed: pip install -e '.[examples]', or `make learn`, which "
            "does it"
        )
    out = (flags.out or Path("runs/tiny_grpo") / time.strftime("%Y-%m-%d--%H-%M-%S")).resolve()
    try:
        out = _make_folder(out, is_given=flags.out is not None)
        if any(out.iterdir()):
            flag_parser.error(f"--out: {out} is not empty; expected a new folder")
    except OSError as error:
        flag_parser.error(f"--out: {out} cannot be used: {error.strerror}")
    return Options(tasks, comparisons, tuple(range(flags.seeds)), flags.steps, out, faults)


def _make_folder(folder: Path, *, is_given: bool) -> Path:
    """Create the folder; if a default name is taken, create another with a number.

    Raises:
        OSError: the folder cannot be created.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    names = (folder.name if number == 1 else f"{folder.name}-{number}" for number in count(1))
    for name in names:
        candidate = folder.with_name(name)
        try:
            candidate.mkdir()
        except FileExistsError:
            if not is_given:
                continue
            candidate.mkdir(exist_ok=True)
        return candidate
    raise AssertionError("names do not end")


def _choose(
    flag_parser: OneLineParser, flags: Namespace
) -> tuple[tuple[Task, ...], tuple[Comparison, ...], tuple[str, ...]]:
    """Return the tasks, or the comparisons in their place, and the judge's fault flags."""
    try:
        faults = list_fault_flags(flags, _JUDGE)
    except ValueError as error:
        flag_parser.error(f"--{_JUDGE}{error}")
    if flags.compare is not None:
        compared = COMPARISONS.values() if flags.compare == "all" else (COMPARISONS[flags.compare],)
        return (), tuple(comparison.add_judge_flags(faults) for comparison in compared), faults
    tasks = tuple(TASKS.values())
    if flags.judge != "all":
        tasks = ({**TASKS, **ON_REQUEST}[flags.judge],)
    if faults and tasks != (SCRIPTED,):
        flag_parser.error(
            f"--{_JUDGE}{faults[0][2:]}: the scripted judge alone has faults; expected "
            "--judge=scripted too"
        )
    return tuple(task.add_judge_flags(faults) for task in tasks), (), faults


async def train(options: Options) -> int:
    """Train for each task, write and show the curves, and return the exit code."""
    if options.comparisons:
        return await compare(options.comparisons, options.plan, options.out)
    began = time.monotonic()
    curves: list[Curve] = []
    names = ", ".join(task.name for task in options.tasks)
    seed_count = len(options.seeds)
    say(f"training with {names}, {seed_count} seeds each: minutes")
    for task in options.tasks:
        curves.append(await train_seeds(options.plan(task, f"--judge={task.name}")))
        write_curves(options.out / "curve.json", curves)
    await asyncio.to_thread(draw_curves, options.out / "curve.png", curves, _TITLE)
    learned = [show_verdict(curve) for curve in curves]
    answer = "yes" if all(learned) else "no"
    seconds = time.monotonic() - began
    say(f"learned: {answer}, in {seconds:.0f} s")
    say(f"{options.out / 'curve.png'}\n{options.out / 'curve.json'}")
    if all(learned):
        return 0
    return 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program, and return the exit code."""
    options = read_options(sys.argv[1:] if argv is None else argv)
    return exit_code(lambda: _run(options))


def _run(options: Options) -> int:
    try:
        return asyncio.run(run_until_stopped(train(options)))
    except ChildFailed as error:
        warn(str(error))
        return 1
    except StopSignal as stop:
        warn(f"stopped; the logs are in {shlex.quote(str(options.out))}")
        return 128 + stop.number


if __name__ == "__main__":
    sys.exit(main())
