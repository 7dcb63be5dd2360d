"""OpenEnv's own server, client and rubrics: rewards to the digit, and none where the judge failed."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from judgegym.llm import wire
from tests.core.server.running import judged_by, running
from tests.trainer import free_port
from tests.trainers.loops import trainers
from tests.trainers.loops.children import ready, started
from tests.trainers.loops.environments import (
    ENVIRONMENTS,
    expected,
    rewards_of,
    settings_of,
    texts_of,
)
from tests.trainers.loops.examples import example, swap
from tests.trainers.loops.offline import OfflineJudge, judging_all_at_once, offline_judge

pytestmark = pytest.mark.timeout(150)


async def served(
    name: str, url: str, texts: Mapping[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> Any:
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
    async with offline_judge() as (url, _):
        wanted = await expected(name, url)
        found = await served(name, url, texts_of(wanted), monkeypatch)
    rewards = rewards_of(wanted)
    assert [answer[:3] for answer in found["http"]] == [
        [200, rewarded.reward, True] for rewarded in rewards
    ]
    for (reward, metadata, is_surfaced), (*_, of_http), rewarded in zip(
        found["client"], found["http"], rewards, strict=True
    ):
        assert reward == rewarded.reward and is_surfaced and metadata == of_http
        flags = {"judge_failed": False, "invalid_completion": rewarded.is_invalid}
        said = {"explanation": rewarded.explanation, "metrics": dict(rewarded.metrics), **flags}
        assert said.items() <= metadata.items()
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
    assert "no row; reset" in early and "no row 'nobody'" in nobody
    assert "index: expected" in before and "found -1" in before
    assert "train or eval" in holdout and "found 'holdout'" in holdout
    assert status == 400 and "action.uid" in detail
    reward, is_done, metadata = found["late"]
    assert reward is None and is_done and metadata["judge_failed"] is True
    assert metadata["explanation"].startswith("no reward within")
    tasks = found["tasks"]
    assert [split["name"] for split in tasks["splits"]] == ["train", "eval"]
    assert tasks["count"]["num_tasks"] > 0 and tasks["beyond"] == 400
    assert tasks["tasks"][1] == {"id": tasks["task"]["id"], "index": 1}
    assert (
        tasks["row"]["uid"] == tasks["task"]["id"]
        and tasks["row"]["messages"] == tasks["task"]["messages"]
    )


# Losses: OpenEnv | the client's | environment, rubric | safe
@pytest.mark.parametrize("name", ["arena_hard", "self_critique"])
async def test_failed_judges_of_a_served_environment(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with offline_judge() as (url, _):
        wanted = await expected(name, url)
    async with offline_judge(every_third_fails=True) as (url, _):
        found = await served(name, url, texts_of(wanted), monkeypatch)
    rewards = [reward for reward, *_ in found["client"]]
    assert rewards == [
        reward for _, reward, *_ in found["http"]
    ]  # the same requests are refused again
    assert 0 < rewards.count(None) < len(rewards)
    for (reward, metadata, _), rewarded in zip(found["client"], rewards_of(wanted), strict=True):
        assert metadata["judge_failed"] is (reward is None)
        if reward is None:
            assert metadata["status"] == "judge_failed" and "planted" in metadata["explanation"]
        else:
            assert reward == rewarded.reward


QUESTIONS = [
    ("Why is the sky blue at noon?", "The sky is blue at noon since air scatters blue light."),
    ("Why is the sky blue at noon?", "Bananas."),
    ("Name a prime number.", "Seven is a prime number."),
    ("Name a prime number.", ""),
    ("What do bees make?", "Bees make honey and wax, and bees make more bees."),
    ("What do bees make?", "They make nothing at all, I think."),
]


def gated(score: float) -> float:
    return score if score >= 0.5 else 0.0


COMPOSED: dict[str, Callable[[float], float]] = {
    "sequential": lambda value: 0.25 if value else 0.0,
    "gate": gated,
    "weighted": lambda value: value * 0.5 + 0.125,
    "dict": lambda value: value,
    "list": lambda value: value,
}
"""What the compositions of the program make of a judge's score."""


