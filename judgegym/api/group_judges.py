"""Group judges for scripts and notebooks: they compare the completions of one prompt.

A group's judgments are a sequence that prints as a table and shows how the judge saw each answer.
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
    """The judgments of a group, one per answer, in the order of the answers; scores from 0 to 1.

    The first judged answer's judgment holds all calls of the group.

    Attributes:
        orders: the number of pairs whose winner was the same in both orders.

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
        """Return the answers with their scores, how the judge saw them, and explanations."""
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
"""A conversation in the format of OpenAI's chat API: messages with role, content and tool calls."""

_MESSAGES = TypeAdapter(list[ChatTurn])


class OpenGroupJudge(JudgeSession[GroupJudge]):
    """A judge that compares the answers to one question.

    An answer is a text or a conversation (a list of messages, whose tool calls are written out as
    text). Empty answers, and conversations in which the policy wrote no text, are not judged.
    """

    def __init__(self, criteria: str = "", *, offline: bool = False, **settings: object) -> None:
        """Set the criteria of the comparison; without any, the judge uses its general ones.

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
            question: the prompt, as text or as the messages before the answers.
            answers: two or more answers, or one and a baseline.
            reference: an answer that deserves the highest score; the judge sees it marked as such.
            context: the text that the answers should be based on.
            baseline: a further member of the group; a score of 0.5 then means "as good as the
                baseline".

        Raises:
            DataError: an answer or the question is neither a text nor a list of messages.
        """
        conversations = read_list(answers, "answers", validate_conversation)
        prompt = validate_conversation(question, "the question")
        baseline_text = check_optional_text(baseline, "baseline")
        try:
            responses = tuple(map(render_completion, conversations))
            traces = tuple(map(completion_turns, conversations))
            task = remove_task_thinking(
                JudgeTask(render_conversation(prompt), responses, traces=traces), self.settings
            )
        except UnseenPart as error:
            raise DataError(str(error)) from None
        if baseline_text is not None and not baseline_text.strip():
            baseline_text = None  # any answer is better than a blank
        group_task = replace(
            task,
            rubric=self.criteria,
            reference=check_optional_text(reference, "reference"),
            context=check_optional_text(context, "context"),
            baseline=baseline_text,
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
    """Scores all answers of a group in one call, from 0 to 1.

    Without criteria it scores how well an answer follows its prompt.

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
    """Compares answers in pairs; a score is the probability to beat the group's mean.

    With a baseline it is the probability to beat the baseline.

    The score is the probability that an answer beats the group's mean, or the baseline.

    Example:
        >>> with TournamentJudge(offline=True, schedule="all") as judge:
        ...     table = judge.judge_sync(
        ...         "Name a prime.", ["Seven is a prime.", "Nine.", "Six."], baseline="Eight."
        ...     )
        >>> all(0 < score < 1 for score in table.scores), len(table[0].calls)
        (True, 12)
    """


def validate_conversation(value: object, name: str) -> TextOrMessages:
    """Return a text, or validated messages.

    Raises:
        DataError: it is neither.
    """
    if isinstance(value, str):
        return value
    expected = f"{name}: expected a text or a list of messages"
    if not isinstance(value, Iterable) or isinstance(value, Mapping | bytes):
        value_kind = describe_kind(value)
        raise DataError(f"{expected}, found {value_kind}")
    try:
        return _MESSAGES.validate_python([*value])
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(map(str, first["loc"]))
        raise DataError(f"{expected}, {location}: {first['msg']}") from None
