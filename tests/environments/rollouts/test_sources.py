"""Rollouts from a chat endpoint: its own tokens where it gives them, otherwise the chat template over the text."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

from judgegym.engine.completions import Conversation
from judgegym.engine.runs.directory import RunDirectory
from judgegym.engine.runs.ledger import CallLedger
from judgegym.engine.settings import BUNDLED_TOKENIZER, EnvConfig, PolicySettings
from judgegym.environments.rollouts.groups import NoTokens, TokenSequence
from judgegym.environments.rollouts.retokenize import Retokenizer
from judgegym.environments.rollouts.sources import ChatSource
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import EndpointError
from judgegym.llm.ledger import recorded_in
from judgegym.llm.wire import Message
from tests.scripted import Json, Meeting, Reply, Script, ScriptedEndpoint, completion, in_turn
from tests.serving import PROMPT_IDS, with_tokens

QUESTION: Conversation = [Message(role="user", content="Why?")]
TEXTS = ("one", "two, longer", "three")
END = 258  # <|im_end|> of the bundled tokenizer, whose other ids are bytes
PROMPT = [257, *b"user\nWhy?", END, *b"\n", 257, *b"assistant\n"]
Change = Callable[[Json], Any]


@asynccontextmanager
async def source(
    script: Script | Reply, settled: Literal["chat", "retokenize"] | None = None, **config: Any
) -> AsyncIterator[tuple[ChatSource, ScriptedEndpoint]]:
    env = EnvConfig(**{"retry_delay": 0, "tokenizer_name": str(BUNDLED_TOKENIZER), **config})
    async with ScriptedEndpoint(script) as endpoint:
        settings = PolicySettings(base_url=endpoint.base_url).chat_settings(env, max_concurrency=64)
        async with ChatClient(settings) as client:
            yield ChatSource(client, env, Retokenizer(env.tokenizer_name), settled=settled), endpoint


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def asks_for_tokens(request: Json) -> bool:
    return request.get("return_token_ids") is True and request.get("logprobs") is True


@pytest.mark.parametrize("settled", ["chat", None])
async def test_an_endpoint_that_says_what_it_sampled(
    settled: Literal["chat"] | None, caplog: pytest.LogCaptureFixture
) -> None:
    body = with_tokens(completion(*TEXTS))
    async with source(Reply(body=body), settled, rollout_temperature=0.7, train_max_tokens=99) as (asked, endpoint):
        rollouts, run = await asked.sample(QUESTION, 3)
        await asked.sample(QUESTION, 3)
    for rollout, choice in zip(rollouts, body["choices"], strict=True):
        assert rollout.text == rollout.completion.answer == choice["message"]["content"]
        assert rollout.sequence.prompt == tuple(PROMPT_IDS)
        assert rollout.sequence.completion == tuple(choice["token_ids"])
        assert rollout.sequence.logprobs == tuple(entry["logprob"] for entry in choice["logprobs"]["content"])
    assert (run.attempts, run.usage.completion_tokens) == (1, 5)
    assert [asks_for_tokens(body) for body in endpoint.bodies] == [True, True]
    first = endpoint.bodies[0]
    assert {name: first[name] for name in ("n", "temperature", "max_tokens")} == {
        "n": 3,
        "temperature": 0.7,
        "max_tokens": 99,
    }
    assert not warnings(caplog)


async def test_an_endpoint_that_ignores_the_fields(caplog: pytest.LogCaptureFixture) -> None:
    """Also for groups that run at once: one warning, and nothing more is asked in vain."""
    async with source(Reply(body=completion(*TEXTS))) as (asked, endpoint):
        groups = await asyncio.gather(*(asked.sample(QUESTION, 3) for _ in range(3)))
        rollouts, _ = await asked.sample(QUESTION, 3)
    for each in [*(rollouts for rollouts, _ in groups), rollouts]:
        assert [rollout.sequence for rollout in each] == [
            TokenSequence(tuple(PROMPT), (*text.encode(), END), None) for text in TEXTS
        ]
    (warning,) = warnings(caplog)
    assert "no logprobs" in warning
    assert [asks_for_tokens(body) for body in endpoint.bodies] == [True, True, True, False]


def refusing_the_fields(request: Json, number: int) -> Reply:
    if "return_token_ids" in request or "logprobs" in request:
        return Reply(status=400, body={"error": {"message": "Unrecognized request argument: return_token_ids"}})
    return Reply(body=completion(*TEXTS))


async def test_an_endpoint_that_refuses_the_fields(caplog: pytest.LogCaptureFixture) -> None:
    """Also to two groups at once, which are both refused before either knows why."""
    both = Meeting(2)

    async def script(request: Json, number: int) -> Reply:
        if asks_for_tokens(request):
            await both.wait()
        return refusing_the_fields(request, number)

    async with source(script) as (asked, endpoint):
        groups = await asyncio.gather(asked.sample(QUESTION, 3), asked.sample(QUESTION, 3))
        await asked.sample(QUESTION, 3)
    for rollouts, _ in groups:
        assert [rollout.sequence.completion for rollout in rollouts] == [(*text.encode(), END) for text in TEXTS]
    (warning,) = warnings(caplog)
    assert "Unrecognized request argument" in warning
    assert [asks_for_tokens(body) for body in endpoint.bodies] == [True, True, False, False, False]


@pytest.mark.parametrize("script", [refusing_the_fields, Reply(body=completion(*TEXTS))])
async def test_a_resumed_run_pays_for_no_group_again_that_was_asked_for_text(
    script: Script | Reply, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its requests had other fields than the first ones of a run, which still asks for tokens."""
    async with source(script) as (first_run, endpoint), source(script) as (second_run, unused):
        for run, numbers in ((first_run, (0, 1, 2)), (second_run, (2, 0, 1))):
            directory = RunDirectory(tmp_path / "run", config={}, matters={}, resume=True)
            ledger = CallLedger(directory, finished=(), keep_texts=True)
            caplog.clear()
            for number in numbers:
                with recorded_in(ledger.row("row", number)):
                    rollouts, _ = await run.sample(QUESTION, 3)
                    assert [rollout.sequence.completion for rollout in rollouts] == [(*t.encode(), END) for t in TEXTS]
            ledger.close()
            directory.close()
            assert len(warnings(caplog)) == 1
    assert len(endpoint.requests) == (3 if isinstance(script, Reply) else 4)
    assert not unused.requests


