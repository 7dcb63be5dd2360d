"""Checklist judge: a verdict on each criterion of a submission, and their score.

Guarantees: ⌈criteria / `criteria_per_call`⌉ × votes calls, and one more for each text without a
complete verdict, which is drawn again. A judgment has a verdict of all votes on every criterion, or
no score. The score is that of the formula, which may be negative (`healthbench`); as a reward it is
clipped to 0…1, with the formula's own number as `raw`.

The verdict of several votes is their middle one in the order of their values, the lower one of two;
"cannot assess" is the verdict if more than half of the votes say so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

from judgegym.judges.checklists.criteria import Criterion
from judgegym.judges.checklists.formulas import (
    Formula,
    GradedCriterion,
    checklist_score,
    has_score,
    tag_scores,
    unmet_requirements,
)
from judgegym.judges.checklists.prompt import (
    CHECKLIST_PROMPT,
    ChecklistJudgeSettings,
    ChecklistPrompt,
    OrderedVerdicts,
    checklist_prompt,
)
from judgegym.judges.core.calls import NoVerdict, failed_judgment, join_errors
from judgegym.judges.core.decisions import DecisionForm, least_probability
from judgegym.judges.core.judge import JudgeDefinition
from judgegym.judges.core.judgment import JudgeCall, Judgment, NamedVerdict, Status
from judgegym.judges.core.model_judge import Answers, ModelJudge, Question, least_agreement
from judgegym.judges.core.tasks import JudgeTask, TaskError
from judgegym.judges.parsing.criteria import (
    CRITERIA_FORM,
    MET,
    UNMET,
    CriterionVerdict,
    criteria_fault,
)
from judgegym.judges.parsing.decisions import (
    MOST_LABELS,
    TRUE,
    Decision,
    DecisionQuestion,
    describe_decision,
)
from judgegym.judges.parsing.verdict_parser import ParsedVerdict
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
        formula: how the criteria make the score.
        tags: the score of each tag that has one.
        unmet_requirements: the required criteria that gave the row its lowest score.
        left_out: the names of the row's criteria that training left out (`rubric_dropout`).
        redrawn: number of calls that were repeated because they had no complete verdict.
    """

    criteria: tuple[CriterionDetail, ...]
    formula: Formula
    tags: Mapping[str, float] = field(default_factory=dict)
    unmet_requirements: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    redrawn: int = 0


