"""The yes or no of an aspect's judge, and its reason."""

from __future__ import annotations

from judges.llm.wire import JSON, scrub
from judges.parsing.found import Found, verdict_parser
from judges.parsing.json_objects import last_first
from judges.parsing.thinking import after_thinking
from judges.parsing.verdict_form import VerdictForm, integer, text_field

_YES_NO = {"1": True, "yes": True, "true": True, "0": False, "no": False, "false": False}

ASPECT_FORM = VerdictForm("aspect_verdict", {"reason": text_field("one or two sentences"), "verdict": integer(0, 1)})


@verdict_parser
def binary_verdict(own: str) -> Found[bool] | None:
    """The verdict of an aspect's judge: that of the last JSON object `{"reason", "verdict"}` with a `verdict`.

    1/0, "1"/"0", true/false and "yes"/"no" in any case are verdicts; 0.7, 2, −1, null and all other values are not.

    Returns:
        `True` for yes; `None` also if a verdict outside of an object follows: the object may be a quotation.
    """
    for match in last_first(own):
        if "verdict" in match.fields:
            yes = None if match.is_contested("verdict") else yes_or_no(match.fields["verdict"])
            return None if yes is None else Found(yes, match.at)
    return None


def yes_or_no(value: JSON) -> bool | None:
    """A verdict given as a JSON value: 1/0, true/false, "1"/"0", "yes"/"no" or "true"/"false" in any case."""
    if isinstance(value, str):
        return _YES_NO.get(value.strip().lower())
    return bool(value) if isinstance(value, bool | int | float) and value in (0, 1) else None


def verdict_reason(text: str) -> str | None:
    """The reason of the object that `binary_verdict` reads, `None` if there is none."""
    for match in last_first(after_thinking(text)):
        if "verdict" in match.fields:
            reason = match.fields.get("reason")
            return scrub(reason) if isinstance(reason, str) else None
    return None
