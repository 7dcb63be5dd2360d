"""rLLM's own runner and `rllm eval` with our evaluators: the rewards that it keeps, and episodes without one."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from statistics import fmean

import pytest

from judgegym_trainers.single_turn import EnvironmentSource, get_environment
from tests.core.server.running import Running, running
from tests.scripted import Json, Script, ScriptedEndpoint
from tests.trainers.loops import trainers
from tests.trainers.loops.examples import example, swap
from tests.trainers.loops.offline import OfflineJudge, offline_judge

URL = "http://127.0.0.1:8400"
PRIMES = (
    "Two.",
    "Three is a prime, since nothing divides it.",
    "",
    "Five",
    "Seven is prime.",
    "Eleven, I think.",
)
ROWS = [
    {
        "id": f"p{n}",
        "question": f"Name prime number {n}.",
        "ground_truth": "Seven is a prime.",
        "baseline": "Nine.",
    }
    for n in range(len(PRIMES))
]
FILLED = [row for row, answer in zip(ROWS, PRIMES, strict=True) if answer]
KINDS = ("rubric", "aspect", "peer", "arena_hard")
MOUNTS = "--mounts=" + json.dumps({kind: {"judge": kind} for kind in KINDS})


def policy(request: Json, number: int) -> str:
    """What the model says to a row, known by the number in its prompt; to any other prompt, a sentence."""
    asked = request["messages"][-1]["content"]
    number_of = asked.removeprefix("Name prime number ").removesuffix(".")
    return (
        PRIMES[int(number_of)]
        if number_of.isdigit()
        else f"Bees make honey of nectar, {len(asked)} drops of it."
    )


async def evaluated(*runs: Json, script: Script = policy) -> list[Json]:
    async with ScriptedEndpoint(script) as model:
        ended = await trainers.run(
            "rllm", "program.py", {"base_url": model.base_url, "runs": list(runs)}
        )
    assert ended.code == 0, ended.err
    assert "Unclosed" not in ended.err
    return list(ended.result)


def within(base_url: str, **judge: object) -> Json:
    return {
        "judge": {
            "judge_base_url": base_url,
            "judge_model_name": "the-judge",
            "judge_max_retries": 0,
            **judge,
        }
    }


async def ours(server: Running, mount: str, answer: str) -> Json:
    """The answer of the reward server itself, asked with the same texts."""
    fields = {"reference": "Seven is a prime.", "baseline": "Nine."}
    body = {"prompt": f"Name prime number {PRIMES.index(answer)}.", "response": answer, **fields}
    return dict((await server.post(f"/{mount}/v1/score" if mount else "/v1/score", body)).json)


@pytest.mark.timeout(150)
async def test_rewards_are_those_of_the_server() -> None:
    async with running(MOUNTS, judge=OfflineJudge()) as server:
        asked = [
            {"evaluator": f"judgegym_{kind}", "settings": settings, "rows": ROWS}
            for kind in KINDS
            for settings in ({"url": server.url, "mount": kind}, within(server.judge.base_url))
        ]
        results = await evaluated(*asked)
        for run, result in zip(asked, results, strict=True):
            kind = str(run["evaluator"]).removeprefix("judgegym_")
            assert (result["errors"], result["surviving"]) == (0, len(ROWS))
            for item in result["items"]:
                expected = await ours(server, kind, item["answer"])
                reward = expected["score"] if item["answer"] else 0.0
                assert (item["reward"], item["rewards"]) == (reward, [reward])
                assert item["is_correct"] == (bool(item["answer"]) and reward >= 0.5)
                assert item["signals"] == {
                    "judge_score": reward,
                    "invalid_completion": float(not item["answer"]),
                }
                names = ("status", "label", "explanation")
                assert item["metadata"]["judge"] == {name: expected[name] for name in names}
    assert (
        len({item["reward"] for result in results for item in result["items"]}) > 4
    )  # they tell answers apart


# Losses: rLLM | any | evaluator, in its own process | safe
@pytest.mark.timeout(150)
async def test_failed_judge_is_an_episode_without_trajectories() -> None:
    async with running("--judge=rubric", judge=OfflineJudge()) as server:
        undisturbed = {
            f"p{PRIMES.index(each)}": (await ours(server, "", each))["score"]
            for each in PRIMES
            if each
        }
    async with offline_judge(every_third_fails=True) as (base_url, judge):
        run = {
            "evaluator": "judgegym_rubric",
            "settings": within(base_url),
            "rows": FILLED,
            "attempts": 2,
        }
        [result] = await evaluated(run)
    failed = [item for item in result["items"] if item["error"] is not None]
    answers = {row["id"]: PRIMES[int(str(row["id"])[1:])] for row in FILLED}
    assert {answers[item["row"]] for item in failed} == {
        each for each in answers.values() if judge.has_failed(each)
    }
    assert 0 < len(failed) < len(result["items"])
    assert result["errors"] == len(failed) == len(result["items"]) - result["surviving"]
    for item in result["items"]:
        if item in failed:
            assert item["error"].startswith("no reward (judge_failed): ")
            assert "planted" in item["error"]
            assert (item["rewards"], item["signals"]) == ([], {})
        else:
            assert (item["reward"], item["rewards"]) == (
                undisturbed[item["row"]],
                [undisturbed[item["row"]]],
            )
    kept = [item["reward"] for item in result["items"] if item not in failed]
    assert result["averages"]["judge_score"] == pytest.approx(fmean(kept), abs=1e-15)
    assert sorted(reward for group in result["grouped"] for reward in group) == sorted(kept)


GROUPS = """
from judgegym_trainers.rllm import judge_evaluator

