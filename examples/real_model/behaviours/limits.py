"""Probes of limits: context, load, names and keys."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from examples.real_model.behaviours.behaviour import QUESTION, Behaviour, describe_response
from examples.real_model.server import RunningServer


def _loading(running: RunningServer) -> Behaviour:
    statuses = ", ".join(map(str, running.while_loading)) or "it was not asked before it was ready"
    return Behaviour(
        "while it loads",
        "`GET /health` until it answers 200",
        f"{statuses}; ready after {running.seconds_to_load:.1f} s",
    )


def _context(running: RunningServer) -> Behaviour:
    slot_tokens = running.endpoint.get("/props").number("default_generation_settings.n_ctx")
    trained = running.endpoint.get("/v1/models").number("data.0.meta.n_ctx_train")
    longer = running.endpoint.chat("word " * int(slot_tokens), max_tokens=4)
    return Behaviour(
        "context",
        f"a prompt that is longer than a slot's share ({running.settings.context} tokens for "
        f"{running.settings.slots} slots)",
        f"a slot has {slot_tokens:.0f} tokens (the model was trained on {trained:.0f}); "
        f"{describe_response(longer)}, `type` {longer.text('error.type')}",
    )


def _length(running: RunningServer) -> Behaviour:
    some = running.endpoint.chat(QUESTION, max_tokens=4)
    none = running.endpoint.chat(QUESTION, max_tokens=0)
    first, second = (answer.number("usage.completion_tokens") for answer in (some, none))
    return Behaviour(
        "`max_tokens`",
        "4, and 0",
        f"`finish_reason` {some.finish_reason} after {first:.0f}; with 0 {second:.0f} token, "
        f"`finish_reason` {none.finish_reason}",
    )


def _load(running: RunningServer) -> Behaviour:
    count = 3 * running.settings.slots
    with ThreadPoolExecutor(count) as pool:
        answers = list(
            pool.map(lambda _: running.endpoint.chat(QUESTION, max_tokens=8), range(count))
        )
    statuses = sorted({answer.status for answer in answers})
    outcome = "all are answered, the others wait" if statuses == [200] else "some are refused"
    status_texts = ", ".join(map(str, statuses))
    return Behaviour(
        "more requests than slots",
        f"{count} at once for {running.settings.slots} slots",
        f"status {status_texts}: {outcome}",
    )


def _name(running: RunningServer) -> Behaviour:
    answer = running.endpoint.chat(QUESTION, max_tokens=2, model="no-such-model")
    return Behaviour(
        "an unknown `model`",
        "`model: no-such-model`",
        f"{describe_response(answer)}, `model` {answer.text('model')}",
    )


PROBES = (_loading, _context, _length, _load, _name)
