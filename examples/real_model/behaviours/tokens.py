"""Probes of tokens: token ids, logprobs, and the prompt as the model gets it."""

from __future__ import annotations

from collections.abc import Mapping

from examples.real_model.behaviours.behaviour import QUESTION, Behaviour, format_code
from examples.real_model.http import EndpointResponse
from examples.real_model.server import RunningServer

_FIRST = "choices.0.logprobs.content.0"


def _ids(running: RunningServer) -> Behaviour:
    answer = running.endpoint.chat(QUESTION, max_tokens=4, logprobs=True, return_token_ids=True)
    entry, choice = answer.at(_FIRST), answer.at("choices.0")
    fields = ", ".join(entry) if isinstance(entry, Mapping) else "no entry"
    there = []
    if isinstance(choice, Mapping) and "token_ids" in choice:
        there.append("token_ids")
    if answer.at("prompt_token_ids") is not None:
        there.append("prompt_token_ids")
    there_names = " and ".join(there) or "neither"
    return Behaviour(
        "token ids",
        "`logprobs: true, return_token_ids: true`, as vLLM takes them",
        f"each entry of `logprobs.content` has {fields}; of vLLM's `token_ids` and "
        f"`prompt_token_ids` {there_names} is there",
    )


def _alternatives(running: RunningServer) -> Behaviour:
    plain = running.endpoint.chat(QUESTION, max_tokens=2, logprobs=True)
    none = running.endpoint.chat(QUESTION, max_tokens=2, logprobs=True, top_logprobs=0)
    count = len(plain.items(f"{_FIRST}.top_logprobs"))
    without = "no logprobs at all" if none.at("choices.0.logprobs") is None else "logprobs"
    return Behaviour(
        "alternatives",
        "`logprobs: true`, without and with `top_logprobs: 0`",
        f"without it {count} alternatives for each token; with 0 {without}",
    )


def _end(running: RunningServer) -> Behaviour:
    answer = running.endpoint.chat(QUESTION, max_tokens=8, logprobs=True, grammar='root ::= "yes"')
    entries = answer.items("choices.0.logprobs.content")
    texts = [str(entry.get("token")) for entry in entries if isinstance(entry, Mapping)]
    codes = ", ".join(map(format_code, texts))
    token_count = answer.number("usage.completion_tokens")
    return Behaviour(
        "the token that ends an answer",
        "an answer that ends by itself, with `logprobs: true`",
        f"{len(entries)} entries ({codes}) for {token_count:.0f} completion tokens; "
        f"`finish_reason` {answer.finish_reason}",
    )


def _truncation(running: RunningServer) -> Behaviour:
    whole = running.endpoint.chat(QUESTION, max_tokens=1, logprobs=True, temperature=1.0, top_k=1)
    cold = running.endpoint.chat(QUESTION, max_tokens=1, logprobs=True, temperature=0.1, top_k=1)
    constrained = running.endpoint.chat(
        QUESTION, max_tokens=1, logprobs=True, grammar='root ::= "zebra"'
    )
    forced = _logprob(constrained)
    effect = "of what the grammar leaves"
    if forced < -1:
        effect = "the grammar does not change it"
    return Behaviour(
        "what a logprob is of",
        "the likeliest token at temperature 1 and 0.1 with `top_k: 1`; a token that a grammar "
        "forces",
        f"logprobs {_logprob(whole):.3f} and {_logprob(cold):.3f}: {_same(whole, cold)}; forced "
        f"{forced:.3f}: {effect}",
    )


def _logprob(answer: EndpointResponse) -> float:
    return answer.number(f"{_FIRST}.logprob")


def _same(left: EndpointResponse, right: EndpointResponse) -> str:
    if abs(_logprob(left) - _logprob(right)) < 0.01 and _logprob(left) < -0.001:
        return "of the model's whole distribution at temperature 1, whatever it is sampled at"
    return "of the distribution that is sampled from"


def _template(running: RunningServer) -> Behaviour:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    prompt = running.endpoint.post("/apply-template", {"messages": messages}).text("prompt")
    ids = running.endpoint.post(
        "/tokenize", {"content": prompt, "add_special": True, "parse_special": True}
    )
    counted = running.endpoint.post("/v1/chat/completions", {"messages": messages, "max_tokens": 1})
    used = counted.number("usage.prompt_tokens")
    count = len(ids.items("tokens"))
    equal = "as many as" if count == used else f"and not the {used:.0f} that"
    return Behaviour(
        "the prompt",
        "`POST /apply-template` and `POST /tokenize` with `add_special` and `parse_special`",
        f"{format_code(prompt)}: {count} ids, {equal} `usage.prompt_tokens` counts",
    )


def _special(running: RunningServer) -> Behaviour:
    text = "<start_of_turn>"
    as_text = running.endpoint.post("/tokenize", {"content": text, "parse_special": False}).items(
        "tokens"
    )
    without, with_it = (
        running.endpoint.chat(question, max_tokens=1).number("usage.prompt_tokens")
        for question in ("a", f"a{text}")
    )
    more = with_it - without
    read = "a special token, as if the template had written it" if more < len(as_text) else "text"
    return Behaviour(
        "a template's token in a user's text",
        f"`{text}` in a question, which is {len(as_text)} tokens as text",
        f"{more:.0f} more token{'s' * (more != 1)} of prompt: it is read as {read}",
    )


PROBES = (_ids, _alternatives, _end, _truncation, _template, _special)
