"""inspect's `eval()` and `inspect score` with our scorers: the scores in its log files, and samples without one."""

from __future__ import annotations

import re
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import fmean

import pytest

from judgegym.cli.environments import built_in_modules
from judgegym_trainers.single_turn import EnvironmentSource, get_environment
from tests.core.server.running import Running, running
from tests.scripted import Json, Reply, Script, ScriptedEndpoint, completion
from tests.trainers.loops import trainers
from tests.trainers.loops.examples import example, swap
from tests.trainers.loops.offline import OfflineJudge, offline_judge

URL = "http://127.0.0.1:8400"
RUBRIC = "Is it right, and short?"
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
        "id": n,
        "input": f"Name prime number {n}.",
        "target": "Seven is a prime.",
        "metadata": {"baseline": "Nine."},
    }
    for n in range(len(PRIMES))
]
KINDS = ("rubric", "aspect", "peer", "arena_hard")
ARGUMENTS: dict[str, Json] = {
    "rubric": {"rubric": RUBRIC},
    "aspect": {"aspects": ["correctness", "conciseness"]},
    "peer": {"rubric": RUBRIC},
    "arena_hard": {},
}


def policy(request: Json, number: int) -> Reply:
    """What the model says to a row, known by the number in its prompt; to any other prompt, a sentence."""
    asked = request["messages"][-1]["content"]
    number_of = asked.removeprefix("Name prime number ").removesuffix(".")
    said = (
        PRIMES[int(number_of)]
        if number_of.isdigit()
        else f"Bees make honey of nectar, {len(asked)} drops of it."
    )
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return Reply(
        body={
            **completion(said),
            "id": "c",
            "created": 0,
            "model": request["model"],
            "usage": usage,
        }
    )


def varied(request: Json, number: int) -> Reply:
    """Another answer each time."""
    reply = policy(
        {**request, "messages": [{"content": f"Name prime number {(number * 5 + 3) % 6}."}]}, number
    )
    message = reply.body["choices"][0]["message"]
    message["content"] = f"{message['content']} This is answer {number}."
    return reply


@asynccontextmanager
async def model(
    monkeypatch: pytest.MonkeyPatch, script: Script = policy
) -> AsyncIterator[ScriptedEndpoint]:
    """A policy that inspect reaches as `openai-api/stub/policy`."""
    async with ScriptedEndpoint(script) as endpoint:
        monkeypatch.setenv("STUB_BASE_URL", endpoint.base_url)
        monkeypatch.setenv("STUB_API_KEY", "none")
        yield endpoint


async def evaluated(todo: Json) -> list[Json]:
    python = trainers.place_of("inspect") / "bin" / "python"
    ended = await trainers.run_with(str(python), Path(__file__).parent / "program.py", todo)
    assert ended.code == 0, ended.err
    assert "Unclosed" not in ended.err
    return list(ended.result)


async def command(*arguments: str) -> trainers.Ended:
    """Run the program `inspect`."""
    return await trainers.run_with(
        str(trainers.place_of("inspect") / "bin" / "inspect"), *arguments
    )


def logs_in(folder: Path, word: str) -> list[str]:
    return [str(path) for path in folder.glob(f"*{word}*.eval")]


def in_process(base_url: str, kind: str) -> Json:
    return {
        **ARGUMENTS[kind],
        "judge_base_url": base_url,
        "judge_model_name": "the-judge",
        "judge_max_retries": 0,
    }


async def ours(server: Running, kind: str, completion: str, *, mounted: bool = True) -> Json:
    """The answer of the reward server itself, asked with the same texts."""
    fields = {
        "rubric": {"reference": "Seven is a prime."},
        "aspect": {"reference": "Seven is a prime."},
    }
    own = {
        **ARGUMENTS[kind],
        **fields.get(kind, {}),
        **({"baseline": "Nine."} if kind == "arena_hard" else {}),
    }
    body = {
        "prompt": f"Name prime number {PRIMES.index(completion)}.",
        "response": completion,
        **own,
    }
    return dict((await server.post(f"/{kind}/v1/score" if mounted else "/v1/score", body)).json)


