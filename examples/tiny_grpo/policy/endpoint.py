"""An OpenAI-compatible chat endpoint of the tiny policy, with token ids and logprobs like vLLM's.

Waiting requests are sampled as one batch, each with its `n` completions. Guarantees: a batch is
sampled with one version of the weights (`served.ServedPolicy`). With `return_token_ids` the ids are
the sampled ones, and `logprobs` has one entry for each of them.

Source of the protocol: vLLM 0.10.2, `entrypoints/openai/protocol.py`: `return_token_ids` adds
`prompt_token_ids` to the response and `token_ids` to each choice; `logprobs: true` gives
`logprobs.content`, an entry for each sampled token, including the one that ends the turn.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from aiohttp import web

from examples.tiny_grpo.policy.sampling import Prompt, SampledCompletion
from examples.tiny_grpo.policy.served import ServedPolicy
from judgegym.llm import wire
from judgegym.llm.wire import JSON
from judgegym.offline import process
from judgegym.offline import request as protocol
from judgegym.offline.request import BadRequest, ChatRequest, make_prompt_ids, parse_request

MODEL = "tiny"
_LARGEST_BATCH = 256  # completions sampled at once
_GATHER_S = 0.004  # how long a batch waits for further requests


@dataclass(frozen=True)
class _QueuedRequest:
    prompt: Prompt
    answer: asyncio.Future[list[SampledCompletion]]
    loop: asyncio.AbstractEventLoop


@contextmanager
def serve_policy(policy: ServedPolicy) -> Iterator[str]:
    """Serve a policy on a free port of this machine while the block lasts; yield the base URL."""
    listener = process.listen("127.0.0.1", 0)
    loop = asyncio.new_event_loop()
    waiting = queue.SimpleQueue[_QueuedRequest | None]()
    stop = asyncio.Event()

    async def serve() -> None:
        app = web.Application()
        app.router.add_post(
            "/v1/chat/completions", _Endpoint(policy.size.context, waiting).complete
        )
        runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=0.01, handler_cancellation=True
        )
        await runner.setup()
        await web.SockSite(runner, listener).start()
        await stop.wait()
        await runner.cleanup()

    threads = [
        threading.Thread(target=lambda: loop.run_until_complete(serve()), name="endpoint"),
        threading.Thread(target=_sample_batches, args=(policy, waiting), name="sampler"),
    ]
    for thread in threads:
        thread.start()
    try:
        yield process.make_url(listener)
    finally:
        loop.call_soon_threadsafe(stop.set)
        waiting.put(None)
        for thread in threads:
            thread.join()
        loop.close()


class _Endpoint:
    """The HTTP side."""

    def __init__(self, context: int, waiting: queue.SimpleQueue[_QueuedRequest | None]) -> None:
        self._context = context
        self._waiting = waiting

    async def complete(self, http: web.Request) -> web.Response:
        try:
            request = parse_request(await http.read())
            prompt = self._prompt(request)
        except BadRequest as bad:
            return web.Response(
                body=protocol.make_error(400, str(bad)), status=400, content_type="application/json"
            )
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[SampledCompletion]] = loop.create_future()
        self._waiting.put(_QueuedRequest(prompt, answer, loop))
        body = wire.dumps(_answer(request, prompt, await answer))
        return web.Response(body=body, content_type="application/json")

    def _prompt(self, request: ChatRequest) -> Prompt:
        if request.stream:
            raise BadRequest("'stream' must be false: this endpoint sends whole answers alone")
        if request.top_logprobs:
            raise BadRequest(
                "'top_logprobs' must be 0: this endpoint gives the logprobs of sampled tokens alone"
            )
        ids = tuple(make_prompt_ids(request.messages))
        room = self._context - len(ids)
        if room < 1:
            raise BadRequest(f"the prompt has {len(ids)} tokens, and the context {self._context}")
        return Prompt(ids, request.n, min(request.max_tokens or room, room), request.temperature)


def _sample_batches(
    policy: ServedPolicy, waiting: queue.SimpleQueue[_QueuedRequest | None]
) -> None:
    """Sample waiting requests, batch by batch, until a `None`."""
    while (first := waiting.get()) is not None:
        batch = [first]
        while sum(queued.prompt.completions for queued in batch) < _LARGEST_BATCH:
            try:
                following = waiting.get(timeout=_GATHER_S)
            except queue.Empty:
                break
            if following is None:
                waiting.put(None)  # for the outer loop
                break
            batch.append(following)
        sampled = policy.sample([queued.prompt for queued in batch])
        for queued_request, completions in zip(batch, sampled, strict=True):
            queued_request.loop.call_soon_threadsafe(_resolve, queued_request.answer, completions)


def _resolve(
    answer: asyncio.Future[list[SampledCompletion]], completions: list[SampledCompletion]
) -> None:
    if not answer.done():  # its client has left
        answer.set_result(completions)


def _answer(
    request: ChatRequest, prompt: Prompt, completions: list[SampledCompletion]
) -> dict[str, JSON]:
    generated = sum(len(completion.ids) for completion in completions)
    answer: dict[str, JSON] = {
        "id": f"chatcmpl-{request.digest[:24]}",
        "object": "chat.completion",
        "created": 0,
        "model": request.model,
        "choices": [
            _choice(request, index, completion) for index, completion in enumerate(completions)
        ],
        "usage": {
            "prompt_tokens": len(prompt.ids),
            "completion_tokens": generated,
            "total_tokens": len(prompt.ids) + generated,
        },
    }
    if request.return_token_ids:
        answer["prompt_token_ids"] = list(prompt.ids)
    return answer


def _choice(request: ChatRequest, index: int, completion: SampledCompletion) -> dict[str, JSON]:
    choice: dict[str, JSON] = {
        "index": index,
        "message": {"role": "assistant", "content": completion.text},
        "logprobs": None,
        "finish_reason": "stop" if completion.stopped else "length",
    }
    if request.logprobs:
        pairs = zip(completion.ids, completion.logprobs, strict=True)
        choice["logprobs"] = {
            "content": [
                {"token": f"token_id:{token}", "logprob": value, "top_logprobs": []}
                for token, value in pairs
            ]
        }
    if request.return_token_ids:
        choice["token_ids"] = list(completion.ids)
    return choice
