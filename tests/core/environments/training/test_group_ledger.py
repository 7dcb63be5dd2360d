"""The groups in progress that the ledger of `serve` finds again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from judgegym.engine.runs.directory import RunDirectory
from judgegym.environments.training import group_ledger
from judgegym.environments.training.group_ledger import GroupLedger
from judgegym.llm.client import ChatClient
from judgegym.llm.ledger import RowLedger, recorded_in
from judgegym.llm.wire import Message
from tests.core.engine.runs.test_ledger import connected, counting

ASK = [Message(role="user", content="Say it.")]


class Session:
    """One run, from the moment it opens its directory."""

    def __init__(self, path: Path, *, keep: bool = False) -> None:
        self.run = RunDirectory(path, config={}, matters={}, resume=True)
        self.ledger = GroupLedger(self.run, keep=keep)

    def __enter__(self) -> GroupLedger:
        return self.ledger

    def __exit__(self, *exception: object) -> None:
        self.ledger.close()
        self.run.close()


def begin(ledger: GroupLedger, row: str, *, step: int = 3, position: int = 1) -> Any:
    return ledger.begin(row, step=step, epoch=0, position=position)


async def ask(client: ChatClient, calls: RowLedger, name: str = "policy") -> str:
    with recorded_in(calls):
        return (await client.chat(ASK, name=name)).first.text


async def test_group_in_progress_has_its_answers_in_the_same_step_only(tmp_path: Path) -> None:
    async with connected(counting) as (client, _):
        with Session(tmp_path) as ledger:
            assert ledger.resume(3) is None
            texts = [await ask(client, begin(ledger, row, position=at)) for at, row in enumerate(("a", "b"), start=1)]
        with Session(tmp_path) as ledger:
            assert ledger.resume(3) == {"epoch": 0, "position": 2, "unfinished": ["a", "b"]}
            assert await ask(client, begin(ledger, "a")) == texts[0]
            ledger.note_step(4)
            assert await ask(client, begin(ledger, "b", step=4)) == "3.0", "the step has changed since"
        with Session(tmp_path) as ledger:
            assert ledger.resume(5) == {"epoch": 0, "position": 1, "unfinished": ["a", "b"]}
            assert await ask(client, begin(ledger, "a", step=5)) == "4.0"


async def test_group_that_is_done_is_made_anew(tmp_path: Path) -> None:
    async with connected(counting) as (client, _):
        with Session(tmp_path) as ledger:
            ledger.resume(3)
            first, second = begin(ledger, "a"), begin(ledger, "a")
            assert [await ask(client, first), await ask(client, second)] == ["1.0", "2.0"]
            ledger.done(first.key[1])
        with Session(tmp_path) as ledger:
            assert ledger.resume(3) == {"epoch": 0, "position": 1, "unfinished": ["a"]}
            assert await ask(client, begin(ledger, "a")) == "2.0"
            assert await ask(client, begin(ledger, "a")) == "3.0"


@pytest.mark.parametrize("seen", ["begun", "noted"])
async def test_trainer_that_went_back_leaves_nothing_of_the_steps_it_makes_again(tmp_path: Path, seen: str) -> None:
    async with connected(counting) as (client, _):
        with Session(tmp_path) as ledger:
            ledger.resume(3)
            await ask(client, begin(ledger, "a"))
            if seen == "begun":
                await ask(client, begin(ledger, "b", step=4))
            else:
                ledger.note_step(4)
        asked = 1 + (seen == "begun")
        with Session(tmp_path) as ledger:
            assert ledger.resume(3) is None
            assert await ask(client, begin(ledger, "a")) == f"{asked + 1}.0"


@pytest.mark.slow
async def test_file_is_bounded_and_keeps_what_is_in_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sessions; a group stays in progress through both, and a request is in flight when they end."""
    monkeypatch.setattr(group_ledger, "LARGEST", 5000)
    async with connected(counting) as (client, endpoint):
        largest, kept = 0, []
        for session in range(2):
            with Session(tmp_path) as ledger:
                ledger.resume(3)
                slow = begin(ledger, "slow")
                kept.append(await ask(client, slow))
                kept.append(await ask(client, slow, name=f"judge_{session}"))
                slow.sent()
                for _ in range(40):
                    calls = begin(ledger, "a", position=7)
                    await ask(client, calls)
                    calls.sent()  # cancelled with its group
                    ledger.done(calls.key[1])
                    largest = max(largest, (tmp_path / "calls.jsonl").stat().st_size)
        assert kept[2] == kept[0]
        assert 3000 < largest < 6000
        with Session(tmp_path) as ledger:
            assert 1 <= ledger.lost <= 41, "cancelled ones are forgotten when the file is compacted"
            assert ledger.resume(3) == {"epoch": 0, "position": 7, "unfinished": ["slow"]}
            slow = begin(ledger, "slow")
            before = len(endpoint.requests)
            names = ("policy", "judge_0", "judge_1")
            assert [await ask(client, slow, name) for name in names] == [kept[0], kept[1], kept[3]]
            assert len(endpoint.requests) == before