async def test_a_judge_as_rubric_also_where_it_fails() -> None:
    """A failed judgment is `None` in every composition, and nothing of an earlier step is left."""
    async with running("--judge=rubric", judge=OfflineJudge(every_third_fails=True)) as server:
        bodies = [{"prompt": question, "response": answer} for question, answer in QUESTIONS]
        wanted = [(await server.post("/v1/score", body)).json for body in bodies]
        text = swap(example("OpenEnv", number=1), ("http://127.0.0.1:8400", server.url))
        more = (
            f"URL = {server.url!r}\nJUDGE = { {'judge': 'rubric', **judged_by(server.judge)}!r}\n"
        )
        ended = await trainers.run("openenv", "rubric_program.py", QUESTIONS, f"{text}\n{more}")
    assert ended.code == 0, ended.err
    found, statuses = ended.result, [result["status"] for result in wanted]
    values = [
        None if result["status"] == "judge_failed" else result["score"] or 0.0 for result in wanted
    ]
    assert 0 < values.count(None) < len(values)
    for way in ("sync", "async"):
        assert [reward for reward, _ in found[way]] == composed(gated, values)
        of_way = [metadata for _, metadata in found[way]]
        assert [metadata["judge_status"] for metadata in of_way] == statuses
        assert [metadata["judge_failed"] for metadata in of_way] == [
            value is None for value in values
        ]
        assert [metadata["judge_invalid"] for metadata in of_way] == [
            each == "invalid_completion" for each in statuses
        ]
        for metadata, result in zip(of_way, wanted, strict=True):
            assert metadata["judge_explanation"] == result["explanation"]
    assert found["in_process"] == [values, values]
    for name, function in COMPOSED.items():
        assert [score for score, *_ in found["composed"][name]] == composed(function, values), name
    for score, last, inside in found["composed"]["nested"]:
        assert score is not None or (last is None and set(inside.values()) <= {None, 0.25})
    assert [score is None for score, *_ in found["composed"]["nested"]] == [
        value is None for value in values
    ]
    assert found["unsafe"] == {"sequential": 0.25, "gate": "TypeError", "weighted": "TypeError"}
    assert found["parts"] == [
        "Sequential",
        "WeightedSum",
        "Length",
        "Gate",
        "JudgeRubric",
        "Length",
    ]


def composed(
    function: Callable[[float], float], values: Sequence[float | None]
) -> list[float | None]:
    return [None if value is None else function(value) for value in values]


async def test_a_server_without_an_environment_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENENV_JUDGEGYM_ENVIRONMENT", raising=False)
    python = str(trainers.place_of("openenv") / "bin" / "python")
    ended = await trainers.run_with(
        python, "-m", "uvicorn", "judgegym_trainers.openenv.app:app", "--port", "0"
    )
    assert ended.code == 1
    last = ended.err.strip().splitlines()[-1]
    assert "OPENENV_JUDGEGYM_ENVIRONMENT: expected" in last
    assert last.endswith("such as arena_hard")
    ended = await trainers.run_with(
        python, "-m", "judgegym_trainers.openenv", "arena_soft", "--port", "0"
    )
    assert ended.code == 2
    assert ended.err.startswith("no environment 'arena_soft', did you mean arena_hard?")


async def test_many_sessions_are_judged_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge answers nobody before all have asked."""
    async with offline_judge() as (url, _):
        wanted = await expected("rubric_absolute", url)
    asking = sum(bool(text) for texts in texts_of(wanted).values() for text in texts)
    async with judging_all_at_once(asking) as endpoint:
        found = await served("rubric_absolute", endpoint.base_url, texts_of(wanted), monkeypatch)
    assert endpoint.peak >= asking == 9
    assert [reward for reward, *_ in found["client"]] == [
        rewarded.reward for rewarded in rewards_of(wanted)
    ]


async def test_the_command_of_the_readme_serves(tmp_path: Path) -> None:
    port = free_port()
    words = shlex.split(
        swap(example("OpenEnv", "bash", 1), ("--port 8000", f"--port {port}")), comments=True
    )
    child = await started("openenv", words, tmp_path)
    async with (
        ready(child, "running on"),
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
    ):
        asked = await (await session.post("/reset", json={"seed": 3})).json()
        action = {"completion": "An answer.", "uid": asked["observation"]["uid"]}
        answer = await (await session.post("/step", json={"action": action})).json()
    assert asked["observation"]["messages"] and answer["done"]
    assert answer["reward"] in (-1.0, 0.0, 1.0) and answer["metadata"]["status"] == "ok"
