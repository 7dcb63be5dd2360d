"""What the trainer gets is what the policy sampled, token for token; or tokens of the text, and then it is said."""

from __future__ import annotations

import logging
from functools import cache
from typing import Any

import pytest

from judgegym.engine.loop import FAILURE_LIMIT, NothingSucceeds
from judgegym.engine.settings import BUNDLED_TOKENIZER
from tests.arena import Arena
from tests.scripted import Json, Recorded, Reply, completion
from tests.serving import answer, sampling, serve, which, with_tokens
from tests.trainer import Group, ScriptedServer, training

FLAGS = (
    "--env.include_messages=True",
    "--env.max_batches_offpolicy=1",
    "--env.rollout_temperature=0.5",
)
END = 258
"""The token that ends a turn of the bundled tokenizer."""


@cache
def tokenizer() -> Any:
    """The bundled tokenizer."""
    from transformers import AutoTokenizer  # a second, which the collection of tests can do without

    return AutoTokenizer.from_pretrained(BUNDLED_TOKENIZER)


def prompt_of(messages: list[Json]) -> list[int]:
    """What the template makes of a conversation."""
    turns = [{name: turn[name] for name in ("role", "content")} for turn in messages]
    text = tokenizer().apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    ids: list[int] = tokenizer().encode(text, add_special_tokens=False)
    return ids


def check(
    group: Group, place: int, prompt: list[int], completion_ids: list[int], logprobs: list[float]
) -> None:
    assert group["tokens"][place] == prompt + completion_ids
    assert group["masks"][place] == [-100] * len(prompt) + completion_ids
    assert group["inference_logprobs"][place] == [1.0] * len(prompt) + logprobs
    assert group["generation_params"] == {"temperature": 0.5}


@pytest.mark.slow
async def test_a_chat_endpoint_that_says_what_it_sampled(
    arena: Arena, caplog: pytest.LogCaptureFixture
) -> None:
    answers: dict[int, Json] = {}

    def policy(request: Json, number: int) -> Reply:
        assert (request["return_token_ids"], request["logprobs"], request["n"]) == (True, True, 4)
        assert request["temperature"] == 0.5
        reply = sampling()(request, number)
        answers[number] = reply.body
        return reply

    async with training(8) as trainer, serve(arena, trainer.url, *FLAGS, policy=policy):
        (batch,) = await trainer.take()
    for group in batch:
        for place, turns in enumerate(group["messages"]):
            index, number = which(turns[-1]["content"])
            choice = answers[number]["choices"][index]
            logprobs = [entry["logprob"] for entry in choice["logprobs"]["content"]]
            check(group, place, answers[number]["prompt_token_ids"], choice["token_ids"], logprobs)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


class Generate:
    """The token-level API of Atropos' VLLM server: answers with bytes, the third of each group cut off."""

    def __init__(self) -> None:
        self.prompts: dict[int, list[int]] = {}
        self.answers: dict[int, list[tuple[list[int], list[float]]]] = {}

    def __call__(self, request: Recorded, number: int) -> Reply:
        assert request.path == "/generate"
        body = request.json
        assert (body["n"], body["temperature"], body["max_tokens"], body["logprobs"]) == (
            4,
            0.5,
            77,
            0,
        )
        self.prompts[number] = body["prompt"]["prompt_token_ids"]
        question = {"messages": [{"content": tokenizer().decode(self.prompts[number])}]}
        ids = [
            [*answer(question, number, index).encode(), *([] if index == 2 else [END])]
            for index in range(4)
        ]
        self.answers[number] = [
            (each, [-1 - place / 64 for place in range(len(each))]) for each in ids
        ]
        entries = [
            [[{str(i): p}] for i, p in zip(*each, strict=True)] for each in self.answers[number]
        ]
        return Reply(
            body={"logprobs": entries, "finish_reasons": ["stop", "stop", "length", "stop"]}
        )


@pytest.mark.slow
async def test_a_token_level_server(arena: Arena) -> None:
    generate = Generate()
    async with (
        training(8) as trainer,
        serve(
            arena,
            trainer.url,
            *FLAGS,
            "--openai.server_type=vllm",
            "--env.train_max_tokens=77",
            policy=ScriptedServer(generate),
        ),
    ):
        (batch,) = await trainer.take()
    for group in batch:
        assert sum(tokens[-1] == END for tokens in group["tokens"]) == 3
        for place, turns in enumerate(group["messages"]):
            index, number = which(turns[-1]["content"])
            assert generate.prompts[number] == prompt_of(turns[:-1])
            check(group, place, generate.prompts[number], *generate.answers[number][index])


def without_ids(request: Json, number: int) -> Reply:
    body = completion(*(answer(request, number, index) for index in range(request["n"])))
    body["choices"][2]["finish_reason"] = "length"
    return Reply(body=body)


