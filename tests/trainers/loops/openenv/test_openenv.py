"""OpenEnv's own server, client and rubrics: rewards to the digit, and none where the judge failed."""

from __future__ import annotations

import asyncio
import shlex
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from judgegym.llm import wire
from tests.core.server.running import judged_by, running
from tests.trainers.loops import trainers
from tests.trainers.loops.environments import ENVIRONMENTS, expected, settings_of
from tests.trainers.loops.examples import example, swap
from tests.trainers.loops.offline import OfflineJudge, judging_all_at_once, offline_judge

pytestmark = pytest.mark.timeout(150)


async def served(name: str, url: str, texts: Mapping[str, list[str]], monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the program has got from the server in OpenEnv's environment."""
    monkeypatch.setenv("OPENENV_JUDGEGYM_ENVIRONMENT", name)
    monkeypatch.setenv("OPENENV_JUDGEGYM_SETTINGS", wire.dumps(settings_of(name, url)).decode())
    monkeypatch.setenv("JUDGEGYM_OFFLINE", "true")
    program = trainers.HERE / "openenv" / "environment_program.py"
    python = str(trainers.place_of("openenv") / "bin" / "python")
    ended = await trainers.run_with(python, program, dict(texts), example("OpenEnv"))
    assert ended.code == 0, ended.err
    assert "Unclosed" not in ended.err
    return ended.result


@pytest.mark.parametrize("name", ENVIRONMENTS)
async def test_rewards_of_a_served_environment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trainers.place_of("openenv")
    async with offline_judge() as (url, _):
        wanted = await expected(name, url)
        texts = {uid: [text for text, _ in rewarded] for uid, rewarded in wanted.items()}
        monkeypatch.chdir(trainers.ROOT)
        found = await served(name, url, texts, monkeypatch)
    flat = [rewarded for of_row in wanted.values() for _, rewarded in of_row]
    assert [reward for reward, _, _ in found["client"]] == [rewarded.reward for rewarded in flat]
    assert [answer[:3] for answer in found["http"]] == [[200, rewarded.reward, True] for rewarded in flat]
    for (_, metadata, is_surfaced), (_, _, _, of_http), rewarded in zip(
        found["client"], found["http"], flat, strict=True
    ):
        assert is_surfaced and metadata == of_http
        assert metadata["judge_failed"] is False
        assert metadata["invalid_completion"] is rewarded.is_invalid
        assert metadata["explanation"] == rewarded.explanation
        assert metadata["metrics"] == dict(rewarded.metrics)
    assert len({rewarded.reward for rewarded in flat}) > 1
    check_protocol(name, found)


def check_protocol(name: str, found: Any) -> None:
    """Rows by seed and by place, the routes of tasks, and errors."""
    assert found["same"] and found["seeds"][0] == found["seeds"][1]
    assert len(set(found["seeds"])) > 1
    assert found["example"][1]["status"] in ("ok", "invalid_completion")
    assert found["health"] == {"status": "healthy"}
    assert found["schema"] == ["completion", "finish_reason", "metadata", "reasoning", "uid"]
    assert found["state"]["environment"] == name and found["state"]["episode_id"] is None
    early, nobody, before, holdout, status, detail = found["errors"]
    assert "reset the session first" in early and "no row 'nobody'" in nobody
    assert "expected a number from 0" in before and "expected train or eval, found 'holdout'" in holdout
    assert status == 400 and "action.uid" in detail
    reward, is_done, metadata = found["late"]
    assert reward is None and is_done and metadata["judge_failed"] is True
    assert metadata["explanation"].startswith("no reward within")
    tasks = found["tasks"]
    assert [split["name"] for split in tasks["splits"]] == ["train", "eval"]
    assert tasks["count"]["num_tasks"] > 0 and tasks["beyond"] == 400
    assert tasks["tasks"][1] == {"id": tasks["task"]["id"], "index": 1}
    assert tasks["row"]["uid"] == tasks["task"]["id"] and tasks["row"]["messages"] == tasks["task"]["messages"]


@pytest.mark.parametrize("name", ["arena_hard", "self_critique"])
async def test_failed_judges_of_a_served_environment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trainers.place_of("openenv")
    async with offline_judge() as (url, _):
        wanted = await expected(name, url)
    texts = {uid: [text for text, _ in rewarded] for uid, rewarded in wanted.items()}
    async with offline_judge(every_third_fails=True) as (url, judge):
        found = await served(name, url, texts, monkeypatch)
    flat = [rewarded for of_row in wanted.values() for _, rewarded in of_row]
    failed = 0
    for (reward, metadata, _), (_, of_http, _, http_metadata), rewarded in zip(
        found["client"], found["http"], flat, strict=True
    ):
        assert reward == of_http  # the same requests are refused again
        assert metadata["judge_failed"] is http_metadata["judge_failed"] is (reward is None)
        if reward is None:
            failed += 1
            assert metadata["status"] == "judge_failed" and "planted" in metadata["explanation"]
        else:
            assert reward == rewarded.reward
    assert judge.failed and 0 < failed < len(flat)


QUESTIONS = [
    ("Why is the sky blue at noon?", "The sky is blue at noon since air scatters blue light."),
    ("Why is the sky blue at noon?", "Bananas."),
    ("Name a prime number.", "Seven is a prime number."),
    ("Name a prime number.", ""),
    ("What do bees make?", "Bees make honey and wax, and bees make more bees."),
    ("What do bees make?", "They make nothing at all, I think."),
]


async def rubrics(judge: OfflineJudge) -> tuple[list[Any], Any]:
    """The server's own results for the questions, and the program's."""
    async with running("--judge=rubric", judge=judge) as server:
        wanted = []
        for question, answer in QUESTIONS:
            body = {"prompt": question, "response": answer}
            wanted.append((await server.post("/v1/score", body)).json)
        text = swap(example("OpenEnv", number=1), ("http://127.0.0.1:8400", server.url))
        here = {"judge": "rubric", **judged_by(server.judge)}
        more = f"URL = {server.url!r}\nJUDGE = {here!r}\n"
        ended = await trainers.run("openenv", "rubric_program.py", QUESTIONS, f"{text}\n{more}")
    assert ended.code == 0, ended.err
    return wanted, ended.result


async def test_a_judge_as_rubric() -> None:
    trainers.place_of("openenv")
    wanted, found = await rubrics(OfflineJudge())
    scores = [result["score"] for result in wanted]
    for way in ("sync", "async"):
        assert [reward for reward, _ in found[way]] == [0.0 if score is None else gated(score) for score in scores]
        assert [metadata["judge_status"] for _, metadata in found[way]] == [result["status"] for result in wanted]
        assert [metadata["judge_explanation"] for _, metadata in found[way]] == [
            result["explanation"] for result in wanted
        ]
        assert [metadata["judge_invalid"] for _, metadata in found[way]] == [score is None for score in scores]
    values = [0.0 if score is None else score for score in scores]
    assert found["in_process"] == [values, values]
    composed = {name: [score for score, _, _ in results] for name, results in found["composed"].items()}
    assert composed["sequential"] == [0.25 if value else 0.0 for value in values]
    assert composed["gate"] == [gated(value) for value in values]
    assert composed["weighted"] == [value * 0.5 + 0.125 for value in values]
    assert composed["dict"] == composed["list"] == values
    assert found["unsafe"] == {}
    assert found["parts"] == ["Sequential", "WeightedSum", "Length", "Gate", "JudgeRubric", "Length"]


def gated(score: float) -> float:
    return score if score >= 0.5 else 0.0


async def test_a_rubric_whose_judge_fails() -> None:
    trainers.place_of("openenv")
    wanted, found = await rubrics(OfflineJudge(every_third_fails=True))
    scores = [result["score"] for result in wanted]
    failed = [result["status"] == "judge_failed" for result in wanted]
    assert any(failed) and not all(failed)
    for way in ("sync", "async"):
        assert [reward is None for reward, _ in found[way]] == failed
        assert [metadata["judge_failed"] for _, metadata in found[way]] == failed
        for (reward, metadata), score, is_failed in zip(found[way], scores, failed, strict=True):
            assert reward is None or reward == (0.0 if score is None else gated(score))
            assert not is_failed or "planted" in metadata["judge_explanation"]
    values = [None if is_failed else score or 0.0 for score, is_failed in zip(scores, failed, strict=True)]
    assert found["in_process"] == [values, values]
    for name, results in found["composed"].items():
        assert [score is None for score, _, _ in results] == failed, name
        for score, last, inside in results:
            if score is None:  # nothing of an earlier step is left
                assert last is None and set(inside.values()) <= {None, 0.25}
    assert found["unsafe"] == {"sequential": 0.25, "gate": "TypeError", "weighted": "TypeError"}


async def test_a_server_without_an_environment_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENENV_JUDGEGYM_ENVIRONMENT", raising=False)
    python = str(trainers.place_of("openenv") / "bin" / "python")
    ended = await trainers.run_with(python, "-m", "uvicorn", "judgegym_trainers.openenv.app:app", "--port", "0")
    assert ended.code == 1
    last = ended.err.strip().splitlines()[-1]
    assert last.endswith("OPENENV_JUDGEGYM_ENVIRONMENT: expected the name of an environment, such as arena_hard")
    ended = await trainers.run_with(python, "-m", "judgegym_trainers.openenv", "arena_soft", "--port", "0")
    assert ended.code == 2
    assert ended.err.startswith("no environment 'arena_soft', did you mean arena_hard?")


async def test_many_sessions_are_judged_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge answers nobody before all have asked."""
    trainers.place_of("openenv")
    async with offline_judge() as (url, _):
        wanted = await expected("rubric_absolute", url)
    texts = {uid: [text for text, _ in rewarded] for uid, rewarded in wanted.items()}
    asking = sum(bool(text) for of_row in texts.values() for text in of_row)
    async with judging_all_at_once(asking) as endpoint:
        found = await served("rubric_absolute", endpoint.base_url, texts, monkeypatch)
    assert endpoint.peak >= asking == 9
    flat = [rewarded.reward for of_row in wanted.values() for _, rewarded in of_row]
    assert [reward for reward, _, _ in found["client"]] == flat


async def test_the_command_of_the_readme_serves() -> None:
    python = str(trainers.place_of("openenv") / "bin" / "python")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    words = shlex.split(swap(example("OpenEnv", "bash", 1), ("--port 8000", f"--port {port}")), comments=True)
    assert words[0] == "python"
    child = await asyncio.create_subprocess_exec(python, *words[1:], cwd=trainers.ROOT, stderr=asyncio.subprocess.PIPE)
    try:
        assert child.stderr is not None
        while b"running on" not in (line := await child.stderr.readline()):
            assert line, "the server has ended"
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            asked = await (await session.post("/reset", json={"seed": 3})).json()
            action = {"completion": "An answer.", "uid": asked["observation"]["uid"]}
            answer = await (await session.post("/step", json={"action": action})).json()
    finally:
        child.terminate()
        await child.communicate()
    assert asked["observation"]["messages"] and answer["done"]
    assert answer["reward"] in (-1.0, 0.0, 1.0) and answer["metadata"]["status"] == "ok"
