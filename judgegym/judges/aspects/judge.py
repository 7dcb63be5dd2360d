"""Aspect judge: a yes/no question about a submission, decided by a majority of votes.

Source: the ragas project's aspect critique with its `strictness`, the number of judge calls whose
majority is the verdict. A verdict answers the question; the aspect's `polarity` says whether a yes
is good or bad.

Several aspects of one submission are combined into one judgment. The score is Σ w·v / Σ w, where w
is the weight of an aspect and v its value from 0 (bad) to 1 (good). A value is the majority's
verdict (`majority`) or the share of yes votes (`share`), reversed for polarity −1. If the majority
fails a submission in an aspect with `veto`, the score is 0. If an aspect has no verdict, there is
no score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
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
from judgegym.judges.core.calls import failed_judgment, join_errors
from judgegym.judges.core.decisions import DecisionForm, least_probability
from judgegym.judges.core.judge import CritiqueRequest, JudgeDefinition, Revision, critique_messages
from judgegym.judges.core.judgment import JudgeCall, Judgment, NamedVerdict, Status
from judgegym.judges.core.model_judge import Answers, ModelJudge, Question, least_agreement
from judgegym.judges.core.tasks import JudgeTask, TaskError
from judgegym.judges.parsing.decisions import TRUE, Decision, DecisionQuestion
from judgegym.judges.parsing.json_objects import extract_critique
from judgegym.judges.parsing.labels import ASPECT_FORM, binary_verdict, verdict_reason
from judgegym.judges.parsing.thinking import cut_thinking
from judgegym.judges.parsing.verdict_parser import ParsedVerdict
from judgegym.llm.wire import Choice


class AspectVerdict(NamedTuple):
    """Verdict in a judge's text, yes or no, with its reason if there is one.

    A decision model's verdict has the probability of yes instead of a reason.
    """

    yes: bool
    reason: str | None
    probability: float | None = None


@dataclass(frozen=True, slots=True)
class CastVote:
    """Result of one judge call: verdict, reason, the judge's text, and the error.

    The verdict is `None` if the call has none.
    """

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
        yes_share: share of yes among the votes with a verdict, or a decision model's probability of
            yes; `None` if no vote has a verdict.
        agreement: share of those votes that agree with the majority; `None` without a majority, or
            if self-critique has reversed it.
        reason: the reasons of the majority, one per line.
        votes: every call, in the order of its number; a call without a verdict was repeated.
        strictness_requested: the `strictness` of the settings.
        strictness_effective: the odd number of votes whose majority counts.
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
    """Return the verdict at the end of a judge's text, and its reason.

    >>> read_verdict('{"reason": "It is safe.", "verdict": 0}')
    AspectVerdict(yes=False, reason='It is safe.', probability=None)
    """
    parsed = find_verdict(text)
    if parsed is None:
        return None
    return parsed.value


def find_verdict(text: str) -> ParsedVerdict[AspectVerdict] | None:
    """Return the same with its place: that of the object that holds verdict and reason."""
    yes = binary_verdict.find(text)
    if yes is None:
        return None
    return yes.replace_value(AspectVerdict(yes.value, verdict_reason(text, yes)))


def cast_vote(text: str, verdict: AspectVerdict | None, error: str | None = None) -> CastVote:
    """Return the vote of a judge's text with this verdict, or with an error if it has none."""
    if verdict is None:
        return CastVote(None, None, text, error or "no verdict could be read")
    return CastVote(verdict.yes, verdict.reason, text)


