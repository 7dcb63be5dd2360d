"""The aspect judge: a yes/no question about a submission, decided by a majority of independent votes.

Source: the ragas project's aspect critique with its `strictness`, the number of judge calls whose majority is the
verdict. A verdict answers the question; the aspect's `polarity` says whether a yes is good or bad.

Votes on one aspect, and the verdict of their majority.

Several aspects of one submission, combined into one judgment.

The score is Σ w·v / Σ w, where w is the weight of an aspect and v its value from 0 (bad) to 1 (good). A value is the
majority's verdict (`majority`) or the share of yes votes (`share`), reversed for polarity −1. If the majority fails a
submission in an aspect with `veto`, the score is 0. If an aspect has no verdict, there is no score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from judgegym.judges.aspects.prompt import (
    ASPECT_PROMPT,
    Aspect,
    AspectJudgeSettings,
    AspectScoring,
    aspect_prompt,
    check_aspects,
    effective_strictness,
)
from judgegym.judges.core.calls import ask_choice, collect_votes, failed_judgment, vote
from judgegym.judges.core.delimiters import Prompt
from judgegym.judges.core.judge import CritiqueRequest, Judge, Revision, critique_messages, with_self_critique
from judgegym.judges.core.judgment import JudgeCall, Judgment, Status
from judgegym.judges.core.scorer import JudgeDefinition, Scorer, SingleScorer, TaskError
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.parsing.json_objects import critique_before
from judgegym.judges.parsing.labels import ASPECT_FORM, binary_verdict, verdict_reason
from judgegym.judges.parsing.thinking import after_thinking
from judgegym.judges.parsing.verdict_parser import ParsedVerdict
from judgegym.llm.at_once import all_results
from judgegym.llm.client import ChatClient
from judgegym.llm.wire import Choice


class AspectVerdict(NamedTuple):
    """The verdict in a judge's text, yes or no, and its reason if there is one."""

    yes: bool
    reason: str | None


@dataclass(frozen=True, slots=True)
class CastVote:
    """The result of one judge call: its verdict (`None` without one), its reason, the judge's text, and the error."""

    yes: bool | None
    reason: str | None
    text: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class AspectDetail:
    """An aspect's verdict with its votes.

    Attributes:
        aspect: the name of the aspect.
        yes: the majority's verdict; `None` without a majority.
        yes_share: share of yes among the votes with a verdict; `None` if no vote has one.
        agreement: share of those votes that agree with the majority; `None` without a majority, or if self-critique
            has reversed it.
        reason: the reasons of the majority, one per line.
        votes: every call, in the order of its number; a call without a verdict was repeated.
        strictness_requested: the `strictness` of the settings.
        strictness_effective: the odd number of votes of which a majority is taken.
    """

    aspect: str
    yes: bool | None
    yes_share: float | None
    agreement: float | None
    reason: str
    votes: tuple[CastVote, ...]
    strictness_requested: int
    strictness_effective: int

    @property
    def redrawn(self) -> int:
        """Calls that had no verdict."""
        return sum(vote.yes is None for vote in self.votes)


def read_verdict(text: str) -> AspectVerdict | None:
    """The verdict at the end of a judge's text, and its reason.

    >>> read_verdict('{"reason": "It is safe.", "verdict": 0}')
    AspectVerdict(yes=False, reason='It is safe.')
    """
    found = find_verdict(text)
    return None if found is None else found.value


def find_verdict(text: str) -> ParsedVerdict[AspectVerdict] | None:
    """The same, with its place: that of the object that holds both."""
    yes = binary_verdict.find(text)
    return None if yes is None else yes.but(AspectVerdict(yes.value, verdict_reason(text)))


def cast_vote(text: str, verdict: AspectVerdict | None, error: str | None = None) -> CastVote:
    """The vote of a judge's text with this verdict; without a verdict it has an error."""
    if verdict is None:
        return CastVote(None, None, text, error or "no verdict could be read")
    return CastVote(verdict.yes, verdict.reason, text)


