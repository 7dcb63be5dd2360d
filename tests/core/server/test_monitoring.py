"""The reward server's monitors: groups of what trainers send, files, metrics, alarms, and a gold judge beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judgegym.engine.runs.lines import LineWriter
from judgegym.llm.errors import RunDirectoryError
from judgegym.monitoring.gold import GoldJudge
from judgegym.server import monitoring
from judgegym.server.monitoring import ServerMonitors
from judgegym.server.operation import Telemetry
from judgegym.server.settings import WatchSettings
from tests.core.server.running import Running, running
from tests.scripted import Json, Reply, ScriptedEndpoint

ANSWERS = ["long " * 20, "short", "I'm sorry, I cannot help with that.", ""]


def lines(folder: Path, kind: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (folder / "monitor.jsonl").read_bytes().splitlines()]
    return [line for line in found if kind in line]


def judge(request: Json, number: int) -> str:
    return (
        f"[FEEDBACK] fine [SCORE] {5 if 'long long' in request['messages'][-1]['content'] else 2}"
    )


async def score(server: Running, prompt: str, *responses: str, mount: str = "") -> None:
    body = (
        {"prompt": prompt, "responses": responses}
        if len(responses) > 1
        else {"prompt": prompt, "response": responses[0]}
    )
    answer = await server.post(f"{mount}/v1/score", body)
    assert answer.status == 200, answer.text


async def test_groups_of_a_request_and_of_single_responses(tmp_path: Path) -> None:
    async with running(f"--run_dir={tmp_path / 'run'}", "--monitor_every=2", judge=judge) as server:
        await score(server, "One?", *ANSWERS)
        for answer in ANSWERS[:2]:
            await score(server, "Two?", answer)
            await score(server, "Three?", answer)
    (first, second) = (line["step"] for line in lines(tmp_path / "run", "step"))
    assert (first["groups"], first["rollouts"], second["groups"], second["rollouts"]) == (
        2,
        6,
        1,
        2,
    )
    assert first["values"]["refusal_rate"] == first["values"]["empty_rate"] == pytest.approx(1 / 6)
    assert first["values"]["at_top"] == pytest.approx(2 / 5)
    assert first["causes"] == {"invalid_completion": 1}
    assert second["values"]["reward_spread_within"] == pytest.approx((0.375**2 * 2) ** 0.5)
    assert {line["judge"] for line in lines(tmp_path / "run", "at")} == {""}
    live = [
        json.loads(line) for line in (tmp_path / "run" / "live.jsonl").read_bytes().splitlines()
    ]
    assert (live[0]["status"]["groups"], live[0]["status"]["is_over"]) == (3, True)
    assert len(live) == 4


async def test_alarms_and_numbers_are_in_the_metrics_by_judge(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    flags = ["--monitor_every=1", '--monitor_limits={"length_mean": 3, "alarm": true}']
    mounts = f"--mounts={json.dumps({'other': {}})}"
    async with running(f"--run_dir={tmp_path}", mounts, *flags, judge=judge) as server:
        for number in range(4):
            await score(server, f"{number}?", "quite long", "short")
            await score(server, f"{number}?", "ab", "a", mount="/other")
        text = (await server.get("/metrics")).text
    assert 'judgegym_alarms_total{judge="",monitor="length_mean"} 1.0' in text
    assert 'judgegym_alarms_total{judge="other"' not in text
    assert 'judgegym_monitor{judge="other",monitor="length_mean"} 1.5' in text
    assert [line["judge"] for line in lines(tmp_path, "alarm")] == [""]
    assert "ALARM length_mean at step 3" in caplog.text


@pytest.mark.parametrize("kind", ["fine", "hangs"])
async def test_a_gold_judge_has_other_calls_and_no_say(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitoring, "_GOODBYE_S", 5.0 if kind == "fine" else 0.0)
    replies = {"fine": Reply(text="[FEEDBACK] poor [SCORE] 1"), "hangs": Reply(hang=True)}
    async with ScriptedEndpoint(lambda request, number: replies[kind]) as gold:
        settings = json.dumps(
            {"judge": "rubric", "judge_base_url": gold.base_url, "judge_model_name": "gold"}
        )
        async with running(
            f"--run_dir={tmp_path}", f"--gold_judge={settings}", "--gold_share=1", judge=judge
        ) as server:
            answer = await server.post("/v1/score", {"prompt": "Why?", "responses": ANSWERS[:2]})
            assert [each["score"] for each in answer.json["results"]] == [1.0, 0.25]
            await gold.arrived(1)
    assert gold.requests[0].json["model"] == "gold"
    (end,) = lines(tmp_path, "end")
    assert (end["end"]["gold"]["scored"] > 0) == (kind == "fine")
    assert [line["begin"] for line in lines(tmp_path, "begin")] == [
        {"judge": "the-judge", "gold_judge": "gold"}
    ]


async def test_a_gold_judge_that_refuses_every_request_is_told_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its scores there is no alarm, and its failures raise no error."""
    monkeypatch.setattr(GoldJudge, "ranked_share", 1.0)
    async with ScriptedEndpoint(
        Reply(status=404, body={"error": {"message": "no model gold"}})
    ) as gold:
        settings = json.dumps(
            {"judge": "rubric", "judge_base_url": gold.base_url, "judge_model_name": "gold"}
        )
        flags = f"--run_dir={tmp_path}", f"--gold_judge={settings}", "--gold_share=1"
        async with running(*flags, judge=judge) as server:
            for number in range(20):
                await score(server, f"{number}?", *ANSWERS[:2])
    told = [
        record.getMessage() for record in caplog.records if "the gold judge" in record.getMessage()
    ]
    first, many = told
    assert "failed on row " in first and "no model gold" in first
    assert "in a row" in many and "no alarm" in many


async def test_a_restart_goes_on_in_the_same_files(tmp_path: Path) -> None:
    for _ in range(2):
        async with running(f"--run_dir={tmp_path}", judge=judge) as server:
            await score(server, "Why?", *ANSWERS)
            with pytest.raises(RunDirectoryError, match="is in use"):
                async with running(f"--run_dir={tmp_path}"):
                    pass
    assert [line["step"]["step"] for line in lines(tmp_path, "step")] == [1, 2]


def test_a_disk_that_refuses_lines_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    watched = ServerMonitors(WatchSettings(run_dir=tmp_path), {}, Telemetry())
    watched._file = LineWriter(
        tmp_path / "away" / "monitor.jsonl", watched._warn_unwritable, most_waiting=3
    )
    for number in range(5):
        watched._write(b"%d\n" % number)
    (tmp_path / "away").mkdir()
    watched._write(b"5\n")
    assert (tmp_path / "away" / "monitor.jsonl").read_bytes() == b"3\n4\n5\n", (
        "the latest three were kept"
    )
    assert caplog.text.count("cannot be written") == 1


async def test_memory_of_open_groups_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitoring, "_MOST_OPEN", 2)
    async with running(f"--run_dir={tmp_path}", "--monitor_every=1", judge=judge) as server:
        for number in range(4):
            await score(server, f"{number}?", "one")
        assert len(lines(tmp_path, "step")) == 2
    assert len(lines(tmp_path, "step")) == 4
