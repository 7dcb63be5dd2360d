"""A plausible reply of the Arena-Hard judge, for the offline stand-in: swapping the answers swaps the label."""

from __future__ import annotations

from judgegym.judges.core.prompt_format import PromptFormat, ShownPrompt, bracketed_fields
from judgegym.judges.core.shared_texts import REFERENCE, TITLES

_A, _B = "The Start of Assistant A's Answer", "The Start of Assistant B's Answer"
_ENDS = ("The End of Assistant A's Answer", "The End of Assistant B's Answer")
_TIE, _MUCH = 0.04, 0.3


def _reply(shown: ShownPrompt) -> str:
    lead = shown.merits[_A] - shown.merits[_B]
    if abs(lead) < _TIE:
        return "By the words they use there is nothing to choose between them.\n\n[[A=B]]"
    better, worse = ("A", "B") if lead > 0 else ("B", "A")
    sign = ">>" if abs(lead) >= _MUCH and "[[A>>B]]" in shown.instructions else ">"
    return f"By the words they use, the answer of Assistant {better} is the better one.\n\n[[{better}{sign}{worse}]]"


ARENA_PROMPT = PromptFormat(
    sections=("User Prompt", _A, _B, *_ENDS),
    optional=TITLES,
    judged=(_A, _B),
    question="User Prompt",
    references=(REFERENCE,),
    reply=_reply,
    fields=bracketed_fields,
)
