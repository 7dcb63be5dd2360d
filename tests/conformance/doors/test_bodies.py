"""A request has all that a prompt shows, and names no file: those who start a server name the files of its judges."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from judgegym_trainers.scores.requests import make_completion_row
from judgegym_trainers.scores.sources import JudgeSource
from tests.command import serving
from tests.conformance.doors.door import Visit
from tests.conformance.doors.judges import PROMPT_FILES, DoorJudge
from tests.conformance.doors.served import PROTOCOLS, scores_of, served
from tests.core.server.running import Answer
from tests.scripted import ScriptedEndpoint


@pytest.mark.parametrize("name", ["judge", "judge_prompt", "judge_mount", "mounts", "rubric"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("judge", PROMPT_FILES, ids=lambda judge: judge.name)
def test_a_request_names_no_file(
    judge: DoorJudge, protocol: str, name: str, tmp_path: Path
) -> None:
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


_SHOWN = {
    "reference": "A PARCEL TAKES THREE DAYS",
    "rubric": "IS IT RIGHT",
    "context": "THE TERMS",
    "baseline": "SOON",
}
_SECTIONS = "".join(f"  {name}: {{{name}}}\n" for name in ("prompt", *_SHOWN, "response"))
_PROMPT = f"prompt: |-\n  Is it fine?\n{_SECTIONS}"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_prompt_is_shown_all_that_a_request_has_for_it(protocol: str, tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(
        f"{_PROMPT}scale: yes/no\nverdict: {{after: 'FINE:'}}\n", encoding="utf-8"
    )
    more: dict[str, Any] = {
        "openrlhf": {"labels": [json.dumps(_SHOWN)] * 2},
        "slime": {"label": _SHOWN},
    }

    async def answers() -> Sequence[Answer]:
        async with served(
            Visit(tmp_path, endpoint, {}), f"--judge={tmp_path / 'all.yaml'}"
        ) as server:
            return await PROTOCOLS[protocol](server, "", **more.get(protocol, _SHOWN))

    with serving("FINE: yes") as endpoint:
        assert scores_of(protocol, asyncio.run(answers())) == [1.0, 1.0]
        for body in endpoint.bodies:
            assert all(text in body["messages"][0]["content"] for text in _SHOWN.values())
    assert len(endpoint.bodies) == 2


@pytest.mark.slow
async def test_a_label_of_a_trainer_has_all_that_a_prompt_shows(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(
        f"{_PROMPT}scale: yes/no\nverdict: {{after: 'FINE:'}}\n", encoding="utf-8"
    )
    async with ScriptedEndpoint("FINE: yes") as endpoint:
        judge = {"judge": str(tmp_path / "all.yaml"), "judge_base_url": endpoint.base_url}
        scoring = JudgeSource(judge=judge).make_scorer()
        (result,) = await scoring.score_each(
            [make_completion_row("Why?", "Because.", label=json.dumps(_SHOWN))]
        )
        await scoring.close()
    assert result.reward == 1.0
    assert all(text in endpoint.bodies[0]["messages"][0]["content"] for text in _SHOWN.values())


@pytest.mark.parametrize("name", ["judge", "judge_prompt", "kind", "rubric", "gold_judge"])
def test_a_request_runs_no_code(name: str, tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(
        "from pathlib import Path\nPath(__file__ + '.ran').touch()\nJUDGE = 1\n", "utf-8"
    )
    own = f"{tmp_path / 'code.py'}:JUDGE"

    async def answers() -> None:
        async with served(Visit(tmp_path, endpoint, {}), "--judge=rubric") as server:
            for protocol in PROTOCOLS.values():
                await protocol(server, "", **{name: own})
                await protocol(server, "", **{name: {"judge": own}})

    with serving("[FEEDBACK] fine [SCORE] 4") as endpoint:
        asyncio.run(answers())
    assert not (tmp_path / "code.py.ran").exists()