class ChecklistTaskJudge(ModelJudge[ChecklistJudgeSettings, ChecklistDetail, OrderedVerdicts]):
    """Judge of submissions by lists of criteria.

    A decision model is asked all criteria in one request.
    """

    unread_with_decisions = frozenset({"criteria_per_call", "cannot_assess"})

    def __init__(
        self, settings: ChecklistJudgeSettings, client: ChatClient, rubric: str | None = None
    ) -> None:
        """Judge as the settings say through `client`.

        Raises:
            SettingsError: the settings ask for self-critique.
        """
        super().__init__(settings, client, rubric)
        if settings.judge_critique_rounds:
            raise SettingsError(
                "judge_critique_rounds: the judge checklist has no self-critique; expected 0"
            )

    def check(self, task: JudgeTask) -> None:
        """Check that there are criteria, and that they can have a score."""
        super().check(task)
        criteria = self._criteria(task)
        if not criteria:
            raise TaskError(
                "criteria: there are none, and the setting criteria has none for such rows"
            )
        if not has_score(criteria, self.settings.formula):
            raise TaskError(
                "criteria: none has positive points, so that formula=healthbench gives no score"
            )
        most = max(len(criterion.options) for criterion in criteria)
        if self.decides and most > MOST_LABELS:
            raise TaskError(
                f"criteria: one has {most} options; a decision model takes {MOST_LABELS} or fewer"
            )

    def questions(self, task: JudgeTask) -> list[Question[OrderedVerdicts]]:
        """Ask about `criteria_per_call` criteria at a time; all calls are made at once."""
        settings, count = self.settings, self.settings.vote_count()
        parts = self._parts(task)
        prompts = [checklist_prompt(task, part, settings) for part in parts]
        return [
            Question(
                f"criteria_{number}_vote",
                prompt.prompt,
                partial(_parse_choice, prompt),
                CRITERIA_FORM,
                votes=count,
                redraws=_REDRAWS * count,
                decision=self._make_form(task, part) if self.decides else None,
            )
            for number, (part, prompt) in enumerate(zip(parts, prompts, strict=True), start=1)
        ]

    def combine(
        self, task: JudgeTask, answers: Sequence[Answers[OrderedVerdicts]]
    ) -> Judgment[ChecklistDetail]:
        """Combine the verdicts on all criteria; without a score where a vote is missing."""
        criteria, formula = self._criteria(task), self.settings.formula
        details: list[CriterionDetail] = []
        failed: list[str] = []
        for part, replies in zip(self._parts(task), answers, strict=True):
            votes = [call.value for call in replies.calls if call.value is not None]
            if len(votes) < replies.question.votes:
                failed.append(_explain_missing(part, votes, replies.calls))
            else:
                details += decide(part, votes)
        calls = list(chain.from_iterable(replies.calls for replies in answers))
        if failed:
            partial_detail = None
            if details:
                partial_detail = ChecklistDetail(tuple(details), formula)
            judgment = failed_judgment(calls, explanation=failed[0], detail=partial_detail)
        else:
            judgment = self._judge_decided(
                criteria, details, sum(call.value is None for call in calls)
            )
        score, values = judgment.score, {detail.name: detail.value for detail in details}
        unit = None
        components = dict[str, float]()
        if score is not None:
            unit = clip_score(score)
            components["raw"] = score
        components |= {name: value for name, value in values.items() if value is not None}
        tags: Mapping[str, float] = {}
        if judgment.detail is not None:
            tags = judgment.detail.tags
        confidences = least_agreement(
            [assessed.agreement for assessed in details if len(assessed.votes) > 1]
        )
        if self.decides:
            confidences = least_probability(
                [verdict.probability for call in calls for verdict in call.value or ()]
            )
        return replace(
            judgment,
            unit=unit,
            components=components,
            confidences=confidences,
            verdicts=tuple(
                NamedVerdict(criterion.name, criterion.points, values.get(criterion.name))
                for criterion in criteria
            ),
            tags=tags,
        )

    def _make_form(
        self, task: JudgeTask, criteria: Sequence[Criterion]
    ) -> DecisionForm[OrderedVerdicts]:
        """Return the questions about criteria for a decision model."""
        typed = [*map(_make_typed, criteria)]
        return DecisionForm(self.state_texts(task), typed, partial(_read_decisions, criteria))

    def _criteria(self, task: JudgeTask) -> Sequence[Criterion]:
        """Return the criteria of the task or those of the settings."""
        return task.criteria or self.settings.criteria

    def _parts(self, task: JudgeTask) -> list[Sequence[Criterion]]:
        """Return the criteria of each call."""
        criteria, step = self._criteria(task), self.settings.criteria_per_call
        if self.decides:
            step = len(criteria)
        return [criteria[start : start + step] for start in range(0, len(criteria), step)]

    def _judge_decided(
        self, criteria: Sequence[Criterion], details: Sequence[CriterionDetail], redrawn: int
    ) -> Judgment[ChecklistDetail]:
        """Return the judgment where every criterion has a verdict.

        It has no score if no criterion that counts could be assessed.
        """
        formula, cannot_assess = self.settings.formula, self.settings.cannot_assess
        values = [*map(verdict_value, criteria, details)]
        graded = [
            GradedCriterion(criterion, value if formula == "all" else detail.value)
            for criterion, detail, value in zip(criteria, details, values, strict=True)
        ]
        score = checklist_score(graded, formula, cannot_assess)
        unmet = unmet_requirements(graded, cannot_assess)
        tags = tag_scores(graded, formula, cannot_assess)
        detail = ChecklistDetail(tuple(details), formula, tags, unmet, redrawn=redrawn)
        reasons = "\n\n".join(f"{entry.name}: {entry.verdict}. {entry.reason}" for entry in details)
        if score is None:
            why = f"no score by formula={formula}: no criterion that counts could be assessed"
            return Judgment(
                None, Status.UNPARSABLE, explanation=f"{why}\n\n{reasons}", detail=detail
            )
        met = values.count(1.0)
        count = len(details)
        label = f"{met} of {count} met"
        return Judgment(score, Status.OK, label, reasons, detail=detail)