MOUNTS = "--mounts=" + str({kind: {"judge": kind} for kind in KINDS}).replace("'", '"')


@pytest.mark.timeout(150)
async def test_scores_in_the_log_are_those_of_the_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with model(monkeypatch), running(MOUNTS, judge=OfflineJudge()) as server:
        asked = [(kind, {"url": server.url, "mount": kind, **ARGUMENTS[kind]}) for kind in KINDS]
        alone = [(kind, in_process(server.judge.base_url, kind)) for kind in KINDS]
        [over_http] = await evaluated({"rows": ROWS, "scorers": asked, "log_dir": str(tmp_path)})
        [within] = await evaluated({"rows": ROWS, "scorers": alone, "log_dir": str(tmp_path)})
        for log in (over_http, within):
            assert log["status"] == "success", log["error"]
            for kind in KINDS:
                values = []
                for sample in log["samples"]:
                    score, expected = (
                        sample["scores"][kind],
                        await ours(server, kind, sample["completion"]),
                    )
                    assert score["answer"] == sample["completion"]
                    if not sample["completion"]:
                        assert (score["value"], score["reason"]) == (0.0, "no_response")
                        assert score["metadata"]["status"] == "invalid_completion"
                    else:
                        assert score["value"] == expected["score"]
                        assert score["explanation"] == expected["explanation"]
                        assert score["metadata"]["label"] == expected["label"]
                        assert score["metadata"]["status"] == "ok"
                    values.append(score["value"])
                assert log["results"][kind]["mean"] == pytest.approx(fmean(values), abs=1e-15)
                assert (log["results"][kind]["scored"], log["results"][kind]["unscored"]) == (
                    len(ROWS),
                    0,
                )
        models = {
            sample["scores"]["peer"]["metadata"]["judge_model"] for sample in within["samples"]
        }
        assert models == {"the-judge"}
    values = {sample["scores"][kind]["value"] for kind in KINDS for sample in within["samples"]}
    assert len(values) > 4  # they tell the completions apart


# Losses: inspect_ai | – | scorers, tasks | safe
@pytest.mark.slow
@pytest.mark.timeout(150)
async def test_failed_judge_leaves_the_sample_unscored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = [row for row in ROWS if PRIMES[row["id"]]]
    async with model(monkeypatch), offline_judge(every_third_fails=True) as (base_url, judge):
        todo = {
            "rows": rows,
            "scorers": [("rubric", in_process(base_url, "rubric"))],
            "log_dir": str(tmp_path),
        }
        [log] = await evaluated({**todo, "epochs": 2})
    async with model(monkeypatch), offline_judge() as (base_url, _):
        todo = {
            "rows": rows,
            "scorers": [("rubric", in_process(base_url, "rubric"))],
            "log_dir": str(tmp_path),
        }
        [whole] = await evaluated(todo)
    undisturbed = {sample["id"]: sample["scores"]["rubric"]["value"] for sample in whole["samples"]}
    failed = [sample for sample in log["samples"] if judge.has_failed(sample["completion"])]
    assert (
        len({sample["id"] for sample in failed}) == len(set(judge.failed)) == 1
    )  # of two epochs, one may ask again
    for sample in log["samples"]:
        score = sample["scores"]["rubric"]
        if sample in failed:
            assert (score["value"], score["reason"]) == (None, "grader_failed")
            assert score["metadata"]["status"] == "judge_failed"
            assert "planted" in score["explanation"]
        else:
            assert score["value"] == undisturbed[sample["id"]]
    others = [
        value
        for row, value in undisturbed.items()
        if row not in {sample["id"] for sample in failed}
    ]
    assert log["status"] == "success"
    assert (log["results"]["rubric"]["scored"], log["results"]["rubric"]["unscored"]) == (4, 1)
    assert log["results"]["rubric"]["mean"] == pytest.approx(fmean(others), abs=1e-15)


