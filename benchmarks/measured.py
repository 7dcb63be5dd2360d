"""A measured ratio: one line of `benchmarks/RESULTS.md`.

Each script prints its lines with `report`; with `--results FILE` it also appends them to a file of
JSON lines, from which `python -m benchmarks` makes the table. Ours and the other figure come from
one run of one script.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson


@dataclass(frozen=True, slots=True)
class Measured:
    """One measured ratio.

    Attributes:
        part: the part of the system, such as `judge call`.
        work: what was done, with its size.
        unit: the unit of both figures, such as `ms of CPU a call`.
        ours: our figure.
        other_name: the peer or the bound.
        other: its figure.
        at_most: the largest ratio that meets the target; `None` if the target is a least one, or
            there is none.
        at_least: the smallest ratio that meets the target.
    """

    part: str
    work: str
    unit: str
    ours: float
    other_name: str
    other: float
    at_most: float | None = None
    at_least: float | None = None

    @property
    def ratio(self) -> float:
        """Ours to the other's."""
        return self.ours / self.other if self.other else float("inf")

    @property
    def target(self) -> str:
        """The target, as the table shows it."""
        if self.at_most is not None:
            return f"≤ {self.at_most:g}"
        return f"≥ {self.at_least:g}" if self.at_least is not None else ""

    @property
    def is_met(self) -> bool | None:
        """Whether the ratio meets the target; `None` without one."""
        if self.at_most is not None:
            return self.ratio <= self.at_most
        return self.ratio >= self.at_least if self.at_least is not None else None

    def __str__(self) -> str:
        """The line as a script prints it."""
        met = {True: ", met", False: ", NOT MET", None: ""}[self.is_met]
        target = f" (target {self.target}{met})" if self.target else ""
        return (
            f"{self.part}: {self.work}: {self.ours:.4g} {self.unit}; {self.other_name}: "
            f"{self.other:.4g}; "
            f"ratio {self.ratio:.3g}{target}"
        )


def results_option(parser: argparse.ArgumentParser) -> None:
    """Add `--results`."""
    parser.add_argument(
        "--results", type=Path, metavar="FILE", help="append the measured ratios as JSON lines"
    )


def report(measured: Iterable[Measured], results: Path | None) -> None:
    """Print the lines, and append them to the file, if there is one."""
    for line in measured:
        print(line)
        if results is not None:
            with results.open("ab") as file:
                file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))


def read(results: Path) -> Iterator[Measured]:
    """The lines that scripts have appended."""
    for line in results.read_bytes().splitlines():
        yield Measured(**orjson.loads(line))
