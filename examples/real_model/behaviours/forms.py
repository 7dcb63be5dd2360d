"""Probes of constrained output: a grammar, `response_format`, and thinking."""

from __future__ import annotations

from examples.real_model.behaviours.behaviour import (
    QUESTION,
    Behaviour,
    describe_response,
    format_code,
)
from examples.real_model.server import RunningServer
from judgegym.llm.wire import JSON

_SCHEMA: JSON = {
    "type": "object",
    "properties": {"score": {"type": "integer", "minimum": 1, "maximum": 5}},
    "required": ["score"],
    "additionalProperties": False,
}


def _format(schema: JSON) -> JSON:
    return {"type": "json_schema", "json_schema": {"name": "verdict", "schema": schema}}


def _grammar(running: RunningServer) -> Behaviour:
    answer = running.endpoint.chat(QUESTION, max_tokens=24, grammar='root ::= "[SCORE] " [1-5]')
    return Behaviour("`grammar`", 'GBNF: `root ::= "[SCORE] " [1-5]`', describe_response(answer))


def _schema(running: RunningServer) -> Behaviour:
    answer = running.endpoint.chat(QUESTION, max_tokens=48, response_format=_format(_SCHEMA))
    return Behaviour(
        "`response_format: json_schema`",
        "an object with a `score` from 1 to 5",
        describe_response(answer),
    )


def _pattern(running: RunningServer) -> Behaviour:
    schema: JSON = {
        "type": "object",
        "properties": {"why": {"type": "string", "pattern": "^[a-c]{6}$"}},
        "required": ["why"],
        "additionalProperties": False,
    }
    answer = running.endpoint.chat(QUESTION, max_tokens=48, response_format=_format(schema))
    return Behaviour(
        "a string's `pattern`", "a field that matches `^[a-c]{6}$`", describe_response(answer)
    )


def _both(running: RunningServer) -> Behaviour:
    answer = running.endpoint.chat(
        QUESTION,
        max_tokens=24,
        response_format=_format(_SCHEMA),
        grammar='root ::= "[SCORE] " [1-5]',
    )
    return Behaviour(
        "both at once", "`grammar` and `response_format` in one request", describe_response(answer)
    )


def _bad_grammar(running: RunningServer) -> Behaviour:
    answer = running.endpoint.chat(QUESTION, max_tokens=4, grammar="root ::= [")
    return Behaviour("a wrong grammar", "`root ::= [`", describe_response(answer))


def _bad_schema(running: RunningServer) -> Behaviour:
    answer = running.endpoint.chat(
        QUESTION, max_tokens=4, response_format=_format({"type": "nonsense"})
    )
    return Behaviour("a wrong schema", '`{"type": "nonsense"}`', describe_response(answer))


def _cut_off(running: RunningServer) -> Behaviour:
    answer = running.endpoint.chat(
        QUESTION, max_tokens=3, grammar='root ::= "[FEEDBACK] a [SCORE] " [1-5]'
    )
    return Behaviour(
        "a form that `max_tokens` cuts off",
        "3 tokens for `[FEEDBACK] a [SCORE] 1`",
        describe_response(answer),
    )


def _empty(running: RunningServer) -> Behaviour:
    answer = running.endpoint.chat(QUESTION, max_tokens=4, grammar='root ::= ""')
    return Behaviour(
        "an empty answer", 'a grammar that allows no sign: `root ::= ""`', describe_response(answer)
    )


def _thinking(running: RunningServer) -> Behaviour:
    answer = running.endpoint.chat(
        QUESTION, max_tokens=32, grammar='root ::= "<think>\\nwell\\n</think>\\n\\nEight."'
    )
    apart = answer.at("choices.0.message.reasoning_content")
    where = "in the content"
    if apart is not None:
        where = f"in `reasoning_content` ({format_code(str(apart))})"
    return Behaviour(
        "thinking",
        "an answer that begins with `<think>…</think>`",
        f"{where}; {describe_response(answer)}",
    )


PROBES = (
    _grammar,
    _schema,
    _pattern,
    _both,
    _bad_grammar,
    _bad_schema,
    _cut_off,
    _empty,
    _thinking,
)
