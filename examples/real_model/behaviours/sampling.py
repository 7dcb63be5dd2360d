"""Probes of sampling: defaults, seeds, several choices of one request."""

from __future__ import annotations

from collections.abc import Mapping

from examples.real_model.behaviours.behaviour import QUESTION, Behaviour, describe_response
from examples.real_model.http import EndpointResponse
from examples.real_model.server import RunningServer

_DEFAULTS = ("temperature", "top_k", "top_p", "min_p")


def _defaults(running: RunningServer) -> Behaviour:
    properties = running.endpoint.get("/props")
    defaults = {
        name: properties.number(f"default_generation_settings.params.{name}") for name in _DEFAULTS
    }
    cut = "a distribution that is cut off"
    if defaults["top_k"] <= 0 and defaults["top_p"] >= 1:
        cut = "the whole distribution"
    values = ", ".join(f"{name} {value:.2g}" for name, value in defaults.items())
    return Behaviour("the sampler's defaults", "`GET /props`", f"{values}: it samples from {cut}")


def _seed(running: RunningServer) -> Behaviour:
    left, right = (running.endpoint.chat(QUESTION, max_tokens=12, seed=7) for _ in range(2))
    both = running.endpoint.chat(QUESTION, max_tokens=12, seed=7, n=2)
    first, second = _contents(both)[:2]
    texts = "equal" if left.content == right.content else "different"
    choices = "equal" if first == second else "different"
    return Behaviour(
        "`seed`",
        "the same request with `seed: 7` twice, then with `n: 2`",
        f"the texts are {texts}; the two choices are {choices}",
    )


def _contents(answer: EndpointResponse) -> list[str]:
    return [
        answer.text(f"choices.{number}.message.content")
        for number in range(len(answer.items("choices")))
    ]


def _several(running: RunningServer) -> Behaviour:
    slots = running.settings.slots
    fits = running.endpoint.chat(QUESTION, max_tokens=4, n=slots)
    more = running.endpoint.chat(QUESTION, max_tokens=4, n=slots + 1)
    choices = len(_contents(fits))
    tokens = fits.number("usage.completion_tokens")
    outcome = describe_response(more)
    if more.status == 200:
        outcome = f"{len(_contents(more))} choices"
    return Behaviour(
        "`n`",
        f"`n: {slots}` and `n: {slots + 1}` of a server with {slots} slots",
        f"{choices} choices, `usage.completion_tokens` {tokens:.0f}; {outcome}",
    )


def _stop(running: RunningServer) -> Behaviour:
    grammar = 'root ::= "one two three four"'
    answer = running.endpoint.chat(
        QUESTION, max_tokens=16, stop=["three"], grammar=grammar, logprobs=True
    )
    tokens = "".join(
        str(entry.get("token"))
        for entry in answer.items("choices.0.logprobs.content")
        if isinstance(entry, Mapping)
    )
    end = f"go on to `{tokens}`"
    if tokens == answer.content:
        end = "end with the text"
    return Behaviour(
        "`stop`",
        '`stop: ["three"]` in an answer that would be `one two three four`',
        f"{describe_response(answer)}; the entries of `logprobs` {end}",
    )


def _cached(running: RunningServer) -> Behaviour:
    question = " ".join(f"word{number}" for number in range(60))
    counts = [
        running.endpoint.chat(question, max_tokens=1).at(
            "usage.prompt_tokens_details.cached_tokens"
        )
        for _ in range(2)
    ]
    return Behaviour(
        "prefix cache",
        "the same prompt twice",
        f"`usage.prompt_tokens_details.cached_tokens` {counts[0]}, then {counts[1]}",
    )


PROBES = (_defaults, _seed, _several, _stop, _cached)