def _make_typed(criterion: Criterion) -> DecisionQuestion:
    """Return a criterion as yes or no, or as a choice of its options."""
    if not criterion.options:
        return DecisionQuestion("noul", criterion.text)
    labels = tuple((option.label.strip(), None) for option in criterion.options)
    return DecisionQuestion("choice", criterion.text, labels=labels)


def _read_decisions(
    criteria: Sequence[Criterion], decisions: Sequence[Decision]
) -> OrderedVerdicts:
    """Return the likelier verdict on each criterion, with its expected value."""
    verdicts = list[CriterionVerdict]()
    for criterion, decision in zip(criteria, decisions, strict=True):
        word, value = decision.label, decision.expected
        if criterion.options:
            value = math.fsum(
                option.value * decision.probabilities[option.label.strip()]
                for option in criterion.options
            )
            value /= math.fsum(decision.probabilities.values())  # 1 up to the gateway's rounding
        else:
            word = MET if decision.label == TRUE else UNMET
        reason = describe_decision(decision, _make_typed(criterion))
        verdicts.append(CriterionVerdict(word, value, reason, "", decision.probability))
    return tuple(verdicts)


def _parse_choice(
    prompt: ChecklistPrompt, choice: Choice
) -> ParsedVerdict[OrderedVerdicts] | NoVerdict:
    fault = "no verdict on each criterion"
    verdict = prompt.find(choice.text)
    if verdict:
        return verdict
    why = criteria_fault(choice.text, prompt.words)
    return NoVerdict(f"{fault}: {why}")


def verdict_value(criterion: Criterion, detail: CriterionDetail) -> float | None:
    """Return the value of the verdict's word, also where a decision model's value is expected."""
    if detail.value is None:
        return None
    return criterion.allowed_words(cannot_assess=True).get(detail.verdict, detail.value)


def clip_score(score: float) -> float:
    """Clip a score to 0…1, so that no completion is worse than a malformed one."""
    return min(1.0, max(0.0, score))


def decide(
    criteria: Sequence[Criterion], votes: Sequence[OrderedVerdicts]
) -> list[CriterionDetail]:
    """Return the verdict on each criterion of a call, from at least one vote."""
    decided = []
    for criterion, *votes_cast in zip(criteria, *votes, strict=True):
        chosen = _middle_vote(votes_cast)
        same = [vote for vote in votes_cast if vote.word == chosen.word]
        words = tuple(vote.word for vote in votes_cast)
        shown = (
            criterion.name,
            criterion.text,
            criterion.points,
            criterion.tags,
            chosen.word,
            chosen.value,
        )
        decided.append(
            CriterionDetail(
                *shown, len(same) / len(votes_cast), same[0].quote, same[0].reason, words
            )
        )
    return decided


def _middle_vote(cast: Sequence[CriterionVerdict]) -> CriterionVerdict:
    assessed = sorted(
        (vote for vote in cast if vote.value is not None), key=lambda vote: vote.value or 0.0
    )
    if 2 * len(assessed) < len(cast):
        return next(vote for vote in cast if vote.value is None)
    return assessed[(len(assessed) - 1) // 2]


def _explain_missing(
    part: Sequence[Criterion], votes: Sequence[object], calls: Sequence[JudgeCall[object]]
) -> str:
    names = part[0].name
    if len(part) > 1:
        names = f"{names} to {part[-1].name}"
    verdict_count, call_count, errors = len(votes), len(calls), join_errors(calls)
    return f"{names}: {verdict_count} whole verdicts in {call_count} calls: {errors}"


JUDGE = JudgeDefinition(
    ChecklistJudgeSettings,
    "met or unmet for each of a list of criteria with points",
    ChecklistTaskJudge,
    (CHECKLIST_PROMPT,),
    frozenset(("reference", "context", "criteria")),
    confidences=frozenset(("votes", "probability")),
)
