"""An endpoint for policy and judge that bills by itself, and the settings of its prices.

It counts the tokens of its answers up to the limit of each request, and of prompts up to one a
byte. It bills what it has sent, also where the client never got it.
"""

from __future__ import annotations

import hashlib
from random import Random

import orjson

from judgegym.offline.answers import make_answers
from judgegym.offline.server import parse_request
from tests.scripted import Json, Reply, completion
from tests.serving import with_tokens

INPUT, OUTPUT, LONGEST = 40.0, 160.0, 60
"""US dollars for a million tokens, and the most tokens of an answer."""
AT_ONCE = 64
PRICES = (
    f"--openai.price=input={INPUT},output={OUTPUT}",
    f"--env.judge_price_input={INPUT}",
    f"--env.judge_price_output={OUTPUT}",
    f"--env.judge_max_tokens={LONGEST}",
    f"--env.judge_max_concurrency={AT_ONCE}",
)


class Provider:
    """Answers as the stand-in does, and bills; a tenth of its answers is an error or breaks off after it was billed."""

    def __init__(self, seed: int, *, faults: bool = True) -> None:
        self.usd, self._random, self._faults = 0.0, Random(seed), faults

    def __call__(self, request: Json, number: int) -> Reply:
        if self._faults and self._random.random() < 0.05:
            return Reply(status=500)
        own = Random(hashlib.sha256(orjson.dumps(request)).digest())
        texts = make_answers(parse_request(orjson.dumps(request)))
        prompt = own.randint(
            1, sum(len(message["content"].encode()) for message in request["messages"])
        )
        written = sum(own.randint(1, request["max_tokens"]) for _ in texts)
        self.usd += (INPUT * prompt + OUTPUT * written) / 1e6
        if self._faults and self._random.random() < 0.05:
            return Reply(drop=True)
        return Reply(
            body=with_tokens(completion(*texts, prompt_tokens=prompt, completion_tokens=written))
        )
