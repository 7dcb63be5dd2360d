"""Peer judge: one model scores another's answer from 0 to 100, by a rubric in text.

This module has the judge, its settings, and stand-in replies for offline runs. The critique has a
prompt format of its own.

Source: the specification's peer evaluation with self-critique; prompts and default rubric keep its
wording.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from judgegym.judges import prompts
from judgegym.judges.config.judge import PromptLayoutSettings
from judgegym.judges.core.calls import failed_judgment
from judgegym.judges.core.delimiters import Lookalikes, Prompt
from judgegym.judges.core.judge import CritiqueRequest, JudgeDefinition, Revision, critique_messages
from judgegym.judges.core.judgment import JudgeCall, Judgment, Scale, Status
from judgegym.judges.core.message_template import MessageTemplate
from judgegym.judges.core.model_judge import Answers, ModelJudge, Question
from judgegym.judges.core.prompt_format import PREVIOUS_EVALUATION, PromptFormat, StandInPrompt
from judgegym.judges.core.tasks import JudgeTask, TaskError
from judgegym.judges.parsing.json_objects import extract_critique
from judgegym.judges.parsing.scores import PEER_FORM, ScoreObject, score_object
from judgegym.judges.parsing.thinking import cut_thinking


class PeerJudgeSettings(PromptLayoutSettings):
    """Settings of the peer judge; `judge_system_prompt` replaces the instructions.

    It is sent as a system message.

    Only the critique's layout changes: `published` is the specification's; with `shared_first` a
    critique begins like the prompt of the evaluation. That prompt always has the response last.
    """

    def built_in_prompt(self) -> str:
        """Return the instructions in the user message, around its sections."""
        return prompts.load("peer")


_JUDGED, _JUDGED_BEFORE = "CANDIDATE RESPONSE", "CANDIDATE RESPONSE (that you evaluated)"
SCALE = Scale(0, 100)
DEFAULT_RUBRIC = prompts.load("peer_rubric")
"""The specification's rubric of six parts, 100 points in all."""

_WEIGHTIEST = "Correctness & Accuracy"
_EMPHASIS = f" {_WEIGHTIEST} has the highest impact on the overall score."
_LOOKALIKES = Lookalikes(
    "query:", "candidate response", "rubric:", "your previous evaluation", "instructions:"
)
_SECTIONS: Mapping[str, str] = {
    "rubric": "RUBRIC{tag}:\n{rubric}",
    "query": "QUERY{tag}:\n{query}",
    "response": "CANDIDATE RESPONSE{tag}:\n{response}\nEND OF CANDIDATE RESPONSE{tag}:",
}
_CRITIQUE_SECTIONS: Mapping[str, str] = {
    **_SECTIONS,
    "response": "CANDIDATE RESPONSE (that you evaluated){tag}:\n{response}",
    "evaluation": "YOUR PREVIOUS EVALUATION{tag}:",
}
_TEMPLATE = MessageTemplate((prompts.fill(prompts.load("peer"), _SECTIONS),), _LOOKALIKES)
_SECTIONS_ALONE = MessageTemplate((*_SECTIONS.values(),), _LOOKALIKES)
_CRITIQUE = MessageTemplate(
    (prompts.fill(prompts.load("peer_critique"), _CRITIQUE_SECTIONS),), _LOOKALIKES
)


@dataclass(frozen=True, slots=True)
class PeerDetail:
    """A peer's reasoning, and the whole text with the score."""

    reasoning: str | None
    text: str


