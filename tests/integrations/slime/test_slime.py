"""slime's own `remote_rm` and `batched_async_rm`, from a checkout of its repository."""

from __future__ import annotations

import sys

from tests.integrations import trainers
from tests.judges.server.running import asked, running
from tests.scripted import Json


def judge(request: Json, number: int) -> str:
    response = asked(request).partition("### Response To Evaluate\n\n")[2]
    return "I cannot say." if response.startswith("FAIL") else f"[SCORE] {5 if response.startswith('good') else 1}"


async def test_rewards_as_the_trainer_receives_them() -> None:
    checkout = trainers.place_of("slime")
    samples = [
        {"prompt": "Why?", "response": "good", "label": "Since."},
        {"prompt": [{"role": "user", "content": "Why not?"}], "response": "bad", "label": 5},
        {"prompt": "Who?", "response": "FAIL", "label": None},
        {"prompt": "Who?", "response": "", "label": None},
        {"prompt": "What?", "response": "good", "label": '{"reference": "R", "rubric": "Is it good?"}'},
    ]
    async with running(judge=judge) as server:
        ended = await trainers.run_with(
            sys.executable, trainers.HERE / "slime/program.py", str(checkout), f"{server.url}/slime", samples
        )
        shown = "".join(asked(request) for request in server.judge.bodies)
    assert ended.code == 0, ended.err
    assert ended.result == [1.0, 0.0, 0.0, 0.0, 1.0]
    for text in ("Why not?", "### Reference Response\n\nSince.", "### Score Rubric\n\nIs it good?"):
        assert text in shown
