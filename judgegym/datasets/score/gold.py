"""Compare the judge with gold labels in a column of the data set (`--gold_column`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

from judgegym.data.rows import Row, read_text_cell
from judgegym.engine.metrics import GoldLabel
from judgegym.judges.core.judgment import Scale
from judgegym.judges.core.tasks import ResponseJudgment
from judgegym.judges.parsing.labels import yes_no_label
from judgegym.judges.scorers.registry import DEFAULT_KIND, describe_scale
from judgegym.llm.errors import DataError
from judgegym.llm.wire import JSON
from judgegym.statistics.agreement import agreement_rule

_EXPECTED = (
    "a gold label: a number on the judge's scale, a text such as yes, no or the judge's label, or "
    "an object of aspects' names and 1 or 0; a list of them for several responses"
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
        judges_aspects: bool,
        scale: Scale | None = None,
        kind: str = DEFAULT_KIND,
    ) -> None:
        """Check the labels of all rows that are judged.

        Args:
            rows: the data set.
            numbers: the rows that are judged.
            column: the column.
            count: returns the number of responses of a row.
            judges_aspects: the judge gives verdicts on aspects.
            scale: the judge's scale; `None` if it has none, or no fixed one.
            kind: the kind of judge.

        Raises:
                DataError: a label cannot be read or is not on the judge's scale, a row does not
                    have one label for each response, or no row has a label.
        """
        self._rows, self._column, self._judges_aspects = rows, column, judges_aspects
        has_labels, scores = False, set[float]()
        for number in numbers:
            labels = self._row_labels(number)
            has_labels |= any(labels)
            if any(labels) and len(labels) != count(number):
                raise rows[number].missing_error(
                    f"in {column} a gold label for each of {count(number)} responses"
                )
            for gold in chain.from_iterable(response_labels.values() for response_labels in labels):
                if scale is not None and not scale.includes(gold):
                    limits = describe_scale(kind, scale)
                    raise rows[number].missing_error(
                        f"in {column} a number on the judge's scale, {limits}, not {gold!r}"
                    )
                if isinstance(gold, float):
                    scores.add(gold)
        if not has_labels:
            raise DataError(
                f"{rows[0].place}: no row has a gold label in a column {column} (--gold_column)"
            )
        self._agrees = agreement_rule(scores, has_levels=scale is not None)

    def labels(self, row: int, number: int, result: ResponseJudgment) -> tuple[GoldLabel, ...]:
        """Return a response's gold labels, each compared with its judgment.

        Args:
            row: the number of the row.
            number: the response's number in the row.
            result: the judgment; without a score it has no verdict.
        """
        compare = partial(
            GoldLabel.compare, judged=result, agrees=self._agrees, of_aspects=self._judges_aspects
        )
        return tuple(
            compare(gold, name=name) for name, gold in self.label_values(row, number).items()
        )

    def label_values(self, row: int, number: int) -> Mapping[str, str | float]:
        """Return a response's gold labels by name; empty if the row has none."""
        values = self._row_labels(row)
        if any(values):
            return values[number]
        return {}

    def _row_labels(self, number: int) -> list[Mapping[str, str | float]]:
        """Return the labels of each response of a row, by name."""
        row = self._rows[number]
        cell = read_text_cell(row.values.get(self._column))
        return [
            dict(self._read(row, value)) for value in (cell if isinstance(cell, list) else [cell])
        ]

    def _read(self, row: Row, value: JSON) -> Iterator[tuple[str, str | float]]:
        value = read_text_cell(value)
        if isinstance(value, Mapping):
            for name, verdict in value.items():
                gold = yes_no_label(verdict)
                if verdict is not None and gold is None:
                    raise row.missing_error(f"in {self._column} 1 or 0 for {name}, not {verdict!r}")
                if gold is not None:
                    yield name, gold
        elif (isinstance(value, bool) or self._judges_aspects) and (
            label := yes_no_label(value)
        ) is not None:
            yield "", label
        elif isinstance(value, int | float) and math.isfinite(value):
            yield "", float(value)
        elif isinstance(value, str):
            if value.strip():
                yield "", value.strip()
        elif value is not None:
            raise row.missing_error(f"in {self._column} {_EXPECTED}, not {value!r}")
