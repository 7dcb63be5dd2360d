"""Plausible replies of the peer judge, for the offline stand-in; its critique has a prompt format of its own."""

from __future__ import annotations

import json
from dataclasses import replace

from judgegym.judges.core.prompt_format import PREVIOUS_EVALUATION, PromptFormat, ShownPrompt

_JUDGED, _JUDGED_BEFORE = "CANDIDATE RESPONSE", "CANDIDATE RESPONSE (that you evaluated)"


def _reply(shown: ShownPrompt) -> str:
    reasoning = "As far as words show what the rubric asks for, the response covers a part of the query."
    evaluation = json.dumps({"reasoning": reasoning, "score": round(100 * shown.merit)})
    return f"I compared the response with the query by the words they use.\n\n{evaluation}"


PEER_PROMPT = PromptFormat(
    sections=("QUERY", _JUDGED, f"END OF {_JUDGED}", "RUBRIC"), judged=(_JUDGED,), question="QUERY", reply=_reply
)
PEER_CRITIQUE_PROMPT = replace(
    PEER_PROMPT, sections=("QUERY", _JUDGED_BEFORE, "RUBRIC", PREVIOUS_EVALUATION), judged=(_JUDGED_BEFORE,)
)
