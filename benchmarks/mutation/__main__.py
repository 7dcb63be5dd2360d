"""The command line: draw the mutants, run their tests, print what survived."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from . import __doc__ as description
from .operators import Mutant
from .runner import Outcome, Runner
from .sampling import draw
from .selection import TestSelection


def main(words: Sequence[str] | None = None) -> int:
    """Run the command; 2 if it cannot be run, 0 if it was, whatever survived."""
    options = parse(words)
    checkout = options.checkout.resolve()
    missing = [path for path in options.tests if not (checkout / path.split("::")[0]).exists()]
    if missing:
        print(f"--tests: not in {checkout}: {', '.join(missing)}", file=sys.stderr)
        return 2
    mutants = draw(
        checkout, seed=options.seed, count=options.count, only=options.only, exclude=options.exclude
    )
    selection = TestSelection(checkout, options.tests, options.importers)
    if options.list:
        for mutant in mutants:
            print(f"{mutant.file}:{mutant.line}  {mutant.kind}\n{diff(mutant)}")
            print(f"      {' '.join(selection.files_for(mutant.file)) or 'no test'}")
        return 0
    own = checkout / ".venv" / "bin" / "python"
    python = options.python or (str(own) if own.exists() else sys.executable)
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        runner = Runner(checkout, python, selection, options.timeout, Path(scratch), options.jobs)
        if options.check and (failed := runner.check(mutants)) is not None:
            print(
                f"{failed}\nthe tests fail on the unchanged tree: they can say nothing about "
                "mutants",
                file=sys.stderr,
            )
            return 2
        outcomes = run(runner, mutants, options.jobs)
    summarise(outcomes, options.seed, options.out)
    return 0


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.mutation",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    here = Path(__file__).resolve().parents[2]
    parser.add_argument(
        "--checkout", type=Path, default=here, help="tree to change copies of (default: this one)"
    )
    parser.add_argument(
        "--python", help="interpreter (default: the checkout's .venv/bin/python, or this one)"
    )
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument(
        "--count", type=int, default=50, help="mutants to draw (default: %(default)s)"
    )
    parser.add_argument(
        "--jobs", type=int, default=1, help="mutants at once (default: %(default)s)"
    )
    parser.add_argument(
        "--tests", nargs="*", default=[], help="run where the tests of the module itself all pass"
    )
    parser.add_argument(
        "--timeout", type=float, default=300.0, help="seconds for a mutant (default: %(default)s)"
    )
    parser.add_argument(
        "--importers",
        type=int,
        default=8,
        help="test files beside its mirror (default: %(default)s)",
    )
    parser.add_argument(
        "--only", nargs="*", default=[], help="files, folders or patterns to change"
    )
    parser.add_argument(
        "--exclude", nargs="*", default=[], help="files, folders or patterns to leave alone"
    )
    parser.add_argument(
        "--check", action="store_true", help="first run the chosen tests on the unchanged tree"
    )
    parser.add_argument(
        "--list", action="store_true", help="show the mutants and their tests, and run nothing"
    )
    parser.add_argument("--out", type=Path, help="write all outcomes there, as JSON")
    return parser.parse_args(words)


def run(runner: Runner, mutants: Sequence[Mutant], jobs: int) -> list[Outcome]:
    """Run all mutants, and print each outcome as soon as those before it are known."""
    outcomes: list[Outcome] = []
    with ThreadPoolExecutor(jobs) as pool:
        for outcome in pool.map(runner.run, mutants):
            mutant = outcome.mutant
            print(
                f"{outcome.status:<8} {outcome.seconds:6.1f} s  {mutant.file}:{mutant.line}  "
                f"{mutant.kind}",
                flush=True,
            )
            if outcome.is_alive:
                print(diff(mutant), flush=True)
            outcomes.append(outcome)
    return outcomes


def summarise(outcomes: Sequence[Outcome], seed: int, out: Path | None) -> None:
    """Print how many were noticed and which were not; write all outcomes to a file if one is named."""
    counts = Counter(outcome.status for outcome in outcomes)
    alive = [outcome for outcome in outcomes if outcome.is_alive]
    print(f"\n{len(outcomes) - len(alive)} of {len(outcomes)} mutants were noticed: {dict(counts)}")
    for outcome in alive:
        print(f"  {outcome.mutant.file}:{outcome.mutant.line}  {outcome.mutant.kind}")
    if out is not None:
        report = {
            "seed": seed,
            "counts": dict(counts),
            "mutants": [asdict(outcome) for outcome in outcomes],
        }
        out.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")


def diff(mutant: Mutant) -> str:
    """The change as a diff shows it; a long statement by its first lines."""

    def marked(text: str, sign: str) -> str:
        lines = text.splitlines()
        more = [f"      {sign} …"] if len(lines) > 3 else []
        return "\n".join([*(f"      {sign} {line}" for line in lines[:3]), *more])

    return f"{marked(mutant.before, '-')}\n{marked(mutant.after, '+')}"


if __name__ == "__main__":
    sys.exit(main())
