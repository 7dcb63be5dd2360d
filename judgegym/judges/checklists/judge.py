"""The checklist judge: a verdict on each criterion of a submission, several of them in a call, and their score.

Guarantees: ⌈criteria / `criteria_per_call`⌉ × votes calls, and one more for each text without a whole verdict, which is
drawn again; a judgment has a verdict of all votes on every criterion, or no score. The score is that of the formula,
which may be negative (`healthbench`); as a reward it is clipped to 0…1, with the formula's own number as `raw`.

The verdict of several votes is their middle one in the order of their values, the lower one of two; "cannot assess" is
the verdict if more than half of the votes say so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from judgegym.judges.checklists.criteria import Criterion
from judgegym.judges.checklists.formulas import (
    CannotAssess,
    Formula,
    GradedCriterion,
    checklist_score,
    has_score,
    tag_scores,
    unmet_requirements,
)
from judgegym.judges.checklists.prompt import (
    CHECKLIST_PROMPT,
    ChecklistCase,
    ChecklistJudgeSettings,
    ChecklistPrompt,
    checklist_prompt,
)
from judgegym.judges.core.calls import NoVerdict, Vote, ask, collect_votes, errors_of, failed_judgment
from judgegym.judges.core.judge import JudgeDefinition, SingleJudge
from judgegym.judges.core.judgment import JudgeCall, Judgment, NamedVerdict, Status
from judgegym.judges.core.tasks import JudgeTask, TaskError
from judgegym.judges.parsing.criteria import (
    CRITERIA_FORM,
    CriteriaVerdicts,
    CriterionVerdict,
    criteria_fault,
    criteria_verdicts,
)
from judgegym.judges.parsing.verdict_parser import ParsedVerdict
from judgegym.llm.at_once import all_results
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import Choice

_REDRAWS = 2
"""How often each vote without a whole verdict may be drawn again."""


@dataclass(frozen=True, slots=True)
class CriterionDetail:
    """The verdict on a criterion.

    Attributes:
        name: the criterion's name.
        text: its text.
        points: its points.
        tags: its tags.
        verdict: `met`, `unmet`, `cannot_assess` or one of its options.
        value: from 0 to 1; `None` if it could not be assessed.
        agreement: the share of votes with this verdict.
        quote: the words of the submission that decided it, in the first vote with this verdict.
        reason: the reason of that vote.
        votes: the verdict of each vote.
    """

    name: str
    text: str
    points: float
    tags: tuple[str, ...]
    verdict: str
    value: float | None
    agreement: float
    quote: str
    reason: str
    votes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChecklistDetail:
    """The verdicts on all criteria of a row.

    Attributes:
        criteria: in their order.
        formula: how they make the score.
        tags: the score of each tag that has one.
        unmet_requirements: the required criteria that gave the row its lowest score.
        left_out: the names of the row's criteria that training left out (`rubric_dropout`).
        redrawn: calls without a whole verdict, which were made again.
    """

    criteria: tuple[CriterionDetail, ...]
    formula: Formula
    tags: Mapping[str, float] = field(default_factory=dict)
    unmet_requirements: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    redrawn: int = 0


class ChecklistCaseJudge(SingleJudge[ChecklistJudgeSettings, ChecklistCase, ChecklistDetail]):
    """Judges submissions by lists of criteria."""

    def __init__(self, settings: ChecklistJudgeSettings, client: ChatClient, rubric: str | None = None) -> None:
        """Judge as the settings say through `client`.

        Raises:
            SettingsError: self-critique is asked for.
        """
        super().__init__(settings, client, rubric)
        if settings.judge_critique_rounds:
            raise SettingsError("judge_critique_rounds: the judge checklist has no self-critique; expected 0")

    async def judge(self, case: ChecklistCase) -> Judgment[ChecklistDetail]:
        """Judge a submission by all criteria; all calls are made at once."""
        step = self.settings.criteria_per_call
        parts = [case.criteria[start : start + step] for start in range(0, len(case.criteria), step)]
        prompts = [checklist_prompt(case, part, self.settings) for part in parts]
        asked = await all_results(self._ask(prompt, number) for number, prompt in enumerate(prompts, start=1))
        calls = [call for of_part in asked for call in of_part]
        # The prompts of all parts show the same submission.
        suspects = max((prompt.prompt.suspects for prompt in prompts), default=0)
        details: list[CriterionDetail] = []
        failed: list[str] = []
        for part, prompt, of_part in zip(parts, prompts, asked, strict=True):
            votes = [call.value for call in of_part if call.value is not None]
            if len(votes) < self.settings.vote_count():
                failed.append(_why(part, votes, of_part))
            else:
                details += decide(part, prompt, votes)
        if failed:
            kept = ChecklistDetail(tuple(details), self.settings.formula) if details else None
            return replace(failed_judgment(calls, explanation=failed[0], detail=kept), suspects=suspects)
        judgment = checklist_judgment(case.criteria, details, self.settings.formula, self.settings.cannot_assess)
        assert judgment.detail is not None
        detail = replace(judgment.detail, redrawn=sum(call.value is None for call in calls))
        return replace(judgment, calls=tuple(calls), detail=detail, suspects=suspects)

    async def _ask(self, prompt: ChecklistPrompt, number: int) -> list[JudgeCall[CriteriaVerdicts]]:
        """Request all votes on the criteria of a call at once, then those again that have no whole verdict."""
        settings, count = self.settings, self.settings.vote_count()

        def read(choice: Choice) -> ParsedVerdict[CriteriaVerdicts] | NoVerdict:
            found = criteria_verdicts.find(choice.text, prompt.words)
            return found or NoVerdict(f"no verdict on each criterion: {criteria_fault(choice.text, prompt.words)}")

        async def vote_on(vote: Vote) -> JudgeCall[CriteriaVerdicts]:
            name, form = f"criteria_{number}_vote_{vote.number + 1}", settings.form(CRITERIA_FORM)
            return await ask(self.client, prompt.prompt.messages, read, name=name, vote=vote, form=form)

        return await collect_votes(vote_on, count=count, seed=settings.seed, redraws=_REDRAWS * count)

    def case_of(self, task: JudgeTask) -> ChecklistCase:
        """The response, by the criteria of the task or those of the settings."""
        criteria = task.criteria or self.settings.criteria
        return ChecklistCase(task.response, criteria, task.prompt or None, task.context, task.reference)

    def check(self, task: JudgeTask) -> None:
        """Check that there are criteria, and that they can have a score."""
        super().check(task)
        criteria = task.criteria or self.settings.criteria
        if not criteria:
            raise TaskError("criteria: there are none, and the setting criteria has none for such rows")
        if not has_score(criteria, self.settings.formula):
            raise TaskError("criteria: none has positive points, so that formula=healthbench gives no score")

    def unit(self, score: float) -> float:
        """The score, clipped to 0…1."""
        return clipped(score)

    def confidences(self, judgment: Judgment[ChecklistDetail]) -> Mapping[str, float]:
        """Also `votes`, if there are several: how far they agree on the criterion on which they agree the least."""
        details = judgment.detail.criteria if judgment.detail is not None else ()
        agreed = [max(0.0, 2.0 * one.agreement - 1.0) for one in details if len(one.votes) > 1]
        return {**super().confidences(judgment), **({"votes": min(agreed)} if agreed else {})}

    def verdicts(self, task: JudgeTask, judgment: Judgment[ChecklistDetail]) -> tuple[NamedVerdict, ...]:
        """The verdict on each criterion."""
        details = judgment.detail.criteria if judgment.detail is not None else ()
        values = {detail.name: detail.value for detail in details}
        criteria = task.criteria or self.settings.criteria
        return tuple(NamedVerdict(one.name, one.points, values.get(one.name)) for one in criteria)

    def tags(self, judgment: Judgment[ChecklistDetail]) -> Mapping[str, float]:
        """The score of each tag that has one."""
        return {} if judgment.detail is None else judgment.detail.tags

    def components(self, judgment: Judgment[ChecklistDetail]) -> Mapping[str, float]:
        """The formula's own number, and the value of each criterion that was assessed."""
        details = judgment.detail.criteria if judgment.detail is not None else ()
        return {**super().components(judgment), **{one.name: one.value for one in details if one.value is not None}}


