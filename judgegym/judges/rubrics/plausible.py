"""A plausible reply of the rubric judge, for the offline stand-in, in the format and on the scale of the prompt."""

from __future__ import annotations

import re
from collections.abc import Mapping

from judgegym.judges.core.prompt_format import PromptFormat, ShownPrompt
from judgegym.judges.parsing.verdicts import feedback_text
from judgegym.llm.wire import JSON

_SCALE = re.compile(r"\ban integer (?:number )?between (-?[0-9]{1,9}) and (-?[0-9]{1,9})\b")
_USUAL_SCALE = (1, 5)
_SCORE = re.compile(r"-?[0-9]+\Z")


def _reply(shown: ShownPrompt) -> str:
    match = _SCALE.search(shown.instructions)
    low, high = (int(match[1]), int(match[2])) if match else _USUAL_SCALE
    if low >= high:
        low, high = _USUAL_SCALE
    score = low + int((high - low + 1) * shown.merit)
    level = "the best" if score == high else "the worst" if score == low else "a middle"
    feedback = f"By the words that the response shares with the instruction, this is {level} level of the rubric."
    if shown.instructions.rfind("[RESULT]") > shown.instructions.rfind("[SCORE]"):
        return f"Feedback: {feedback} [RESULT] {score}"
    return f"[FEEDBACK] {feedback}\n[SCORE] {score}"


def _fields(reply: str) -> Mapping[str, JSON]:
    score = _SCORE.search(reply)
    return {"feedback": feedback_text(reply), "score": None if score is None else int(score[0])}


RUBRIC_PROMPT = PromptFormat(
    sections=("Instruction", "Score Rubric", "Response To Evaluate"),
    optional=("Reference Response", "End Of Response To Evaluate"),
    judged=("Response To Evaluate",),
    question="Instruction",
    references=("Reference Response",),
    ending="Please evaluate the response according to the score rubric above.",
    reply=_reply,
    fields=_fields,
)
