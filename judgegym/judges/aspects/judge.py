"""The aspect judge: a yes/no question about a submission, decided by a majority of independent votes.

Source: the ragas project's aspect critique with its `strictness`, the number of judge calls whose majority is the
verdict. A verdict answers the question; the aspect's `polarity` says whether a yes is good or bad.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from judgegym.judges.aspects.prompt import Aspect, aspect_prompt
from judgegym.judges.aspects.settings import AspectJudgeSettings, effective_strictness
from judgegym.judges.aspects.votes import AspectDetail, AspectVerdict, cast_vote, count_votes, find_verdict
from judgegym.judges.core.calls import ask_choice, failed_judgment
from judgegym.judges.core.critique import CritiqueRequest, Revision, critique_messages
from judgegym.judges.core.delimiters import Prompt
from judgegym.judges.core.judgment import JudgeCall, Judgment, Status
from judgegym.judges.core.voting import collect_votes, vote
from judgegym.judges.parsing.thinking import after_thinking
from judgegym.judges.parsing.verdict_parser import ParsedVerdict
from judgegym.judges.parsing.verdicts import ASPECT_FORM
from judgegym.judges.parsing.written_object import critique_before
from judgegym.llm.client import ChatClient
from judgegym.llm.wire import Choice

_REDRAWS = 2


@dataclass(frozen=True, slots=True)
class AspectCase:
    """A submission, the question that it answers, the context that it should use, and the reference to compare with."""

    submission: str
    question: str | None = None
    context: str | None = None
    reference: str | None = None


class AspectCaseJudge:
    """Judges submissions by one aspect; `judgegym.judges.aspects.panel` judges them by several.

    >>> settings = AspectJudgeSettings(judge_base_url="http://127.0.0.1:8000/v1", strictness=3)
    >>> judge = AspectCaseJudge(ChatClient(settings.chat_settings()), settings.aspects[0], settings)
    """

    def __init__(self, client: ChatClient, aspect: Aspect, settings: AspectJudgeSettings | None = None) -> None:
        """Judge `aspect` through `client`, with the default settings if none are given."""
        self.client = client
        self.aspect = aspect
        self.settings = settings or AspectJudgeSettings()

    async def judge(self, case: AspectCase) -> Judgment[AspectDetail]:
        """Request as many votes as a majority needs at once, then those that are still missing.

        A vote without a verdict is requested again, at most twice.

        Returns:
            The majority's verdict as the score (1 yes, 0 no, before polarity) and as the label `yes` or `no`; or no
            score and the reason. Never raises because of a judge's answer.
        """
        prompt = self._prompt(case)
        strictness = self.settings.strictness_of(self.aspect)
        count = effective_strictness(strictness)
        takes_all = self.settings.scoring == "share"  # stopping at a majority would bias the share towards 0 or 1

        async def ask_vote(number: int) -> JudgeCall[AspectVerdict]:
            which = vote(number, count=count, seed=self.settings.seed)
            name = f"{self.aspect.name}_vote_{number + 1}"
            form = self.settings.form(ASPECT_FORM)
            return await ask_choice(self.client, prompt.messages, _read, name=name, vote=which, form=form)

        def missing(usable: Sequence[JudgeCall[AspectVerdict]]) -> int:
            yes = sum(call.value is not None and call.value.yes for call in usable)
            return count - len(usable) if takes_all else count // 2 + 1 - max(yes, len(usable) - yes)

        calls = await collect_votes(ask_vote, missing, at_most=count + _REDRAWS)
        votes = [cast_vote(call.text, call.value, call.error) for call in calls]
        return aspect_judgment(count_votes(self.aspect, votes, strictness), tuple(calls), suspects=prompt.suspects)

    def critique_requests(
        self, case: AspectCase, judgment: Judgment[AspectDetail]
    ) -> list[CritiqueRequest[AspectVerdict]]:
        """One request for the majority's verdict with its reasons, whatever the number of votes."""
        assert judgment.detail is not None and judgment.detail.yes is not None
        verdict = "yes" if judgment.detail.yes else "no"
        messages = critique_messages(self._prompt(case).messages, f"Verdict: {verdict}\n{judgment.explanation}")
        request = CritiqueRequest(self.aspect.name, verdict, judgment.explanation, messages, _read, _revision)
        return [request.held_to(self.settings.form(ASPECT_FORM))]

    def apply_revisions(
        self, case: AspectCase, judgment: Judgment[AspectDetail], revisions: Mapping[str, JudgeCall[AspectVerdict]]
    ) -> Judgment[AspectDetail]:
        """The revised verdict in place of the majority's; if it has changed, its share of yes votes is 0 or 1."""
        call, detail = revisions[self.aspect.name], judgment.detail
        assert detail is not None and call.value is not None  # only calls with a verdict get here
        if call.value.yes != detail.yes:
            detail = replace(detail, yes=call.value.yes, yes_share=float(call.value.yes), agreement=None)
        return aspect_judgment(replace(detail, reason=call.value.reason or call.text), judgment.calls)

    def _prompt(self, case: AspectCase) -> Prompt:
        return aspect_prompt(
            self.aspect.definition,
            case.submission,
            case.question,
            case.context,
            case.reference,
            layout=self.settings.judge_prompt_layout,
            system_prompt=self.settings.judge_system_prompt,
        )


def _read(choice: Choice) -> ParsedVerdict[AspectVerdict] | None:
    return find_verdict(choice.text)


def _revision(call: JudgeCall[AspectVerdict]) -> Revision:
    assert call.value is not None  # only calls with a verdict get here
    critique = critique_before(after_thinking(call.text), "verdict")
    return Revision("yes" if call.value.yes else "no", call.value.reason or call.text, critique)


def aspect_judgment(
    detail: AspectDetail, calls: tuple[JudgeCall[object], ...] = (), *, suspects: int = 0
) -> Judgment[AspectDetail]:
    """A verdict as a judgment; without a majority it is failed if a call never succeeded, else unparsable."""
    if detail.yes is not None:
        label = "yes" if detail.yes else "no"
        return Judgment(float(detail.yes), Status.OK, label, detail.reason, calls, detail, suspects=suspects)
    errors = "; ".join(dict.fromkeys(call.error for call in calls if call.error is not None))
    usable = len(detail.votes) - detail.redrawn
    explanation = f"{detail.aspect}: no majority of {detail.strictness_effective} in {usable} verdicts: {errors}"
    return replace(failed_judgment(calls, explanation=explanation, detail=detail), suspects=suspects)