def clipped(score: float) -> float:
    """A score as a reward: clipped to 0…1, so that no completion is worth less than a malformed one."""
    return min(1.0, max(0.0, score))


def decide(
    criteria: Sequence[Criterion], prompt: ChecklistPrompt, votes: Sequence[CriteriaVerdicts]
) -> list[CriterionDetail]:
    """The verdict on each criterion of a call, from at least one vote."""
    decided = []
    for criterion, own in zip(criteria, prompt.words, strict=True):
        cast = [vote[own] for vote in votes]
        chosen = _middle(cast)
        same = [vote for vote in cast if vote.word == chosen.word]
        words = tuple(vote.word for vote in cast)
        shown = (criterion.name, criterion.text, criterion.points, criterion.tags, chosen.word, chosen.value)
        decided.append(CriterionDetail(*shown, len(same) / len(cast), same[0].quote, same[0].reason, words))
    return decided


def _middle(cast: Sequence[CriterionVerdict]) -> CriterionVerdict:
    assessed = sorted((vote for vote in cast if vote.value is not None), key=lambda vote: vote.value or 0.0)
    if 2 * len(assessed) < len(cast):
        return next(vote for vote in cast if vote.value is None)
    return assessed[(len(assessed) - 1) // 2]


def checklist_judgment(
    criteria: Sequence[Criterion], details: Sequence[CriterionDetail], formula: Formula, cannot_assess: CannotAssess
) -> Judgment[ChecklistDetail]:
    """The judgment of criteria that all have a verdict; without a score where nothing that counts is assessed."""
    graded = [GradedCriterion(one, detail.value) for one, detail in zip(criteria, details, strict=True)]
    score = checklist_score(graded, formula, cannot_assess)
    unmet = unmet_requirements(graded, cannot_assess)
    detail = ChecklistDetail(tuple(details), formula, tag_scores(graded, formula, cannot_assess), unmet)
    reasons = "\n\n".join(f"{one.name}: {one.verdict}. {one.reason}" for one in details)
    if score is None:
        why = f"no score by formula={formula}: no criterion that counts could be assessed"
        return Judgment(None, Status.UNPARSABLE, explanation=f"{why}\n\n{reasons}", detail=detail)
    label = f"{sum(one.value == 1.0 for one in details)} of {len(details)} met"
    return Judgment(score, Status.OK, label, reasons, detail=detail)


def _why(part: Sequence[Criterion], votes: Sequence[object], calls: Sequence[JudgeCall[object]]) -> str:
    names = part[0].name if len(part) == 1 else f"{part[0].name} to {part[-1].name}"
    return f"{names}: {len(votes)} whole verdicts in {len(calls)} calls: {errors_of(calls)}"


JUDGE = JudgeDefinition(
    ChecklistJudgeSettings,
    "met or unmet for each of a list of criteria with points",
    ChecklistCaseJudge,
    (CHECKLIST_PROMPT,),
    frozenset(("reference", "context", "criteria")),
)