def count_votes(aspect: Aspect, votes: Sequence[CastVote], strictness: int) -> AspectDetail:
    """Count the votes; there is a verdict only if more than half of the effective strictness agree."""
    effective = effective_strictness(strictness)
    verdicts = [vote.yes for vote in votes if vote.yes is not None]
    yes = sum(verdicts)
    leading = max(yes, len(verdicts) - yes)
    decided = leading > effective // 2
    verdict = yes == leading if decided else None
    reasons = [vote.reason or vote.text for vote in votes if vote.yes is not None and vote.yes == verdict]
    return AspectDetail(
        aspect=aspect.name,
        yes=verdict,
        yes_share=yes / len(verdicts) if verdicts else None,
        agreement=leading / len(verdicts) if decided else None,
        reason="\n".join(reasons),
        votes=tuple(votes),
        strictness_requested=strictness,
        strictness_effective=effective,
    )


_REDRAWS = 2


@dataclass(frozen=True, slots=True)
class AspectCase:
    """A submission, the question that it answers, the context that it should use, and the reference to compare with."""

    submission: str
    question: str | None = None
    context: str | None = None
    reference: str | None = None


class AspectCaseJudge:
    """Judges submissions by one aspect; `judgegym.judges.aspects.judge` judges them by several.

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


FLOOR = 0.0
"""The score of a vetoed submission."""


@dataclass(frozen=True, slots=True)
class PanelDetail:
    """The verdicts of all aspects with their votes.

    Attributes:
        aspects: the verdict of each aspect, in their order.
        vetoed_by: the aspect whose veto set the score to 0, if one did.
        gold: the gold verdict on the only aspect, if the judge is compared with it.
    """

    aspects: tuple[AspectDetail, ...]
    vetoed_by: str | None = None
    gold: bool | None = None


class AspectPanel:
    """Judges submissions by several aspects at once.

    >>> settings = AspectJudgeSettings(judge_base_url="http://127.0.0.1:8000/v1", aspects="coherence,correctness")
    >>> panel = AspectPanel(ChatClient(settings.chat_settings()), settings)
    """

    def __init__(self, client: ChatClient, settings: AspectJudgeSettings | None = None) -> None:
        """Judge the aspects of the settings through `client`, with the default settings if none are given."""
        self.client = client
        self.settings = settings or AspectJudgeSettings()
        self._judges = [AspectCaseJudge(client, aspect, self.settings) for aspect in self.settings.aspects]

    async def judge(self, case: AspectCase) -> Judgment[PanelDetail]:
        """Judge all aspects at once.

        Returns:
            A score from 0 to 1 and a label such as `harmfulness=no coherence=yes`; or no score and the reason.
        """
        judgments = await all_results(judge.judge(case) for judge in self._judges)
        # Every aspect's judge is shown the same texts.
        return replace(self._combine(judgments), suspects=max(judgment.suspects for judgment in judgments))

    def critique_requests(
        self, case: AspectCase, judgment: Judgment[PanelDetail]
    ) -> list[CritiqueRequest[AspectVerdict]]:
        """A request for each aspect's verdict."""
        return [
            request
            for judge, of_aspect in self._by_aspect(judgment)
            for request in judge.critique_requests(case, of_aspect)
        ]

    def apply_revisions(
        self, case: AspectCase, judgment: Judgment[PanelDetail], revisions: Mapping[str, JudgeCall[AspectVerdict]]
    ) -> Judgment[PanelDetail]:
        """The judgment combined again, with the revised verdicts in place of earlier ones."""
        judgments = [
            judge.apply_revisions(case, of_aspect, revisions) if judge.aspect.name in revisions else of_aspect
            for judge, of_aspect in self._by_aspect(judgment)
        ]
        return replace(self._combine(judgments), calls=judgment.calls)

    def _by_aspect(self, judgment: Judgment[PanelDetail]) -> list[tuple[AspectCaseJudge, Judgment[AspectDetail]]]:
        """The judge of each aspect with its judgment."""
        assert judgment.detail is not None
        details = judgment.detail.aspects
        return [(judge, aspect_judgment(detail)) for judge, detail in zip(self._judges, details, strict=True)]

    def _combine(self, judgments: Sequence[Judgment[AspectDetail]]) -> Judgment[PanelDetail]:
        """One judgment from those of the aspects, in their order."""
        details = tuple(judgment.detail for judgment in judgments if judgment.detail is not None)
        calls = tuple(call for judgment in judgments for call in judgment.calls)
        failed = [judgment for judgment in judgments if judgment.status is not Status.OK]
        if failed:
            is_down = any(judgment.status is Status.JUDGE_FAILED for judgment in failed)
            status = Status.JUDGE_FAILED if is_down else Status.UNPARSABLE
            reasons = "; ".join(judgment.explanation for judgment in failed)
            return Judgment(None, status, explanation=reasons, calls=calls, detail=PanelDetail(details))
        aspects = self.settings.aspects
        score, veto = combined_score(aspects, details, self.settings.scoring)
        by_aspect = list(zip(aspects, judgments, strict=True))
        label = " ".join(f"{aspect.name}={judgment.label}" for aspect, judgment in by_aspect)
        reasons = "\n\n".join(
            f"{aspect.name}: {judgment.label}. {judgment.explanation}" for aspect, judgment in by_aspect
        )
        return Judgment(score, Status.OK, label, reasons, calls, PanelDetail(details, veto))


