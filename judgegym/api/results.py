"""Judgments of several answers: a sequence that prints as a table.

Tables print as text, and as HTML in a notebook.
"""

from __future__ import annotations

import html
import importlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Generic, TypeVar, overload

from typing_extensions import Never

from judgegym.judges.aspects.judge import PanelDetail
from judgegym.judges.checklists.judge import ChecklistDetail
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.core.naming import slug
from judgegym.llm.errors import SettingsError
from judgegym.llm.usage import Usage

_LONGEST_CELL = 300


@dataclass(frozen=True, slots=True, repr=False)
class TextTable:
    """A header and rows of text.

    Cells may hold models' texts: they are never read as markup, and are cut at 300 characters.

    Example:
        >>> print(TextTable(("answer", "score"), (("4", "1.0"), ("5", "0.0"))))
        answer  score
        ─────────────
        4       1.0
        5       0.0
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""

    def __str__(self) -> str:
        """Return the table as text; line breaks in cells become spaces."""
        lines = [self.header, *self.rows]
        cells = [[" ".join(_cut(cell).split()) for cell in line] for line in lines]
        widths = [max(len(line[column]) for line in cells) for column in range(len(self.header))]
        padded = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in cells
        ]
        rule = "─" * max(len(line) for line in padded)
        return "\n".join([*([self.title] if self.title else []), padded[0], rule, *padded[1:]])

    def __repr__(self) -> str:
        """Return the table as text, for prompts and notebooks."""
        return str(self)

    def _repr_html_(self) -> str:
        """Return the table as HTML, for notebooks."""
        title = ""
        if self.title:
            title = f"<caption>{html.escape(self.title)}</caption>"
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.header)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_cut(cell))}</td>" for cell in row) + "</tr>"
            for row in self.rows
        )
        return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cut(cell: str) -> str:
    if len(cell) <= _LONGEST_CELL:
        return cell
    return cell[: _LONGEST_CELL - 1] + "…"


_MOST_ROWS = 40
TABLE_COLUMNS = (
    *("answer", "score", "status", "label", "explanation"),
    *("cost", "prompt_tokens", "completion_tokens", "verdicts"),
)
"""The column names that a table uses itself, beside those that begin with `aspect/` and
`criterion/`."""
NOT_JUDGED = "not judged: the judge was stopped before"
DetailT = TypeVar("DetailT")
EMPTY: Judgment[Never] = Judgment(
    None, Status.INVALID_COMPLETION, explanation="the answer is empty"
)
"""The judgment of an empty answer, which is not sent to a judge."""


@dataclass(frozen=True, repr=False)  # no slots: then Class[T](…) would not work
class JudgmentTable(Sequence[Judgment[DetailT]], Generic[DetailT]):
    """The judgments of several answers, in the order of the answers.

    Attributes:
        answers: the texts under judgment.
        judgments: one for each answer; if the judge failed, it has a reason and no score.
        columns: the other values of each answer's row by name (the question, an id, …), whether or
            not the judge reads them.

    Example:
        >>> from judgegym.judges.core.judgment import Judgment, Status
        >>> table = JudgmentTable(
        ...     ("4", "5"), (Judgment(1.0, Status.OK, "win"), Judgment(None, Status.JUDGE_FAILED))
        ... )
        >>> table.scores
        [1.0, None]
        >>> print(table)
        answer  score  label  status        explanation
        ───────────────────────────────────────────────
        4       1      win    ok
        5       –             judge_failed
    """

    answers: tuple[str, ...]
    judgments: tuple[Judgment[DetailT], ...]
    columns: tuple[Mapping[str, object], ...] = field(default=(), kw_only=True)

    @property
    def judged_words(self) -> str:
        """The number of judged rows, in words."""
        judged = sum(judgment.explanation != NOT_JUDGED for judgment in self.judgments)
        answer_count = len(self)
        return f"{judged:,} of {answer_count:,} rows are judged"

    @property
    def scores(self) -> list[float | None]:
        """The scores of the judgments, in the judge's own range; `None` if the judge failed."""
        return [judgment.score for judgment in self.judgments]

    @property
    def failures(self) -> list[int]:
        """The indices of the answers whose judge failed, from 0."""
        return [
            index for index, judgment in enumerate(self.judgments) if judgment.status.is_failure
        ]

    @property
    def cost(self) -> float | None:
        """US dollars for all judge calls; `None` if the price is unknown."""
        calls = chain.from_iterable(judgment.calls for judgment in self.judgments)
        usage = sum((call.run.usage for call in calls), Usage())
        return usage.cost

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each answer: its other columns, the judgment, and the cost.

        Judges of aspects and criteria add each verdict (1, 0 or `None`) as `aspect/NAME` or
        `criterion/NAME`. If rows have different aspects or criteria, `verdicts` has a list of
        objects instead.
        """
        extra_columns = self.columns or ({},) * len(self)
        by_name = _verdict_columns(self.judgments)
        rows = []
        for answer, judgment, extra, verdicts in zip(
            self.answers, self.judgments, extra_columns, by_name, strict=True
        ):
            usage = sum((call.run.usage for call in judgment.calls), Usage())
            rows.append(
                {
                    **extra,
                    "answer": answer,
                    "score": judgment.score,
                    "status": judgment.status.value,
                    "label": judgment.label,
                    "explanation": judgment.explanation,
                    **verdicts,
                    "cost": usage.cost,
                    "prompt_tokens": usage.prompt_tokens,
                    "completion_tokens": usage.completion_tokens,
                }
            )
        return rows

    def to_pandas(self) -> Any:
        """Return the records as a `pandas.DataFrame`; a failed judge's score is missing (NaN).

        Raises:
            SettingsError: pandas is not installed.
        """
        try:
            pandas = importlib.import_module("pandas")  # late: it is not a dependency
        except ImportError:
            raise SettingsError("to_pandas needs pandas: pip install pandas") from None
        records = self.records()
        names = dict.fromkeys(chain.from_iterable(records)) or dict.fromkeys(TABLE_COLUMNS)
        frame = pandas.DataFrame(records, columns=list(names))
        return frame.astype({"score": "float64"})

    def table(self) -> TextTable:
        """Return the answers with their scores, labels and explanations."""
        rows = [
            (
                answer,
                "–" if judgment.score is None else f"{judgment.score:.4g}",
                judgment.label or "",
                judgment.status.value,
                judgment.explanation,
            )
            for answer, judgment in zip(self.answers, self.judgments, strict=True)
        ]
        return TextTable(("answer", "score", "label", "status", "explanation"), rows)

    @overload
    def __getitem__(self, index: int) -> Judgment[DetailT]: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Judgment[DetailT]]: ...

    def __getitem__(self, index: int | slice) -> Judgment[DetailT] | Sequence[Judgment[DetailT]]:
        """Return the judgment of an answer."""
        return self.judgments[index]

    def __len__(self) -> int:
        """Return the number of answers."""
        return len(self.judgments)

    def __iter__(self) -> Iterator[Judgment[DetailT]]:
        """Iterate over the judgments."""
        return iter(self.judgments)

    def __str__(self) -> str:
        """Return the table as text.

        Of more than 40 answers it shows the first and the last 20, and counts the statuses of all.
        """
        return str(self._shorten_table())

    def _shorten_table(self) -> TextTable:
        whole = self.table()
        if len(self) <= _MOST_ROWS:
            return whole
        gap = ("…",) + ("",) * (len(whole.header) - 1)
        half = _MOST_ROWS // 2
        rows = [*whole.rows[:half], gap, *whole.rows[-half:]]
        status_counts = Counter(judgment.status.value for judgment in self.judgments)
        counts = ", ".join(f"{count:,} {status}" for status, count in status_counts.items())
        answer_count = len(self)
        title = "; ".join(filter(None, (f"{answer_count:,} answers: {counts}", whole.title)))
        return TextTable(whole.header, rows, title=title)

    def __repr__(self) -> str:
        """Return the table as text, for prompts and notebooks; `judgments` has the calls."""
        return str(self)

    def _repr_html_(self) -> str:
        """Return the table as HTML, for notebooks."""
        return self._shorten_table()._repr_html_()


def _verdict_columns(judgments: Sequence[Judgment[Any]]) -> list[dict[str, Any]]:
    """Return each judgment's columns by aspect or criterion; none for other judges."""
    kinds = {
        "aspect" if isinstance(judged.detail, PanelDetail) else "criterion"
        for judged in judgments
        if _criterion_verdicts(judged)
    }
    if len(kinds) != 1:
        return [{} for _ in judgments]
    (kind,) = kinds
    verdict_lists = [_criterion_verdicts(judgment) for judgment in judgments]
    names_and_texts = {
        tuple((name, text) for name, text, _ in verdicts) for verdicts in verdict_lists if verdicts
    }
    longest = max(names_and_texts, key=len)
    if any(
        not {*names} <= {*longest} for names in names_and_texts
    ):  # a failed judgment may lack some
        return [
            {
                "verdicts": [{"name": name, "value": value} for name, _, value in row_verdicts]
                or None
            }
            for row_verdicts in verdict_lists
        ]
    columns = {name: f"{kind}/{slug(name)}" for name, _ in longest}
    value_maps = [{name: value for name, _, value in verdicts} for verdicts in verdict_lists]
    return [
        {column: value_map.get(name) for name, column in columns.items()}
        for value_map in value_maps
    ]


def _criterion_verdicts(judgment: Judgment[Any]) -> list[tuple[str, str, float | None]]:
    """Return the name, the text and the value of each verdict on an aspect or criterion."""
    detail = judgment.detail
    if isinstance(detail, PanelDetail):
        return [
            (aspect.aspect, "", None if aspect.yes is None else float(aspect.yes))
            for aspect in detail.aspects
        ]
    if isinstance(detail, ChecklistDetail):
        return [(criterion.name, criterion.text, criterion.value) for criterion in detail.criteria]
    return []
