"""CPU that a command costs before it does anything: `evaluate --help`, and `evaluate --offline` of a single row.

Measured is the user and system time of the command's process and of those that it waited for (the stand-ins among
them), as `wait4` reports it, so that a busy machine matters little. With another checkout to compare with, the two take
turns, run by run; each command runs once ahead of it all, so that bytecode and the disk's cache are there. Prints the
least and the median of each, and the ratio of this checkout's to the other's.

    python benchmarks/startup.py [--checkout PATH] [--python PATH] [--against PATH] [--against_python PATH] [--runs 5]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve()
ENTRY = "eval_environments/arena_hard_environment.py"
COMMANDS: dict[str, Sequence[str]] = {
    "evaluate --help": ("evaluate", "--help"),
    "evaluate --offline --limit 1": ("evaluate", "--offline", "--limit", "1"),
}


@dataclass
class Tree:
    """A checkout, the interpreter that runs it, and the CPU seconds of its runs by command."""

    name: str
    checkout: Path
    python: str
    entry: str
    seconds: dict[str, list[float]] = field(default_factory=lambda: {command: [] for command in COMMANDS})

    def run(self, command: str) -> float:
        """Run a command; the CPU seconds that it took."""
        words = [self.python, str(self.checkout / self.entry), *COMMANDS[command]]
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as output:
            process = subprocess.Popen(words, cwd=folder, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                output.seek(0)
                raise SystemExit(f"{' '.join(words)}: exit code {process.returncode}\n{output.read().decode()}")
        return usage.ru_utime + usage.ru_stime


def tree(name: str, checkout: Path, python: str | None, entry: str) -> Tree:
    """A checkout with its own interpreter, unless another one is named."""
    own = checkout.resolve() / ".venv" / "bin" / "python"
    return Tree(name, checkout.resolve(), python or (str(own) if own.exists() else sys.executable), entry)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkout", type=Path, default=HERE.parent.parent)
    parser.add_argument("--python", help="interpreter (default: the checkout's .venv/bin/python, or this one)")
    parser.add_argument("--entry", default=ENTRY, help="the environment's file in the checkout (default: %(default)s)")
    parser.add_argument("--against", type=Path, help="another checkout")
    parser.add_argument("--against_python", help="its interpreter (default: its .venv/bin/python, or this one)")
    parser.add_argument("--against_entry", default=ENTRY, help="its environment's file (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    trees = [tree("this", arguments.checkout, arguments.python, arguments.entry)]
    if arguments.against is not None:
        trees.append(tree("other", arguments.against, arguments.against_python, arguments.against_entry))
    for number in range(arguments.runs + 1):
        for command in COMMANDS:
            for each in trees:
                seconds = each.run(command)
                if number:  # the first round warms up
                    each.seconds[command].append(seconds)
    for command in COMMANDS:
        print(command)
        for each in trees:
            least, middle = min(each.seconds[command]), statistics.median(each.seconds[command])
            print(f"  {each.name:<5}  min {least:6.3f} s  median {middle:6.3f} s of CPU  ({each.checkout})")
        if len(trees) > 1:
            one, other = (each.seconds[command] for each in trees)
            ratios = f"{min(one) / min(other):.2f}  median {statistics.median(one) / statistics.median(other):.2f}"
            print(f"  ratio  min {ratios}")


if __name__ == "__main__":
    main()
