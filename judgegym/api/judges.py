"""The judges for scripts and notebooks.

Each judge takes its settings as keyword arguments, with the names of the command line without `--env.`. Call `judge` in
async code, and `judge_sync` in code without `await`. What makes a judge of one's own is in `docs/own/judge.md`: a class
with `client` and `judge(task)` (`judgegym.judges.core.judge.Judge`).
"""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from judgegym.api.group_judges import Messages, conversation
from judgegym.api.results import EMPTY, NOT_JUDGED, OWN_COLUMNS, JudgmentTable
from judgegym.api.session import WithSession, in_sync, listed, optional_text, text
from judgegym.judges.arena import ArenaDetail, ArenaJudgeSettings, ArenaTaskJudge
from judgegym.judges.aspects.judge import AspectPanel, PanelDetail
from judgegym.judges.aspects.prompt import AspectJudgeSettings
from judgegym.judges.checklists.criteria import read_criteria
from judgegym.judges.checklists.judge import ChecklistDetail, ChecklistTaskJudge
from judgegym.judges.checklists.prompt import ChecklistJudgeSettings
from judgegym.judges.config.judge import JudgeSettings
from judgegym.judges.conversations.messages import answer_of, answer_turns
from judgegym.judges.conversations.turns import Turn, UnseenPart
from judgegym.judges.core.event_loop import BACKGROUND
from judgegym.judges.core.judge import Judge
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.core.prompt_format import PromptFormat
from judgegym.judges.core.tasks import JudgeTask, answered
from judgegym.judges.parts.part import PartsDetail
from judgegym.judges.peers import DEFAULT_RUBRIC, PeerDetail, PeerJudgeSettings, PeerTaskJudge
from judgegym.judges.reward_models.judge import RewardDetail, RewardModelJudge, RewardModelSettings
from judgegym.judges.rubrics.judge import RubricDetail, RubricTaskJudge
from judgegym.judges.rubrics.prompt import Rubric, RubricJudgeSettings
from judgegym.judges.rules.judge import RuleDetail, RuleTaskJudge
from judgegym.judges.rules.settings import RuleSettings
from judgegym.judges.scorers.fields import judge_task_of
from judgegym.judges.scorers.registry import COMPOSITE, ScorerSettings, open_judge
from judgegym.llm.at_once import all_results
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import DataError, RunStop, SettingsError

logger = logging.getLogger(__name__)

_NEARLY = 0.88
"""How similar a column's name is to that of an argument for which it is a mistake."""
_LINES = 10
"""How many lines of progress there are."""
Answers: TypeAlias = str | Sequence[str | Messages]
"""Answers of a question, each a text or a list of messages; one text is one answer."""
DetailT = TypeVar("DetailT")


def _answer(value: object, name: str) -> tuple[str, tuple[Turn, ...]]:
    """An answer as a text, and its turns if it came as messages.

    Raises:
        DataError: it is neither a text nor messages, or a judge is not shown all of it.
    """
    given = conversation(value, name)
    try:
        return answer_of(given), answer_turns(given)
    except UnseenPart as error:
        raise DataError(f"{name}: {error}") from None


