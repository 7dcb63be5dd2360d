"""What is open after a training with TRL: nothing; and the next training opens again what it needs."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.core.server.running import running
from tests.trainers.loops import trainers
from tests.trainers.loops.offline import OfflineJudge
from tests.trainers.loops.trl.asked import EACH_BY_ITSELF, TEXTS, environment, logged

FOUR = {"per_device": 4, "generations": 4, "texts": TEXTS}
ROWS = [{"prompt": "How do I turn 1h30m into seconds?"}]


@pytest.mark.timeout(150)
async def test_connections_are_closed_when_a_training_ends(tmp_path: Path) -> None:
    async with running(judge=OfflineJudge()) as server:
        url = server.judge.base_url
        watched = [urlsplit(each).port for each in (url, server.url)]
        peer = environment("self_critique", url)
        in_process = {"judge": "rubric", "judge_base_url": url, "judge_model_name": "m"}
        rewards = {"served": {"url": server.url}, "here": {"judge": in_process}}
        functions = {**FOUR, "config": EACH_BY_ITSELF, "reward": rewards, "rows": ROWS}
        runs = {
            "functions": {**functions, "watched": watched, "evaluate": True},
            "environment": {
                **FOUR,
                "environment": peer,
                "door": "reward",
                "rows": 1,
                "evaluate": True,
            },
            "factory": {
                **FOUR,
                "environment": peer,
                "door": "factory",
                "rows": 1,
                "evaluate": True,
            },
            "raises": {**FOUR, "environment": peer, "door": "reward", "rows": 1, "fails_at": 0},
            "again": {**FOUR, "environment": peer, "door": "factory", "rows": 1},
            "functions again": functions,
        }
        ended = await trainers.run("trl", "program.py", str(tmp_path), runs)
    assert ended.code == 0, ended.err
    result = ended.result
    for name in ("functions", "environment", "factory"):
        assert (result[name]["sockets"], result[name]["open"]) == (0, 0)
        assert (result[name]["sockets_evaluated"], result[name]["open_evaluated"]) == (0, 0)
    assert result["raises"]["error"] == "planted"
    assert (result["again"]["sockets"], result["again"]["open"]) == (0, 0)
    assert logged(result["again"], "self_critique") == logged(result["factory"], "self_critique")
    assert logged(result["functions again"], "served") == logged(result["functions"], "served")
    assert "Unclosed" not in ended.err
