"""The setting `plan` of every command that asks models."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field

USUAL_TOKENS = 500
"""The assumed tokens of a reply, if nothing else is known."""
PLAN_HELP = (
    "Print how many calls, tokens and dollars the run would take, and exit. No endpoint is called, "
    "and no key is needed. A number is the assumed length of a reply in tokens; without one it is "
    "500, with --resume the mean so far, and with --offline the stand-in's."
)


def _read_plan(value: object) -> object:
    """Convert yes to a plan with usual replies, and no to none."""
    words = {"true": "usual", "false": None}
    return words.get(str(value).lower(), value)


_Tokens = Annotated[int, Field(ge=1)]
PlanTokens: TypeAlias = Annotated[_Tokens | Literal["usual"] | None, BeforeValidator(_read_plan)]
"""The tokens of a reply, or `usual`; `None`: the run itself."""