async def test_a_refusal_that_is_about_something_else() -> None:
    """It reaches the user, and says nothing of what the endpoint can do."""
    refusal = Reply(status=400, body={"error": {"message": "context too long"}})
    tokens = Reply(body=with_tokens(completion(*TEXTS)))
    async with source(in_turn(refusal, refusal, tokens)) as (asked, endpoint):
        with pytest.raises(EndpointError, match="context too long"):
            await asked.sample(QUESTION, 3)
        rollouts, _ = await asked.sample(QUESTION, 3)
    assert rollouts[0].sequence.logprobs is not None
    assert len(endpoint.requests) == 3


@pytest.mark.parametrize(
    ("script", "error", "requests"),
    [(Reply(body=completion(*TEXTS)), NoTokens, 1), (refusing_the_fields, EndpointError, 1)],
)
async def test_token_source_chat_never_makes_tokens_up(
    script: Script | Reply, error: type[Exception], requests: int
) -> None:
    async with source(script, "chat") as (asked, endpoint):
        with pytest.raises(error):
            await asked.sample(QUESTION, 3)
    assert len(endpoint.requests) == requests


async def test_an_endpoint_that_stops_giving_tokens() -> None:
    """Once they are the endpoint's own, a run never mixes in others."""
    script = in_turn(Reply(body=with_tokens(completion(*TEXTS))), Reply(body=completion(*TEXTS)))
    async with source(script) as (asked, _):
        await asked.sample(QUESTION, 3)
        with pytest.raises(NoTokens):
            await asked.sample(QUESTION, 3)


