"""The ledger of calls: what is in it is not asked again, in whatever order and however the run before it ended."""

from __future__ import annotations

import asyncio
import gzip
import json
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from judgegym.engine.runs.directory import RunDirectory
from judgegym.engine.runs.ledger import CallLedger
from judgegym.engine.runs.recorded_calls import RecordedCall, Texts, pack, read_calls
from judgegym.llm.cache import JudgmentCache
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import EndpointError
from judgegym.llm.ledger import CallInProgress, CallKey, record_calls
from judgegym.llm.types import ChatResponse, ChatSettings, Endpoint
from judgegym.llm.usage import Prices, Usage
from judgegym.llm.wire import Choice, Message, Token
from tests.scripted import Json, Reply, Script, ScriptedEndpoint, completion

LONG = "A long text of many words. " * 20
ASK = [Message(role="system", content=LONG), Message(role="user", content="Say it.")]


@asynccontextmanager
async def connected(
    script: Script | Reply | str, **settings: Any
) -> AsyncIterator[tuple[ChatClient, ScriptedEndpoint]]:
    cache = settings.pop("cache", None)
    async with ScriptedEndpoint(script) as endpoint:
        values = {"temperature": 1.0, "max_retries": 0, "prices": Prices(1.0, 2.0), **settings}
        async with ChatClient(
            ChatSettings((Endpoint(endpoint.base_url, "judge"),), **values), cache=cache
        ) as client:
            yield client, endpoint


class Session:
    """One run, from the moment it opens its directory."""

    def __init__(
        self, path: Path, *, finished: Sequence[str] = (), keep_texts: bool = True
    ) -> None:
        self.run = RunDirectory(path, config={}, matters={}, resume=True)
        self.ledger = CallLedger(self.run, finished=finished, keep_texts=keep_texts)

    def __enter__(self) -> CallLedger:
        return self.ledger

    def __exit__(self, *exception: object) -> None:
        self.ledger.close()
        self.run.close()


def counting(request: Json, number: int) -> Reply:
    """An answer that no other request has."""
    return Reply(body=completion(*(f"{number}.{place}" for place in range(request.get("n", 1)))))


def names(path: Path) -> list[str]:
    """The files of a ledger, temporary ones included."""
    return [each.name for each in path.iterdir() if "calls" in each.name]


def texts(answers: Sequence[ChatResponse]) -> list[list[str]]:
    return [[choice.text for choice in answer.choices] for answer in answers]


async def test_equal_calls_of_a_row_keep_their_order(tmp_path: Path) -> None:
    """Samples of one conversation are independent, whichever is answered first."""
    second_answered = asyncio.Event()

    async def script(request: Json, number: int) -> str:
        if number == 1:
            await second_answered.wait()
        else:
            second_answered.set()
        return f"answer {number}"

    async with connected(script) as (client, endpoint):
        with Session(tmp_path) as ledger, record_calls(ledger.row("row-1")):
            call = asyncio.create_task(client.chat(ASK))
            await endpoint.arrived(1)  # requests on two connections may arrive in any order
            first = [*reversed(await asyncio.gather(client.chat(ASK), call))]
        with Session(tmp_path) as ledger, record_calls(ledger.row("row-1")):
            again = await asyncio.gather(client.chat(ASK), client.chat(ASK))
            third = await client.chat(ASK)
        assert texts(first) == texts(again) == [["answer 1"], ["answer 2"]]
        assert third.first.text == "answer 3"
        assert len(endpoint.requests) == 3


@pytest.mark.parametrize(
    "other",
    [
        {"row": "row-2"},
        {"group": 1},
        {"name": "game_2"},
        {"vote": 1},
        {"temperature": 0.5},
        {"extra": {"top_p": 0.9}},
        {"seed": 3},
        {"messages": [*ASK, Message(role="user", content="Again.")]},
    ],
    ids=lambda other: next(iter(other)),
)
async def test_another_call_is_asked(tmp_path: Path, other: dict[str, Any]) -> None:
    async with connected(counting) as (client, endpoint):
        with Session(tmp_path) as ledger, record_calls(ledger.row("row-1")):
            await client.chat(ASK, name="game_1")
        row = other.pop("row", "row-1"), other.pop("group", None)
        with Session(tmp_path) as ledger, record_calls(ledger.row(*row)):
            await client.chat(**{"messages": ASK, "name": "game_1", **other})
        assert len(endpoint.requests) == 2


