"""A policy and a judge that answer after a fixed latency, for little CPU: a process of its own, no HTTP library.

    python -m benchmarks.rollouts.endpoint --policy_ms 200 --judge_ms 300 --tokens 256

It says its port in its first line. A request with `return_token_ids` is the policy's: `n` choices,
each with a text of its own, token ids and logprobs as vLLM gives them. One with `[[A` is the
judge's of Arena-Hard: one verdict, drawn in turn. Any other is the rubric judge's. A body is never
parsed; what is asked is found in its bytes.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import re
from typing import cast

import orjson

from judgegym.judges.core.event_loop import run

_VERDICTS = ("A>B", "B>A", "A>>B", "A=B", "B>>A")
_WORDS = (
    "the",
    "answer",
    "turns",
    "on",
    "what",
    "is",
    "meant",
    "and",
    "how",
    "it",
    "may",
    "be",
    "used",
    "by",
    "most",
)
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_CHOICES = re.compile(rb'"n": *(\d+)')
_MARK = "#########"
"""Stands in a text for a number of as many digits, so that all texts differ and are of one length."""


class Answers:
    """Bodies of answers: made once, but for the number in each text."""

    def __init__(self, tokens: int) -> None:
        """Make the choices of a policy whose completions have this many tokens."""
        self._numbers = itertools.count()
        drawn = random.Random(0)
        text = f"Answer {_MARK}: " + " ".join(drawn.choice(_WORDS) for _ in range(tokens))
        logprobs = [
            {
                "token": word,
                "logprob": -3 * drawn.random(),
                "bytes": list(word.encode()),
                "top_logprobs": [],
            }
            for word in drawn.choices(_WORDS, k=tokens)
        ]
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "finish_reason": "stop",
            "token_ids": [drawn.randrange(150_000) for _ in range(tokens)],
            "logprobs": {"content": logprobs},
        }
        self._choice = orjson.dumps(choice).partition(_MARK.encode())
        self._prompt = orjson.dumps([drawn.randrange(150_000) for _ in range(64)])
        self._usage = orjson.dumps(
            {"prompt_tokens": 64, "completion_tokens": tokens, "total_tokens": 64 + tokens}
        )
        self._score = _response([_judge_choice("Compared with care. [SCORE] 3")])
        self._verdicts = itertools.cycle(
            [
                _response([_judge_choice(f"Compared with care. My final verdict is: [[{label}]]")])
                for label in _VERDICTS
            ]
        )

    def policy(self, n: int) -> bytes:
        """A response with `n` choices."""
        before, _, after = self._choice
        choices = b",".join(before + b"%09d" % next(self._numbers) + after for _ in range(n))
        return _http(
            b'{"id":"c","object":"chat.completion","created":0,"model":"m","prompt_token_ids":%b,"choices":[%b],'
            b'"usage":%b}' % (self._prompt, choices, self._usage)
        )

    def judge(self, body: bytes) -> bytes:
        """A response with a verdict to the judge's request."""
        return next(self._verdicts) if b"[[A" in body else self._score


def _judge_choice(text: str) -> dict[str, object]:
    return {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}


def _response(choices: list[dict[str, object]]) -> bytes:
    usage = {"prompt_tokens": 900, "completion_tokens": 20, "total_tokens": 920}
    body = {
        "id": "c",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": choices,
        "usage": usage,
    }
    return _http(orjson.dumps(body))


def _http(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )


class Connection(asyncio.Protocol):
    """One connection: requests one after the other, as our client sends them."""

    def __init__(self, answers: Answers, policy_s: float, judge_s: float) -> None:
        """Answer with `answers`, after these latencies."""
        self._answers, self._policy_s, self._judge_s = answers, policy_s, judge_s
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer a request once its body is there."""
        self._received = self._received + data if self._received else data
        head, separator, body = self._received.partition(b"\r\n\r\n")
        if not separator:
            return
        length = _LENGTH.search(head)
        if length is not None and len(body) < int(length[1]):
            return
        self._received = b""
        loop = asyncio.get_running_loop()
        if b"return_token_ids" in body:
            choices = _CHOICES.search(body)
            loop.call_later(
                self._policy_s, self._write, self._answers.policy(int(choices[1]) if choices else 1)
            )
        else:
            loop.call_later(self._judge_s, self._write, self._answers.judge(body))

    def _write(self, response: bytes) -> None:
        assert self._transport is not None
        if not self._transport.is_closing():
            self._transport.write(response)


async def main(options: argparse.Namespace) -> None:
    """Serve until killed."""
    answers = Answers(options.tokens)
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(answers, options.policy_ms / 1000, options.judge_ms / 1000),
        "127.0.0.1",
        0,
        backlog=4096,
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--policy_ms", type=float, default=200)
    parser.add_argument("--judge_ms", type=float, default=300)
    parser.add_argument("--tokens", type=int, default=256)
    run(main(parser.parse_args()))
