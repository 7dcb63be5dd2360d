"""Judgments of several answers: a sequence that prints as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, overload

from typing_extensions import Never

from judgegym._table import TextTable
from judges.core.judgment import Judgment, Status

DetailT = TypeVar("DetailT")
EMPTY: Judgment[Never] = Judgment(None, Status.INVALID_COMPLETION, explanation="the answer is empty")
"""The judgment of an answer without text, about which no judge is asked."""


@dataclass(frozen=True, repr=False)  # no slots: a generic class with them cannot be called as Class[T](…)
class JudgmentTable(Sequence[Judgment[DetailT]], Generic[DetailT]):
    """One judgment for each answer, in the order of the answers.

    Attributes:
        answers: the texts under judgment.
        judgments: one for each answer; if the judge failed, a judgment without a score, with the reason.

    Example:
        >>> from judges.core.judgment import Judgment, Status
        >>> table = JudgmentTable(("4", "5"), (Judgment(1.0, Status.OK, "win"), Judgment(None, Status.JUDGE_FAILED)))
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

    @property
    def scores(self) -> list[float | None]:
        """The scores of the judgments, in the judge's own range; `None` if the judge failed."""
        return [judgment.score for judgment in self.judgments]

    def table(self) -> TextTable:
        """The answers with their scores, labels and explanations."""
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
    def __getitem__(self, place: int) -> Judgment[DetailT]: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Judgment[DetailT]]: ...

    def __getitem__(self, place: int | slice) -> Judgment[DetailT] | Sequence[Judgment[DetailT]]:
        """The judgment of an answer."""
        return self.judgments[place]

    def __len__(self) -> int:
        """The number of answers."""
        return len(self.judgments)

    def __iter__(self) -> Iterator[Judgment[DetailT]]:
        """The judgments."""
        return iter(self.judgments)

    def __str__(self) -> str:
        """The table as text."""
        return str(self.table())

    def __repr__(self) -> str:
        """The table as text, for prompts and notebooks; the calls are in `judgments`."""
        return str(self)

    def _repr_html_(self) -> str:
        """The table as HTML, for notebooks."""
        return self.table()._repr_html_()