def refusing(request: Json, number: int) -> Reply:
    unknown = {"return_token_ids", "logprobs"} & set(request)
    return (
        Reply(status=400, body={"error": {"message": f"unknown {unknown}"}})
        if unknown
        else without_ids(request, number)
    )


def one_at_a_time(request: Json, number: int) -> Reply:
    """Ignores `n`; the third answer of four is cut off."""
    body = completion(answer(request, number, (number - 1) % 4))
    body["choices"][0]["finish_reason"] = "length" if number % 4 == 3 else "stop"
    return Reply(body=body)


def with_fault(fault: str) -> Any:
    """A policy that samples well, but for the second completion of its first answer."""

    def policy(request: Json, number: int) -> Reply:
        reply = sampling()(request, number)
        if number == 1:
            choice = reply.body["choices"][1]
            content = choice["logprobs"]["content"]
            if fault == "none":
                choice["token_ids"], choice["logprobs"]["content"] = [], []
            elif fault == "short":
                del content[-1]
            else:
                content[2]["logprob"] = None if fault == "null" else float(fault)
        return reply

    return policy


@pytest.mark.parametrize(
    ("fault", "facts"),
    [("-9999", ("token 2 of", "the logprob -9999")), ("short", ("logprobs",))],
)
async def test_one_completion_without_usable_tokens_costs_its_group_and_decides_nothing_about_the_run(
    arena: Arena, caplog: pytest.LogCaptureFixture, fault: str, facts: tuple[str, ...]
) -> None:
    flags = *FLAGS, "--env.max_num_workers=1"
    async with (
        training(4) as trainer,
        serve(arena, trainer.url, *flags, policy=with_fault(fault)) as served,
    ):
        (batch,) = await trainer.take()
        dropped = served.counted("policy_failed")
    assert dropped == 1
    assert [len(group["inference_logprobs"]) for group in batch] == [4]
    warnings = [
        record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING
    ]
    assert len(warnings) == 1 and all(fact in warnings[0] for fact in facts)


@pytest.mark.slow
@pytest.mark.parametrize("policy", [refusing, one_at_a_time])
async def test_tokens_of_the_text(
    arena: Arena, caplog: pytest.LogCaptureFixture, policy: Any
) -> None:
    flags = *FLAGS, "--env.max_num_workers=1"
    async with training(8) as trainer, serve(arena, trainer.url, *flags, policy=policy):
        (batch,) = await trainer.take()
    for group in batch:
        assert group["inference_logprobs"] is None
        assert len(group["tokens"]) == 4
        for place, turns in enumerate(group["messages"]):
            prompt = prompt_of(turns[:-1])
            text = turns[-1]["content"]
            cut_off = which(text)[0] == 2
            ids = [*text.encode(), *([] if cut_off else [END])]
            assert group["tokens"][place] == prompt + ids
            assert group["masks"][place] == [-100] * len(prompt) + ids
    (warning,) = (record for record in caplog.records if record.levelno >= logging.WARNING)
    assert "tokens may differ" in warning.getMessage()


@pytest.mark.parametrize(
    ("policy", "source", "least"),
    [
        (without_ids, "chat", FAILURE_LIMIT),
        (refusing, "chat", 1),
    ],
)
async def test_tokens_are_never_made_up_beside_those_of_an_endpoint(
    arena: Arena, policy: Any, source: str, least: int
) -> None:
    """Nor does it ask for ever; once the fields are refused, no request has them."""
    async with training(8) as trainer:
        with pytest.raises(NothingSucceeds, match=r"the policy.*--env\.token_source=retokenize"):
            async with serve(
                arena, trainer.url, *FLAGS, f"--env.token_source={source}", policy=policy
            ) as served:
                await served.ended()
        assert await trainer.poll() is None
        assert await trainer.queued() == 0
    assert not served.judge.requests
    assert least <= len(served.policy.requests) < 3 * FAILURE_LIMIT


async def test_an_endpoint_that_ignores_n_and_says_what_it_sampled(arena: Arena) -> None:
    sampled: dict[tuple[int, ...], str] = {}

    def policy(request: Json, number: int) -> Reply:
        body = with_tokens(completion(answer(request, number, number % 4)), number)
        choice = body["choices"][0]
        sampled[tuple(choice["token_ids"])] = choice["message"]["content"]
        return Reply(body=body)

    flags = *FLAGS, "--env.max_num_workers=1"
    async with training(8) as trainer, serve(arena, trainer.url, *flags, policy=policy):
        (batch,) = await trainer.take()
    completions = [
        tuple(each for each in mask if each != -100) for group in batch for mask in group["masks"]
    ]
    assert len(set(completions)) == 8
    texts = [turns[-1]["content"] for group in batch for turns in group["messages"]]
    assert [sampled[each] for each in completions] == texts
