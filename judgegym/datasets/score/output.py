"""The judged rows as the output has them: what is added to each row, from the lines of the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import orjson

from judgegym.datasets.files.columns import (
    DETAIL,
    EXPLANATION,
    FINISH_REASON,
    LABEL,
    RESPONSE,
    SCORE,
    STATUS,
    THINKING,
    AddedColumns,
)
from judgegym.datasets.rows.units import Units
from judgegym.datasets.score.saved import SavedResponses
from judges.llm.wire import JSON


@dataclass(frozen=True, slots=True)
class AddedOfRows:
    """What is added to each row, in the order of the rows; in lists if the rows have several responses.

    The lines are read anew each time that this is gone through. A line that is no longer there is a
    `RunDirectoryError`.
    """

    units: Units
    saved: SavedResponses
    columns: AddedColumns

    def __iter__(self) -> Iterator[Mapping[str, JSON]]:
        """Read the lines of one row after the other."""
        for row in self.units.numbers:
            found = [_columns(self.saved.line(place)) for place in self.units.places.of_row(row)]
            if self.units.several:
                yield {name: [each[name] for each in found] for name in self.columns.names}
            else:
                yield {name: found[0][name] for name in self.columns.names}


def _columns(line: bytes) -> Mapping[str, JSON]:
    sample = orjson.loads(line)
    detail = sample.get("detail") or {"explanation": sample.get("error")}  # the policy failed: no judge said anything
    components = None if sample["score"] is None else orjson.dumps(detail["components"], option=orjson.OPT_SORT_KEYS)
    return {
        RESPONSE: sample.get("model_answer"),
        THINKING: sample.get("thinking") or None,
        FINISH_REASON: sample.get("finish_reason"),
        SCORE: sample["score"],
        STATUS: sample["status"],
        LABEL: sample.get("label"),
        EXPLANATION: detail["explanation"],
        DETAIL: None if components is None else components.decode(),
    }
