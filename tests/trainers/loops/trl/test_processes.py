"""Groups that TRL lays out over three processes unevenly: each is judged once, whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.server.running import running
from tests.trainers.loops import trainers
from tests.trainers.loops.offline import OfflineJudge
from tests.trainers.loops.trl.asked import (
    EACH_BY_ITSELF,
    environment,
    environments_rewards,
    launched,
    logged,
    servers_scores,
    single,
)

TEXTS = [
    f"Turns strings such as 1h30m into {'seconds, ' * number}and so on." for number in range(12)
]
GROUPS = [TEXTS[:6], TEXTS[6:]]  # of four on each process: 4 and 2, 2 and 4
ROWS = [
    {"prompt": "How do I turn 1h30m into seconds?", "baseline": f"{number} functions"}
    for number in range(2)
]
UNEVEN = {"per_device": 4, "generations": 6, "texts": TEXTS}


@pytest.mark.timeout(200)
async def test_three_processes_with_parts_of_groups(tmp_path: Path) -> None:
    judge = OfflineJudge(every_third_fails=True)
    async with running(
        '--mounts={"games": {"judge": "tournament", "schedule": "circular"}}', judge=judge
    ) as server:
        url = server.judge.base_url
        listwise = environment("arena_hard", url, group_judge="listwise")
        peer = environment("self_critique", url)
        of_server = {
            "games": {"url": server.url, "mount": "games", "group_size": 6},
            "alone": {"url": server.url},
        }
        runs = {
            "server": {**UNEVEN, "reward": of_server, "rows": ROWS, "config": EACH_BY_ITSELF},
            "compared": {**UNEVEN, "environment": listwise, "door": "reward", "rows": 2},
            "submitted": {
                **UNEVEN,
                "environment": {**listwise, "group_size": 6},
                "door": "factory",
                "rows": 2,
            },
            "peer": {**UNEVEN, "environment": peer, "door": "reward", "rows": 2},
        }
        ended = await trainers.run("trl", "program.py", str(tmp_path), runs, launcher=launched(3))
        assert ended.code == 0, ended.err
        result, asked_before = ended.result, judge.distinct
        bodies = [{**row, "responses": group} for row, group in zip(ROWS, GROUPS, strict=True)]
        games = [await servers_scores(server, body, "/games/v1/score") for body in bodies]
        alone = [
            (await servers_scores(server, {**row, "response": text}))[0]
            for row, group in zip(ROWS, GROUPS, strict=True)
            for text in group
        ]
        compared = single(await environments_rewards(listwise, GROUPS))
        of_peer = single(await environments_rewards(peer, GROUPS))
        asked_after = judge.distinct
    assert logged(result["server"], "games") == single(
        [score for group in games for score in group]
    )
    assert logged(result["server"], "alone") == single(alone)
    assert (
        logged(result["compared"], "arena_hard")
        == logged(result["submitted"], "arena_hard")
        == compared
    )
    assert logged(result["peer"], "self_critique") == of_peer
    assert None in alone and None in of_peer
    assert {compared[:6].count(None), compared[6:].count(None)} == {
        0,
        6,
    }  # one of two groups is refused: no wrong setting
    assert asked_after == asked_before  # each group was judged whole: we asked what TRL had asked
    assert "Unclosed" not in ended.err