def count_votes(aspect: str, votes: Sequence[CastVote], strictness: int) -> AspectDetail:
    """Count the votes on an aspect.

    There is a verdict only if more than half of the effective strictness agree.
    """
    effective = effective_strictness(strictness)
    verdicts = [vote.yes for vote in votes if vote.yes is not None]
    yes = sum(verdicts)
    leading = max(yes, len(verdicts) - yes)
    decided = leading > effective // 2
    verdict = yes == leading if decided else None
    with_verdict = [vote for vote in votes if vote.yes is not None]
    reasons = [vote.reason or vote.text for vote in with_verdict if vote.yes == verdict]
    yes_share = None
    if verdicts:
        yes_share = yes / len(verdicts)
    leading_share = None
    if decided:
        leading_share = leading / len(verdicts)
    return AspectDetail(
        aspect=aspect,
        yes=verdict,
        yes_share=yes_share,
        agreement=leading_share,
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
        gold: the gold verdict on the only aspect, if the judge is compared with gold.
    """

    aspects: tuple[AspectDetail, ...]
    vetoed_by: str | None = None
    gold: bool | None = None


class AspectPanel(ModelJudge[AspectJudgeSettings, PanelDetail, AspectVerdict]):
    """Judge of submissions by several aspects at once.

    The score is from 0 to 1, the label like `harmfulness=no coherence=yes`.
    """

    unread_with_decisions = frozenset[str]()

    def check(self, task: JudgeTask) -> None:
        """Check the task's own aspects."""
        super().check(task)
        if task.aspects is not None:
            try:
                check_aspects(task.aspects)
            except ValueError as error:
                raise TaskError(f"aspects: {error}") from error
        if not self.decides:
            return
        for aspect in self._aspects(task):
            if self.settings.votes_on(aspect) > 1:
                raise TaskError(
                    f"aspects: {aspect.name!r} has votes, and a decision model is asked once"
                )

    def questions(self, task: JudgeTask) -> list[Question[AspectVerdict]]:
        """Ask about each aspect.

        First the votes that a majority needs are requested at once, then the missing ones.
        """
        settings = self.settings
        # Stopping at a majority would bias the share towards 0 or 1.
        stops_at_majority = settings.scoring != "share"
        questions = []
        for aspect in self._aspects(task):
            votes = settings.votes_on(aspect)
            missing = None
            if stops_at_majority:
                missing = partial(_votes_to_majority, votes)
            question = Question(
                f"{aspect.name}_vote",
                aspect_prompt(task, aspect, settings),
                _parse_choice,
                ASPECT_FORM,
                component=aspect.name,
                votes=votes,
                missing=missing,
                decision=self._make_form(task, aspect) if self.decides else None,
            )
            questions.append(question)
        return questions

    def combine(
        self, task: JudgeTask, answers: Sequence[Answers[AspectVerdict]]
    ) -> Judgment[PanelDetail]:
        """Combine the verdicts of all majorities; there is no score if an aspect has none."""
        aspects = self._aspects(task)
        details = tuple(
            _revised_detail(replies, self.settings.resolve_strictness(aspect))
            for aspect, replies in zip(aspects, answers, strict=True)
        )
        undecided = [
            (detail, replies)
            for detail, replies in zip(details, answers, strict=True)
            if detail.yes is None
        ]
        if undecided:
            judgment = _judge_undecided(details, undecided)
        else:
            judgment = self._judge_decided(aspects, details)
        values = {detail.aspect: float(detail.yes) for detail in details if detail.yes is not None}
        several = [detail for detail in details if len(detail.votes) > 1]
        shares = [detail.agreement for detail in several if detail.agreement is not None]
        confidences = least_agreement(shares)
        if self.decides:
            yes_shares = [detail.yes_share for detail in details if detail.yes_share is not None]
            confidences = least_probability([max(share, 1.0 - share) for share in yes_shares])
            if self._scoring == "share":
                values = dict(zip(values, yes_shares, strict=True))
        return replace(
            judgment,
            components=values,
            confidences=confidences,
            verdicts=tuple(
                NamedVerdict(aspect.name, aspect.polarity * aspect.weight, values.get(aspect.name))
                for aspect in aspects
            ),
        )

    def critique_requests(
        self, task: JudgeTask, answers: Answers[AspectVerdict]
    ) -> list[CritiqueRequest]:
        """Return one request for the majority's verdict, whatever the number of votes."""
        question = answers.question
        detail = _revised_detail(answers, question.votes)
        word = verdict_word(detail.yes)
        messages = critique_messages(question.prompt.messages, f"Verdict: {word}\n{detail.reason}")
        return [CritiqueRequest(question.component, word, detail.reason, messages)]

    def revision(self, call: JudgeCall[AspectVerdict], verdict: AspectVerdict) -> Revision:
        """Return the revised verdict and its reason."""
        critique = extract_critique(cut_thinking(call.text), "verdict")
        return Revision(verdict_word(verdict.yes), verdict.reason or call.text, critique)

    def _aspects(self, task: JudgeTask) -> Sequence[Aspect]:
        """Return the aspects of the task or those of the settings."""
        if task.aspects is None:
            return self.settings.aspects
        return task.aspects

    def _make_form(self, task: JudgeTask, aspect: Aspect) -> DecisionForm[AspectVerdict]:
        """Return the question about an aspect for a decision model."""
        typed = DecisionQuestion("noul", aspect.definition)
        return DecisionForm(self.state_texts(task), [typed], _read_decision)

    @property
    def _scoring(self) -> AspectScoring:
        """How verdicts count: a decision model's probabilities, unless `majority` is chosen."""
        if self.decides and "scoring" not in self.settings.model_fields_set:
            return "share"
        return self.settings.scoring

    def _judge_decided(
        self, aspects: Sequence[Aspect], details: tuple[AspectDetail, ...]
    ) -> Judgment[PanelDetail]:
        """Return the judgment of aspects that all have a verdict."""
        score, veto = combined_score(aspects, details, self._scoring)
        verdicts = [(detail.aspect, verdict_word(detail.yes), detail.reason) for detail in details]
        label = " ".join(f"{name}={verdict}" for name, verdict, _ in verdicts)
        reasons = "\n\n".join(f"{name}: {verdict}. {reason}" for name, verdict, reason in verdicts)
        return Judgment(score, Status.OK, label, reasons, detail=PanelDetail(details, veto))


def _parse_choice(choice: Choice) -> ParsedVerdict[AspectVerdict] | None:
    return find_verdict(choice.text)


def _read_decision(decisions: Sequence[Decision]) -> AspectVerdict:
    (decision,) = decisions
    return AspectVerdict(decision.label == TRUE, None, decision.expected)


def _votes_to_majority(count: int, usable: Sequence[JudgeCall[AspectVerdict]]) -> int:
    """Return how many votes the larger side lacks for a majority of `count`."""
    yes = sum(call.value is not None and call.value.yes for call in usable)
    return count // 2 + 1 - max(yes, len(usable) - yes)


def _revised_detail(answers: Answers[AspectVerdict], strictness: int) -> AspectDetail:
    """Return the majority's verdict with its revisions.

    If a revision changes the verdict, its share of yes votes is 0 or 1.
    """
    aspect = answers.question.component
    votes = [cast_vote(call.text, call.value, call.error) for call in answers.calls]
    detail = count_votes(aspect, votes, strictness)
    verdict = answers.calls[-1].value
    if verdict is not None and verdict.probability is not None:
        detail = replace(detail, yes_share=verdict.probability)
    for call in answers.revisions.get(aspect, ()):
        assert call.value is not None  # a revision has a verdict
        if call.value.yes != detail.yes:
            detail = replace(
                detail, yes=call.value.yes, yes_share=float(call.value.yes), agreement=None
            )
        detail = replace(detail, reason=call.value.reason or call.text)
    return detail


def _judge_undecided(
    details: tuple[AspectDetail, ...],
    undecided: Sequence[tuple[AspectDetail, Answers[AspectVerdict]]],
) -> Judgment[PanelDetail]:
    """Return the judgment where some aspects have no verdict, and why."""
    reasons = []
    for detail, answers in undecided:
        read = len(detail.votes) - detail.redrawn
        errors = join_errors(answers.calls)
        reasons.append(
            f"{detail.aspect}: no majority of {detail.strictness_effective} in {read} "
            f"verdicts: {errors}"
        )
    calls = list(chain.from_iterable(answers.calls for _, answers in undecided))
    return failed_judgment(calls, explanation="; ".join(reasons), detail=PanelDetail(details))


def verdict_word(yes: bool | None) -> str:
    """Return a verdict as a word."""
    return "yes" if yes else "no"


def combined_score(
    aspects: Sequence[Aspect], details: Sequence[AspectDetail], scoring: AspectScoring
) -> tuple[float, str | None]:
    """Return the score of a submission and the aspect whose veto set it to 0, if one did.

    The score is from 0 to 1.

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
        value = detail.yes_share
        if scoring == "majority":
            value = float(detail.yes)
        total += aspect.weight * aspect.value(value)
        weight += aspect.weight
        if aspect.veto and veto is None and not aspect.passes(detail.yes):
            veto = aspect.name
    if veto is not None:
        return 0.0, veto
    return total / weight, None


JUDGE = JudgeDefinition(
    AspectJudgeSettings,
    "yes/no questions",
    AspectPanel,
    (ASPECT_PROMPT,),
    frozenset(("reference", "aspects", "context")),
    confidences=frozenset(("votes", "probability")),
)
