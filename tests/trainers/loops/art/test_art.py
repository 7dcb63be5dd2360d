"""ART's `gather_trajectory_groups` with our function after each group, in ART's own process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.server.running import Running, running
from tests.scripted import Json
from tests.trainers.loops import trainers
from tests.trainers.loops.examples import example, swap
from tests.trainers.loops.offline import OfflineJudge, offline_judge

URL = '"http://127.0.0.1:8400"'
ASKED = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "How do bees make honey?"},
]
REPLIES = [
    "Bees gather nectar and fan it dry.",
    "Magic.",
    "Bees collect nectar, add enzymes, store it in cells and fan it with their wings until it is "
    "thick honey.",
    "I do not know how bees make honey.",
    "They buy it.",
]
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "hive"}'}}
PER_SAMPLE = ["--judge=rubric"]
LISTWISE = ["--judge=listwise"]


MEMBERS = ("range(4)", "range(len(scenario.left))")


def code(url: str) -> str:
    return swap(example("ART"), (URL, repr(url)), MEMBERS)


def in_process(base_url: str, kind: str) -> str:
    settings = {
        "judge": kind,
        "judge_base_url": base_url,
        "judge_model_name": "the-judge",
        "judge_max_retries": 0,
    }
    return swap(example("ART"), (URL, f"judge={settings!r}"), MEMBERS)


def group(*replies: str, asked: list[Json] = ASKED) -> list[Json]:
    return [
        {"asked": asked, "turns": [{"content": reply}], "metadata": {"n": n}}
        for n, reply in enumerate(replies)
    ]


async def gathered(place: Path, code: str, *groups: list[Json]) -> Json:
    ended = await trainers.run("art", "program.py", str(place), code, list(groups))
    assert ended.code == 0, ended.err
    assert "Unclosed" not in ended.err
    assert ended.result["untouched"]
    return dict(ended.result)


async def ours(server: Running, *replies: Json, prompt: Json = ASKED) -> list[float | None]:
    """The scores of the reward server itself, asked with the same texts."""
    answer = await server.post("/v1/score", {"prompt": prompt, "responses": list(replies)})
    return [result["score"] for result in answer.json["results"]]


@pytest.mark.timeout(150)
@pytest.mark.parametrize("flags", [PER_SAMPLE, LISTWISE])
async def test_rewards_are_those_of_the_server(tmp_path: Path, flags: list[str]) -> None:
    other = [{"role": "user", "content": "What do bees do with nectar?"}]
    equal = [*REPLIES[:2], REPLIES[0], ""]
    async with running(*flags, judge=OfflineJudge()) as server:
        result = await gathered(
            tmp_path, code(server.url), group(*REPLIES), group(*equal, asked=other)
        )
        asked_for = len(server.judge.requests)
        expected = [await ours(server, *REPLIES), await ours(server, *equal, prompt=other)]
    first, second = result["groups"]
    assert first["rewards"] == expected[0]
    assert len(set(first["rewards"])) > 1
    assert second["rewards"] == [*expected[1][:3], 0.0]
    assert [each["invalid_completion"] for each in second["metrics"]] == [0.0, 0.0, 0.0, 1.0]
    assert asked_for == (7 if flags == PER_SAMPLE else 2)  # equal trajectories are judged once
    for of_group in (first, second):
        assert [each["judge_score"] for each in of_group["metrics"]] == of_group["rewards"]
        assert all(
            each["independent_reward"] == 0.125 and each["steps"] == 1
            for each in of_group["metrics"]
        )
        assert all(
            logs[0] == "began" and logs[1].startswith("judge: ") for logs in of_group["logs"]
        )
        assert of_group["kept"] == [[7, True, 1, {"n": n}] for n in range(len(of_group["rewards"]))]
        assert (
            of_group["own_choices"]
            and of_group["exceptions"] == []
            and of_group["of_group"] == {"judge_failed": 0}
        )


# Losses: ART | any | `judge_group` | safe
@pytest.mark.timeout(150)
async def test_a_failed_judge_leaves_out_a_trajectory_or_the_group(tmp_path: Path) -> None:
    async with offline_judge(every_third_fails=True) as (base_url, judge):
        result = await gathered(tmp_path, in_process(base_url, "rubric"), group(*REPLIES))
        failed = [reply for reply in REPLIES if judge.has_failed(reply)]
    async with running(*PER_SAMPLE, judge=OfflineJudge()) as server:
        expected = dict(zip(REPLIES, await ours(server, *REPLIES), strict=True))
    (of_group,) = result["groups"]
    assert len(failed) == 1
    assert of_group["replies"] == [reply for reply in REPLIES if reply not in failed]
    assert of_group["rewards"] == [expected[reply] for reply in of_group["replies"]]
    assert [kind for kind, _ in of_group["exceptions"]] == ["judge_failed"]
    assert "planted" in of_group["exceptions"][0][1]
    assert of_group["of_group"] == {"judge_failed": 1}
    logged = result["logged"]
    assert (logged["exception_rate"], logged["group_judge_failed"]) == (1 / 5, 1.0)
    assert logged["judge_score"] == logged["reward"] == pytest.approx(sum(of_group["rewards"]) / 4)


@pytest.mark.timeout(150)
async def test_a_group_without_two_scores_is_dropped(tmp_path: Path) -> None:
    judge = OfflineJudge(every_third_fails=True)
    async with running(*LISTWISE, judge=judge) as server:
        groups = [group(*(f"{reply} {number}" for reply in REPLIES)) for number in range(3)]
        result = await gathered(tmp_path, code(server.url), *groups)
    assert judge.asked == 3 and len(judge.failed) == 1
    assert len(result["groups"]) == 2
    assert all(
        not judge.has_failed(reply)
        for of_group in result["groups"]
        for reply in of_group["replies"]
    )


@pytest.mark.timeout(150)
async def test_conversations_with_tools_and_prompts_that_differ(tmp_path: Path) -> None:
    later = [
        {"content": "I look.", "tool_calls": [CALL]},
        {"role": "tool", "content": "Bees.", "tool_call_id": "c1"},
        {"content": REPLIES[2]},
    ]
    other = [ASKED[0], {"role": "user", "content": "How do bees make honey, please?"}]
    members = [
        {"asked": ASKED, "turns": later},
        {"asked": other, "turns": [{"content": REPLIES[1]}]},
    ]
    members = [
        {**member, "metadata": {"reference": "Nectar.", "n": n}} for n, member in enumerate(members)
    ]
    async with running(*LISTWISE, judge=OfflineJudge()) as server:
        result = await gathered(tmp_path, code(server.url), members)
        shown = "".join(
            message["content"] for request in server.judge.bodies for message in request["messages"]
        )
        turns = [
            [
                ASKED[1],
                {"role": "assistant", **later[0]},
                later[1],
                {"role": "assistant", **later[2]},
            ],
            [other[1], {"role": "assistant", "content": REPLIES[1]}],
        ]
        body = {"prompt": ASKED[:1], "responses": turns, "reference": "Nectar."}
        expected = [
            each["score"] for each in (await server.post("/v1/score", body)).json["results"]
        ]
        asked_for = len(server.judge.bodies)
    assert (
        asked_for == 1
    )  # the prompt has what both begin with once: the server has judged the same just now
    assert result["groups"][0]["rewards"] == expected
    assert "[tool call: look(" in shown and "Nectar." in shown


@pytest.mark.timeout(150)
async def test_a_setting_that_cannot_work_ends_the_training_with_one_line(tmp_path: Path) -> None:
    async with running(judge="unused") as server:
        wrong = swap(code(server.url), (f"{server.url!r}", f"{server.url!r}, mount='nobody'"))
        ended = await trainers.run("art", "program.py", str(tmp_path), wrong, [group(*REPLIES)])
        assert server.judge.requests == []
    assert ended.code == 1
    assert any("SettingsError" in line and "HTTP 404" in line for line in ended.err.splitlines())
