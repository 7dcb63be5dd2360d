"""The verdicts of a call on several criteria: all of them, each by its id, or none."""

from __future__ import annotations

import json
import re

import pytest

from judgegym.judges.parsing.criteria import (
    CriterionVerdict,
    Words,
    criteria_fault,
    criteria_verdicts,
)
from tests.checklists import entry

WORDS: dict[str, Words] = {
    "ghjkm": {"met": 1.0, "unmet": 0.0},
    "npqrt": {"none": 0.0, "Some of it": 0.5, "cannot_assess": None},
}
FIRST, SECOND = entry("ghjkm", "unmet", quote="it"), entry("npqrt", "Some of it")
FOUND = {
    "ghjkm": CriterionVerdict("unmet", 0.0, "So it seems.", "it"),
    "npqrt": CriterionVerdict("Some of it", 0.5, "So it seems.", ""),
}


def said(*entries: object) -> str:
    return json.dumps({"result": entries})


SOUND = said(FIRST, SECOND)


@pytest.mark.parametrize(
    "text",
    [
        SOUND,
        said(SECOND, FIRST),
        said({**FIRST, "verdict": False}, {**SECOND, "verdict": "some OF it "}),
        said({**FIRST, "verdict": "no"}, SECOND),
        f"<think>{said({**FIRST, 'verdict': 'met'}, SECOND)}</think>ghjkm: it is not met.\n"
        f"```json\n{SOUND}\n```",
        f"{said(FIRST)} I forgot one:\n{SOUND}",
    ],
)
def test_verdict_of_every_id_is_read(text: str) -> None:
    assert criteria_verdicts(text, WORDS) == FOUND


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("All are met.", 'no JSON object .*"result"'),
        (SOUND[:-9], 'no JSON object .*"result"'),
        (said(FIRST), "missing: npqrt"),
        (said(FIRST, FIRST, SECOND), "more than once: ghjkm"),
        (said(FIRST, SECOND, entry("other", "met")), "no criterion: other"),
        (said({**FIRST, "verdict": "Some of it"}, SECOND), "no verdict .*: ghjkm"),
        (said({**FIRST, "verdict": "cannot_assess"}, SECOND), "no verdict .*: ghjkm"),
        (said(FIRST, {**SECOND, "verdict": True}), "no verdict .*: npqrt"),
        (said(FIRST, "npqrt"), 'entry of "result" .*"id"'),
        (SOUND.replace('"verdict": "unmet"', '"verdict": "unmet", "Verdict": "met"'), "no verdict .*: "),
        (f"{SOUND}\nghjkm: met", "the only verdict"),
        (f'{SOUND}\n{{"result": [{{"id": "ghjkm", "reason": "no', "the only verdict"),
    ],
)  # fmt: skip
def test_text_without_a_whole_verdict_has_none(text: str, fault: str) -> None:
    assert criteria_verdicts(text, WORDS) is None
    assert re.search(fault, criteria_fault(text, WORDS))
