"""The gold labels in a column of a data set (`--gold_column`), beside what the judge says of a response."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain

from judgegym.data.rows import Row
from judgegym.engine.metrics import GoldLabel
from judgegym.judges.core.judgment import Scale
from judgegym.judges.core.tasks import ResponseJudgment
from judgegym.judges.parsing.labels import yes_or_no
from judgegym.llm import wire
from judgegym.llm.errors import DataError
from judgegym.llm.wire import JSON

_RAW = "raw"
_EXPECTED = (
    "a gold label: a number on the judge's scale, a text such as yes, no or the judge's label, or an object of "
    "aspects' names and 1 or 0; a list of them for several responses"
)


class GoldColumn:
    """Reads the gold labels of rows."""

    def __init__(
        self,
        rows: Sequence[Row],
        numbers: Sequence[int],
        column: str,
        count: Callable[[int], int],
        *,
        of_aspects: bool,
        scale: Scale | None = None,
    ) -> None:
        """Check the labels of all rows that are judged.

        Args:
            rows: the data set.
            numbers: the rows that are judged.
            column: the column.
            count: how many responses a row has.
            of_aspects: the judge gives verdicts on aspects.
            scale: of the judge; `None` if it has none, or no fixed one.

        Raises:
            DataError: a label cannot be read, or is not on the judge's scale, a row has not as many as responses, or no
                row has one.
        """
        self._rows, self._column, self._of_aspects, self._has_levels = rows, column, of_aspects, scale is not None
        has_labels = False
        for number in numbers:
            found = self._values(number)
            has_labels |= any(found)
            if any(found) and len(found) != count(number):
                raise rows[number].lacks(f"in {column} a gold label for each of {count(number)} responses")
            for gold in chain.from_iterable(each.values() for each in found):
                if scale is not None and not (isinstance(gold, float) and scale.low <= gold <= scale.high):
                    limits = f"{scale.low} to {scale.high} (--scale_min, --scale_max)"
                    raise rows[number].lacks(f"in {column} a number on the judge's scale, {limits}, not {gold!r}")
        if not has_labels:
            raise DataError(f"{rows[0].place}: no row has a gold label in a column {column} (--gold_column)")

    def labels(self, row: int, number: int, result: ResponseJudgment) -> tuple[GoldLabel, ...]:
        """The gold labels of a response of a row, beside its result.

        Args:
            row: the number of the row.
            number: which of its responses.
            result: what the judge says; one without a score has no verdict.
        """
        return tuple(self._compared(name, gold, result) for name, gold in self.values(row, number).items())

    def values(self, row: int, number: int) -> Mapping[str, str | float]:
        """The gold labels of a response of a row, by name; none where the row has none."""
        values = self._values(row)
        return values[number] if any(values) else {}

    def _values(self, number: int) -> list[Mapping[str, str | float]]:
        """The labels of each response of a row, by name."""
        row = self._rows[number]
        found = _from_text(row.values.get(self._column))
        return [dict(self._read(row, value)) for value in (found if isinstance(found, list) else [found])]

    def _read(self, row: Row, value: JSON) -> Iterator[tuple[str, str | float]]:
        value = _from_text(value)
        if isinstance(value, Mapping):
            for name, verdict in value.items():
                said = yes_or_no(verdict)
                if verdict is not None and said is None:
                    raise row.lacks(f"in {self._column} 1 or 0 for {name}, not {verdict!r}")
                if said is not None:
                    yield name, "yes" if said else "no"
        elif isinstance(value, bool) or (self._of_aspects and yes_or_no(value) is not None):
            yield "", "yes" if yes_or_no(value) else "no"
        elif isinstance(value, int | float) and math.isfinite(value):
            yield "", float(value)
        elif isinstance(value, str):
            if value.strip():
                yield "", value.strip()
        elif value is not None:
            raise row.lacks(f"in {self._column} {_EXPECTED}, not {value!r}")

    def _compared(self, name: str, gold: str | float, result: ResponseJudgment) -> GoldLabel:
        judged = result.components
        if isinstance(gold, float):
            judge = judged.get(_RAW, result.score) if result.score is not None else None
            if judge is None:
                return GoldLabel(name, gold, None, None)
            is_share = not self._has_levels and 0 < gold < 1 and 0 <= judge <= 1  # of points, which has no levels
            if _RAW in judged and not is_share:
                same = _level(judge) == _level(gold)
            else:
                same = math.isclose(judge, gold, abs_tol=1e-9)
            return GoldLabel(name, gold, judge, same)
        if result.score is None:
            return GoldLabel.of(gold, None, name)
        if self._of_aspects:
            verdict = judged.get(name) if name or len(judged) != 1 else next(iter(judged.values()))
            return GoldLabel.of(gold, None if verdict is None else "yes" if verdict else "no", name)
        label = result.label
        return GoldLabel.of(gold, gold if label is not None and label.casefold() == gold.casefold() else label, name)


def _from_text(value: JSON) -> JSON:
    """A value as JSON says it, for files that have texts alone: numbers, objects and lists."""
    if not isinstance(value, str):
        return value
    found = wire.as_json(value.encode("utf-8", "replace"))
    return found if isinstance(found, Mapping | list | int | float) and not isinstance(found, bool) else value


def _level(score: float) -> int:
    """The whole number nearest to a score; one halfway is rounded up, as on the judges' scales."""
    return math.floor(score + 0.5)