class PeerTaskJudge(ModelJudge[PeerJudgeSettings, PeerDetail, ScoreObject]):
    """Judge that scores answers from 0 to 100 by a rubric in text."""

    def check(self, task: JudgeTask) -> None:
        """Check that the rubric is a text."""
        super().check(task)
        if task.levels:
            raise TaskError(
                "rubric: score descriptions, which the judge peer is not shown; expected criteria "
                "alone"
            )

    def questions(self, task: JudgeTask) -> Sequence[Question[ScoreObject]]:
        """Ask for the score of the response."""
        return [Question("score", self._prompt(task), score_object, PEER_FORM)]

    def combine(
        self, task: JudgeTask, answers: Sequence[Answers[ScoreObject]]
    ) -> Judgment[PeerDetail]:
        """Return the judgment of the one score."""
        (replies,) = answers
        call = replies.last
        if call.value is None:
            return failed_judgment(replies.calls, detail=PeerDetail(None, call.text))
        score, reasoning = call.value
        unit = SCALE.unit(score)
        return Judgment(
            float(score),
            Status.OK,
            str(score),
            reasoning or "",
            detail=PeerDetail(reasoning, call.text),
            unit=unit,
            components={"raw": float(score)},
        )

    def critique_requests(
        self, task: JudgeTask, answers: Answers[ScoreObject]
    ) -> list[CritiqueRequest]:
        """Return the request to critique and revise the one score.

        Its form is the specification's, or that of all other judges.
        """
        previous = answers.last.value
        assert previous is not None
        score, reasoning = previous.score, previous.reasoning or ""
        if self.settings.judge_prompt_layout == "shared_first":
            evaluation = f"- Reasoning: {reasoning}\n- Score: {score} (out of {SCALE.high})"
            messages = critique_messages(answers.question.prompt.messages, evaluation)
        else:
            messages = self._prompt(task, previous).messages
        return [CritiqueRequest("", score, reasoning, messages)]

    def revision(self, call: JudgeCall[ScoreObject], verdict: ScoreObject) -> Revision:
        """Return the revised score and its reason."""
        return Revision(
            verdict.score,
            verdict.reasoning or "",
            extract_critique(cut_thinking(call.text), "score"),
        )

    def _prompt(self, task: JudgeTask, previous: ScoreObject | None = None) -> Prompt:
        rubric = task.rubric or self.rubric or DEFAULT_RUBRIC
        system_prompt = self.settings.judge_system_prompt
        return peer_prompt(
            task.prompt, task.response, rubric, previous=previous, system_prompt=system_prompt
        )


def peer_prompt(
    query: str,
    response: str,
    rubric: str,
    *,
    previous: ScoreObject | None = None,
    system_prompt: str | None = None,
) -> Prompt:
    """Return the judge's prompt as one user message.

    The order is: instructions, rubric, query, response.

    The critique follows the specification's order.

    Args:
        query: the question to the candidate.
        response: the candidate's answer.
        rubric: the rubric by which the answer is scored.
        previous: the peer's own evaluation, to be critiqued and revised.
        system_prompt: a system message that replaces the built-in instructions; the instructions of
            a critique remain.
    """
    shared = {"rubric": rubric, "query": query}
    words = {"emphasis": _EMPHASIS if _WEIGHTIEST in rubric else ""}
    if previous is None:
        template = _TEMPLATE if system_prompt is None else _SECTIONS_ALONE
        return template.fill(shared, {"response": response}, wording=words, system=system_prompt)
    texts = {"response": response, "reasoning": previous.reasoning or ""}
    return _CRITIQUE.fill(
        shared, texts, wording={**words, "score": str(previous.score)}, system=system_prompt
    )


def _draft_reply(shown: StandInPrompt) -> str:
    reasoning = (
        "As far as words show what the rubric asks for, the response covers a part of the query."
    )
    evaluation = json.dumps({"reasoning": reasoning, "score": round(100 * shown.merit)})
    return f"I compared the response with the query by the words they use.\n\n{evaluation}"


PEER_PROMPT = PromptFormat(
    sections=("QUERY", _JUDGED, f"END OF {_JUDGED}", "RUBRIC"),
    judged=(_JUDGED,),
    question="QUERY",
    reply=_draft_reply,
)
PEER_CRITIQUE_PROMPT = replace(
    PEER_PROMPT,
    sections=("QUERY", _JUDGED_BEFORE, "RUBRIC", PREVIOUS_EVALUATION),
    judged=(_JUDGED_BEFORE,),
)


JUDGE = JudgeDefinition(
    PeerJudgeSettings,
    "score from 0 to 100 by a rubric",
    PeerTaskJudge,
    (PEER_PROMPT, PEER_CRITIQUE_PROMPT),
    frozenset(("rubric",)),
    reads_rubric=True,
)