def without_prompt(body: Json) -> None:
    del body["prompt_token_ids"]


def of_second_choice(**fields: Any) -> Change:
    return lambda body: body["choices"][1].update(fields)


def of_logprobs(change: Callable[[list[Any]], Any]) -> Change:
    return lambda body: change(body["choices"][1]["logprobs"]["content"])


BROKEN: dict[str, Change] = {
    "no prompt ids": without_prompt,
    "a choice without ids": of_second_choice(token_ids=None),
    "a choice without logprobs": of_second_choice(logprobs=None),
    "ids that are no numbers": of_second_choice(token_ids=["1", "2", "3", "4", "5", "6"]),
    "ids that are no integers": of_second_choice(token_ids=[1.5] * 6),
    "fewer logprobs than ids": of_logprobs(list.pop),
    "more logprobs than ids": of_logprobs(lambda content: content.append({"logprob": -1.0})),
    "a logprob that is none": of_logprobs(lambda content: content[0].update(logprob=None)),
    "a logprob that is text": of_logprobs(lambda content: content[0].update(logprob="-1")),
}


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN.keys())
async def test_tokens_that_do_not_fit_are_not_used(change: Change) -> None:
    body = with_tokens(completion(*TEXTS))
    change(body)
    async with source(Reply(body=body), "chat") as (asked, _):
        with pytest.raises(NoTokens):
            await asked.sample(QUESTION, 3)
    async with source(Reply(body=body)) as (asked, _):
        rollouts, _ = await asked.sample(QUESTION, 3)
    assert [rollout.sequence.prompt for rollout in rollouts] == [tuple(PROMPT)] * 3


