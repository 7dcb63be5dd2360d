"""The judged rows as the output has them: what is added to each row, from the lines of the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import orjson

from judgegym.datasets.files.columns import SAMPLED, AddedColumns, judged_values
from judgegym.datasets.rows.units import ScoreTasks
from judgegym.datasets.score.saved import SavedResponses
from judgegym.llm.wire import JSON


@dataclass(frozen=True, slots=True)
class AddedOfRows:
    """What is added to each row, in the order of the rows; in lists if the rows have several responses.

    The lines are read anew each time that this is gone through. A line that is no longer there is a
    `RunDirectoryError`.
    """

    units: ScoreTasks
    saved: SavedResponses
    columns: AddedColumns

    def __iter__(self) -> Iterator[Mapping[str, JSON]]:
        """Read the lines of one row after the other."""
        for row in self.units.numbers:
            bad = self.units.bad.get(row)
            if bad is not None:
                yield self.columns.of_bad_row(bad.reason)
                continue
            found = [_columns(self.saved.line(place)) for place in self.units.places.of_row(row)]
            yield self.columns.of_row(found)


def _columns(line: bytes) -> Mapping[str, JSON]:
    sample = orjson.loads(line)
    detail = sample.get("detail") or {"explanation": sample.get("error")}  # the policy failed: no judge said anything
    judged = judged_values(
        sample["score"], sample["status"], sample.get("label"), detail["explanation"], detail.get("components", {})
    )
    sampled = (sample.get("model_answer"), sample.get("thinking") or None, sample.get("finish_reason"))
    return {**dict(zip(SAMPLED, sampled, strict=True)), **judged}
