"""The checklist judge against scripted endpoints: what it is shown, and judges of known verdicts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from tests.scripted import Json, Reply, Script

_SECTION = re.compile(
    r"^\[([A-Z][a-z]+(?: of Submission)?)(?: ([g-z]+))?(?: [0-9a-f]{12})?\]\n?", re.MULTILINE
)

Says = Callable[[str, str], object]
"""The verdict on a criterion, from its text and the submission."""


def shown(request: Json) -> tuple[dict[str, str], str]:
    """The criteria that a judge is shown, by id, and the submission."""
    _, *parts = _SECTION.split(request["messages"][-1]["content"])
    sections = list(
        zip(parts[::3], parts[1::3], (part.strip("\n") for part in parts[2::3]), strict=True)
    )
    criteria = {own: text for title, own, text in sections if title == "Criterion"}
    return criteria, next(text for title, _, text in sections if title == "Submission")


def entry(
    own: str, verdict: object, reason: str = "So it seems.", quote: str = ""
) -> dict[str, Any]:
    """A judge's entry for a criterion."""
    return {"id": own, "reason": reason, "quote": quote, "verdict": verdict}


def verdicts(by_id: Mapping[str, object]) -> str:
    """A judge's text with these verdicts."""
    return json.dumps({"result": [entry(own, verdict) for own, verdict in by_id.items()]})


def saying(says: Says) -> Script:
    """A judge by criterion and submission."""

    def script(request: Json, _: int) -> str | Reply:
        criteria, submission = shown(request)
        return verdicts({own: says(text, submission) for own, text in criteria.items()})

    return script
