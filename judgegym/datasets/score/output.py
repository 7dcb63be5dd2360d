"""The judged rows as the output has them: what is added to each row, from the lines of the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import orjson

from judgegym.datasets.files.columns import DETAIL, EXPLANATION, JUDGED, LABEL, SCORE, STATUS
from judgegym.datasets.rows.units import Units
from judgegym.datasets.score.saved import SavedResponses
from judges.llm.wire import JSON


def added_columns(units: Units, saved: SavedResponses) -> Iterator[Mapping[str, JSON]]:
    """What is added to each row, in the order of the rows; in lists if the rows have several responses.

    Raises:
        RunDirectoryError: a line is no longer there.
    """
    for row in units.numbers:
        found = [_columns(saved.line(place)) for place in units.places.of_row(row)]
        if units.several:
            yield {name: [each[name] for each in found] for name in JUDGED}
        else:
            yield found[0]


def _columns(line: bytes) -> Mapping[str, JSON]:
    sample = orjson.loads(line)
    detail = sample["detail"]
    components = None if sample["score"] is None else orjson.dumps(detail["components"], option=orjson.OPT_SORT_KEYS)
    return {
        SCORE: sample["score"],
        STATUS: sample["status"],
        LABEL: sample["label"],
        EXPLANATION: detail["explanation"],
        DETAIL: None if components is None else components.decode(),
    }
