"""Doors of completions other than judges' own: each shows the answer behind thinking, and nothing of one that has none.

`tests/core/server`, `tests/core/datasets/score` and `tests/core/api` have a test of the same name
for theirs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

import pytest

from judgegym_trainers import trl
from tests.core.judges.reward_models.servers import reward_server
from tests.core.monitoring.watched import Watching, group, rollout
from tests.core.server.running import running
from tests.scripted import ScriptedEndpoint

ANSWERED = "◁think▷SECRET PLAN◁/think▷\nIt is 42."
ONLY_THOUGHT = "[THINK]SECRET PLAN. It is 41."
PLAIN = "It is 43."
WRITTEN = (ANSWERED, ONLY_THOUGHT, PLAIN)


class Seen(NamedTuple):
    """What a door has shown, and the score of each completion."""

    shown: list[str]
    scores: list[float | None]


def texts(endpoint: ScriptedEndpoint) -> list[str]:
    return [json.dumps(body, ensure_ascii=False) for body in endpoint.bodies]


async def reward_model() -> Seen:
    script = reward_server("vllm_classify", lambda text: 1.5)
    async with running("--judge=reward_model", judge=script) as server:
        answers = [
            await server.post("/v1/score", {"prompt": "6 * 7?", "response": text})
            for text in WRITTEN
        ]
        return Seen(texts(server.judge), [answer.json["score"] for answer in answers])


async def tournament() -> Seen:
    async with running("--judge=tournament", judge="[[A=B]]") as server:
        answer = await server.post("/v1/score", {"prompt": "6 * 7?", "responses": WRITTEN})
        return Seen(texts(server.judge), [result["score"] for result in answer.json["results"]])


async def gold_judge() -> Seen:
    shown: list[str] = []

    def worth(text: str) -> float:
        shown.append(text)
        return 1.0

    watching = Watching(worth)
    watching.monitor.add(group(1, *(rollout(text, 0.5) for text in WRITTEN)))
    assert watching.monitor.gold is not None
    await watching.monitor.close(math.inf)
    (end,) = watching.lines("end")
    assert end["gold"] == {"scored": 2, "failed": 1, "left_out": 0}
    return Seen(shown, [1.0, None, 1.0])


def rubric(endpoint: ScriptedEndpoint) -> Mapping[str, str]:
    return {"judge": "rubric", "judge_base_url": endpoint.base_url, "judge_model_name": "m"}


async def of_trl() -> Seen:
    async with ScriptedEndpoint("[FEEDBACK] So. [SCORE] 5") as endpoint:
        reward = trl.judge_reward(judge=rubric(endpoint), invalid_completion_score=-1.0)
        scores = await reward(["6 * 7?"] * 3, [*WRITTEN])
        await trl.close(reward)
        return Seen(texts(endpoint), [None if score == -1.0 else score for score in scores])


@pytest.mark.slow(
    "tournament"
)  # its games are judged as those of a pair are; its model of strengths is imported
@pytest.mark.parametrize("door", [reward_model, tournament, gold_judge, of_trl])
async def test_a_completion_is_shown_without_its_thinking(
    door: Callable[[], Awaitable[Seen]],
) -> None:
    seen = await door()
    assert [score is None for score in seen.scores] == [False, True, False]
    assert not any("SECRET" in text for text in seen.shown)
    assert any("It is 42." in text for text in seen.shown) and any(
        PLAIN in text for text in seen.shown
    )
    assert not any("It is 41." in text for text in seen.shown)