class OpenJudge(WithSession[Judge[JudgeTask, DetailT]], Generic[DetailT]):
    """A judge that judges each answer by itself: a text, or a conversation as a list of messages."""

    _last: tuple[Sequence[str], Sequence[Judgment[DetailT] | None], Sequence[Mapping[str, object]]] | None = None
    _not_judged: ClassVar[Judgment[Any]] = Judgment(None, Status.JUDGE_FAILED, explanation=NOT_JUDGED)
    _task: Callable[..., JudgeTask]
    """Makes the task of `question`, `answer` and what else the judge is told."""

    async def many(self, rows: Iterable[Mapping[str, object]], *, progress: bool = True) -> JudgmentTable[DetailT]:
        """Judge one answer to each of many questions, all at once, up to `judge_max_concurrency`.

        Args:
            rows: for each answer the arguments of `judge` by name, with `answer` in place of `answers`, such as
                `{"question": …, "answer": …}`. Other columns, such as an id, are not read, which one line says, and
                come back in the table; a name that is nearly one of an argument is an error. A table of pandas gives
                them with `table.to_dict("records")`.
            progress: write a line to standard error for each tenth of the rows.

        Returns:
            A judgment for each row, in order; its `failures` and `cost` are those of all.

        Raises:
            DataError: a row has no question or answer, a misspelt argument, or a column of the table's own name.
            RunStop: the endpoint answers no call any more. `table` of the error has all rows: those that were judged
                before, and the others as failed.
        """
        parameters = inspect.signature(self._task).parameters
        answers, tasks, columns = list[str](), list[JudgeTask](), list[Mapping[str, object]]()
        unread: dict[str, None] = {}
        for number, row in enumerate(rows):
            if not isinstance(row, Mapping):
                raise DataError(f"rows[{number}]: expected a mapping by name, found a {type(row).__name__}")
            others = [str(name) for name in row if name not in parameters]
            unknown = [name for name in others if get_close_matches(name, parameters, n=1, cutoff=_NEARLY)]
            taken = [name for name in others if name in OWN_COLUMNS or name.startswith(("aspect/", "criterion/"))]
            needed = (name for name, each in parameters.items() if each.default is each.empty)
            lacking = [name for name in needed if name not in row]
            if unknown or lacking:
                what = f"no {lacking[0]!r}" if lacking else f"the unknown {unknown[0]!r}"
                raise DataError(f"rows[{number}]: found {what}; this judge takes {', '.join(parameters)}")
            if taken:
                raise DataError(f"rows[{number}]: {taken[0]!r} is a column of the table that comes back; rename it")
            unread.update(dict.fromkeys(others))
            columns.append({str(name): value for name, value in row.items() if name != "answer"})
            try:
                given = {str(name): value for name, value in row.items() if name in parameters}
                asked, answer = text(given.pop("question"), "question"), _answer(given.pop("answer"), "answer")
                answers.append(answer[0])
                tasks.append(self._shown(asked, answer, given))
            except DataError as error:
                raise DataError(f"rows[{number}].{error}") from None
        if unread:
            logger.warning(
                "columns that this judge does not read, and that come back in the table: %s", ", ".join(unread)
            )
        return await BACKGROUND.join(self._judge_rows(answers, tasks, columns, progress=progress))

    many_sync = in_sync(many)

    async def _judged(self, question: str, answers: Answers, **context: object) -> JudgmentTable[DetailT]:
        given, asked = listed(answers, "answers", _answer), text(question, "question")
        tasks = [self._shown(asked, answer, context) for answer in given]
        columns = [{"question": asked}] * len(given)
        return await BACKGROUND.join(self._judge_rows([said for said, _ in given], tasks, columns))

    def _shown(self, question: str, answer: tuple[str, tuple[Turn, ...]], context: Mapping[str, Any]) -> JudgeTask:
        """The task of an answer, with its trace."""
        said, trace = answer
        task = answered(JudgeTask(question, (said,), traces=(trace,)), self.settings)
        made = self._task(task.prompt, task.response, **context)
        return replace(made, traces=task.traces, written=task.written)

    @property
    def last_table(self) -> JudgmentTable[DetailT] | None:
        """What the last call has judged, also one that was interrupted or has failed; the other rows as failed."""
        if self._last is None:
            return None
        answers, judgments, columns = self._last
        found = tuple(judgment or self._not_judged for judgment in judgments)
        return JudgmentTable(tuple(answers), found, columns=tuple(columns))

    async def _judge_rows(
        self,
        answers: Sequence[str],
        tasks: Sequence[JudgeTask],
        columns: Sequence[Mapping[str, object]],
        *,
        progress: bool = False,
    ) -> JudgmentTable[DetailT]:
        """Judge each answer, all at once; an empty one without asking.

        Raises:
            RunStop: no call can be made any more; its `table` has what was judged.
        """
        judge = await self._opened()
        judgments: list[Judgment[DetailT] | None] = [None] * len(answers)
        self._last = answers, judgments, columns
        done = failed = 0

        async def one(place: int) -> None:
            nonlocal done, failed
            is_blank = not self.settings.shown(answers[place]).text.strip()
            judgment = EMPTY if is_blank else await judge.judge(tasks[place])
            if judgment.status.is_failure:
                judgment = replace(judgment, explanation=self._without_flags(judgment.explanation))
            judgments[place] = judgment
            done += 1
            failed += judgment.status.is_failure
            is_line = done == len(answers) or done * _LINES // len(answers) > (done - 1) * _LINES // len(answers)
            if progress and is_line:
                sys.stderr.write(f"judged {done:,} of {len(answers):,} rows, {failed:,} failed\n")

        try:
            await all_results(map(one, range(len(answers))))
        except RunStop as stop:
            table = stop.table = self.last_table
            assert table is not None  # it was begun above
            how = "" if self.settings.judge_cache else "; with judge_cache=FILE they would not be paid for again"
            rest = "its failures are the places of the rows to judge again"
            stop.args = (
                f"{self._without_flags(str(stop))}\n{table.judged_words}: `table` of this error has them{how}; {rest}",
            )
            raise
        table = self.last_table
        assert table is not None
        return table