evaluator = judge_evaluator(judge={judge!r})
rows = {rows!r}
"""


@pytest.mark.timeout(150)
async def test_rollouts_of_a_task_are_compared() -> None:
    said = iter(f"{PRIMES[n % 6]} This is answer {n}." for n in range(8))
    async with offline_judge(every_third_fails=True) as (base_url, judge):
        settings = {**within(base_url)["judge"], "judge": "listwise", "group_size": 2}
        run = {"code": GROUPS.format(judge=settings, rows=ROWS[:4]), "attempts": 2}
        [result] = await evaluated(run, script=lambda request, number: next(said))
    assert len(judge.failed) == 1
    async with running("--judge=listwise", judge=OfflineJudge()) as server:
        for row in ROWS[:4]:
            items = [item for item in result["items"] if item["row"] == row["id"]]
            if any(item["error"] for item in items):
                assert [item["rewards"] for item in items] == [[], []]
                continue
            asked = {"responses": [item["answer"] for item in items], "baseline": row["baseline"]}
            body = {"prompt": row["question"], "reference": row["ground_truth"], **asked}
            expected = (await server.post("/v1/score", body)).json["results"]
            assert [item["reward"] for item in items] == [each["score"] for each in expected]
    assert (result["errors"], len(result["grouped"])) == (2, 3)


@pytest.mark.timeout(150)
async def test_environment_of_the_example() -> None:
    code = example("rllm")
    limited = code + "\nrows = rows[:5]\n"
    async with offline_judge(every_third_fails=True) as (base_url, judge):
        settings = {
            "judge_base_url": base_url,
            "judge_max_retries": 0,
            "judge_model_name": "the-judge",
        }
        failing = swap(limited, ('"offline": True', f'"offline": True, "settings": {settings!r}'))
        by_name = {
            "evaluator": "judgegym_environment",
            "settings": {"environment": "arena_hard", "offline": True},
        }
        whole, some = await evaluated({"code": limited}, {"code": failing})
        [again] = await evaluated(
            {**by_name, "rows": [{"id": "x", "uid": whole["items"][0]["row"], "question": "Why?"}]}
        )
    environment = get_environment(EnvironmentSource.from_settings("arena_hard", offline=True))
    assert [item["row"] for item in whole["items"]] == list(environment.uids[:5])
    for item, other in zip(whole["items"], some["items"], strict=True):
        [expected] = await environment.rewards(item["row"], [item["answer"]])
        assert (item["reward"], item["rewards"]) == (expected.reward, [expected.reward])
        assert item["metadata"]["judge"]["explanation"] == expected.explanation
        if other["error"] is None:
            assert other["reward"] == expected.reward
        else:
            assert judge.has_failed(item["answer"])
            assert (other["rewards"], other["signals"]) == ([], {})
    assert 0 < some["errors"] < 5
    [expected] = await environment.rewards(whole["items"][0]["row"], [again["items"][0]["answer"]])
    assert again["items"][0]["rewards"] == [expected.reward]


@pytest.mark.timeout(150)
async def test_command_of_the_example(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "dataset.toml").write_text('[dataset]\nname = "primes"\ntype = "simple"\n')
    (tmp_path / "data" / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    monkeypatch.setenv("RLLM_HOME", str(tmp_path / "home"))
    variable, command = example("rllm", "bash", 1).splitlines()
    async with running(judge=OfflineJudge()) as server, ScriptedEndpoint(policy) as model:
        name, _, value = swap(shlex.split(variable)[1], (URL, server.url)).partition("=")
        monkeypatch.setenv(name, value)
        agent = ("my_agent:solver", "tests.trainers.loops.rllm.agent:solver")
        given = swap(
            command,
            ("./primes", str(tmp_path)),
            agent,
            ("http://127.0.0.1:8000/v1", model.base_url),
        )
        output = ("--output", str(tmp_path / "results.json"))
        rllm = str(trainers.place_of("rllm") / "bin" / "rllm")
        ended = await trainers.run_with(rllm, *shlex.split(given)[1:], *output)
        assert ended.code == 0, ended.err
        items = json.loads((tmp_path / "results.json").read_text())["items"]
        for item, answer in zip(items, PRIMES, strict=True):
            reward = (await ours(server, "", answer))["score"] if answer else 0.0
            assert (item["reward"], item["is_correct"], item["error"]) == (
                reward,
                reward >= 0.75,
                None,
            )


ARENA = {"environment": "arena_hard", "offline": True}
WRONG: list[tuple[str, object, str]] = [
    ("rubric", {"ofline": True}, r"JUDGEGYM_RLLM\.ofline: unknown setting, did you mean offline\?"),
    (
        "rubric",
        {"judge": {"judge_modl_name": "x"}},
        r"judge\.judge_modl_name: unknown setting .*did you mean",
    ),
    ("peer", {"judge": "peer"}, r"JUDGEGYM_RLLM\.judge: .*settings, found str"),
    (
        "aspect",
        {"correct_from": "high"},
        r"JUDGEGYM_RLLM\.correct_from: .*number, found str",
    ),
    ("arena_hard", ["url"], "JUDGEGYM_RLLM: .*JSON object"),
    ("environment", {**ARENA, "settings": {"group_judge": "listwise"}}, "group_judge"),
    (
        "environment",
        {"offline": True},
        r'JUDGEGYM_RLLM: .*\{"environment": "arena_hard"\}',
    ),
]


async def test_wrong_settings_are_one_line() -> None:
    said = await evaluated(
        *({"evaluator": f"judgegym_{kind}", "settings": settings} for kind, settings, _ in WRONG)
    )
    for (_, _, expected), message in zip(WRONG, said, strict=True):
        assert re.match(expected, str(message)), message
