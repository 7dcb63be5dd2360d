"""The aspect judge: a yes/no question about a submission, settled by a majority of independent votes.

Source: the ragas project's aspect critique, in its `strictness`: that many judge calls, and the majority of their
verdicts. The verdict is about the question; whether a yes is good or bad is the aspect's `polarity`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from judges.aspects.prompt import SUPPORTED_ASPECTS, Aspect, Polarity, aspect_messages
from judges.core.calls import ask
from judges.core.critique import CritiqueRequest, Revision, critique_messages
from judges.core.judgment import JudgeCall, Judgment, Status
from judges.core.voting import check_temperature, collect_votes, vote
from judges.llm.client import ChatClient
from judges.llm.wire import Choice
from judges.parsing.json_objects import prose_before
from judges.parsing.thinking import after_thinking
from judges.parsing.verdicts import binary_verdict, verdict_reason

__all__ = [
    "SUPPORTED_ASPECTS",
    "Aspect",
    "AspectDetail",
    "AspectJudge",
    "AspectScoring",
    "AspectSettings",
    "CastVote",
    "Polarity",
    "aspect_judgment",
    "cast_vote",
    "count_votes",
]

AspectScoring = Literal["majority", "share"]

_REDRAWS = 2


@dataclass(frozen=True, slots=True)
class CastVote:
    """One judge call: its verdict (`None` if it has none), its reason, the judge's whole text, and what went wrong."""

    yes: bool | None
    reason: str | None
    text: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class AspectDetail:
    """How an aspect's verdict came about.

    Attributes:
        aspect: its name.
        yes: the majority's verdict; `None` without a majority.
        yes_share: share of yes among the votes that have a verdict; `None` if none has.
        agreement: share of those votes that are of the majority's opinion; `None` without a majority, or once
            self-critique has turned it around.
        reason: why the verdict is what it is: the majority's reasons, a line each.
        votes: every call, in the order of its number; those without a verdict were drawn again.
        strictness_requested: votes that were asked for.
        strictness_effective: the odd number of votes that a majority is of.
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
        return sum(each.yes is None for each in self.votes)


@dataclass(frozen=True, slots=True)
class AspectSettings:
    """How votes are taken.

    Attributes:
        strictness: independent votes; an even number goes up to the next odd one.
        every_vote: take them all, as a share of votes needs it, instead of ending once a majority is certain.
        temperature: of each vote; if `None`, the judge's own for a single one and 0.7 for several.
        seed: of the first vote, and one more for each further one; not sent with a single vote.
    """

    strictness: int = 1
    every_vote: bool = False
    temperature: float | None = None
    seed: int = 0

    @property
    def effective(self) -> int:
        """The odd number of votes."""
        return self.strictness + (self.strictness + 1) % 2


class AspectJudge:
    """Judges submissions by one aspect."""

    def __init__(self, client: ChatClient, aspect: Aspect, settings: AspectSettings = AspectSettings()) -> None:
        """Judge `aspect` through `client`.

        Raises:
            ValueError: the strictness is below 1.
        """
        if settings.strictness < 1:
            raise ValueError(f"strictness is {settings.strictness}; expected at least one vote")
        check_temperature(settings.effective, settings.temperature)
        self.client = client
        self.aspect = aspect
        self.settings = settings

    async def judge(
        self,
        *,
        submission: str,
        question: str | None = None,
        context: str | None = None,
        reference: str | None = None,
    ) -> Judgment[AspectDetail]:
        """Take the votes: at once, as many as a majority needs, and then as many as are still missing.

        A vote without a verdict is drawn again, twice at the most.

        Args:
            submission: what is judged.
            question: what it answers.
            context: what it was to use.
            reference: what it is compared with.

        Returns:
            The majority's verdict as the score (1 yes, 0 no, whatever the polarity) and as the label `yes` or `no`; or
            no score and the reason. Never raises on what a judge answers.
        """
        messages = aspect_messages(self.aspect.definition, submission, question, context, reference)
        settings = self.settings

        async def one(number: int) -> JudgeCall:
            which = vote(number, count=settings.effective, temperature=settings.temperature, seed=settings.seed)
            name = f"{self.aspect.name}_vote_{number + 1}"
            return await ask(self.client, messages, binary_verdict, name=name, vote=which)

        calls = await collect_votes(one, self._missing, at_most=settings.effective + _REDRAWS)
        votes = [cast_vote(call.text, call.error) for call in calls]
        return aspect_judgment(count_votes(self.aspect, votes, settings), tuple(calls))

    def critique_requests(
        self,
        judgment: Judgment[AspectDetail],
        *,
        submission: str,
        question: str | None = None,
        context: str | None = None,
        reference: str | None = None,
    ) -> list[CritiqueRequest]:
        """The majority's verdict with its reasons: one opinion, however many votes it is of."""
        assert judgment.detail is not None and judgment.detail.yes is not None
        shown = aspect_messages(self.aspect.definition, submission, question, context, reference)
        verdict = "yes" if judgment.detail.yes else "no"
        evaluation = f"Verdict: {verdict}\n{judgment.explanation}"
        messages = critique_messages(shown, evaluation)
        return [CritiqueRequest(self.aspect.name, verdict, judgment.explanation, messages, _read, _revision)]

    def apply_revisions(
        self,
        judgment: Judgment[AspectDetail],
        revisions: Mapping[str, JudgeCall],
        *,
        submission: str,
        question: str | None = None,
        context: str | None = None,
        reference: str | None = None,
    ) -> Judgment[AspectDetail]:
        """The revised verdict in place of the majority's; one that has changed stands alone, with a share of 0 or 1."""
        assert judgment.detail is not None
        vote = cast_vote(revisions[self.aspect.name].text)
        assert vote.yes is not None  # only calls with a verdict get here
        detail = judgment.detail
        if vote.yes != detail.yes:
            detail = replace(detail, yes=vote.yes, yes_share=float(vote.yes), agreement=None)
        return aspect_judgment(replace(detail, reason=vote.reason or vote.text), judgment.calls)

    def _missing(self, usable: Sequence[JudgeCall]) -> int:
        """How many more votes are sure to be needed."""
        effective, yes = self.settings.effective, sum(bool(call.value) for call in usable)
        if self.settings.every_vote:
            return effective - len(usable)
        return effective // 2 + 1 - max(yes, len(usable) - yes)