class RubricJudge(OpenJudge[RubricDetail], settings=RubricJudgeSettings, factory=RubricTaskJudge):
    """Scores answers on a scale by a rubric.

    Example:
        >>> judge = RubricJudge("Does the answer name the right number?", offline=True)
        >>> table = judge.judge_sync("How many legs has a spider?", ["Eight.", "Six.", "A spider has eight legs."])
        >>> len(table), all(1 <= score <= 5 for score in table.scores)
        (3, True)
        >>> judge.close()
    """

    def __init__(self, rubric: str | Rubric, *, offline: bool = False, **settings: object) -> None:
        """Judge by `rubric`; a text becomes a rubric on the scale of the settings (default 1 to 5).

        Raises:
            SettingsError: a setting is unknown or wrong.
        """
        if isinstance(rubric, Rubric):
            settings |= {"scale_min": rubric.scale.low, "scale_max": rubric.scale.high}
        super().__init__(offline=offline, **settings)
        scale = RubricJudgeSettings.model_validate(settings).scale
        self.rubric = rubric if isinstance(rubric, Rubric) else Rubric(rubric, {}, scale)

    async def judge(
        self, question: str, answers: Answers, *, reference: str | None = None
    ) -> JudgmentTable[RubricDetail]:
        """Score each answer; `reference` is an answer that gets the highest score."""
        return await self._judged(question, answers, reference=reference)

    judge_sync = in_sync(judge)

    def _task(self, question: str, answer: str, reference: str | None = None) -> JudgeTask:
        levels = tuple(self.rubric.levels.items())
        return JudgeTask(question, (answer,), optional_text(reference, "reference"), self.rubric.criteria, levels)


class AspectJudge(OpenJudge[PanelDetail], settings=AspectJudgeSettings, factory=AspectPanel):
    """Judges answers by aspects: yes/no questions, each decided by a majority of votes.

    Example:
        >>> with AspectJudge(aspects=["harmfulness", "correctness"], offline=True) as judge:
        ...     table = judge.judge_sync("How many legs has a spider?", ["Eight.", "Six."])
        >>> [aspect.aspect for aspect in table[0].detail.aspects]
        ['harmfulness', 'correctness']
    """

    async def judge(
        self, question: str, answers: Answers, *, context: str | None = None, reference: str | None = None
    ) -> JudgmentTable[PanelDetail]:
        """Judge each answer; `context` is what it should use, `reference` what it is compared with."""
        return await self._judged(question, answers, context=context, reference=reference)

    judge_sync = in_sync(judge)

    def _task(self, question: str, answer: str, context: str | None = None, reference: str | None = None) -> JudgeTask:
        shown, compared = optional_text(context, "context"), optional_text(reference, "reference")
        return JudgeTask(question, (answer,), compared, context=shown)


