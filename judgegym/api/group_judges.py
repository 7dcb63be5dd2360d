"""The judges of groups for scripts and notebooks: the answers to one question, compared with each other.

The judgments of a group: a sequence that prints as a table, with what the judge saw of each answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from pydantic import TypeAdapter, ValidationError

from judgegym.api.results import EMPTY, JudgmentTable, TextTable
from judgegym.api.session import (
    JudgeSession,
    check_optional_text,
    describe_kind,
    make_sync,
    read_list,
)
from judgegym.judges.conversations.messages import (
    ChatTurn,
    TextOrMessages,
    completion_turns,
    render_completion,
    render_conversation,
)
from judgegym.judges.conversations.turns import UnseenPart
from judgegym.judges.core.event_loop import BACKGROUND
from judgegym.judges.core.group import (
    GroupJudge,
    MemberDetail,
    OrderAgreement,
    describe_looks,
    describe_orders,
)
from judgegym.judges.core.tasks import JudgeTask, remove_task_thinking
from judgegym.judges.listwise.judge import ListwiseGroupJudge
from judgegym.judges.listwise.prompt import ListwiseJudgeSettings
from judgegym.judges.tournament.progress import TournamentGroupJudge
from judgegym.judges.tournament.schedule import TournamentSettings
from judgegym.llm.errors import DataError


@dataclass(frozen=True, repr=False)
class GroupTable(JudgmentTable[MemberDetail]):
    """One judgment for each answer of a group, in the order of the answers; scores are from 0 to 1.

    All calls of the group are in the judgment of the first answer that was judged.

    Attributes:
        orders: in how many pairs of answers the same one won in both orders.

    Example:
        >>> from judgegym.judges.core.group import Look
        >>> from judgegym.judges.core.judgment import Judgment, Status
        >>> seen = MemberDetail((Look(2, 2, 0.9), Look(1, 2, 0.8)), own=0.85)
        >>> failed = Judgment(None, Status.UNPARSABLE, explanation="no verdict")
        >>> print(
        ...     GroupTable(
        ...         ("4", "5"), (Judgment(0.85, Status.OK, detail=seen), failed), OrderAgreement(1, 1)
        ...     )
        ... )
        the orders agree on 1 of 1 pairs
        answer  score  status      seen                                  explanation
        ────────────────────────────────────────────────────────────────────────────
        4       0.85   ok          place 2 of 2: 0.9; place 1 of 2: 0.8
        5       –      unparsable                                        no verdict
    """

    orders: OrderAgreement = OrderAgreement()

    def table(self) -> TextTable:
        """Return the answers with their scores, what the judge saw of them, and explanations."""
        seen = [
            "" if judgment.detail is None else describe_looks(judgment.detail.looks)
            for judgment in self.judgments
        ]
        rows = [
            (answer, score, status, looks, explanation)
            for (answer, score, _, status, explanation), looks in zip(
                super().table().rows, seen, strict=True
            )
        ]
        header = ("answer", "score", "status", "seen", "explanation")
        return TextTable(header, rows, title=describe_orders(self.orders))


Messages: TypeAlias = Sequence[Mapping[str, object]]
"""A conversation as OpenAI's chat API has it: messages with role, content and tool calls."""

_MESSAGES = TypeAdapter(list[ChatTurn])


class OpenGroupJudge(JudgeSession[GroupJudge]):
    """A judge that compares the answers to one question.

    The answers are texts, or conversations: lists of messages, whose tool calls are written out.
    Empty answers, also conversations in which the policy wrote no text, are not judged.
    """

    def __init__(self, criteria: str = "", *, offline: bool = False, **settings: object) -> None:
        """Compare by `criteria`; without any, as the judge does by itself.

        Raises:
            SettingsError: a setting is unknown or wrong.
        """
        super().__init__(offline=offline, **settings)
        self.criteria = criteria

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
            baseline: an answer that the judge sees as one more of the group; 0.5 is then as good as
                the baseline.

        Raises:
            DataError: an answer or the question is neither a text nor a list of messages.
        """
        conversations = read_list(answers, "answers", validate_conversation)
        prompt, baseline_text = (
            validate_conversation(question, "the question"),
            check_optional_text(baseline, "baseline"),
        )
        try:
            responses, traces = (
                tuple(map(render_completion, conversations)),
                tuple(map(completion_turns, conversations)),
            )
            task = remove_task_thinking(
                JudgeTask(render_conversation(prompt), responses, traces=traces), self.settings
            )
        except UnseenPart as error:
            raise DataError(str(error)) from None
        group_task = replace(
            task,
            rubric=self.criteria,
            reference=check_optional_text(reference, "reference"),
            context=check_optional_text(context, "context"),
            baseline=baseline_text
            if baseline_text and baseline_text.strip()
            else None,  # any answer is better than a blank
        )
        return await BACKGROUND.join(self._judge_task(group_task))

    judge_sync = make_sync(judge)

    async def _judge_task(self, task: JudgeTask) -> GroupTable:
        judge = await self._open_judge()
        positions = tuple(
            position for position, answer in enumerate(task.responses) if answer.strip()
        )
        if not positions:
            return GroupTable(task.responses, (EMPTY,) * len(task.responses), OrderAgreement())
        group_judgment = await judge.judge(task.select_responses(positions, positions))
        members = iter(group_judgment.members)
        judgments = tuple(next(members) if answer.strip() else EMPTY for answer in task.responses)
        return GroupTable(task.responses, judgments, group_judgment.orders)


class ListwiseJudge(OpenGroupJudge, settings=ListwiseJudgeSettings, factory=ListwiseGroupJudge):
    """Scores all answers of a group from 0 to 1 in one call.

    Without criteria it scores how well an answer does what was asked.

    Example:
        >>> with ListwiseJudge(
        ...     "The number of legs is right.", offline=True, listwise_orders=2
        ... ) as judge:
        ...     table = judge.judge_sync(
        ...         "How many legs has a spider?", ["Eight.", "Six.", "A spider has eight legs."]
        ...     )
        >>> all(0 <= score <= 1 for score in table.scores), table.orders.pairs, len(table[0].calls)
        (True, 3, 2)
    """


class TournamentJudge(OpenGroupJudge, settings=TournamentSettings, factory=TournamentGroupJudge):
    """Compares the answers of a group in pairs: a score is the probability to beat the group's mean, or the baseline.

    Example:
        >>> with TournamentJudge(offline=True, schedule="all") as judge:
        ...     table = judge.judge_sync(
        ...         "Name a prime.", ["Seven is a prime.", "Nine.", "Six."], baseline="Eight."
        ...     )
        >>> all(0 < score < 1 for score in table.scores), len(table[0].calls)
        (True, 12)
    """


def validate_conversation(value: object, name: str) -> TextOrMessages:
    """Return a text, or messages that were checked.

    Raises:
        DataError: it is neither.
    """
    if isinstance(value, str):
        return value
    expected = f"{name}: expected a text or a list of messages"
    if not isinstance(value, Iterable) or isinstance(value, Mapping | bytes):
        raise DataError(f"{expected}, found {describe_kind(value)}")
    try:
        return _MESSAGES.validate_python([*value])
    except ValidationError as error:
        first = error.errors()[0]
        raise DataError(f"{expected}, {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