def _read(choice: Choice) -> bool | None:
    return binary_verdict(choice.text)


def _revision(call: JudgeCall) -> Revision:
    vote = cast_vote(call.text)
    critique = prose_before(after_thinking(call.text), "verdict")
    return Revision("yes" if vote.yes else "no", vote.reason or vote.text, critique)


def cast_vote(text: str, error: str | None = None) -> CastVote:
    """The vote in a judge's text; one without a verdict has an error."""
    yes = None if error is not None else binary_verdict(text)
    if yes is None:
        return CastVote(None, None, text, error or "no verdict could be read")
    return CastVote(yes, verdict_reason(text), text)


def count_votes(aspect: Aspect, votes: Sequence[CastVote], settings: AspectSettings) -> AspectDetail:
    """What votes come to: a verdict only where more than half of the effective strictness agree."""
    verdicts = [vote.yes for vote in votes if vote.yes is not None]
    yes = sum(verdicts)
    leading = max(yes, len(verdicts) - yes)
    decided = leading > settings.effective // 2
    verdict = yes == leading if decided else None
    reasons = [vote.reason or vote.text for vote in votes if vote.yes is not None and vote.yes == verdict]
    return AspectDetail(
        aspect=aspect.name,
        yes=verdict,
        yes_share=yes / len(verdicts) if verdicts else None,
        agreement=leading / len(verdicts) if decided else None,
        reason="\n".join(reasons),
        votes=tuple(votes),
        strictness_requested=settings.strictness,
        strictness_effective=settings.effective,
    )


def aspect_judgment(detail: AspectDetail, calls: tuple[JudgeCall, ...] = ()) -> Judgment[AspectDetail]:
    """A verdict as a judgment; one without a majority is failed if a call never succeeded, else unparsable."""
    if detail.yes is not None:
        return Judgment(float(detail.yes), Status.OK, "yes" if detail.yes else "no", detail.reason, calls, detail)
    failed = any(call.failed for call in calls)
    errors = "; ".join(dict.fromkeys(call.error for call in calls if call.error is not None))
    usable = len(detail.votes) - detail.redrawn
    return Judgment(
        score=None,
        status=Status.JUDGE_FAILED if failed else Status.UNPARSABLE,
        explanation=f"{detail.aspect}: no majority of {detail.strictness_effective} in {usable} verdicts: {errors}",
        calls=calls,
        detail=detail,
    )