class ChecklistJudge(OpenJudge[ChecklistDetail], settings=ChecklistJudgeSettings, factory=ChecklistTaskJudge):
    """Judges answers by criteria with points, which may be negative.

    Example:
        >>> cites = {"name": "cites", "text": "Names a source.", "points": 5}
        >>> with ChecklistJudge(criteria=[cites, "Is short."], offline=True) as judge:
        ...     table = judge.judge_sync("How many legs has a spider?", ["Eight, says Linnaeus.", "Six."])
        >>> [criterion.name for criterion in table[0].detail.criteria]
        ['cites', 'criterion_2']
    """

    async def judge(
        self, question: str, answers: Answers, *, criteria: object = None, reference: str | None = None
    ) -> JudgmentTable[ChecklistDetail]:
        """Judge each answer, by `criteria` of this question if it has some, beside `reference`."""
        return await self._judged(question, answers, criteria=criteria, reference=reference)

    judge_sync = in_sync(judge)

    def _task(self, question: str, answer: str, criteria: object = None, reference: str | None = None) -> JudgeTask:
        own = self.settings.criteria if isinstance(self.settings, ChecklistJudgeSettings) else ()
        try:
            given = read_criteria(own if criteria is None else criteria)
        except ValueError as error:
            raise DataError(f"criteria: {error}") from error
        return JudgeTask(question, (answer,), optional_text(reference, "reference"), criteria=given)


class ArenaHardJudge(OpenJudge[ArenaDetail], settings=ArenaJudgeSettings, factory=ArenaTaskJudge):
    """Compares answers with a baseline, in both orders: −1 (both games lost) to 1 (both won).

    Example:
        >>> with ArenaHardJudge(offline=True) as judge:
        ...     table = judge.judge_sync("Name a prime.", ["Seven is a prime.", "Nine."], baseline="Eight.")
        >>> [label in ("win", "tie", "loss") for label in (judgment.label for judgment in table)]
        [True, True]
    """

    async def judge(self, question: str, answers: Answers, *, baseline: str) -> JudgmentTable[ArenaDetail]:
        """Compare each answer with `baseline`."""
        return await self._judged(question, answers, baseline=baseline)

    judge_sync = in_sync(judge)

    def _task(self, question: str, answer: str, baseline: str) -> JudgeTask:
        return JudgeTask(question, (answer,), baseline=text(baseline, "baseline"))


class PeerJudge(OpenJudge[PeerDetail], settings=PeerJudgeSettings, factory=PeerTaskJudge):
    """Scores answers from 0 to 100 by a rubric in text.

    Example:
        >>> with PeerJudge(offline=True, judge_critique_rounds=1) as judge:
        ...     table = judge.judge_sync("Name a prime.", "Seven is a prime.")
        >>> 0 <= table.scores[0] <= 100, len(table[0].critique.rounds)
        (True, 1)
    """

    def __init__(self, rubric: str = DEFAULT_RUBRIC, *, offline: bool = False, **settings: object) -> None:
        """Judge by `rubric`.

        Raises:
            SettingsError: a setting is unknown or wrong.
        """
        super().__init__(offline=offline, **settings)
        self.rubric = rubric

    async def judge(self, question: str, answers: Answers) -> JudgmentTable[PeerDetail]:
        """Score each answer."""
        return await self._judged(question, answers)

    judge_sync = in_sync(judge)

    def _task(self, question: str, answer: str) -> JudgeTask:
        return JudgeTask(question, (answer,), rubric=self.rubric)


