"""The judges of groups for scripts and notebooks: the answers to one question, compared with each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from pydantic import TypeAdapter, ValidationError

from judgegym.api.group_table import GroupTable
from judgegym.api.results import EMPTY
from judgegym.api.session import WithSession, optional_text, shows_settings
from judgegym.judges.core.event_loop import BACKGROUND
from judgegym.judges.core.group import GroupCase, GroupJudge, OrderAgreement
from judgegym.judges.core.turns import ChatTurn, TextOrMessages, UnseenPart, conversation_case
from judgegym.judges.listwise.judge import listwise_judge
from judgegym.judges.listwise.prompt import ListwiseJudgeSettings
from judgegym.judges.tournament.game import TournamentSettings
from judgegym.judges.tournament.judge import tournament_judge
from judgegym.llm.errors import DataError

Messages: TypeAlias = Sequence[Mapping[str, object]]
"""A conversation as OpenAI's chat API has it: messages with role, content and tool calls."""

_MESSAGES = TypeAdapter(list[ChatTurn])


class OpenGroupJudge(WithSession[GroupJudge]):
    """A judge that compares the answers to one question.

    The answers are texts, or conversations: lists of messages, whose tool calls are written out. Empty answers, also
    conversations in which the policy wrote no text, are not judged.
    """

    criteria: str

    async def judge(
        self,
        question: str | Messages,
        answers: Sequence[str | Messages],
        *,
        reference: str | None = None,
        context: str | None = None,
        baseline: str | None = None,
    ) -> GroupTable:
        """Compare the answers.

        Args:
            question: what was asked, as text or as the messages before the answers.
            answers: two or more answers, or one and a baseline.
            reference: an answer that deserves the highest score, which the judge is shown as such.
            context: the text that the answers should be based on.
            baseline: an answer that the judge sees as one more of the group; 0.5 is then as good as the baseline.

        Raises:
            DataError: an answer or the question is neither a text nor a list of messages.
        """
        case = _case(question, answers, self.criteria, reference, context, baseline)
        return await BACKGROUND.join(self._judge(case))

    def judge_sync(
        self,
        question: str | Messages,
        answers: Sequence[str | Messages],
        *,
        reference: str | None = None,
        context: str | None = None,
        baseline: str | None = None,
    ) -> GroupTable:
        """The same as `judge`, in code without `await`."""
        return BACKGROUND.run(self._judge(_case(question, answers, self.criteria, reference, context, baseline)))

    async def _judge(self, case: GroupCase) -> GroupTable:
        judge = await self._session.opened()
        asked = {number: answer for number, answer in enumerate(case.answers, start=1) if answer.strip()}
        if not asked:
            return GroupTable(case.answers, (EMPTY,) * len(case.answers), OrderAgreement())
        judged = await judge.judge(replace(case, answers=tuple(asked.values()), numbers=tuple(asked)))
        members = iter(judged.members)
        judgments = tuple(next(members) if answer.strip() else EMPTY for answer in case.answers)
        return GroupTable(case.answers, judgments, judged.orders)


@shows_settings(ListwiseJudgeSettings)
class ListwiseJudge(OpenGroupJudge):
    """Scores all answers of a group in one call, from 0 to 1.

    Example:
        >>> with ListwiseJudge("The number of legs is right.", offline=True, listwise_orders=2) as judge:
        ...     table = judge.judge_sync("How many legs has a spider?", ["Eight.", "Six.", "A spider has eight legs."])
        >>> all(0 <= score <= 1 for score in table.scores), table.orders.pairs, len(table[0].calls)
        (True, 3, 2)
    """

    def __init__(self, criteria: str = "", *, offline: bool = False, **settings: object) -> None:
        """Score by `criteria`; without any, by how well an answer does what was asked.

        Raises:
            SettingsError: a setting is unknown or wrong.
        """
        super().__init__(ListwiseJudgeSettings, settings, listwise_judge, offline=offline)
        self.criteria = criteria


@shows_settings(TournamentSettings)
class TournamentJudge(OpenGroupJudge):
    """Lets the answers of a group meet in pairs: the score is the chance to beat the group's mean, or the baseline.

    Example:
        >>> with TournamentJudge(offline=True, schedule="all") as judge:
        ...     table = judge.judge_sync("Name a prime.", ["Seven is a prime.", "Nine.", "Six."], baseline="Eight.")
        >>> all(0 < score < 1 for score in table.scores), len(table[0].calls)
        (True, 12)
    """

    def __init__(self, criteria: str = "", *, offline: bool = False, **settings: object) -> None:
        """Compare by `criteria`; without any, by Arena-Hard's.

        Raises:
            SettingsError: a setting is unknown or wrong.
        """
        super().__init__(TournamentSettings, settings, tournament_judge, offline=offline)
        self.criteria = criteria


def _case(
    question: str | Messages,
    answers: Sequence[str | Messages],
    criteria: str,
    reference: str | None,
    context: str | None,
    baseline: str | None,
) -> GroupCase:
    listed = [answers] if isinstance(answers, str) else answers
    if not isinstance(listed, Iterable):
        raise DataError(f"answers: expected a list of texts or conversations, found {type(listed).__name__}")
    parted = [_conversation(answer, f"answer {number}") for number, answer in enumerate(listed, start=1)]
    asked = _conversation(question, "the question")
    try:
        return conversation_case(
            asked,
            parted,
            criteria=criteria,
            reference=optional_text(reference, "reference"),
            context=optional_text(context, "context"),
            anchor=optional_text(baseline, "baseline"),
        )
    except UnseenPart as error:
        raise DataError(str(error)) from None


def _conversation(given: str | Messages, what: str) -> TextOrMessages:
    """A text, or messages that were checked."""
    if isinstance(given, str):
        return given
    expected = f"{what}: expected a text or a list of messages"
    if not isinstance(given, Iterable):
        raise DataError(f"{expected}, found {type(given).__name__}")
    try:
        return _MESSAGES.validate_python([*given])
    except ValidationError as error:
        first = error.errors()[0]
        raise DataError(f"{expected}, {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