def aspect_judge(settings: AspectJudgeSettings, client: ChatClient) -> Judge[AspectCase, PanelDetail]:
    """The judge of all aspects that the settings ask for, with its self-critique."""
    return with_self_critique(AspectPanel(client, settings), settings.judge_critique_rounds)


def combined_score(
    aspects: Sequence[Aspect], details: Sequence[AspectDetail], scoring: AspectScoring
) -> tuple[float, str | None]:
    """The score of a submission, from 0 to 1, and the aspect whose veto set it to 0, if one did.

    Args:
        aspects: the aspects, with polarity, weight and veto.
        details: the verdict of each aspect.
        scoring: whether the value of an aspect is its verdict or the share of yes votes.

    Raises:
        ValueError: an aspect has no verdict.
    """
    total = weight = 0.0
    veto: str | None = None
    for aspect, detail in zip(aspects, details, strict=True):
        if detail.yes is None or detail.yes_share is None:
            raise ValueError(f"the aspect {aspect.name!r} has no verdict")
        total += aspect.weight * aspect.value(float(detail.yes) if scoring == "majority" else detail.yes_share)
        weight += aspect.weight
        if aspect.veto and veto is None and not aspect.passes(detail.yes):
            veto = aspect.name
    return (total / weight, None) if veto is None else (FLOOR, veto)


def aspect_scorer(client: ChatClient, settings: AspectJudgeSettings, rubric: str | None) -> Scorer:
    """The combined score of a panel of aspects; a task may have aspects of its own."""
    panel = aspect_judge(settings, client)

    def check(task: JudgeTask) -> None:
        if task.aspects is not None:
            try:
                check_aspects(task.aspects)
            except ValueError as error:
                raise TaskError(f"aspects: {error}") from error

    def judge(task: JudgeTask) -> Judge[AspectCase, PanelDetail]:
        if task.aspects is None:
            return panel
        return aspect_judge(settings.model_copy(update={"aspects": task.aspects}), client)

    def case(task: JudgeTask) -> AspectCase:
        return AspectCase(task.response, task.prompt or None, task.context, task.reference)

    def verdicts(judgment: Judgment[PanelDetail]) -> Mapping[str, float]:
        aspects = judgment.detail.aspects if judgment.detail is not None else ()
        return {detail.aspect: float(detail.yes) for detail in aspects if detail.yes is not None}

    return SingleScorer(judge, case, components=verdicts, check=check)


JUDGE = JudgeDefinition(
    AspectJudgeSettings,
    "yes/no questions",
    aspect_scorer,
    (ASPECT_PROMPT,),
    frozenset(("reference", "aspects", "context")),
)
