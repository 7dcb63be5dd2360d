"""A row of a run as its line says, for programs that do not know the environment: the detail stays JSON.

Guarantee: a line of before a field was introduced is read, with the field empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from judgegym.engine.completions import Completion
from judgegym.engine.metrics import GoldLabel, HeadlineTerm
from judgegym.engine.records import FINISHED, SampleLine, SampleRun, explained
from judgegym.engine.runs.lines import RawLine
from judgegym.judges.core.judgment import Status
from judgegym.llm.wire import JSON


@dataclass(frozen=True, slots=True)
class SavedSample:
    """One row of a run, evaluated or failed.

    Attributes:
        uid: the row's id.
        category: the row's category.
        question: what the policy was asked, as a person reads it.
        status: the judgment's status, or `policy_failed`.
        score: the row's score; `None` if it has none.
        run: timings, attempts and usage of its calls.
        texts: the row's texts beside the question, by title.
        headline: what the row adds to the headline metric; `None` if nothing, or if the line is of before it was kept.
        orders: the points of the judged answer, from 0 to 1, in each order of the answers that were compared.
        gold: the row's gold labels, beside what the judge said; empty without any, and in lines of before the field.
        completions: the policy's completions, one for each conversation.
        label: the judgment in the judge's terms.
        detail: the judgment's detail, whose fields differ between environments.
        critique: the history of self-critique.
        suspects: how many tokens and markers in the texts could mislead the judge.
        error: why the row failed.
        task_digest: a digest of everything that the judge saw of the row.
    """

    uid: str
    category: str | None
    question: str
    status: str
    score: float | None
    run: SampleRun
    texts: Mapping[str, str] = field(default_factory=dict)
    headline: HeadlineTerm | None = None
    orders: Mapping[str, float] = field(default_factory=dict)
    gold: Sequence[GoldLabel] = ()
    completions: tuple[Completion, ...] = ()
    label: str | None = None
    detail: JSON = None
    critique: JSON = None
    suspects: int = 0
    error: str | None = None
    task_digest: str = ""

    @property
    def finished(self) -> bool:
        """Return whether the row has a judgment that counts; the others are failures."""
        return self.status in FINISHED


class _Line(SampleLine):
    """All fields of a line, but for those of a single completion."""

    label: str | None = None
    detail: Any = None
    critique: Any = None
    injection_suspects: int = 0


def read_sample(line: RawLine) -> SavedSample:
    """Read a line of `samples.jsonl` or `failures.jsonl`.

    Raises:
        RunDirectoryError: it is damaged; the message names the file, the line and what is wrong.
    """
    try:
        fields = _Line.model_validate_json(line.data)
        completions = fields.all_completions(line.data)
    except ValidationError as error:
        raise line.damage(f"not a sample: {explained(error)}") from error
    return SavedSample(
        uid=fields.uid,
        category=fields.category,
        question=fields.question,
        status=fields.status.value if isinstance(fields.status, Status) else fields.status,
        score=fields.score,
        run=fields.run,
        texts=fields.texts,
        headline=fields.headline,
        orders=fields.orders,
        gold=fields.gold,
        completions=completions,
        label=fields.label,
        detail=fields.detail,
        critique=fields.critique,
        suspects=fields.injection_suspects,
        error=fields.error,
        task_digest=fields.task_digest,
    )
