"""TRL's `GRPOTrainer`, in one process and in two: groups, cells, failures and errors as the trainer sees them.

The judge chooses one response of each request, so that the mean of the rewards tells how many were
judged together.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.server.running import asked, running
from tests.listwise import judging
from tests.scripted import Json
from tests.trainers.loops import trainers

TWINS = [{"prompt": "Q", "baseline": "one"}, {"prompt": "Q", "baseline": "two"}]


def judge(request: Json, number: int) -> str:
    text = asked(request)
    if "Start of Assistant A" in text:
        return "[[A]]"
    if "[Start of answer" in text:
        return judging(lambda answer, _: 0.75 if answer in ("one", "two") else 0.25)(
            request, number
        )
    if "submission" in text.lower() and "verdict" in text:
        return '{"reason": "since", "verdict": 1}'
    return "I cannot say." if "FAIL" in text else "[FEEDBACK] Seen. [SCORE] 5"


def logged(run: Json, name: str) -> float:
    """What TRL has logged at the first step."""
    return float(next(entry for entry in run["log"] if "reward" in entry)[name])


def mean(run: Json, name: str = "judge") -> float:
    return logged(run, f"rewards/{name}/mean")


@pytest.mark.timeout(150)
async def test_one_process(tmp_path: Path) -> None:
    mounts = (
        '--mounts={"best": {"judge": "choice"}, "group": {"judge": "listwise"}, '
        '"asked": {"judge": "aspect", "aspects": ["coherence"]}}'
    )
    async with running(mounts, judge=judge) as server:
        best = {"url": server.url, "mount": "best", "group_size": 4}
        runs = {
            "twins": {"reward": {"judge": best}, "rows": TWINS, "per_device": 8, "generations": 4},
            "listwise": {
                "reward": {"judge": {"url": server.url, "mount": "group", "group_size": 4}},
                "rows": TWINS,
                "per_device": 8,
                "generations": 4,
            },
            "aspects": {
                "reward": {"judge": {"url": server.url, "mount": "asked"}},
                "rows": [{"prompt": "Q", "aspects": ["harmfulness"]}],
                "per_device": 2,
                "generations": 2,
            },
            "cells": {
                "reward": {"judge": {"url": server.url}},
                "rows": [
                    {"prompt": "Q", "reference": 1.5, "context": ["a"]},
                    {"prompt": "FAIL", "reference": 2.5},
                ],
                "per_device": 4,
                "generations": 2,
            },
        }
        ended = await trainers.run("trl", "program.py", str(tmp_path), runs)
        bodies = [asked(request) for request in server.judge.bodies]
    assert ended.code == 0, ended.err
    assert mean(ended.result["twins"]) == 0.25  # formerly 0.125: one group of eight
    assert (
        mean(ended.result["listwise"]) == 0.25
    )  # 0.5 + (0.25 - 0.75) / 2: the baselines are anchors
    assert sum("[Start of answer" in body for body in bodies) == 2
    assert mean(ended.result["aspects"]) == 0.0  # formerly the server's own aspect was asked
    assert mean(ended.result["cells"]) == 1.0  # formerly a ValueError; the failed half is left out
    assert logged(ended.result["cells"], "judge_failed") == 0.5
    assert sum("Start of Assistant A" in body for body in bodies) == 2
    assert any("1.5" in body for body in bodies)
    assert "Unclosed" not in ended.err


@pytest.mark.timeout(150)
async def test_settings_that_cannot_work_end_the_training_with_one_line(tmp_path: Path) -> None:
    async with running(judge=judge) as server:
        reward = {"judge": {"url": server.url, "mount": "nobody"}}
        runs = {"wrong": {"reward": reward, "rows": TWINS, "per_device": 4, "generations": 4}}
        ended = await trainers.run("trl", "program.py", str(tmp_path), runs)
    assert ended.code == 1
    last = ended.err.strip().splitlines()[-1]
    assert "SettingsError" in last and "HTTP 404" in last
    assert server.judge.requests == []
