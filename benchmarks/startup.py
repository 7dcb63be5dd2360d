"""CPU that a command costs before it does anything: help, `judgegym list`, and `evaluate --offline` of a single row.

Measured is the user and system time of the command's process and of those that it waited for (the
stand-in among them), as `wait4` reports it, so that a busy machine matters little. The other figure
is the same of another checkout (`--against`), or else of a Python that only imports the core's
libraries (aiohttp, pydantic-settings, orjson, PyYAML). The two take turns, run by run; each command
runs once ahead of it all, so that bytecode and the disk's cache are there.

    python -m benchmarks.startup [--checkout PATH] [--python PATH] [--against PATH]
        [--against_python PATH] [--runs 5] [--results FILE]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measured import Measured, report, results_option

ROOT = Path(__file__).resolve().parents[1]
ENTRY = "eval_environments/arena_hard_environment.py"
OF_SCRIPT: dict[str, Sequence[str]] = {
    "evaluate --help": ("evaluate", "--help"),
    "evaluate --offline --limit 1": ("evaluate", "--offline", "--limit", "1"),
}
OF_JUDGEGYM: dict[str, Sequence[str]] = {
    "judgegym --help": ("--help",),
    "judgegym list": ("list",),
    "judgegym evaluate arena_hard --help": ("evaluate", "arena_hard", "--help"),
}
COMMANDS = {**OF_SCRIPT, **OF_JUDGEGYM}


LIBRARIES = ("-c", "import aiohttp, orjson, pydantic_settings, yaml")


def cpu_seconds(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> float:
    """User and system CPU of a command and of those that it waited for."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            said = output.read().decode(errors="replace")
            raise SystemExit(f"{said}\n{' '.join(command)}: exit code {process.returncode}")
    return usage.ru_utime + usage.ru_stime


@dataclass(frozen=True)
class Tree:
    """A checkout, the interpreter that runs it, and the environment; without one, the bare libraries."""

    name: str
    checkout: Path
    python: str
    entry: str | None

    def run(self, command: str) -> float:
        """Run a command; the CPU seconds that it took."""
        if self.entry is None:
            words = LIBRARIES
        elif command in OF_JUDGEGYM:
            words = ("-m", "judgegym", *OF_JUDGEGYM[command])
        else:
            words = (str(self.checkout / self.entry), *OF_SCRIPT[command])
        with tempfile.TemporaryDirectory() as folder:
            return cpu_seconds(
                (self.python, *words),
                Path(folder),
                {**os.environ, "PYTHONPATH": str(self.checkout)},
            )


def tree(name: str, checkout: Path, python: str | None, entry: str | None) -> Tree:
    """A checkout with its own interpreter, unless another one is named."""
    own = checkout.resolve() / ".venv" / "bin" / "python"
    return Tree(
        name, checkout.resolve(), python or (str(own) if own.exists() else sys.executable), entry
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkout", type=Path, default=ROOT)
    parser.add_argument(
        "--python", help="interpreter (default: the checkout's .venv/bin/python, or this one)"
    )
    parser.add_argument(
        "--entry",
        default=ENTRY,
        help="the environment's file in the checkout (default: %(default)s)",
    )
    parser.add_argument("--against", type=Path, help="another checkout")
    parser.add_argument(
        "--against_python", help="its interpreter (default: its .venv/bin/python, or this one)"
    )
    parser.add_argument(
        "--against_entry", default=ENTRY, help="its environment's file (default: %(default)s)"
    )
    parser.add_argument("--runs", type=int, default=5)
    results_option(parser)
    options = parser.parse_args()
    this = tree("this", options.checkout, options.python, options.entry)
    if options.against is None:
        other = tree("imports of the core's libraries", options.checkout, options.python, None)
    else:
        other = tree(
            str(options.against), options.against, options.against_python, options.against_entry
        )
    lines = []
    both_have_it = all(
        (each.checkout / "judgegym" / "__main__.py").exists() for each in (this, other)
    )
    for command in COMMANDS if both_have_it else OF_SCRIPT:
        seconds: dict[Tree, list[float]] = {this: [], other: []}
        for number in range(options.runs + 1):
            for each, found in seconds.items():
                took = each.run(command)
                if number:  # the first round warms up
                    found.append(took)
        ours, others = min(seconds[this]), min(seconds[other])
        lines.append(Measured("others", command, "s of CPU", ours, other.name, others))
    report(lines, options.results)


if __name__ == "__main__":
    main()