async def test_only_the_completions_that_are_missing_are_asked_for(tmp_path: Path) -> None:
    """An endpoint that ignores `n` fails the third of four requests; the three paid answers stay."""
    down = True

    def script(request: Json, number: int) -> Reply:
        return (
            Reply(status=400)
            if down and number == 3
            else Reply(body=completion(f"request {number}"))
        )

    async with connected(script) as (client, _):
        with (
            Session(tmp_path) as ledger,
            record_calls(ledger.row("row-1")),
            pytest.raises(EndpointError),
        ):
            await client.chat(ASK, n=4, seed=0)
        lines = [json.loads(line) for line in (tmp_path / "calls.jsonl").read_bytes().splitlines()]
        assert [(line["row"], line["group"]) for line in lines if "failed" in line] == [
            ("row-1", None)
        ]
        down = False
        with Session(tmp_path) as ledger, record_calls(ledger.row("row-1")):
            answer = await client.chat(ASK, n=4, seed=0)
        assert sorted(choice.text for choice in answer.choices) == [
            f"request {number}" for number in (1, 2, 4, 5)
        ]
        assert answer.first.text == "request 1"


async def test_a_failed_row_asks_again_for_verdicts_that_are_missing(tmp_path: Path) -> None:
    async def row(client: ChatClient, ledger: CallLedger) -> list[str]:
        calls = ledger.row("row-1")
        with record_calls(calls):
            answers = [
                await client.chat(ASK, name="game_1", keep=lambda choice: True),
                await client.chat(ASK, name="game_2", keep=lambda choice: choice.text > "2"),
                await client.chat(ASK, name="policy", fresh=True),
            ]
        if answers[1].first.text < "3":
            calls.mark_failed()
        return [answer.first.text for answer in answers]

    async with connected(lambda request, number: str(number)) as (client, endpoint):
        for expected in (["1", "2", "3"], ["1", "4", "3"], ["1", "4", "3"]):
            with Session(tmp_path) as ledger:
                assert await row(client, ledger) == expected
        assert len(endpoint.requests) == 4


async def test_a_request_that_waits_for_its_turn_is_not_in_flight(tmp_path: Path) -> None:
    async with connected(Reply(hang=True), max_concurrency=1) as (client, endpoint):
        with Session(tmp_path) as ledger, record_calls(ledger.row("row-1")):
            tasks = [asyncio.create_task(client.chat(ASK, vote=vote)) for vote in range(5)]
            await endpoint.arrived(1)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    with Session(tmp_path) as ledger:
        assert ledger.lost == 1


async def test_answers_of_the_cache_are_recorded_as_such(tmp_path: Path) -> None:
    cache = JudgmentCache(tmp_path / "cache.sqlite")
    async with connected(counting, cache=cache) as (client, endpoint):
        await client.chat(ASK)
        with Session(tmp_path / "run") as ledger, record_calls(ledger.row("row-1")):
            await client.chat(ASK)
        assert len(endpoint.requests) == 1
    cache.close()
    (call,) = read_calls(tmp_path / "run")
    assert (call.answer.cached, call.answer.usage, call.answer.first.text) == (True, Usage(), "1.0")


async def test_answers_are_read_back_as_they_were(tmp_path: Path) -> None:
    odd = ChatResponse(
        (
            Choice("\u2028 é \x00", "because", "stop", None, (1, 2, 3), (-0.1, -1e-30, 0.0), None),
            Choice("7", tokens=(Token("7", (("7", -0.25), ("8", -math.inf))), Token("."))),
        ),
        Usage(7, 8, 0.1 + 0.2, 6),
        latency_s=1 / 3,
        attempts=4,
        cached=True,
        prompt_token_ids=(5, 6),
    )

    async def asking() -> ChatResponse:
        return odd

    with Session(tmp_path) as ledger, record_calls(ledger.row("row-1")):
        await CallInProgress.begin("x", 0, "judge", ASK, {}).ask(lambda part: asking())
    with Session(tmp_path) as ledger, record_calls(ledger.row("row-1")):
        assert CallInProgress.begin("x", 0, "judge", ASK, {}).responses == [odd]
    assert [call.answer for call in read_calls(tmp_path)] == [odd]


async def test_an_answer_of_a_ledger_that_knows_no_cached_tokens_is_read(tmp_path: Path) -> None:
    async with connected(counting) as (client, _):
        with Session(tmp_path) as ledger, record_calls(ledger.row("row-1")):
            answer = await client.chat(ASK)
    path = tmp_path / "calls.jsonl"
    written = path.read_bytes()
    path.write_bytes(written.replace(b',"cached_prompt_tokens":0', b""))
    assert path.read_bytes() != written
    assert [call.answer for call in read_calls(tmp_path)] == [answer]


