"""`RESULTS.md`: a row for each measured ratio, which says by itself where, when and under which load it was measured.

The rows of a script are replaced when it has run again; all others stay word for word.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measured import Measured
from benchmarks.runner.load import MOST_LOAD_BEFORE, MOST_OTHERS, MOST_STOLEN
from benchmarks.runner.provenance import Provenance
from benchmarks.runner.script import Outcome

_COLUMNS = (
    "part", "work", "unit", "ours", "peer or bound", "ratio", "target", "met", "load", "cores", "machine", "date",
    "commit", "script",
)  # fmt: skip
_HEAD = f"""# Measured ratios

Written by `make bench` (`python -m benchmarks`). Ours and the other figure come from one run of one script. The load is
the load average before the script, and the share of all cores that other processes used during it. A row is marked
UNDER LOAD, and to be measured again, if others had more than {MOST_OTHERS:.0%} of the cores or left a load of more than
{MOST_LOAD_BEFORE:g}, or if the hypervisor took more than {MOST_STOLEN:.0%}.
"""
_MET = {True: "yes", False: "**no**", None: ""}


@dataclass(frozen=True, slots=True)
class Table:
    """The rows, as lines of Markdown; the last cell is the script's name."""

    rows: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: Path) -> Table:
        """The table in a file; an empty one if there is no file."""
        lines = path.read_text().splitlines() if path.exists() else []
        rows = [line for line in lines if line.startswith("|")]
        return cls(tuple(rows[2:]))

    def of(self, scripts: Collection[str]) -> Table:
        """The rows of these scripts; others are gone from the checkout."""
        return Table(tuple(row for row in self.rows if _script(row) in scripts))

    def write(self, path: Path) -> None:
        """Write the file."""
        lines = [_line(_COLUMNS), _line(["---"] * len(_COLUMNS)), *self.rows]
        path.write_text("\n".join([_HEAD, *lines, ""]))

    def with_rows_of(self, outcome: Outcome, provenance: Provenance) -> Table:
        """The table with the rows of this outcome in place of the script's former ones."""
        new = [_row(line, outcome, provenance) for line in outcome.measured]
        if outcome.problem:
            new.append(
                _cells(["", f"**{outcome.problem}**", "", "", "", "", "", ""], outcome, provenance)
            )
        kept = [row for row in self.rows if _script(row) != outcome.script]
        return Table(tuple(sorted([*kept, *new], key=_script)))


def _row(line: Measured, outcome: Outcome, provenance: Provenance) -> str:
    figures = [
        line.unit,
        f"{line.ours:.4g}",
        f"{line.other_name}: {line.other:.4g}",
        f"{line.ratio:.3g}",
    ]
    return _cells(
        [line.part, line.work, *figures, line.target, _MET[line.is_met]], outcome, provenance
    )


def _cells(cells: list[str], outcome: Outcome, provenance: Provenance) -> str:
    load = "" if outcome.load is None else str(outcome.load)
    where = [
        load,
        str(provenance.cores),
        provenance.machine,
        provenance.date,
        provenance.commit,
        outcome.script,
    ]
    return _line([*cells, *where])


def _line(cells: list[str] | tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _script(row: str) -> str:
    return row.rstrip(" |").rpartition("|")[2].strip()
