"""The spawned server's own part: its settings, and a judge that is a model server of NeMo Gym."""

from __future__ import annotations

import re
from typing import Any

from tests.core.server.bodies import VERIFY
from tests.core.server.running import running
from tests.scripted import Json, Reply, ScriptedEndpoint, completion
from tests.trainers.loops.nemo_gym.gym import Gym
from tests.trainers.loops.offline import OfflineJudge

MODEL = {"judge_model_server": {"type": "responses_api_models", "name": "judge_model"}}


def block(reward_server: Json, **more: Any) -> Json:
    return {
        "entrypoint": "app.py",
        "host": "127.0.0.1",
        "port": 8400,
        "reward_server": reward_server,
        **more,
    }


WRONG = {
    "unknown flag --jugde": block({"jugde": "rubric"}),
    "host: .*expected host beside entrypoint": block({"host": "0.0.0.0"}),
    "workers: .*expected num_workers beside entrypoint": block({"workers": 2}),
    r"insecure: 10\.0\.0\.1 is open": block({"offline": True}, host="10.0.0.1"),
    "tokens: .*clients send none": block({"offline": True, "tokens": {"a": "secret"}}),
    "--group_size: a cohort needs one worker": block(
        {"offline": True, "judge": "listwise", "group_size": 4}, num_workers=2
    ),
    "judge_base_url: judge_model_server": block({"judge_base_url": "http://j/v1"}, **MODEL),
}


async def test_settings_that_cannot_work_are_one_line_and_a_model_server_can_be_the_judge(
    gym: Gym,
) -> None:
    right = [block({"judge_max_retries": 0, "judge_price_input": None}, **MODEL)]
    judge = OfflineJudge()

    def whole(request: Json, number: int) -> Reply:
        """What an endpoint sends: NeMo Gym refuses an answer that lacks a field."""
        return Reply(
            body={
                **completion(str(judge(request, number))),
                "id": "c1",
                "created": 1,
                "model": "the-judge",
            }
        )

    async with ScriptedEndpoint(whole) as endpoint, running(judge=OfflineJudge()) as server:
        ours = (await server.post("/verify", VERIFY)).json
        ended = await gym.run("spawned.py", [*WRONG.values(), *right], endpoint.base_url, VERIFY)
        asked_for = {body["model"] for body in endpoint.bodies}
    assert ended.code == 0, ended.err
    for number, (words, found) in enumerate(zip(WRONG, ended.result, strict=False)):
        assert re.search(words, found["ended"])
        assert found["ended"].startswith(f"server{number}: reward_server: ")
        assert "\n" not in found["ended"] and "secret" not in found["ended"]
    assert asked_for == {"the-judge"}
    for found in ended.result[len(WRONG) :]:
        assert (found["code"], found["page"]) == (200, 200)
        assert found["row"]["reward"] == ours["reward"]
