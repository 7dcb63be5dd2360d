"""The judges for scripts and notebooks.

Each judge takes its settings as keyword arguments, with the names of the command line without `--env.`. Call `judge` in
async code, and `judge_sync` in code without `await`.

A judge of one's own for scripts and notebooks, called as the built-in ones are.

What makes a judge is in `docs/own/judge.md`: a class with `client` and `judge(case)`
(`judgegym.judges.core.judge.Judge`).
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from judgegym.api.results import JudgmentTable, judge_rows
from judgegym.api.session import WithSession, optional_text, shows_settings, text, texts
from judgegym.judges.arena import ArenaCase, ArenaCaseJudge, ArenaDetail, ArenaJudgeSettings
from judgegym.judges.aspects.judge import AspectCase, AspectPanel, PanelDetail
from judgegym.judges.aspects.prompt import AspectJudgeSettings
from judgegym.judges.config.judge import JudgeSettings
from judgegym.judges.config.sources import settings_from_keywords
from judgegym.judges.core.event_loop import BACKGROUND
from judgegym.judges.core.judge import Judge
from judgegym.judges.core.prompt_format import PromptFormat
from judgegym.judges.peers import DEFAULT_RUBRIC, PeerCase, PeerCaseJudge, PeerDetail, PeerJudgeSettings
from judgegym.judges.rubrics.judge import RubricCase, RubricCaseJudge, RubricDetail
from judgegym.judges.rubrics.prompt import Rubric, RubricJudgeSettings
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import DataError, SettingsError

CaseT = TypeVar("CaseT")
DetailT = TypeVar("DetailT")


class OpenJudge(WithSession[Judge[CaseT, DetailT]], Generic[CaseT, DetailT]):
    """A judge that judges each answer by itself."""

    async def many(self, rows: Iterable[Mapping[str, object]], *, progress: bool = True) -> JudgmentTable[DetailT]:
        """Judge one answer to each of many questions, all at once, up to `judge_max_concurrency`.

        Args:
            rows: for each answer the arguments of `judge` by name, with `answer` in place of `answers`, such as
                `{"question": …, "answer": …}`; other columns are an error. A table of pandas gives them with
                `table[["question", "answer"]].to_dict("records")`.
            progress: write a line to standard error for each tenth of the rows.

        Returns:
            A judgment for each row, in order; its `failures` and `cost` are those of all.

        Raises:
            DataError: a row has no question or answer, or an argument that this judge does not take.
        """
        answers, cases = self._of_rows(rows)
        return await BACKGROUND.join(self._judge(answers, cases, progress=progress))

    def many_sync(self, rows: Iterable[Mapping[str, object]], *, progress: bool = True) -> JudgmentTable[DetailT]:
        """The same as `many`, in code without `await`."""
        answers, cases = self._of_rows(rows)
        return BACKGROUND.run(self._judge(answers, cases, progress=progress))

    @abstractmethod
    def _cases(self, *args: Any, **arguments: Any) -> list[CaseT]:
        """Check the arguments of `judge`, and make the case of each answer."""

    def _of_rows(self, rows: Iterable[Mapping[str, object]]) -> tuple[list[str], list[CaseT]]:
        parameters = inspect.signature(self._cases).parameters
        taken = ["answer" if name == "answers" else name for name in parameters]
        needed = [name for name, each in zip(taken, parameters.values(), strict=True) if each.default is each.empty]
        answers, cases = list[str](), list[CaseT]()
        for number, row in enumerate(rows):
            if not isinstance(row, Mapping):
                raise DataError(f"rows[{number}]: expected a mapping by name, found a {type(row).__name__}")
            unknown = [name for name in row if name not in taken]
            lacking = [name for name in needed if name not in row]
            if unknown or lacking:
                what = f"no {lacking[0]!r}" if lacking else f"the unknown {unknown[0]!r}"
                raise DataError(f"rows[{number}]: found {what}; this judge takes {', '.join(taken)}")
            try:
                answers.append(text(row["answer"], "answer"))
                given: dict[str, Any] = {name: value for name, value in row.items() if name != "answer"}
                cases += self._cases(**given, answers=answers[-1])
            except DataError as error:
                raise DataError(f"rows[{number}].{error}") from None
        return answers, cases

    async def _judge(
        self, answers: Sequence[str], cases: Sequence[CaseT], *, progress: bool = False
    ) -> JudgmentTable[DetailT]:
        judge = await self._session.opened()
        return await judge_rows(answers, cases, judge.judge, progress=progress)


@shows_settings(RubricJudgeSettings)
class RubricJudge(OpenJudge[RubricCase, RubricDetail]):
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
        super().__init__(RubricJudgeSettings, settings, RubricCaseJudge, offline=offline)
        scale = settings_from_keywords(RubricJudgeSettings, settings).scale
        self.rubric = rubric if isinstance(rubric, Rubric) else Rubric(rubric, {}, scale)

    async def judge(
        self, question: str, answers: str | Sequence[str], *, reference: str | None = None
    ) -> JudgmentTable[RubricDetail]:
        """Score each answer; `reference` is an answer that gets the highest score."""
        return await BACKGROUND.join(self._judge(listed(answers), self._cases(question, answers, reference)))

    def judge_sync(
        self, question: str, answers: str | Sequence[str], *, reference: str | None = None
    ) -> JudgmentTable[RubricDetail]:
        """The same as `judge`, in code without `await`."""
        return BACKGROUND.run(self._judge(listed(answers), self._cases(question, answers, reference)))

    def _cases(self, question: str, answers: str | Sequence[str], reference: str | None = None) -> list[RubricCase]:
        asked, shown = text(question, "question"), optional_text(reference, "reference")
        return [RubricCase(asked, answer, self.rubric, shown) for answer in listed(answers)]


@shows_settings(AspectJudgeSettings)
class AspectJudge(OpenJudge[AspectCase, PanelDetail]):
    """Judges answers by aspects: yes/no questions, each decided by a majority of votes.

    Example:
        >>> with AspectJudge(aspects=["harmfulness", "correctness"], offline=True) as judge:
        ...     table = judge.judge_sync("How many legs has a spider?", ["Eight.", "Six."])
        >>> [aspect.aspect for aspect in table[0].detail.aspects]
        ['harmfulness', 'correctness']
    """

    def __init__(self, *, offline: bool = False, **settings: object) -> None:
        """Judge by the aspects of the settings.

        Raises:
            SettingsError: a setting is unknown or wrong.
        """
        super().__init__(AspectJudgeSettings, settings, AspectPanel, offline=offline)

    async def judge(
        self, question: str, answers: str | Sequence[str], *, context: str | None = None, reference: str | None = None
    ) -> JudgmentTable[PanelDetail]:
        """Judge each answer; `context` is what it should use, `reference` what it is compared with."""
        cases = self._cases(question, answers, context, reference)
        return await BACKGROUND.join(self._judge(listed(answers), cases))

    def judge_sync(
        self, question: str, answers: str | Sequence[str], *, context: str | None = None, reference: str | None = None
    ) -> JudgmentTable[PanelDetail]:
        """The same as `judge`, in code without `await`."""
        return BACKGROUND.run(self._judge(listed(answers), self._cases(question, answers, context, reference)))

    def _cases(
        self,
        question: str,
        answers: str | Sequence[str],
        context: str | None = None,
        reference: str | None = None,
    ) -> list[AspectCase]:
        asked, shown = text(question, "question"), optional_text(reference, "reference")
        read = optional_text(context, "context")
        return [AspectCase(answer, asked, read, shown) for answer in listed(answers)]


@shows_settings(ArenaJudgeSettings)
class ArenaHardJudge(OpenJudge[ArenaCase, ArenaDetail]):
    """Compares answers with a baseline, in both orders: −1 (both games lost) to 1 (both won).

    Example:
        >>> with ArenaHardJudge(offline=True) as judge:
        ...     table = judge.judge_sync("Name a prime.", ["Seven is a prime.", "Nine."], baseline="Eight.")
        >>> [label in ("win", "tie", "loss") for label in (judgment.label for judgment in table)]
        [True, True]
    """

    def __init__(self, *, offline: bool = False, **settings: object) -> None:
        """Judge with the built-in prompt of the protocol, or with `judge_system_prompt`.

        Raises:
            SettingsError: a setting is unknown or wrong.
        """
        super().__init__(ArenaJudgeSettings, settings, ArenaCaseJudge, offline=offline)

    async def judge(self, question: str, answers: str | Sequence[str], *, baseline: str) -> JudgmentTable[ArenaDetail]:
        """Compare each answer with `baseline`."""
        return await BACKGROUND.join(self._judge(listed(answers), self._cases(question, answers, baseline)))

    def judge_sync(self, question: str, answers: str | Sequence[str], *, baseline: str) -> JudgmentTable[ArenaDetail]:
        """The same as `judge`, in code without `await`."""
        return BACKGROUND.run(self._judge(listed(answers), self._cases(question, answers, baseline)))

    def _cases(self, question: str, answers: str | Sequence[str], baseline: str) -> list[ArenaCase]:
        asked, other = text(question, "question"), text(baseline, "baseline")
        return [ArenaCase(asked, answer, other) for answer in listed(answers)]


@shows_settings(PeerJudgeSettings)
class PeerJudge(OpenJudge[PeerCase, PeerDetail]):
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
        super().__init__(PeerJudgeSettings, settings, PeerCaseJudge, offline=offline)
        self.rubric = rubric

    async def judge(self, question: str, answers: str | Sequence[str]) -> JudgmentTable[PeerDetail]:
        """Score each answer."""
        return await BACKGROUND.join(self._judge(listed(answers), self._cases(question, answers)))

    def judge_sync(self, question: str, answers: str | Sequence[str]) -> JudgmentTable[PeerDetail]:
        """The same as `judge`, in code without `await`."""
        return BACKGROUND.run(self._judge(listed(answers), self._cases(question, answers)))

    def _cases(self, question: str, answers: str | Sequence[str]) -> list[PeerCase]:
        asked = text(question, "question")
        return [PeerCase(asked, answer, self.rubric) for answer in listed(answers)]


def listed(answers: str | Sequence[str]) -> list[str]:
    """The answers as a list; a single answer becomes a list of one.

    Raises:
        DataError: one is no text.
    """
    return texts(answers, "answers")


_OF_OTHER_JUDGES = ("judge_critique_rounds", "judge_output", "judge_system_prompt")
"""Settings of the built-in judges that no other judge is given."""


@shows_settings(JudgeSettings)
class OwnJudge(OpenJudge[CaseT, DetailT]):
    """Judges answers by a judge of one's own.

    Example:
        >>> from judgegym.judges.peers import PeerCase, PeerCaseJudge
        >>> from judgegym.judges.peers import PeerJudgeSettings
        >>> def strict(client):
        ...     return PeerCaseJudge(PeerJudgeSettings(), client)
        >>> def case(question, answer):
        ...     return PeerCase(question, answer, "It is a prime.")
        >>> with OwnJudge(strict, case, offline=True) as judge:
        ...     table = judge.judge_sync("Name a prime.", ["Seven is a prime.", ""])
        >>> table.scores[0] >= 0, table[1].status.value
        (True, 'invalid_completion')
    """

    def __init__(
        self,
        judge: Callable[[ChatClient], Judge[CaseT, DetailT]],
        case: Callable[[str, str], CaseT],
        *,
        offline: bool = False,
        offline_prompts: Sequence[str | PromptFormat] = (),
        **settings: object,
    ) -> None:
        """Judge with what `judge` makes of a chat client, such as the class of the judge.

        Args:
            judge: makes the judge.
            case: makes the judge's case of a question and an answer.
            offline: use the stand-in as the judge model.
            offline_prompts: the judge's prompts, for the stand-in: each a name at the top of a file.
            settings: `judge_model_name`, `judge_base_url` and so on.

        Raises:
            SettingsError: a setting is unknown or wrong, or only built-in judges read it.
        """
        idle = next((name for name in _OF_OTHER_JUDGES if name in settings), None)
        if idle is not None:
            raise SettingsError(f"{idle}: only the built-in judges read it; a judge of one's own has its own prompt")
        super().__init__(
            JudgeSettings, settings, lambda _, client: judge(client), offline=offline, offline_prompts=offline_prompts
        )
        self._case = case

    async def judge(self, question: str, answers: str | Sequence[str]) -> JudgmentTable[DetailT]:
        """Judge each answer; a failed judge is a judgment without a score, with the reason."""
        return await BACKGROUND.join(self._judge(listed(answers), self._cases(question, answers)))

    def judge_sync(self, question: str, answers: str | Sequence[str]) -> JudgmentTable[DetailT]:
        """The same as `judge`, in code without `await`."""
        return BACKGROUND.run(self._judge(listed(answers), self._cases(question, answers)))

    def _cases(self, question: str, answers: str | Sequence[str]) -> list[CaseT]:
        asked = text(question, "question")
        return [self._case(asked, answer) for answer in listed(answers)]
