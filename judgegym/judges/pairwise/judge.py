"""The choice judge: chooses the best of N answers to one question by letter, in one call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from judgegym.judges.core.calls import ask, failed_judgment
from judgegym.judges.core.critique import CritiqueRequest, Revision, critique_messages
from judgegym.judges.core.delimiters import Prompt
from judgegym.judges.core.judge import Judge
from judgegym.judges.core.judgment import JudgeCall, Judgment, Status
from judgegym.judges.core.self_critique import with_self_critique
from judgegym.judges.pairwise.prompt import LETTERS, choice_prompt
from judgegym.judges.pairwise.settings import ChoiceJudgeSettings
from judgegym.judges.parsing.thinking import after_thinking
from judgegym.judges.parsing.verdict_form import VerdictForm
from judgegym.judges.parsing.verdict_parser import VerdictParser
from judgegym.judges.parsing.verdicts import choice_form, choice_letter
from judgegym.judges.parsing.written_object import explained
from judgegym.llm.client import ChatClient


@dataclass(frozen=True, slots=True)
class ChoiceCase:
    """A question and 2 to 26 answers to it, in the order of their letters."""

    question: str
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChoiceDetail:
    """The index of the best answer, from 0 (`None` without a verdict), and the judge's whole text."""

    best: int | None
    text: str


class ChoiceCaseJudge:
    """Chooses the best of several answers.

    >>> settings = ChoiceJudgeSettings(judge_base_url="http://127.0.0.1:8000/v1")
    >>> judge = ChoiceCaseJudge(ChatClient(settings.chat_settings()), settings)
    """

    def __init__(self, client: ChatClient, settings: ChoiceJudgeSettings | None = None) -> None:
        """Judge through `client`, with the default settings if none are given."""
        self.client = client
        self.settings = settings or ChoiceJudgeSettings()

    async def judge(self, case: ChoiceCase) -> Judgment[ChoiceDetail]:
        """Ask for the best answer.

        Returns:
            The index of the best answer, from 0, as the score, and its letter as the label; or no score and the reason.
            Never raises because of a judge's answer.

        Raises:
            ValueError: there are fewer than 2 or more than 26 answers.
        """
        prompt = self._prompt(case)
        call = await ask(self.client, prompt.messages, _letter(case), name="choice", form=self._form(case))
        if call.value is None:
            judgment = failed_judgment([call], detail=ChoiceDetail(None, call.text))
        else:
            judgment = _judgment(call.value, call.text, (call,))
        return replace(judgment, suspects=prompt.suspects)

    def critique_requests(self, case: ChoiceCase, judgment: Judgment[ChoiceDetail]) -> list[CritiqueRequest[str]]:
        """One request, for the letter."""
        assert judgment.label is not None and judgment.detail is not None
        own, letter = after_thinking(judgment.detail.text).strip(), _letter(case)
        messages = critique_messages(self._prompt(case).messages, own)
        request = CritiqueRequest("", judgment.label, own, messages, lambda choice: letter.find(choice.text), _revision)
        return [request.held_to(self._form(case))]

    def apply_revisions(
        self, case: ChoiceCase, judgment: Judgment[ChoiceDetail], revisions: Mapping[str, JudgeCall[str]]
    ) -> Judgment[ChoiceDetail]:
        """The letter of the revision in place of the earlier one."""
        call = revisions[""]
        assert call.value is not None  # only calls with a letter get here
        return _judgment(call.value, call.text, judgment.calls)

    def _form(self, case: ChoiceCase) -> VerdictForm | None:
        return self.settings.form(choice_form(LETTERS[: len(case.answers)]))

    def _prompt(self, case: ChoiceCase) -> Prompt:
        return choice_prompt(case.question, case.answers, system_prompt=self.settings.judge_system_prompt)


def choice_judge(settings: ChoiceJudgeSettings, client: ChatClient) -> Judge[ChoiceCase, ChoiceDetail]:
    """The judge that the settings ask for, with its self-critique."""
    return with_self_critique(ChoiceCaseJudge(client, settings), settings.judge_critique_rounds)


def _letter(case: ChoiceCase) -> VerdictParser[[], str]:
    return choice_letter.given(LETTERS[: len(case.answers)])


def _judgment(letter: str, text: str, calls: tuple[JudgeCall[object], ...]) -> Judgment[ChoiceDetail]:
    best = LETTERS.index(letter)
    return Judgment(float(best), Status.OK, letter, explained(text)[1], calls, ChoiceDetail(best, text))


def _revision(call: JudgeCall[str]) -> Revision:
    assert call.value is not None  # only calls with a letter get here
    critique, reasons = explained(after_thinking(call.text).strip())
    return Revision(call.value, reasons, critique)
