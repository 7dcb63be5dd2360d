"""The games of one row in which candidates and the baseline met: who answered what, and who won.

The same classes are the detail of a row's judgment, so they hold names and texts, and are read back from files.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from judgegym.eval_environments.models.candidate import CandidateReply
from judgegym.judges.core.judgment import Judgment
from judgegym.judges.parsing.thinking import ThinkingFault

Decided = Literal["judge", "format"]
"""What decides a game: the judge's verdict, or the format of an answer, which is wrong."""


@dataclass(frozen=True, slots=True)
class CandidateAnswer:
    """A candidate's completion.

    Attributes:
        candidate: the candidate's name.
        answer: the text to judge; `None` if the candidate never answered.
        error: why it never answered, or why its answer counts as wrong.
        thinking: as in `Completion`, with the three fields below.
        thinking_fault: what is wrong with the thinking.
        finish_reason: as received.
        short: the answer is shorter than `min_response_length`.
    """

    candidate: str
    answer: str | None
    error: str | None = None
    thinking: str = ""
    thinking_fault: ThinkingFault | None = None
    finish_reason: str | None = None
    short: bool = False

    @classmethod
    def of(cls, candidate: str, reply: CandidateReply) -> CandidateAnswer:
        """Return what a candidate said."""
        said = reply.completion
        if said is None:
            return cls(candidate, None, reply.error)
        return cls(
            candidate, said.answer, said.unjudgeable, said.thinking, said.thinking_fault, said.finish_reason, said.short
        )

    @property
    def is_wrong(self) -> bool:
        """Return whether it is an answer that no judge may be asked about: malformed, refused or empty."""
        return self.answer is not None and self.error is not None


@dataclass(frozen=True, slots=True)
class RowGame:
    """A game of two players.

    Attributes:
        first: the player that was shown first.
        second: the other one.
        points: of the first: 1 if it won, 0.5 for a tie, 0 if it lost; `None` without a verdict.
        weight: how many times the result counts.
        decided: what decides the game.
        text: the judge's last text; empty if it was not asked.
        error: why there is no verdict.
    """

    first: str
    second: str
    points: float | None
    weight: float = 1.0
    decided: Decided = "judge"
    text: str = ""
    error: str | None = None

    def points_of(self, player: str) -> float:
        """Return the points of one of both, in a game with a verdict."""
        assert self.points is not None
        return self.points if player == self.first else 1.0 - self.points


@dataclass(frozen=True, slots=True)
class GamesOfRow:
    """One row: an answer for each candidate, in the order of the settings, and the games."""

    answers: tuple[CandidateAnswer, ...]
    games: tuple[RowGame, ...] = ()

    @property
    def decided(self) -> list[RowGame]:
        """Return the games with a result."""
        return [game for game in self.games if game.points is not None]


@dataclass(frozen=True, slots=True)
class Tally:
    """The weighted points of a player, and the weight of its games."""

    points: float = 0.0
    weight: float = 0.0

    def __add__(self, other: Tally) -> Tally:
        """Add those of further games."""
        return Tally(self.points + other.points, self.weight + other.weight)

    @classmethod
    def of(cls, player: str, games: Iterable[RowGame]) -> Tally:
        """Add up the games of a player, all of which have a result."""
        own = [game for game in games if player in (game.first, game.second)]
        return cls(sum(game.weight * game.points_of(player) for game in own), sum(game.weight for game in own))


def games_of(judgment: Judgment[GamesOfRow] | None) -> list[RowGame]:
    """Return the games of a row that have a result; none without a judgment."""
    return [] if judgment is None or judgment.detail is None else judgment.detail.decided
