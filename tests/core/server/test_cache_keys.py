"""The judgment cache's keys of one fixed item for each judge, as they are in the caches that users have.

A key covers the endpoint's name, the prompt and the sampling. Where one changes, every cache is
empty and a run is paid
for again: change a value here only with an entry in CHANGELOG.md that says so.
"""

import hashlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from judgegym.judges.core.tasks import JudgeTask
from judgegym.server.core import Core
from judgegym.server.settings import JudgeMount
from tests.scripted import ScriptedEndpoint

ITEM = {
    "prompt": "What is 2 + 2?",
    "responses": ("4", "It is five."),
    "reference": "4",
    "context": "Arithmetic.",
}


@pytest.mark.parametrize(
    ("judge", "settings", "verdict", "digest"),
    [
        ("rubric", {"rubric": "Is it right?"}, "[FEEDBACK] Good. [SCORE] 4", "4bc4fc08939dc918"),
        (
            "aspect",
            {"strictness": 3, "judge_temperature": 0.7},
            '{"reason": "r", "verdict": 1}',
            "3507d5bca32b16c0",
        ),
        ("peer", {}, '{"reasoning": "r", "score": 80}', "811222351e5425b0"),
        ("arena_hard", {}, "My final verdict is [[A>B]]", "e0cc755104a84812"),
        (
            "arena_hard",
            {"judge_protocol": "arena_hard_v0.1"},
            "My final verdict is [[A>B]]",
            "433ac378b03e0c8c",
        ),
        ("choice", {}, "[[A]]", "1827ec6bbb8d0ec5"),
    ],
)
async def test_keys_of_a_fixed_item_are_those_of_existing_caches(
    tmp_path: Path, judge: Any, settings: dict[str, Any], verdict: str, digest: str
) -> None:
    path = tmp_path / "cache.sqlite"
    async with ScriptedEndpoint(lambda request, number: verdict) as endpoint:
        mount = JudgeMount(
            judge=judge,
            judge_base_url=endpoint.base_url,
            judge_model_name="some-model",
            judge_cache=path,
            **settings,
        )
        async with Core(
            {"": mount}, deadline_s=60.0, max_pending=100, judge_identity="some-endpoint"
        ) as core:
            (results,) = await core.score("", [JudgeTask(**ITEM)])
    assert [result.status for result in results] == ["ok", "ok"]
    with sqlite3.connect(path) as database:
        keys = sorted(key for (key,) in database.execute("SELECT key FROM answers"))
    assert len(keys) > 0
    assert hashlib.sha256("".join(keys).encode()).hexdigest()[:16] == digest