async def test_the_reader_gives_what_was_asked_and_a_long_text_is_written_once(
    tmp_path: Path,
) -> None:
    async with connected(counting) as (client, _):
        with Session(tmp_path) as ledger:
            for uid in ("row-1", "row-2", "row-3"):
                with record_calls(ledger.row(uid)):
                    await client.chat(ASK, name="game_1", vote=2, extra={"top_p": 0.5})
    calls = list(read_calls(tmp_path))
    assert [call.row for call in calls] == ["row-1", "row-2", "row-3"]
    assert calls[2] == RecordedCall(
        "row-3",
        None,
        "game_1",
        2,
        "judge",
        tuple(ASK),
        {"temperature": 1.0, "top_p": 0.5},
        calls[2].answer,
        True,
    )
    assert (tmp_path / "calls.jsonl").read_text().count(LONG) == 1


@given(sessions=st.lists(st.lists(st.integers(0, 6), max_size=12), max_size=4))
@example(sessions=[[0, 1, 2], [0, 3, 0]])
def test_texts_are_found_again_however_many_there_are(sessions: list[list[int]]) -> None:
    """Writer and reader forget the same texts, also after the run was resumed with an empty memory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("judgegym.engine.runs.recorded_calls._TEXTS_KEPT", 3)
        reader = Texts(keep=True)
        for session in sessions:
            writer = Texts(keep=False)
            for number in session:
                message = Message(role="user", content=f"{number} {LONG}")
                assert reader.read(writer.encode_message(message)) == message


async def test_no_prompt_is_written_where_texts_are_not_kept(tmp_path: Path) -> None:
    async with connected(counting) as (client, endpoint):
        for _ in range(2):
            with Session(tmp_path, keep_texts=False) as ledger, record_calls(ledger.row("row-1")):
                await client.chat(ASK)
        assert len(endpoint.requests) == 1
    assert "Say it." not in (tmp_path / "calls.jsonl").read_text()
    assert [call.messages for call in read_calls(tmp_path)] == [None]
    pack(tmp_path, keep=False)
    assert names(tmp_path) == []


async def test_the_plain_file_counts_where_both_are_there(tmp_path: Path) -> None:
    """The process was killed while it unpacked, or before it removed what it had packed."""
    async with connected(counting) as (client, endpoint):
        for vote in range(2):
            with Session(tmp_path) as ledger, record_calls(ledger.row("row-1")):
                await client.chat(ASK, vote=vote)
            if vote == 0:
                plain = (tmp_path / "calls.jsonl").read_bytes()
        (tmp_path / "calls.jsonl.gz").write_bytes(gzip.compress(plain))
        assert len(list(read_calls(tmp_path))) == 2
        with Session(tmp_path) as ledger, record_calls(ledger.row("row-1")):
            await client.chat(ASK, vote=1)
        assert names(tmp_path) == ["calls.jsonl"]
        assert len(endpoint.requests) == 2


async def test_a_lone_surrogate_in_a_prompt_is_no_obstacle(tmp_path: Path) -> None:
    asked = [Message(role="user", content="broken \ud800")]
    async with connected(counting) as (client, endpoint):
        for _ in range(2):
            with Session(tmp_path) as ledger, record_calls(ledger.row("row-1")):
                await client.chat(asked)
        assert len(endpoint.requests) == 1
    assert [call.messages for call in read_calls(tmp_path)] == [
        ({"role": "user", "content": "broken �"},)
    ]


def test_keys_do_not_change(tmp_path: Path) -> None:
    """Else no run of an earlier version could be resumed; a change must be meant."""
    with Session(tmp_path) as ledger:
        call, _ = ledger.row("row-1").open(
            CallKey("game_1", 1, "judge", ASK, {"b": 1, "a": [None]})
        )
        same, _ = ledger.row("row-1").open(
            CallKey("game_1", 1, "judge", ASK, {"a": [None], "b": 1})
        )
    assert call == same == "f7550106fd1a79a77e4fb60cbb1dd848.1"


async def test_nothing_is_kept_in_memory_of_finished_rows(tmp_path: Path) -> None:
    async with connected(counting) as (client, _):
        with Session(tmp_path) as ledger:
            for uid in ("row-1", "row-2"):
                with record_calls(ledger.row(uid)):
                    await client.chat(ASK)
        with Session(tmp_path, finished=["row-1"]) as ledger:
            assert [
                len(ledger.row(uid).recorded_answers()) for uid in ("row-1", "row-2", "row-2")
            ] == [0, 1, 0]