@pytest.mark.timeout(150)
async def test_epochs_are_compared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rows = ROWS[:3]
    async with model(monkeypatch, varied):
        [log] = await evaluated({"rows": rows, "epochs": 3, "log_dir": str(tmp_path)})
    async with offline_judge(every_third_fails=True) as (base_url, judge):
        given = {
            "group_size": 3,
            "judge_base_url": base_url,
            "judge_model_name": "the-judge",
            "judge_max_retries": 0,
        }
        settings = [part for name, value in given.items() for part in ("-S", f"{name}={value}")]
        scoring = (
            "score",
            log["path"],
            "--action",
            "append",
            "--overwrite",
            "--scorer",
            "judgegym/listwise",
        )
        ended = await command(*scoring, *settings)
    assert ended.code == 0, ended.err
    assert len(judge.failed) == 1
    [log] = await evaluated({"read": [log["path"]]})
    async with running("--judge=listwise", judge=OfflineJudge()) as server:
        for row in rows:
            of_row = [sample for sample in log["samples"] if sample["id"] == row["id"]]
            scores = {sample["completion"]: sample["scores"]["listwise"] for sample in of_row}
            if judge.has_failed(of_row[0]["completion"]):
                assert {(score["value"], score["reason"]) for score in scores.values()} == {
                    (None, "grader_failed")
                }
                continue
            body = {
                "prompt": row["input"],
                "reference": row["target"],
                "baseline": "Nine.",
                "responses": list(scores),
            }
            expected = (await server.post("/v1/score", body)).json["results"]
            assert [score["value"] for score in scores.values()] == [
                result["score"] for result in expected
            ]
    values = {sample["scores"]["listwise"]["value"] for sample in log["samples"]}
    assert len(values) > 2  # None, and scores that tell the epochs apart
    assert (log["results"]["listwise"]["scored"], log["results"]["listwise"]["unscored"]) == (2, 1)


