"""A plausible reply of the listwise judge, for the offline stand-in: equal merits have equal scores in any place."""

from __future__ import annotations

import json

from judgegym.judges.core.prompt_format import PromptFormat, ShownPrompt
from judgegym.judges.listwise.prompt import BEGINNING, CONTEXT, CRITERIA, END, QUESTION, REFERENCE, START, TASK


def _reply(shown: ShownPrompt) -> str:
    scores = [
        {
            "id": title.removeprefix(START).strip(),
            "explanation": "By its words, the answer covers a part of the question.",
            "score": round(merit, 2),
        }
        for title, merit in shown.merits.items()
    ]
    return f"I compared the {len(scores)} answers by their words.\n\n{json.dumps({'scores': scores})}"


LISTWISE_PROMPT = PromptFormat(
    sections=(CRITERIA, QUESTION, TASK),
    optional=(CONTEXT, REFERENCE, BEGINNING),
    with_id=(START, END),
    judged=(START,),
    question=QUESTION,
    references=(REFERENCE,),
    reply=_reply,
)