class RuleJudge(OpenJudge[RuleDetail], settings=RuleSettings, factory=RuleTaskJudge):
    """Scores answers from 0 to 1 by a rule, without a model.

    Example:
        >>> with RuleJudge(rule="number") as judge:
        ...     table = judge.judge_sync("What is 6 * 7?", ["It is 42.", "41", "I do not know."], reference="42")
        >>> table.scores, table[2].detail.says
        ([1.0, 0.0, None], False)
    """

    async def judge(
        self, question: str, answers: Answers, *, reference: str | None = None, context: str | None = None
    ) -> JudgmentTable[RuleDetail]:
        """Score each answer; `reference` is what a rule expects, `context` is for a function of your own alone."""
        return await self._judged(question, answers, reference=reference, context=context)

    judge_sync = in_sync(judge)

    def _task(self, question: str, answer: str, reference: str | None = None, context: str | None = None) -> JudgeTask:
        shown = optional_text(context, "context")
        return JudgeTask(question, (answer,), optional_text(reference, "reference"), context=shown)


class _MadeOfJudges(OpenJudge[PartsDetail], settings=ScorerSettings, factory=open_judge):
    """Scores answers by several judges."""

    async def judge(
        self,
        question: str,
        answers: Answers,
        *,
        reference: str | None = None,
        context: str | None = None,
        rubric: object = None,
        aspects: object = None,
        criteria: object = None,
    ) -> JudgmentTable[PartsDetail]:
        """Score each answer; the parts are shown what is given beside it, as they are in a row of `judgegym score`."""
        return await self._judged(
            question,
            answers,
            reference=reference,
            context=context,
            rubric=rubric,
            aspects=aspects,
            criteria=criteria,
        )

    judge_sync = in_sync(judge)

    def _task(
        self,
        question: str,
        answer: str,
        reference: str | None = None,
        context: str | None = None,
        rubric: object = None,
        aspects: object = None,
        criteria: object = None,
    ) -> JudgeTask:
        shown = {
            "reference": reference,
            "context": context,
            "rubric": rubric,
            "aspects": aspects,
            "criteria": criteria,
        }
        try:
            return judge_task_of(question, (answer,), shown)
        except ValueError as error:
            raise DataError(str(error)) from error


class RewardJudge(_MadeOfJudges, settings=ScorerSettings, factory=open_judge):
    """Scores answers by a reward of several parts, each a judge, a rule or a reward model.

    Example:
        >>> parts = {"maths": {"judge": "rule", "rule": "number"}, "style": {"judge": "rubric", "weight": 0.5}}
        >>> with RewardJudge(reward=parts, offline=True) as judge:
        ...     table = judge.judge_sync("What is 6 * 7?", ["It is 42.", "41"], reference="42")
        >>> [table[0].detail.parts[0].score, table[1].detail.parts[0].score]
        [1.0, 0.0]
    """

    def __init__(self, *, reward: object, offline: bool = False, **settings: object) -> None:
        """Judge by the parts of `reward`; settings that a part leaves out are those that are given here.

        Raises:
            SettingsError: a setting is unknown or wrong.
        """
        super().__init__(offline=offline, judge=COMPOSITE, reward=reward, **settings)


class Jury(_MadeOfJudges, settings=ScorerSettings, factory=open_judge):
    """Scores answers by several judges, whose scores make one.

    Example:
        >>> with Jury(["a", {"judge": "aspect"}], jury_rule="median", offline=True) as jury:
        ...     table = jury.judge_sync("What is 6 * 7?", "It is 42.")
        >>> [part.name for part in table[0].detail.parts]
        ['a', 'aspect']
    """

    def __init__(self, judges: object, *, offline: bool = False, **settings: object) -> None:
        """Judge by the members; settings that one leaves out are those that are given here.

        Raises:
            SettingsError: a setting is unknown or wrong.
        """
        super().__init__(offline=offline, judge="jury", judges=judges, **settings)


class Cascade(_MadeOfJudges, settings=ScorerSettings, factory=open_judge):
    """Scores answers by a cheap judge, and by a strong one where the cheap one is not sure; each answer by itself.

    Example:
        >>> with Cascade(["cheap", "strong"], cascade_threshold=0.6, offline=True) as cascade:
        ...     table = cascade.judge_sync("What is 6 * 7?", "It is 42.")
        >>> table[0].detail.settled_by in ("cheap", "strong")
        True
    """

    def __init__(self, cascade: object, *, offline: bool = False, **settings: object) -> None:
        """Judge by these two; settings that one leaves out are those that are given here.

        Raises:
            SettingsError: a setting is unknown or wrong.
        """
        super().__init__(offline=offline, judge="cascade", cascade=cascade, **settings)


