"""Run every script that measures a ratio, and write `benchmarks/RESULTS.md`.

    python -m benchmarks [--only NAME …] [--limit 400] [--total 880]

A script is a module of `benchmarks` that has the option `--results` (`measured.results_option`);
there is no other list. `peers` installs packages, and runs only where it is named. They run one
after the other, each in a process of its own, with a time limit. The table is written after each,
so Ctrl-C keeps what is measured; rows of scripts that did not run stay. A script that fails or is
too late is a row that says so, and the exit code is 1. A target that is not met is a word in the
table, not an error.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from benchmarks.runner.load import LoadMeter
from benchmarks.runner.provenance import Provenance
from benchmarks.runner.script import Outcome, names_of_scripts, run_script
from benchmarks.runner.table import Table

HERE = Path(__file__).resolve().parent
INSTALLING = ("peers",)
"""Scripts that install packages, which run only where `--only` names them."""
RESULTS = HERE / "RESULTS.md"


def main(argv: list[str] | None = None) -> int:
    names = names_of_scripts(HERE)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    usual = [name for name in names if name not in INSTALLING]
    parser.add_argument(
        "--only", nargs="+", choices=names, default=usual, metavar="NAME", help=", ".join(names)
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=400,
        metavar="SECONDS",
        help="of a script (default: %(default)s)",
    )
    parser.add_argument(
        "--total", type=float, default=880, metavar="SECONDS", help="of all (default: %(default)s)"
    )
    options = parser.parse_args(argv)
    until, meter, failed = time.monotonic() + options.total, LoadMeter(), []
    table = Table.read(RESULTS).of(names)
    for name in options.only:
        limit = min(options.limit, until - time.monotonic())
        print(f"\n{name}", flush=True)
        try:
            outcome = measured(name, limit, meter)
        except KeyboardInterrupt:
            print(f"\nstopped; what is measured is in {RESULTS}")
            return 130
        if outcome.load is not None and outcome.load.is_disturbing:
            print(f"{name}: measured under load ({outcome.load})")
        if outcome.problem:
            failed.append(name)
            print(f"{name}: {outcome.problem}", file=sys.stderr)
        table = table.with_rows_of(outcome, Provenance.now())
        table.write(RESULTS)
    print(
        f"\nThe table is in {RESULTS}"
        + (f"; these scripts failed: {', '.join(failed)}" if failed else "")
    )
    return 1 if failed else 0


def measured(name: str, limit: float, meter: LoadMeter) -> Outcome:
    """What a script has measured, and under which load."""
    if limit <= 0:
        return Outcome(name, problem="no time was left for it (--total)")
    with meter.watching() as watched:
        outcome = run_script(name, limit, HERE.parent)
        watched.own_cpu_s = outcome.cpu_s
    return outcome.under(watched.load)


if __name__ == "__main__":
    sys.exit(main())
