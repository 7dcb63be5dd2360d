"""Rollouts from a chat endpoint: its own tokens where it gives them, otherwise the chat template over the text."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest

from judgegym.engine.completions import Conversation
from judgegym.engine.settings import BUNDLED_TOKENIZER, EnvConfig, PolicySettings
from judgegym.environments.rollouts.groups import MissingTokensError, Rollout, TokenSequence
from judgegym.environments.rollouts.retokenize import Retokenizer
from judgegym.environments.rollouts.sources import ChatSource
from judgegym.llm.client import ChatClient
from judgegym.llm.wire import Message
from tests.scripted import Json, Meeting, Reply, Script, ScriptedEndpoint, completion, in_turn
from tests.serving import PROMPT_IDS, with_tokens

QUESTION: Conversation = [Message(role="user", content="Why?")]
TEXTS = ("one", "two, longer", "three")
END = 258  # <|im_end|> of the bundled tokenizer, whose other ids are bytes
PROMPT = [257, *b"user\nWhy?", END, *b"\n", 257, *b"assistant\n"]


@asynccontextmanager
async def source(
    script: Script | Reply, settled: Literal["chat", "retokenize"] | None = None, **config: Any
) -> AsyncIterator[tuple[ChatSource, ScriptedEndpoint]]:
    env = EnvConfig(**{"retry_delay": 0, "tokenizer_name": str(BUNDLED_TOKENIZER), **config})
    async with ScriptedEndpoint(script) as endpoint:
        settings = PolicySettings(base_url=endpoint.base_url).chat_settings(env, max_concurrency=64)
        async with ChatClient(settings) as client:
            yield (
                ChatSource(client, env, Retokenizer(env.tokenizer_name), settled=settled),
                endpoint,
            )


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def asks_for_tokens(request: Json) -> bool:
    return request.get("return_token_ids") is True and request.get("logprobs") is True


@pytest.mark.parametrize("settled", ["chat", None])
async def test_an_endpoint_that_says_what_it_sampled(
    settled: Literal["chat"] | None, caplog: pytest.LogCaptureFixture
) -> None:
    body = with_tokens(completion(*TEXTS))
    async with source(Reply(body=body), settled, rollout_temperature=0.7, train_max_tokens=99) as (
        asked,
        endpoint,
    ):
        rollouts, run = await asked.sample(QUESTION, 3)
        await asked.sample(QUESTION, 3)
    for rollout, choice in zip(rollouts, body["choices"], strict=True):
        assert rollout.text == rollout.completion.answer == choice["message"]["content"]
        assert rollout.sequence.prompt == tuple(PROMPT_IDS)
        assert rollout.sequence.completion == tuple(choice["token_ids"])
        assert rollout.sequence.logprobs == tuple(
            entry["logprob"] for entry in choice["logprobs"]["content"]
        )
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
        return Reply(
            status=400,
            body={"error": {"message": "Unrecognized request argument: return_token_ids"}},
        )
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
        assert [rollout.sequence.completion for rollout in rollouts] == [
            (*text.encode(), END) for text in TEXTS
        ]
    (warning,) = warnings(caplog)
    assert "Unrecognized request argument" in warning
    assert [asks_for_tokens(body) for body in endpoint.bodies] == [True, True, False, False, False]


Fault = Callable[[Json], Any]
"""Breaks the tokens of a choice."""


def of_logprobs(change: Callable[[list[Any]], Any]) -> Fault:
    return lambda choice: change(choice["logprobs"]["content"])


def of_ids(number: Any) -> Fault:
    return lambda choice: choice.update(token_ids=[number] * len(choice["token_ids"]))


LACKING: dict[str, Fault] = {
    "no ids": lambda choice: choice.update(token_ids=None),
    "no logprobs": lambda choice: choice.update(logprobs=None),
    "ids that are no numbers": of_ids("1"),
    "ids that are no integers": of_ids(1.5),
    "a logprob that is none": of_logprobs(lambda content: content[0].update(logprob=None)),
    "a logprob that is text": of_logprobs(lambda content: content[0].update(logprob="-1")),
}
"""There are no tokens with logprobs."""
UNUSABLE: dict[str, tuple[Fault, str]] = {
    "fewer logprobs than ids": (of_logprobs(list.pop), "logprobs"),
    "more logprobs than ids": (
        of_logprobs(lambda content: content.append({"logprob": -1.0})),
        "logprobs",
    ),
    "a logprob that no token has": (
        of_logprobs(lambda content: content[0].update(logprob=-9999.0)),
        "-9999",
    ),
    "no token": (
        lambda choice: choice.update(token_ids=[], logprobs={"content": []}),
        "a sampled token",
    ),
}
"""There are some, which cannot be trained on, and the reason that is said."""
FAULTS = {**LACKING, **{name: fault for name, (fault, _) in UNUSABLE.items()}}
each_fault = pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())


def broken(fault: Fault, *places: int) -> Reply:
    body = with_tokens(completion(*TEXTS))
    for place in places:
        fault(body["choices"][place])
    return Reply(body=body)


@each_fault
@pytest.mark.parametrize("settled", ["chat", None])
async def test_one_choice_with_tokens_that_do_not_fit_costs_its_group_alone(
    settled: Literal["chat"] | None, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    """Also that of the first answer, and however often it happens."""
    bad, good = broken(fault, 1), broken(fault)
    async with source(in_turn(bad, bad, bad, bad, good), settled) as (asked, endpoint):
        for _ in range(4):
            with pytest.raises(MissingTokensError):
                await asked.sample(QUESTION, 3)
        rollouts, _ = await asked.sample(QUESTION, 3)
    assert all(rollout.sequence.logprobs for rollout in rollouts)
    assert all(asks_for_tokens(body) for body in endpoint.bodies)
    assert warnings(caplog) == []


def is_of_the_text(rollouts: Sequence[Rollout]) -> bool:
    return [rollout.sequence for rollout in rollouts] == [
        TokenSequence(tuple(PROMPT), (*text.encode(), END), None) for text in TEXTS
    ]


@pytest.mark.parametrize("fault", LACKING.values(), ids=LACKING.keys())
async def test_an_endpoint_whose_first_answer_has_no_tokens_has_none(
    fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    async with source(broken(fault, 0, 1, 2)) as (asked, endpoint):
        groups = [await asked.sample(QUESTION, 3) for _ in range(2)]
    assert all(is_of_the_text(rollouts) for rollouts, _ in groups)
    assert [asks_for_tokens(body) for body in endpoint.bodies] == [True, False]
    (warning,) = warnings(caplog)
    assert "no token ids" in warning


@pytest.mark.parametrize(("fault", "said"), UNUSABLE.values(), ids=UNUSABLE.keys())
async def test_an_endpoint_that_never_gives_tokens_that_can_be_used_costs_few_groups(
    fault: Fault, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A single answer decides nothing; the third one does, and says why."""
    async with source(broken(fault, 0, 1, 2)) as (asked, endpoint):
        for _ in range(2):
            with pytest.raises(MissingTokensError, match=said):
                await asked.sample(QUESTION, 3)
        assert warnings(caplog) == []
        groups = [await asked.sample(QUESTION, 3) for _ in range(2)]
    assert all(is_of_the_text(rollouts) for rollouts, _ in groups)
    assert [asks_for_tokens(body) for body in endpoint.bodies] == [True, True, True, False]
    (warning,) = warnings(caplog)
    assert said in warning