class Steps(_MadeOfJudges, settings=ScorerSettings, factory=open_judge):
    """Scores each step of an agent's trace by a judge, and makes one score of them; a text is one step.

    Example:
        >>> with Steps({"judge": "aspect"}, steps_combine="min", offline=True) as steps:
        ...     table = steps.judge_sync("What is 6 * 7?", "It is 42.")
        >>> [part.name for part in table[0].detail.parts]
        ['step_0']
    """

    def __init__(self, steps_judge: object, *, offline: bool = False, **settings: object) -> None:
        """Judge by this judge; settings that it leaves out are those that are given here.

        Raises:
            SettingsError: a setting is unknown or wrong.
        """
        super().__init__(offline=offline, judge="steps", steps_judge=steps_judge, **settings)


class RewardModel(OpenJudge[RewardDetail], settings=RewardModelSettings, factory=RewardModelJudge):
    """Scores answers with a scalar reward model behind a server; the scores are the model's own numbers.

    Example:
        >>> judge = RewardModel(offline=True)
        >>> table = judge.judge_sync("Name a prime.", ["Seven is a prime.", "Eight."])
        >>> table.scores[0] > table.scores[1]
        True
        >>> judge.close()
    """

    async def judge(self, question: str, answers: Answers) -> JudgmentTable[RewardDetail]:
        """Ask for the number of each answer; `question` may be a conversation as one text."""
        return await self._judged(question, answers)

    judge_sync = in_sync(judge)

    def _task(self, question: str, answer: str) -> JudgeTask:
        return JudgeTask(question, (answer,))


_OF_OTHER_JUDGES = ("judge_critique_rounds", "judge_output", "judge_system_prompt")
"""Settings of the built-in judges that no other judge is given."""


class OwnJudge(OpenJudge[DetailT], settings=JudgeSettings):
    """Judges answers by a judge of one's own, which takes the question and an answer as a `JudgeTask`.

    Example:
        >>> from judgegym.judges.peers import PeerJudgeSettings, PeerTaskJudge
        >>> def strict(client):
        ...     return PeerTaskJudge(PeerJudgeSettings(), client, "It is a prime.")
        >>> with OwnJudge(strict, offline=True) as judge:
        ...     table = judge.judge_sync("Name a prime.", ["Seven is a prime.", ""])
        >>> table.scores[0] >= 0, table[1].status.value
        (True, 'invalid_completion')
    """

    def __init__(
        self,
        judge: Callable[[ChatClient], Judge[JudgeTask, DetailT]],
        *,
        offline: bool = False,
        offline_prompts: Sequence[str | PromptFormat] = (),
        **settings: object,
    ) -> None:
        """Judge with what `judge` makes of a chat client, such as the class of the judge.

        Args:
            judge: makes the judge, which scores `task.response` to `task.prompt`.
            offline: use the stand-in as the judge model.
            offline_prompts: the judge's prompts, for the stand-in: each a name at the top of a file.
            settings: `judge_model_name`, `judge_base_url` and so on.

        Raises:
            SettingsError: a setting is unknown or wrong, or only built-in judges read it.
        """
        idle = next((name for name in _OF_OTHER_JUDGES if name in settings), None)
        if idle is not None:
            raise SettingsError(f"{idle}: only the built-in judges read it; a judge of one's own has its own prompt")
        super().__init__(offline=offline, **settings)
        self._offline_prompts = offline_prompts
        self._factory = lambda _, client: judge(client)

    async def judge(self, question: str, answers: Answers) -> JudgmentTable[DetailT]:
        """Judge each answer; a failed judge is a judgment without a score, with the reason."""
        return await self._judged(question, answers)

    judge_sync = in_sync(judge)

    def _task(self, question: str, answer: str) -> JudgeTask:
        return JudgeTask(question, (answer,))
