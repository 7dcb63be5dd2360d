"""A data set on Ray: `judgegym.ray.score` in Ray Data, and `judgegym score --ray`, on clusters of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.datasets.scoring import rated
from tests.scripted import Json, Reply, ScriptedEndpoint
from tests.trainers.loops import trainers

COUNT = 60
SCORES = [(n % 5) / 4 for n in range(COUNT)]


def by_points(response: str) -> int:
    return int(response.split()[0])


@pytest.mark.timeout(2 * trainers.PATIENCE_S)
async def test_ray_data_scores_batches_of_each_format(tmp_path: Path) -> None:
    async with ScriptedEndpoint(rated(by_points)) as judge:
        settings = {"judge_base_url": judge.base_url, "judge_max_concurrency": 8}
        ended = await trainers.run("ray", "data_set.py", "score", tmp_path / "ledger", settings)
        assert ended.code == 0, ended.err
        for kind in ("default", "pandas", "pyarrow"):
            rows = sorted(ended.result[kind], key=lambda row: row["id"])
            assert [row["judge/score"] for row in rows] == SCORES
        assert ended.result["types"]["judge/score"] == "double"
        assert len(judge.requests) == COUNT  # the ledger has what the first format has asked


@pytest.mark.timeout(2 * trainers.PATIENCE_S)
async def test_a_killed_actor_repeats_no_more_than_its_requests_in_flight(tmp_path: Path) -> None:
    scripted = rated(by_points)

    def slowly(request: Json, number: int) -> Reply:
        answer = scripted(request, number)
        assert isinstance(answer, str)
        return Reply(answer, delay_s=0.3)

    async with ScriptedEndpoint(slowly) as judge:
        settings = {"judge_base_url": judge.base_url, "judge_max_concurrency": 8}
        ended = await trainers.run("ray", "data_set.py", "kill", tmp_path / "ledger", settings)
        assert ended.code == 0, ended.err
        rows = sorted(ended.result["rows"], key=lambda row: row["id"])
        assert [row["id"] for row in rows] == list(range(COUNT))
        assert [row["judge/score"] for row in rows] == SCORES
        assert judge.peak <= 8
        assert COUNT <= len(judge.requests) <= COUNT + 4
        assert ended.result["files"] == 3
