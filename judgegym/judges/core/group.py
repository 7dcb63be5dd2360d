"""The contract of a judge of groups: the answers to one question, compared with each other.

Guarantees of every such judge: an answer gets the score that was given to it, whatever the order in which the judge
saw or named the answers; equal answers have one score; an answer for which there is no verdict has none, and does not
take those of the others away; a judge's failure is a judgment without a score, never an exception.

How the calls of a group's judge saw one answer, in words: for tables and pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple, Protocol

from judgegym.judges.core.judgment import Judgment
from judgegym.llm.client import ChatClient


@dataclass(frozen=True, slots=True)
class GroupCase:
    """A question and the answers to it.

    Attributes:
        question: all that the answers have in common: a question, or a conversation up to where they part.
        answers: the answers, in the order of the caller.
        criteria: what makes an answer good, as text; empty for the judge's general criteria.
        reference: an answer that deserves the highest score, which the judge is shown as such.
        context: the text that the answers should be based on.
        anchor: one more member of the group, which the judge cannot tell from the others, and which gets no reward:
            a baseline's answer or a reference. With it scores say how an answer compares with the anchor, so that
            those of different questions compare, too.
        numbers: by which number people know each answer, ascending from 1, where the caller left some out; by default
            its place.
    """

    question: str
    answers: tuple[str, ...] = ()
    criteria: str = ""
    reference: str | None = None
    context: str | None = None
    anchor: str | None = None
    numbers: tuple[int, ...] = ()

    def number(self, place: int) -> int:
        """The number of the answer at a place, which is counted from 0."""
        return self.numbers[place] if self.numbers else place + 1


class Look(NamedTuple):
    """How one call saw one answer.

    Attributes:
        place: where the answer stood among those that the call showed, from 1.
        of: how many the call showed.
        points: what the call gave it, from 0 to 1: a score, or 1 for a game won, 0.5 for a tie, 0 for one lost.
    """

    place: int
    of: int
    points: float


@dataclass(frozen=True, slots=True)
class MemberDetail:
    """An answer's result in the terms of the judge.

    Attributes:
        looks: what each call that has a verdict on it gave the answer.
        own: the score before it was compared with the anchor: of a listwise judge the mean of its scores (0 to 1), of a
            tournament the answer's strength, as the logarithm of odds against the group's mean. `None` without a score.
    """

    looks: tuple[Look, ...]
    own: float | None


@dataclass(frozen=True, slots=True)
class OrderAgreement:
    """How far two orders agree: of the pairs of answers that were seen in both orders, in how many the same one won.

    Two answers that are equal in both orders agree; a pair that is equal in one of them only does not.
    """

    agreed: int = 0
    pairs: int = 0


@dataclass(frozen=True, slots=True)
class GroupJudgment:
    """The judgments of a group.

    Attributes:
        members: one for each answer of the case, in its order. A score is from 0 to 1; with an anchor, 0.5 is as good
            as the anchor, and in a tournament without one, as good as the group's mean. All calls are in the first
            member's judgment, so that sums over the group count them once.
        orders: the agreement between the orders in which answers were shown.
    """

    members: tuple[Judgment[MemberDetail], ...]
    orders: OrderAgreement = OrderAgreement()


class GroupInProgress(Protocol):
    """A group whose answers arrive one by one."""

    def add(self, answer: str) -> None:
        """Take one more answer; what can be compared already is compared at once."""

    async def close(self) -> GroupJudgment:
        """Judge what is there, since no more answers come: a judgment for each, in the order in which they came."""

    def cancel(self) -> None:
        """Give up: nobody waits for a judgment any more."""


class GroupJudge(Protocol):
    """Judges groups."""

    @property
    def client(self) -> ChatClient:
        """The client of the judge model."""

    async def judge(self, case: GroupCase, /) -> GroupJudgment:
        """Judge all answers of a case; with fewer than two members, the anchor included, none has a score."""

    def start(self, case: GroupCase, size: int, /) -> GroupInProgress:
        """Begin a group of a case without answers, of which at most `size` will come."""


_MOST_ONE_BY_ONE = 3


def looks_in_words(looks: Sequence[Look]) -> str:
    """Where an answer stood in each call and what it was given; of many calls the sums.

    >>> looks_in_words([Look(2, 8, 0.7), Look(7, 8, 0.6)])
    'place 2 of 8: 0.7; place 7 of 8: 0.6'
    >>> looks_in_words([Look(1, 2, 1.0), Look(2, 2, 0.5)] * 7)
    '14 games, 7 shown first: 10.5 points'
    """
    if not looks:
        return ""
    if len(looks) <= _MOST_ONE_BY_ONE:
        return "; ".join(f"place {look.place} of {look.of}: {look.points:.3g}" for look in looks)
    if all(look.of == 2 for look in looks):  # a game has two sides
        first = sum(look.place == 1 for look in looks)
        return f"{len(looks)} games, {first} shown first: {sum(look.points for look in looks):.4g} points"
    return f"{len(looks)} calls, mean {fmean(look.points for look in looks):.3g}"


def orders_in_words(orders: OrderAgreement) -> str:
    """How far the orders agree; empty if no pair was seen in both.

    >>> orders_in_words(OrderAgreement(agreed=26, pairs=28))
    'the orders agree on 26 of 28 pairs'
    """
    return f"the orders agree on {orders.agreed} of {orders.pairs} pairs" if orders.pairs else ""
