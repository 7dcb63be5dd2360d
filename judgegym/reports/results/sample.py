"""A row of a run as its line says, for programs that do not know the environment: the detail stays JSON.

Guarantee: a line of before a field was introduced is read, with the field empty.

A line of a file of groups, as it is read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from judgegym.engine.completions import Completion
from judgegym.engine.metrics import GoldLabel, HeadlineTerm
from judgegym.engine.records import FINISHED, SampleLine, SampleRun, explained
from judgegym.engine.runs.lines import RawLine, whole_lines
from judgegym.judges.core.group import Look, OrderAgreement
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


class _SavedGroupLine(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class SavedLook(_SavedGroupLine):
    """How one call of a judge of groups saw a rollout."""

    place: int
    of: int
    points: float


class SavedJudgment(_SavedGroupLine):
    """A rollout's judgment; `own` and `looks` are those of a judge of groups."""

    status: str = ""
    label: str | None = None
    explanation: str = ""
    own: float | None = None
    looks: list[SavedLook] = []

    @property
    def seen(self) -> list[Look]:
        """Where the rollout stood in each call, and what it was given."""
        return [Look(look.place, look.of, look.points) for look in self.looks]


class SavedTurn(_SavedGroupLine):
    """A message of a rollout; the last one is the completion, with its judgment."""

    role: str
    content: str
    judgment: SavedJudgment = SavedJudgment()


class SavedOverride(_SavedGroupLine):
    """What a trainer must know of a rollout."""

    set_advantage_to_zero: bool = False


class SavedComparison(_SavedGroupLine):
    """How a group was judged together."""

    judge: str
    anchored: bool
    orders_agreed: int
    orders_pairs: int
    calls: int
    is_again: bool

    @property
    def orders(self) -> OrderAgreement:
        """How far the orders agree in which the answers were shown."""
        return OrderAgreement(self.orders_agreed, self.orders_pairs)


class SavedRow(_SavedGroupLine):
    """The row of a group; `together` says how its rollouts were judged if they were compared with each other."""

    uid: str
    group: int
    category: str | None
    question: str
    texts: dict[str, str]
    together: SavedComparison | None = None


class SavedGroup(_SavedGroupLine):
    """A line of a file of groups, but for its tokens."""

    scores: list[float]
    messages: list[list[SavedTurn]] | None = None
    overrides: list[SavedOverride] | None = None
    row: SavedRow | None = None

    @property
    def substituted(self) -> list[bool]:
        """For each rollout, whether its score stands in for that of a judge that failed."""
        marked = [override.set_advantage_to_zero for override in self.overrides or ()]
        return marked or [False] * len(self.scores)

    @property
    def prompt(self) -> list[SavedTurn]:
        """The messages that the policy was asked; none where the file has no messages."""
        return self.messages[0][:-1] if self.messages else []

    @property
    def question(self) -> str:
        """What the policy was asked, as a person reads it."""
        if self.row is not None:
            return self.row.question
        return self.prompt[-1].content if self.prompt else ""

    @property
    def together(self) -> SavedComparison | None:
        """How the rollouts were judged together; `None` if each was judged by itself."""
        return None if self.row is None else self.row.together

    @property
    def rollouts(self) -> list[SavedTurn | None]:
        """The completion of each rollout; `None` where the file has no messages."""
        found: list[SavedTurn | None] = [turns[-1] for turns in self.messages or () if turns]
        return found + [None] * (len(self.scores) - len(found))

    @property
    def reward(self) -> float:
        """The mean of its scores."""
        return fmean(self.scores) if self.scores else 0.0


def read_groups(path: Path) -> Iterator[SavedGroup]:
    """Read a file of groups, one by one.

    Raises:
        RunDirectoryError: the file cannot be read, or a line is no group.
    """
    for line in whole_lines(path):
        try:
            yield SavedGroup.model_validate_json(line.data)
        except ValidationError as error:
            raise line.error(f"neither a row of a scored file nor a group of rollouts: {explained(error)}") from error
