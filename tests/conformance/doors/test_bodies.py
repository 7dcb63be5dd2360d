"""The files of a judge are named by those who start a server, never by those who send it requests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.command import serving
from tests.conformance.doors.door import Visit
from tests.conformance.doors.judges import JUDGES, DoorJudge
from tests.conformance.doors.served import PROTOCOLS, served
from tests.core.server.running import Answer


@pytest.mark.parametrize("name", ["judge", "judge_prompt", "judge_mount", "mounts", "rubric"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("judge", JUDGES, ids=lambda judge: judge.name)
def test_a_request_names_no_file(judge: DoorJudge, protocol: str, name: str, tmp_path: Path) -> None:
    own = judge.written(tmp_path / "judge")
    value = {"own": {"judge": own}} if name == "mounts" else f"@{own}" if name == "rubric" else own

    async def answers() -> Sequence[Answer]:
        async with served(Visit(tmp_path, endpoint, {}), "--judge=rubric") as server:
            return await PROTOCOLS[protocol](server, "", **{name: value})

    with serving(judge.script()) as endpoint:
        statuses = {answer.status for answer in asyncio.run(answers())}
        shown = "\n".join(str(body["messages"]) for body in endpoint.bodies)
    assert judge.marker not in shown
    assert statuses <= {200, 404, 422}
