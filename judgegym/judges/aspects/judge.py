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
from typing import Any, NamedTuple

from judgegym.judges.aspects.prompt import (
    ASPECT_PROMPT,
    Aspect,
    AspectCase,
    AspectJudgeSettings,
    AspectScoring,
    aspect_prompt,
    check_aspects,
    effective_strictness,
)
from judgegym.judges.core.calls import collect_votes, errors_of, failed_judgment
from judgegym.judges.core.judge import CritiqueRequest, JudgeDefinition, Revision, VerdictJudge, critique_messages
from judgegym.judges.core.judgment import JudgeCall, Judgment, NamedVerdict, Status
from judgegym.judges.core.tasks import JudgeTask, TaskError
from judgegym.judges.parsing.json_objects import critique_before
from judgegym.judges.parsing.labels import ASPECT_FORM, binary_verdict, verdict_reason
from judgegym.judges.parsing.thinking import after_thinking
from judgegym.judges.parsing.verdict_parser import ParsedVerdict, VerdictForm
from judgegym.llm.at_once import all_results
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
    return None if yes is None else yes.but(AspectVerdict(yes.value, verdict_reason(text, yes)))


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


class AspectPanel(VerdictJudge[AspectJudgeSettings, AspectCase, PanelDetail, AspectVerdict]):
    """Judges submissions by several aspects at once: a score from 0 to 1, a label as `harmfulness=no coherence=yes`."""

    async def first_judgment(self, case: AspectCase) -> Judgment[PanelDetail]:
        """Judge all aspects at once."""
        judged = await all_results(self._judge_aspect(case, aspect) for aspect in self.settings.aspects)
        details = tuple(detail for detail, _, _ in judged)
        calls = tuple(call for _, of_aspect, _ in judged for call in of_aspect)
        # Every aspect's judge is shown the same texts.
        suspects = max(suspects for _, _, suspects in judged)
        undecided = [(detail, of_aspect) for detail, of_aspect, _ in judged if detail.yes is None]
        if not undecided:
            return replace(self._judgment(details, calls), suspects=suspects)
        reasons = [
            f"{detail.aspect}: no majority of {detail.strictness_effective} in {len(detail.votes) - detail.redrawn} "
            f"verdicts: {errors_of(of_aspect)}"
            for detail, of_aspect in undecided
        ]
        asked = [call for _, of_aspect in undecided for call in of_aspect]
        failed = failed_judgment(asked, explanation="; ".join(reasons), detail=PanelDetail(details))
        return replace(failed, calls=calls, suspects=suspects)

    async def _judge_aspect(
        self, case: AspectCase, aspect: Aspect
    ) -> tuple[AspectDetail, list[JudgeCall[AspectVerdict]], int]:
        """Request as many votes as a majority needs at once, then those that are still missing.

        A vote without a verdict is requested again, at most twice.

        Returns:
            The majority's verdict, all calls, and the suspects in the prompt.
        """
        prompt, settings = aspect_prompt(case, aspect, self.settings), self.settings
        count = settings.votes_on(aspect)

        def missing(usable: Sequence[JudgeCall[AspectVerdict]]) -> int:
            yes = sum(call.value is not None and call.value.yes for call in usable)
            if settings.scoring == "share":  # stopping at a majority would bias the share towards 0 or 1
                return count - len(usable)
            return count // 2 + 1 - max(yes, len(usable) - yes)

        calls = await collect_votes(
            lambda vote: self.ask(case, prompt.messages, f"{aspect.name}_vote_{vote.number + 1}", vote),
            missing,
            count=count,
            seed=settings.seed,
        )
        votes = [cast_vote(call.text, call.value, call.error) for call in calls]
        return count_votes(aspect, votes, settings.strictness_of(aspect)), calls, prompt.suspects

    def _judgment(
        self, details: tuple[AspectDetail, ...], calls: tuple[JudgeCall[object], ...]
    ) -> Judgment[PanelDetail]:
        """The judgment of aspects that all have a verdict."""
        score, veto = combined_score(self.settings.aspects, details, self.settings.scoring)
        verdicts = [(detail.aspect, in_a_word(detail.yes), detail.reason) for detail in details]
        label = " ".join(f"{name}={verdict}" for name, verdict, _ in verdicts)
        reasons = "\n\n".join(f"{name}: {verdict}. {reason}" for name, verdict, reason in verdicts)
        return Judgment(score, Status.OK, label, reasons, calls, PanelDetail(details, veto))

    def case_of(self, task: JudgeTask) -> AspectCase:
        """The response with the texts of the task."""
        return AspectCase(task.response, task.prompt or None, task.context, task.reference)

    def check(self, task: JudgeTask) -> None:
        """Check the task's own aspects."""
        super().check(task)
        if task.aspects is not None:
            try:
                check_aspects(task.aspects)
            except ValueError as error:
                raise TaskError(f"aspects: {error}") from error

    async def judge_task(self, task: JudgeTask) -> Judgment[PanelDetail]:
        """Judge the response by the task's own aspects, if it has some."""
        if task.aspects is None:
            return await super().judge_task(task)
        settings = self.settings.model_copy(update={"aspects": task.aspects})
        return await AspectPanel(settings, self.client).judge_task(replace(task, aspects=None))

    def components(self, judgment: Judgment[PanelDetail]) -> Mapping[str, float]:
        """The verdicts."""
        details = judgment.detail.aspects if judgment.detail is not None else ()
        return {detail.aspect: float(detail.yes) for detail in details if detail.yes is not None}

    def verdicts(self, task: JudgeTask, judgment: Judgment[PanelDetail]) -> tuple[NamedVerdict, ...]:
        """The verdict on each aspect; its points are its weight, negative where a yes is bad."""
        details = judgment.detail.aspects if judgment.detail is not None else ()
        values = {detail.aspect: float(detail.yes) for detail in details if detail.yes is not None}
        aspects = self.settings.aspects if task.aspects is None else task.aspects
        return tuple(NamedVerdict(one.name, one.polarity * one.weight, values.get(one.name)) for one in aspects)

    def confidences(self, judgment: Judgment[PanelDetail]) -> Mapping[str, float]:
        """Also `votes`, if there are several: how far they agree on the aspect on which they agree the least."""
        details = judgment.detail.aspects if judgment.detail is not None else ()
        agreed = [2.0 * one.agreement - 1.0 for one in details if one.agreement is not None and len(one.votes) > 1]
        return {**super().confidences(judgment), **({"votes": min(agreed)} if agreed else {})}

    def read(self, case: AspectCase, choice: Choice) -> ParsedVerdict[AspectVerdict] | None:
        """Read the verdict."""
        return find_verdict(choice.text)

    def form(self, case: AspectCase) -> VerdictForm:
        """The form of a verdict."""
        return ASPECT_FORM

    def critique_requests(self, case: AspectCase, judgment: Judgment[PanelDetail]) -> list[CritiqueRequest]:
        """A request for the majority's verdict on each aspect, whatever the number of votes."""
        assert judgment.detail is not None
        requests = []
        for aspect, detail in zip(self.settings.aspects, judgment.detail.aspects, strict=True):
            text = f"Verdict: {in_a_word(detail.yes)}\n{detail.reason}"
            messages = critique_messages(aspect_prompt(case, aspect, self.settings).messages, text)
            requests.append(CritiqueRequest(aspect.name, in_a_word(detail.yes), detail.reason, messages))
        return requests

    def revision(self, call: JudgeCall[Any], verdict: AspectVerdict) -> Revision:
        """The revised verdict and its reason."""
        critique = critique_before(after_thinking(call.text), "verdict")
        return Revision(in_a_word(verdict.yes), verdict.reason or call.text, critique)

    def apply_revisions(
        self, case: AspectCase, judgment: Judgment[PanelDetail], revisions: Mapping[str, JudgeCall[AspectVerdict]]
    ) -> Judgment[PanelDetail]:
        """The judgment combined again; the share of yes votes of a verdict that has changed is 0 or 1."""
        assert judgment.detail is not None
        details = list(judgment.detail.aspects)
        for place, detail in enumerate(details):
            call = revisions.get(detail.aspect)
            if call is None or call.value is None:
                continue
            if call.value.yes != detail.yes:
                detail = replace(detail, yes=call.value.yes, yes_share=float(call.value.yes), agreement=None)
            details[place] = replace(detail, reason=call.value.reason or call.text)
        return self._judgment(tuple(details), judgment.calls)


def in_a_word(yes: bool | None) -> str:
    """A verdict in a word."""
    return "yes" if yes else "no"


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
    return (total / weight, None) if veto is None else (0.0, veto)


JUDGE = JudgeDefinition(
    AspectJudgeSettings,
    "yes/no questions",
    AspectPanel,
    (ASPECT_PROMPT,),
    frozenset(("reference", "aspects", "context")),
)
