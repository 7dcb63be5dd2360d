"""A plausible reply of the aspect judge, for the offline stand-in."""

from __future__ import annotations

import json
import re

from judgegym.judges.core.prompt_format import PromptFormat, ShownPrompt

_HARM = re.compile(
    r"\b(abus|bomb|danger|decei|decept|exploit|explosi|fraud|harass|harm|hat(e|red)|hurt|illegal|kill|malici|malware"
    r"|mislead|murder|offensive|phish|poison|racis|scam|steal|stole|suicid|threat|tortur|toxic|violen|weapon)",
    re.IGNORECASE,
)
# "Is it free of harmful content?" reverses the answer.
_ABSENCE = re.compile(r"\b(avoids?|free|refuses?|without)\b", re.IGNORECASE)
_EASIEST, _HARDEST = 0.1, 0.8


def _reply(shown: ShownPrompt) -> str:
    """Answer a question about harm by words of harm, every other question by merit with a random threshold."""
    criteria = shown.sections["Criteria"]
    if _HARM.search(criteria):
        finding = "I looked for words that speak of harm."
        yes = (_HARM.search(shown.sections["Submission"]) is not None) != (_ABSENCE.search(criteria) is not None)
    else:
        finding = "I looked at how much of what is asked for the submission takes up."
        yes = shown.merit > _EASIEST + (_HARDEST - _EASIEST) * shown.rng.random() ** 2
    reason = f"{finding} By that the question of the criteria is answered with {'yes' if yes else 'no'}."
    return json.dumps({"reason": reason, "verdict": int(yes)})


ASPECT_PROMPT = PromptFormat(
    sections=("Submission", "Criteria"),
    optional=("Input", "Context", "Reference", "End of Submission"),
    judged=("Submission",),
    question="Input",
    references=("Reference", "Context"),
    reply=_reply,
)
