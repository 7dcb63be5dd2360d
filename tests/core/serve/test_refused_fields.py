"""Judges beside the judge whose endpoints refuse request fields: a jury's member and a gold judge of `serve`."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from judgegym.llm.refusals import request_fields
from tests.arena import Arena
from tests.faults.test_refused_fields import has, refusal
from tests.scripted import Json, Reply, ScriptedEndpoint
from tests.serving import judging, serve
from tests.trainer import training

REFUSED = ("temperature", "max_tokens")


@pytest.fixture(autouse=True)
def _head_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as it is for users."""
    monkeypatch.setattr(request_fields, "HEAD_START_S", 10.0)


class Picky:
    """A judge that refuses fields, and counts what it has refused and answered."""

    def __init__(self, judge: Callable[[Json, int], Reply | str]) -> None:
        self._judge = judge
        self.refused: list[str] = []
        self.answered = 0

    def __call__(self, request: Json, number: int) -> Reply | str:
        name = next((name for name in REFUSED if has(request, name)), None)
        if name is not None:
            self.refused.append(name)
            return refusal(name)
        self.answered += 1
        return self._judge(request, number)


async def test_a_member_of_a_jury_that_refuses_fields_costs_no_group(arena: Arena) -> None:
    picky = Picky(judging())
    async with (
        ScriptedEndpoint(picky) as one,
        ScriptedEndpoint(judging()) as two,
        training(8) as trainer,
    ):
        urls = {"picky": one.base_url, "other": two.base_url}
        members = [{"judge_model_name": name, "judge_base_url": url} for name, url in urls.items()]
        flags = (
            f"--env.judges={json.dumps(members)}",
            "--env.include_messages=True",
            "--env.max_batches_offpolicy=1",
        )
        async with serve(arena, trainer.url, *flags) as served:
            (batch,) = await trainer.take()
            assert served.counted("judge_failed") == 0
    assert all(group["scores"] == [1, -1, -1, -1] for group in batch)
    assert sorted(picky.refused) == sorted(REFUSED)
