"""Every kind of judge with an item that it can judge, and a judge model that answers all of them."""

from __future__ import annotations

import orjson

from judgegym.judges.conversations.turns import Turn, text_turn
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.scorers.settings import AnyJudgeSettings, JudgeKind
from judgegym.offline.answers import make_answers
from judgegym.offline.request import parse_request
from tests.scripted import Json

GOOD = "The sky is blue because air scatters the blue light of the sun more than the red light."
FAIR = "The sky is blue because of the light of the sun."
POOR = "It mirrors the sea."
QUESTION = "Why is the sky blue?"
TOGETHER = (GOOD, POOR, FAIR, "Light!")


def turn(text: str) -> Turn:
    return text_turn("assistant", text)


SETTINGS: dict[JudgeKind, dict[str, object]] = {
    "rubric": {"samples_per_item": 3},
    "aspect": {"aspects": "correctness,coherence", "strictness": 3},
    "checklist": {"criteria": ["Names air.", "Names light."], "criteria_per_call": 1},
    "peer": {"judge_critique_rounds": 1},
    "arena_hard": {},
    "choice": {},
    "listwise": {"listwise_orders": 2},
    "tournament": {"schedule": "swiss"},
    "composite": {"reward": "rubric=3,peer=1"},
    "jury": {
        "judges": [{"judge": "rubric"}, {"judge": "peer"}, {"judge": "aspect"}],
        "jury_quorum": 3,
    },
    "cascade": {"cascade": [{"judge": "aspect"}, {"judge": "peer"}], "cascade_share": 0},
    "steps": {"steps_judge": {"judge": "peer"}},
}
"""Such that each judges an item in several calls; but for `choice`, which has one."""
ITEMS: dict[JudgeKind, JudgeTask] = {
    "rubric": JudgeTask(QUESTION, (GOOD,)),
    "aspect": JudgeTask(QUESTION, (GOOD,)),
    "checklist": JudgeTask(QUESTION, (GOOD,)),
    "peer": JudgeTask(QUESTION, (GOOD,)),
    "arena_hard": JudgeTask(QUESTION, (GOOD,), baseline=FAIR),
    "choice": JudgeTask(QUESTION, TOGETHER),
    "listwise": JudgeTask(QUESTION, TOGETHER),
    "tournament": JudgeTask(QUESTION, TOGETHER),
    "composite": JudgeTask(QUESTION, (GOOD,)),
    "jury": JudgeTask(QUESTION, (GOOD,)),
    "cascade": JudgeTask(QUESTION, (GOOD,)),
    "steps": JudgeTask(
        QUESTION, (f"assistant: {FAIR}\n\nassistant: {GOOD}",), traces=((turn(FAIR), turn(GOOD)),)
    ),
}
KINDS = tuple(SETTINGS)


def settings_of(kind: JudgeKind, **others: object) -> AnyJudgeSettings:
    return AnyJudgeSettings.model_validate({"judge": kind, **SETTINGS[kind], **others})


def verdict(request: Json, number: int = 1) -> str:
    """What the stand-in says, which depends on the request alone."""
    return make_answers(parse_request(orjson.dumps(request)), judge_only=True)[0]