@pytest.mark.timeout(150)
async def test_examples(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    logs = ("logs", str(tmp_path))
    async with model(monkeypatch), running(judge=OfflineJudge()) as server:
        code = swap(example("inspect_ai"), (URL, server.url))
        [log] = await evaluated({"code": code, "log_dir": str(tmp_path)})
        [sample] = log["samples"]
        body = {
            "prompt": "Name a prime.",
            "response": sample["completion"],
            "reference": "Seven is a prime.",
        }
        expected = (await server.post("/v1/score", {**body, "rubric": RUBRIC})).json
        assert sample["scores"]["rubric"]["value"] == expected["score"]

        commands = swap(
            example("inspect_ai", "bash", 1), ("openai/gpt-6-luna", "openai-api/stub/policy")
        )
        score, arena = map(shlex.split, commands.splitlines())
        rescored = [part.replace("LOG", log["path"]).replace(URL, server.url) for part in score[1:]]
        ended = await command(*rescored)
        assert ended.code == 0, ended.err
        [log] = await evaluated({"read": [log["path"]]})
        assert log["samples"][0]["scores"]["rubric1"]["value"] == expected["score"]
        assert log["results"]["rubric1"]["mean"] == expected["score"]

        ended = await command(*(part.replace(*logs) for part in arena[1:]))
        assert ended.code == 0, ended.err
        [log] = await evaluated({"read": logs_in(tmp_path, "arena")})
    assert log["results"]["reward"]["scored"] == 3


OFFLINE = {"offline": True, "judge_model_name": "the-judge"}


@pytest.mark.timeout(150)
async def test_tasks_have_the_rewards_of_their_environments(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names = [
        f"judgegym/{name}" for name in built_in_modules() if name != "mt_bench"
    ]  # several turns: see WRONG
    todo = {"task": names, "task_args": OFFLINE, "limit": 4}
    async with model(monkeypatch):
        logs = await evaluated({**todo, "log_dir": str(tmp_path)})
    assert {log["task"] for log in logs} == {*names}
    for log in logs:
        name = log["task"].removeprefix("judgegym/")
        settings = {"judge_model_name": "the-judge"}
        environment = get_environment(
            EnvironmentSource.from_settings(name, settings, offline=True, split="eval")
        )
        assert log["status"] == "success", log["error"]
        assert {sample["id"] for sample in log["samples"]} == {*environment.uids[:4]}
        for sample in log["samples"]:
            row = environment.row(sample["id"])
            assert sample["asked"] == [
                [message["role"], message["content"]] for message in row.messages
            ]
            [expected] = await environment.rewards(sample["id"], [sample["completion"]])
            score = sample["scores"]["reward"]
            assert (score["value"], score["explanation"]) == (expected.reward, expected.explanation)
            metadata = {"status": expected.status, "label": expected.label, **expected.metrics}
            assert score["metadata"] == metadata
        values = [sample["scores"]["reward"]["value"] for sample in log["samples"]]
        assert log["results"]["reward"]["mean"] == pytest.approx(fmean(values), abs=1e-15)


WRONG: list[tuple[str, Json, str]] = [
    ("rubric", {"ofline": True}, r"rubric\.ofline: unknown setting, did you mean offline\?"),
    (
        "rubric",
        {"url": URL, "strictness": 3},
        "strictness: only without url",
    ),
    (
        "rubric",
        {"offline": True, "rubric": {"Is it right": "yes"}},
        "rubric: expected text, .*criteria",
    ),
    (
        "peer",
        {"offline": True, "rubric_file": "missing.txt"},
        r"rubric_file: missing\.txt cannot be read",
    ),
    ("aspect", {"offline": True, "aspects": ["nope"]}, "aspects: .*no aspect 'nope'"),
    ("rubric", {"offline": True, "judge_api_key": "sk"}, "judge_api_key: .*judge_api_key_env"),
    (
        "rubric",
        {"judge_api_key_env": "NOBODY"},
        r"--judge_api_key_env: api\.anthropic\.com .*API key",
    ),
    ("rubric", {"url": "http://a:b@host"}, "url: .*without user, .*token"),
    ("listwise", {"offline": True}, "group_size: listwise compares the epochs"),
    (
        "reward",
        {"environment": "arena_hard", "group_judge": "listwise"},
        "group_judge: inspect scores",
    ),
    (
        "reward",
        {"environment": "self_critique", "judges": [{"api_key": "sk"}]},
        r"judges\.api_key: .*judges\.api_key_env",
    ),
    (
        "environment_task",
        {"environment": "mt_bench"},
        "mt_bench: the row 'sample-writing-01' is a conversation",
    ),
    ("reward", {"environment": "arena_hard", "split": "test"}, "split: .*train or eval.*'test'"),
]


async def test_wrong_arguments_are_one_line() -> None:
    given = [
        (name, {**({} if "url" in each or name == "rubric" else OFFLINE), **each})
        for name, each, _ in WRONG
    ]
    said = await evaluated({"errors": given})
    for (_, _, expected), message in zip(WRONG, said, strict=True):
        assert re.match(expected, message), message


@pytest.mark.timeout(150)
async def test_command_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Settings of the command arrive whole, with their commas and braces; a wrong one is no traceback."""
    async with model(monkeypatch), running(judge=OfflineJudge()) as server:
        [log] = await evaluated({"rows": ROWS[:2], "log_dir": str(tmp_path)})
        scoring = (
            "score",
            log["path"],
            "--action",
            "append",
            "--overwrite",
            "--scorer",
            "judgegym/rubric",
        )
        texts = ("-S", f"rubric={RUBRIC}", "-S", f"judge_base_url={server.judge.base_url}")
        ended = await command(
            *scoring, *texts, "-S", 'judge_extra_body={"reasoning_effort": "low"}'
        )
        assert ended.code == 0, ended.err
        asked = server.judge.bodies
    assert len(asked) == 2
    assert all(request["reasoning_effort"] == "low" and RUBRIC in str(request) for request in asked)
    ended = await command(*scoring, "-S", "ofline=true")
    assert ended.code != 0 and "Traceback" not in ended.out + ended.err
    assert "rubric.ofline: unknown setting, did you mean offline?" in " ".join(ended.out.split())
