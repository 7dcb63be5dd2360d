"""Prompt of one checklist call, the judge's settings, and its stand-in reply for offline runs.

The prompt has the texts that all completions of a row share, then the criteria under ids, then the
completion.

Guarantees: no text can imitate a heading (`judgegym.judges.core.delimiters`). No id of the call
occurs in any of its texts, so neither a completion nor a criterion can contain a verdict. The
points are not shown. The ids are a function of the seed and the shared texts, unless the completion
contains one of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from judgegym.judges import prompts
from judgegym.judges.aspects.prompt import effective_strictness
from judgegym.judges.checklists.criteria import Criteria, Criterion
from judgegym.judges.checklists.formulas import CannotAssess, Formula
from judgegym.judges.config.fields import setting
from judgegym.judges.config.judge import JudgeSettings
from judgegym.judges.core.calls import MAX_VOTES
from judgegym.judges.core.delimiters import Lookalikes, Prompt
from judgegym.judges.core.message_template import MessageTemplate, join_instructions
from judgegym.judges.core.prompt_format import PromptFormat, StandInPrompt
from judgegym.judges.core.seeding import make_generator
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.listwise.prompt import draw_ids
from judgegym.judges.parsing.criteria import (
    CANNOT_ASSESS,
    MET,
    UNMET,
    CriterionVerdict,
    Words,
    criteria_verdicts,
)
from judgegym.judges.parsing.verdict_parser import ParsedVerdict

_TEMPLATE = MessageTemplate(
    (
        "[Question{tag}]\n{prompt}",
        "[Context{tag}]\n{context}",
        "[Reference{tag}]\n{reference}",
        "[Criterion {id}{tag}]\n{{id}}",
        "[Submission{tag}]\n{response}\n[End of Submission{tag}]",
    ),
    Lookalikes("[question", "[context", "[reference", "[criterion", "[submission"),
)
_OPTIONS = "Options: "
_CANNOT = (
    f' If what is shown does not allow to decide a criterion, its verdict is "{CANNOT_ASSESS}".'
)

OrderedVerdicts: TypeAlias = tuple[CriterionVerdict, ...]
"""In the order of the criteria of a call."""


class ChecklistJudgeSettings(JudgeSettings):
    """Settings of the checklist judge: criteria, calls and formula."""

    criteria: Criteria = setting((), common=True)
    """Judge by these criteria if a row has none: a list of texts and of objects such as {"name":
    "cites", "text": "Cites a source.", "points": 5, "tags": ["form"], "required": false, "options":
    {"none": 0, "one": 0.5, "several": 1}}, or a mapping of names to these; JSON, or @file with YAML
    or JSON."""
    criteria_per_call: int = setting(12, common=True, ge=1)
    """Ask about at most this many criteria in one call. 1 asks about each separately, as
    HealthBench does, with as many calls as criteria."""
    formula: Formula = setting("healthbench", common=True)
    """Choose how criteria make a score. healthbench: the points of met criteria over all positive
    points, which may be below 0. weighted_mean: the same from 0 to 1. rar: the share of all points,
    positive or negative, with the good outcome: met if positive, unmet if negative. all: 1 if all
    have it. min: the worst criterion."""
    cannot_assess: CannotAssess = setting("never")
    """Choose how a criterion counts that the judge cannot assess. never: the judge must decide.
    leave_out: it is left out. zero: as unmet. partial: with half of its points. worst: with the bad
    outcome."""
    strictness: int = setting(1, common=True, ge=1, le=MAX_VOTES)
    """Take each verdict by majority of this many votes; an even number is raised to the next odd
    one. An aspect may set its own; for a criterion with options the middle vote counts."""

    def vote_count(self) -> int:
        """Return the number of votes on a criterion."""
        return effective_strictness(self.strictness)

    def built_in_prompt(self) -> str:
        """Return the system prompt."""
        return prompts.fill(
            prompts.load("checklist"), {"cannot": "" if self.cannot_assess == "never" else _CANNOT}
        )


@dataclass(frozen=True, slots=True)
class ChecklistPrompt:
    """Prompt of a call, and the allowed verdicts of each criterion by id, in order."""

    prompt: Prompt
    words: Mapping[str, Words]

    def find(self, text: str) -> ParsedVerdict[OrderedVerdicts] | None:
        """Find the verdicts at the end of a judge's text, in the order of the criteria.

        `None` unless every criterion has one.
        """
        verdicts = criteria_verdicts.find(text, self.words)
        if verdicts is None:
            return None
        return verdicts.replace_value(
            tuple(verdicts.value[criterion_id] for criterion_id in self.words)
        )


def checklist_prompt(
    task: JudgeTask,
    criteria: Sequence[Criterion],
    settings: ChecklistJudgeSettings,
    *,
    system: str = "",
) -> ChecklistPrompt:
    """Return the prompt that asks about some criteria of a response.

    Args:
        task: the submission, which is its response, and the texts beside it; an empty prompt is not
            shown.
        criteria: the criteria of the call.
        settings: the seed of the ids, the system prompt, and whether a criterion may stay
            undecided.
        system: text before the instructions.
    """
    context_texts = {
        "prompt": task.prompt or None,
        "context": task.context,
        "reference": task.reference,
    }
    shown = [*map(_render_criterion, criteria)]
    shared = [text for text in (*context_texts.values(), *shown) if text is not None]
    rng = make_generator(settings.seed, "\x1f".join(shared), "ids of criteria")
    ids = draw_ids(rng, len(criteria), [*shared, task.response])
    prompt = _TEMPLATE.fill(
        {**context_texts, **dict(zip(ids, shown, strict=True))},
        {"response": task.response},
        ids=ids,
        system=join_instructions(system, settings.instructions()),
    )
    offers = settings.cannot_assess != "never"
    words = {
        criterion_id: criterion.allowed_words(cannot_assess=offers)
        for criterion_id, criterion in zip(ids, criteria, strict=True)
    }
    return ChecklistPrompt(prompt, words)


def _render_criterion(criterion: Criterion) -> str:
    labels = [option.label for option in criterion.options]
    if not labels:
        return criterion.text
    options = json.dumps(labels, ensure_ascii=False)
    return f"{criterion.text}\n{_OPTIONS}{options}"


_EASIEST, _HARDEST = 0.1, 0.8


def _draft_reply(shown: StandInPrompt) -> str:
    """Draft a stand-in reply: decide each criterion by merit with a random threshold.

    For options, choose the option at that position.
    """
    entries = []
    for title, text in shown.sections.items():
        stem, _, criterion_id = title.rpartition(" ")
        if stem != "Criterion":
            continue
        threshold = _EASIEST + (_HARDEST - _EASIEST) * shown.rng.random() ** 2
        last = text.rpartition("\n")[2]
        labels = [UNMET, MET]
        if last.startswith(f"{_OPTIONS}["):
            labels = json.loads(last.removeprefix(_OPTIONS))
        index = min(len(labels) - 1, int(len(labels) / 2 * shown.merit / threshold))
        reason = "I looked at how much of what is asked for the submission takes up."
        quote = shown.sections["Submission"][:40]
        entries.append(
            {"id": criterion_id, "reason": reason, "quote": quote, "verdict": labels[index]}
        )
    return json.dumps({"result": entries})


CHECKLIST_PROMPT = PromptFormat(
    sections=("Submission", "End of Submission"),
    optional=("Question", "Context", "Reference"),
    with_id=("Criterion",),
    judged=("Submission",),
    question="Question",
    references=("Reference", "Context"),
    reply=_draft_reply,
)