@pytest.mark.parametrize("all_refused", [False, True])
async def test_a_refusal_without_tokens_drops_its_group_and_settles_nothing(
    all_refused: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A filter of the endpoint ended it: its text is not what was sampled, and other answers have their tokens."""
    refused = with_tokens(completion(*TEXTS))
    for choice in refused["choices"][0 if all_refused else 1 : 3 if all_refused else 2]:
        choice |= {"finish_reason": "content_filter", "token_ids": None, "logprobs": None}
    whole = with_tokens(completion(*TEXTS))
    async with source(in_turn(Reply(body=refused), Reply(body=whole), Reply(body=refused))) as (
        asked,
        _,
    ):
        with pytest.raises(MissingTokensError, match="was refused"):
            await asked.sample(QUESTION, 3)
        rollouts, _ = await asked.sample(QUESTION, 3)
        with pytest.raises(MissingTokensError, match="was refused"):
            await asked.sample(QUESTION, 3)
    assert all(rollout.sequence.logprobs for rollout in rollouts)
    assert warnings(caplog) == []


@pytest.mark.parametrize("tokenizer", [str(BUNDLED_TOKENIZER), "no/such-tokenizer"])
async def test_a_refused_group_has_the_tokens_of_its_text_while_nothing_shows_that_there_are_others(
    tokenizer: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Until then the endpoint may be one without token ids. A tokenizer that is not there ends no run for it."""
    refused = completion(*TEXTS, finish_reason="content_filter")
    script = in_turn(
        Reply(body=refused), Reply(body=with_tokens(completion(*TEXTS))), Reply(body=refused)
    )
    async with source(script, tokenizer_name=tokenizer) as (asked, _):
        if tokenizer == str(BUNDLED_TOKENIZER):
            rollouts, _ = await asked.sample(QUESTION, 3)
            assert [rollout.sequence for rollout in rollouts] == [
                TokenSequence(tuple(PROMPT), tuple(text.encode()), None) for text in TEXTS
            ]
            assert all(rollout.completion.refused for rollout in rollouts)
        else:
            with pytest.raises(MissingTokensError, match="was refused"):
                await asked.sample(QUESTION, 3)
        rollouts, _ = await asked.sample(QUESTION, 3)
        assert all(rollout.sequence.logprobs for rollout in rollouts), "nothing was settled"
        with pytest.raises(MissingTokensError, match="was refused"):
            await asked.sample(QUESTION, 3)
    assert warnings(caplog) == []


async def test_token_source_retokenize_asks_for_no_tokens(caplog: pytest.LogCaptureFixture) -> None:
    """Even tokens that come unasked are not taken: they would be those of one group only."""
    async with source(Reply(body=with_tokens(completion(*TEXTS))), "retokenize") as (
        asked,
        endpoint,
    ):
        rollouts, _ = await asked.sample(QUESTION, 3)
    assert [rollout.sequence.prompt for rollout in rollouts] == [tuple(PROMPT)] * 3
    assert not asks_for_tokens(endpoint.bodies[0])
    assert not warnings(caplog), "who asks for it knows"


@pytest.mark.parametrize(
    ("finish_reason", "stopped"),
    [
        ("stop", True),
        ("eos", True),
        ("end_turn", True),
        (None, True),
        ("length", False),
        ("content_filter", False),
    ],
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
