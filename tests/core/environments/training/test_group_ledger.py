"""The groups in progress that the ledger of `serve` finds again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from judgegym.engine.runs.directory import RunDirectory
from judgegym.environments.training.group_ledger import GroupLedger
from judgegym.llm.client import ChatClient
from judgegym.llm.ledger import RowLedger, record_calls
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
    with record_calls(calls):
        return (await client.chat(ASK, name=name)).first.text


async def test_group_in_progress_has_its_answers_in_the_same_step_only(tmp_path: Path) -> None:
    async with connected(counting) as (client, _):
        with Session(tmp_path) as ledger:
            assert ledger.resume(3) is None
            texts = [
                await ask(client, begin(ledger, row, position=at))
                for at, row in enumerate(("a", "b"), start=1)
            ]
        with Session(tmp_path) as ledger:
            assert ledger.resume(3) == {"epoch": 0, "position": 2, "unfinished": ["a", "b"]}
            assert await ask(client, begin(ledger, "a")) == texts[0]
            ledger.note_step(4)
            assert await ask(client, begin(ledger, "b", step=4)) == "3.0", (
                "the step has changed since"
            )
        with Session(tmp_path) as ledger:
            assert ledger.resume(5) == {"epoch": 0, "position": 1, "unfinished": ["a", "b"]}
            assert await ask(client, begin(ledger, "a", step=5)) == "4.0"


@pytest.mark.parametrize("seen", ["begun", "noted"])
async def test_trainer_that_went_back_leaves_nothing_of_the_steps_it_makes_again(
    tmp_path: Path, seen: str
) -> None:
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
