"""The judge plugins, plugged into a taskset of somebody else, in `vf-eval` and `vf-replay`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.core.server.running import running
from tests.trainers.loops.examples import example, swap
from tests.trainers.loops.offline import OfflineJudge, offline_judge
from tests.trainers.loops.verifiers.commands import (
    Attempt,
    attempts,
    command,
    episodes,
    evaluated,
    stand_in,
    talker,
)

pytestmark = pytest.mark.timeout(240)

SHOWN: Mapping[str, Sequence[str]] = {
    "rubric": ("rubric", "reference"),
    "aspect": ("reference",),
    "peer": ("rubric",),
    "arena_hard": ("baseline",),
}
"""The judges of single replies, and what each reads of a task beside its prompt."""

PLUGGED = """
[[env.taskset.task.judges]]
id = "judgegym-{kind}"
model = "the-judge"
base_url = "{judge}"
view = "{view}"
settings = {{ judge_max_retries = 0{more} }}
"""
TASKSET = """
[env.taskset]
id = "judged-questions"
"""


def written(folder: Path, text: str) -> tuple[object, ...]:
    (folder / "judged.toml").write_text(text)
    return ("@", folder / "judged.toml")


def in_process(judge: str, kinds: Sequence[str]) -> str:
    more = {"aspect": ', aspects = "correctness"'}
    views = {"peer": "full_trace"}  # of one turn, it is the last reply
    blocks = [
        PLUGGED.format(
            kind=kind.replace("_", "-"),
            judge=judge,
            more=more.get(kind, ""),
            view=views.get(kind, "last_reply"),
        )
        for kind in kinds
    ]
    return TASKSET + "".join(blocks)


async def ours(
    kind: str, judge: OfflineJudge, found: Sequence[Attempt], *flags: str
) -> list[Mapping[str, Any]]:
    """What `/v1/score` says of the same replies, with the fields that this kind reads."""
    results = []
    async with running(f"--judge={kind}", *flags, judge=judge) as server:
        for each in found:
            data = each.data
            fields = {
                "rubric": data["rubric"],
                "reference": data["answer"],
                "baseline": data["baseline"],
            }
            body = {"prompt": data["prompt"], "response": each.reply, **fields}
            results.append((await server.post("/v1/score", body)).json)
    return results


def check(found: Sequence[Attempt], results: Sequence[Mapping[str, Any]], name: str) -> None:
    for attempt, result in zip(found, results, strict=True):
        assert attempt.rewards[name] == result["score"]
        assert attempt.metrics[f"{name}/judge_failed"] == float(result["score"] is None)
        (call,) = [call for call in attempt.judge_calls if call["name"] == name]
        assert call["response"]["parsed"]["status"] == result["status"]
        said, expected = call["response"]["message"]["content"], result["explanation"]
        assert said == expected or (
            result["score"] is None and said.endswith("planted")
        )  # the endpoint's URL differs
        assert call["request"]["prompt"] == attempt.data["prompt"]


async def test_four_judges_at_once_in_the_process_of_verifiers(tmp_path: Path) -> None:
    async with offline_judge() as (url, judge), talker() as policy:
        run = await evaluated(tmp_path, policy, *written(tmp_path, in_process(url, list(SHOWN))))
        found = attempts(run)
        for kind, fields in SHOWN.items():
            flags = ["--aspects=correctness"] if kind == "aspect" else []
            name = f"judgegym-{kind.replace('_', '-')}"
            check(found, await ours(kind, judge, found, *flags), name)
            asked = [
                call["request"]
                for each in found
                for call in each.judge_calls
                if call["name"] == name
            ]
            assert all(set(fields) <= request.keys() for request in asked)
    assert len(found) == 3 and all(each.ok and len(each.rewards) == len(SHOWN) for each in found)


@pytest.mark.parametrize("kind", ["rubric", "arena_hard"])
async def test_a_failed_judge_is_no_reward(kind: str, tmp_path: Path) -> None:
    async with offline_judge(every_third_fails=True) as (url, judge), talker() as policy:
        run = await evaluated(
            tmp_path, policy, *written(tmp_path, in_process(url, [kind])), "-r", "2"
        )
        found = attempts(run)
        results = await ours(kind, judge, found)
    name = f"judgegym-{kind.replace('_', '-')}"
    assert judge.failed and {result["score"] is None for result in results} == {True, False}
    check(found, results, name)
    for attempt, result in zip(found, results, strict=True):
        assert attempt.ok == (result["score"] is not None)
        assert [f"no reward ({result['status']})" in error for error in attempt.errors] == [
            True
        ] * (not attempt.ok)


async def test_a_jury_in_settings_judges_as_that_of_the_server(tmp_path: Path) -> None:
    members = """, judges = {first = {judge = "rubric"}, second = {judge = "aspect", aspects = "correctness"}}"""
    flag = (
        '--judges={"first": {"judge": "rubric"}, "second": {"judge": "aspect", "aspects": '
        '"correctness"}}'
    )
    async with offline_judge() as (url, judge), talker() as policy:
        text = TASKSET + PLUGGED.format(kind="jury", judge=url, more=members, view="last_reply")
        found = attempts(await evaluated(tmp_path, policy, *written(tmp_path, text)))
        check(found, await ours("jury", judge, found, flag), "judgegym-jury")


async def test_the_example_judges_with_a_reward_server(tmp_path: Path) -> None:
    judge = OfflineJudge()
    async with (
        running("--judge=rubric", judge=judge) as server,
        offline_judge() as (url, _),
        stand_in() as policy,
    ):
        text = swap(
            example("verifiers", "toml"),
            ("http://127.0.0.1:8400", server.url),
            ("https://api.openai.com/v1", url),
            ('id = "my-taskset"', 'id = "judged-questions"'),
            ('"OPENAI_API_KEY"', '"HOME"'),
        )
        found = attempts(await evaluated(tmp_path, policy, *written(tmp_path, text)))
        check(found, await ours("rubric", judge, found), "judgegym-rubric")
        await command("vf-replay", tmp_path / "run", "--no-rich", "-o", tmp_path / "again")
    again = attempts(episodes(tmp_path / "again"))
    assert [each.rewards for each in again] == [each.rewards for each in found]
    assert all(
        each.ok and set(each.rewards) == {"judgegym-rubric", "judgegym-aspect"} for each in found
    )


async def test_a_judge_that_compares_gathers_the_rollouts_of_a_task(tmp_path: Path) -> None:
    judge = OfflineJudge()
    text = TASKSET + '[[env.taskset.task.judges]]\nid = "judgegym-listwise"\nurl = "{}"'
    async with (
        running("--judge=listwise", "--group_size=2", judge=judge) as server,
        talker() as policy,
    ):
        run = await evaluated(
            tmp_path, policy, *written(tmp_path, text.format(server.url)), "-r", "2"
        )
        found = attempts(run)
        for place in range(0, 6, 2):
            pair = found[place : place + 2]
            data = pair[0].data
            fields = {
                "rubric": data["rubric"],
                "reference": data["answer"],
                "baseline": data["baseline"],
            }
            body = {"prompt": data["prompt"], "responses": [each.reply for each in pair], **fields}
            check(pair, (await server.post("/v1/score", body)).json["results"], "judgegym-listwise")
    assert len(found) == 6 and all(each.ok for each in found)


async def test_a_field_that_the_tasks_lack_is_no_reward(tmp_path: Path) -> None:
    text = in_process("http://127.0.0.1:1/v1", ["rubric"]) + 'reference_field = "solution"\n'
    async with stand_in() as policy:
        (found,) = attempts(await evaluated(tmp_path, policy, *written(tmp_path, text), "-n", "1"))
    assert not found.ok and found.rewards == {"judgegym-rubric": None}
    said = found.errors[-1]
    assert "reference_field: " in said and "no field 'solution'" in said