@pytest.mark.parametrize("all_refused", [False, True])
async def test_a_refusal_without_tokens_drops_its_group_and_settles_nothing(
    all_refused: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A filter of the endpoint ended it: its text is not what was sampled, and other answers have their tokens."""
    refused = with_tokens(completion(*TEXTS))
    for choice in refused["choices"][0 if all_refused else 1 : 3 if all_refused else 2]:
        choice |= {"finish_reason": "content_filter", "token_ids": None, "logprobs": None}
    whole = with_tokens(completion(*TEXTS))
    async with source(in_turn(Reply(body=refused), Reply(body=whole), Reply(body=refused))) as (asked, _):
        with pytest.raises(NoTokens, match="a completion was refused"):
            await asked.sample(QUESTION, 3)
        rollouts, _ = await asked.sample(QUESTION, 3)
        with pytest.raises(NoTokens, match="a completion was refused"):
            await asked.sample(QUESTION, 3)
    assert all(rollout.sequence.logprobs for rollout in rollouts)
    assert warnings(caplog) == []


@pytest.mark.parametrize("tokenizer", [str(BUNDLED_TOKENIZER), "no/such-tokenizer"])
async def test_a_refused_group_has_the_tokens_of_its_text_while_nothing_shows_that_there_are_others(
    tokenizer: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Until then the endpoint may be one without token ids. A tokenizer that is not there ends no run for it."""
    refused = completion(*TEXTS, finish_reason="content_filter")
    script = in_turn(Reply(body=refused), Reply(body=with_tokens(completion(*TEXTS))), Reply(body=refused))
    async with source(script, tokenizer_name=tokenizer) as (asked, _):
        if tokenizer == str(BUNDLED_TOKENIZER):
            rollouts, _ = await asked.sample(QUESTION, 3)
            assert [rollout.sequence for rollout in rollouts] == [
                TokenSequence(tuple(PROMPT), tuple(text.encode()), None) for text in TEXTS
            ]
            assert all(rollout.completion.refused for rollout in rollouts)
        else:
            with pytest.raises(NoTokens, match="a completion was refused"):
                await asked.sample(QUESTION, 3)
        rollouts, _ = await asked.sample(QUESTION, 3)
        assert all(rollout.sequence.logprobs for rollout in rollouts), "nothing was settled"
        with pytest.raises(NoTokens, match="a completion was refused"):
            await asked.sample(QUESTION, 3)
    assert warnings(caplog) == []


@pytest.mark.parametrize("first", [1, 3])
async def test_a_refusal_of_an_endpoint_without_token_ids_has_the_tokens_of_its_text(first: int) -> None:
    """Whether the first answer is refused in part or as a whole, and in a group with others later on."""

    def refusing_some(count: int) -> Reply:
        body = completion(*TEXTS)
        for choice in body["choices"][:count]:
            choice["finish_reason"] = "content_filter"
        return Reply(body=body)

    async with source(in_turn(refusing_some(first), refusing_some(2), refusing_some(3))) as (asked, _):
        groups = [await asked.sample(QUESTION, 3) for _ in range(3)]
    for (rollouts, _), count in zip(groups, (first, 2, 3), strict=True):
        assert [rollout.completion.refused for rollout in rollouts] == [number < count for number in range(3)]
        assert [rollout.sequence.completion for rollout in rollouts] == [
            (*text.encode(),) if number < count else (*text.encode(), END) for number, text in enumerate(TEXTS)
        ]


async def test_an_endpoint_that_ignores_n_is_asked_as_often() -> None:
    def one(request: Json, number: int) -> Reply:
        return Reply(body=with_tokens(completion(f"text {number}"), number))

    async with source(one) as (asked, endpoint):
        rollouts, run = await asked.sample(QUESTION, 4)
        again, _ = await asked.sample(QUESTION, 4)
    assert len({rollout.sequence.completion for rollout in [*rollouts, *again]}) == 8
    assert all(rollout.text == f"text {rollout.sequence.completion[0] // 100_000 - 1}" for rollout in rollouts)
    assert all(asks_for_tokens(body) for body in endpoint.bodies)
    assert (len(endpoint.requests), run.attempts) == (8, 4)


async def test_token_source_retokenize_asks_for_no_tokens(caplog: pytest.LogCaptureFixture) -> None:
    """Even tokens that come unasked are not taken: they would be those of one group only."""
    async with source(Reply(body=with_tokens(completion(*TEXTS))), "retokenize") as (asked, endpoint):
        rollouts, _ = await asked.sample(QUESTION, 3)
    assert [rollout.sequence.prompt for rollout in rollouts] == [tuple(PROMPT)] * 3
    assert not asks_for_tokens(endpoint.bodies[0])
    assert not warnings(caplog), "who asks for it knows"


@pytest.mark.parametrize(
    ("finish_reason", "stopped"),
    [("stop", True), ("eos", True), ("end_turn", True), (None, True), ("length", False), ("content_filter", False)],
)
async def test_the_end_of_the_turn_is_trained_on_where_the_model_ended_it(
    finish_reason: str | None, stopped: bool
) -> None:
    body = completion("some text")
    body["choices"][0]["finish_reason"] = finish_reason
    async with source(Reply(body=body), "retokenize") as (asked, _):
        (rollout,), _ = await asked.sample(QUESTION, 1)
    assert rollout.sequence.completion == (*b"some text", *([END] if stopped else []))


async def test_reasoning_that_comes_apart_is_put_back() -> None:
    body = completion("The answer.", reasoning_content="Hm.")
    async with source(Reply(body=body), "retokenize") as (asked, _):
        (rollout,), _ = await asked.sample(QUESTION, 1)
    assert rollout.text == "<think>\nHm.\n</think>\n\nThe answer."
    assert bytes(rollout.sequence.completion[:-1]).decode() == rollout.text
    assert rollout.completion.answer == "The answer."
