"""Read the lines of a file of groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from statistics import fmean

from pydantic import BaseModel, ConfigDict, ValidationError

from judgegym.engine.records import explain_errors
from judgegym.engine.runs.damaged_lines import read_lines
from judgegym.engine.runs.lines import RawLine
from judgegym.judges.conversations.turns import render_transcript, text_turn
from judgegym.judges.core.group import Look, OrderAgreement


class _SavedGroupLine(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class SavedJudgment(_SavedGroupLine):
    """A rollout's judgment; only a judge of groups sets `own` and `looks`."""

    status: str = ""
    label: str | None = None
    explanation: str = ""
    own: float | None = None
    looks: list[Look] = []


class SavedTurn(_SavedGroupLine):
    """A message of a rollout; the last one is the completion, with its judgment."""

    role: str
    content: str
    judgment: SavedJudgment = SavedJudgment()


class SavedOverride(_SavedGroupLine):
    """Instructions to the trainer about a rollout."""

    set_advantage_to_zero: bool = False


class SavedComparison(_SavedGroupLine):
    """The record of a group that was judged together."""

    judge: str
    anchored: bool
    orders_agreed: int
    orders_pairs: int
    calls: int
    is_again: bool

    @property
    def orders(self) -> OrderAgreement:
        """How far the orders of the answers agree."""
        return OrderAgreement(self.orders_agreed, self.orders_pairs)


class SavedRow(_SavedGroupLine):
    """The row of a group; `together` is set if its rollouts were compared with each other.

    For a group of one turn, `turn` is the turn's number, and `ended` lists the rollouts, from 0,
    that had ended before it.
    """

    uid: str
    group: int
    category: str | None
    question: str
    texts: dict[str, str]
    together: SavedComparison | None = None
    turn: int | None = None
    ended: list[int] = []


class SavedGroup(_SavedGroupLine):
    """A line of a file of groups, without its tokens."""

    scores: list[float]
    messages: list[list[SavedTurn]] | None = None
    overrides: list[SavedOverride] | None = None
    row: SavedRow | None = None

    @property
    def substituted(self) -> list[bool]:
        """For each rollout, whether it has no advantage: judge failed, or ended before the turn."""
        marked = [override.set_advantage_to_zero for override in self.overrides or ()]
        return marked or [False] * len(self.scores)

    @property
    def failed(self) -> list[bool]:
        """For each rollout, whether its score replaces that of a failed judge."""
        ended = self.row.ended if self.row is not None else ()
        return [marked and number not in ended for number, marked in enumerate(self.substituted)]

    @property
    def prompt(self) -> list[SavedTurn]:
        """The messages that all rollouts begin with; none if the file has no messages."""
        columns = zip(*(turns[:-1] for turns in self.messages or ()), strict=False)
        return [
            first
            for first, *others in takewhile(
                lambda column: all(turn == column[0] for turn in column), columns
            )
        ]

    @property
    def question(self) -> str:
        """The policy's question, for people."""
        if self.row is not None:
            if self.row.turn is None:
                return self.row.question
            return f"turn {self.row.turn}: {self.row.question}"
        if self.prompt:
            return self.prompt[-1].content
        return ""

    @property
    def together(self) -> SavedComparison | None:
        """The record of their comparison; `None` if each rollout was judged by itself."""
        if self.row is None:
            return None
        return self.row.together

    @property
    def rollouts(self) -> list[SavedTurn | None]:
        """The completion of each rollout, several turns as one text; `None` without messages."""
        begins = len(self.prompt)
        completions: list[SavedTurn | None] = [
            _merge_turns(turns[begins:]) for turns in self.messages or () if turns
        ]
        return completions + [None] * (len(self.scores) - len(completions))

    @property
    def reward(self) -> float:
        """The mean of its scores."""
        if self.scores:
            return fmean(self.scores)
        return 0.0


def _merge_turns(turns: Sequence[SavedTurn]) -> SavedTurn:
    """Join the turns after the prompt to one: the last turn, with the earlier ones in its text."""
    if len(turns) == 1:
        return turns[0]
    text = render_transcript([text_turn(turn.role, turn.content) for turn in turns])
    return turns[-1].model_copy(update={"content": text})


def read_groups(path: Path) -> Iterator[SavedGroup]:
    """Read a file of groups, one by one.

    Raises:
        RunDirectoryError: the file cannot be read, or an object in it is no group.
    """
    return (group for _, group in read_lines(path, _read_group))


def _read_group(line: RawLine) -> SavedGroup:
    try:
        return SavedGroup.model_validate_json(line.data)
    except ValidationError as error:
        line.fields()  # a line that holds no object is damaged
        raise line.error(
            f"neither a row of a scored file nor a group of rollouts: {explain_errors(error)}"
        ) from error
