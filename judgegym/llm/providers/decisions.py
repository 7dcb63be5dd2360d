"""The API of decision models: typed questions about a state, answered with probabilities.

A request has the state as the text of its only message, and the questions as its field `questions`;
`judgegym.judges.core.decisions` makes and reads them. Images follow the state in the order of the
message, so that the state becomes a list of the object, the marks and the images.

A response becomes a choice whose text is the JSON of its answers. Gateways send the answers bare,
or in an object `result` or `data`, beside `success` and `errors`. Guarantee: a body that reports an
error has no answers, whatever else it holds.

Sources: `litellm/types/decisions.py` (08ccd52), verifiers' `judges/decision.py` (3c4038d),
OpenRouter's pages on decisions and images.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from judgegym.llm import wire
from judgegym.llm.errors import SettingsError
from judgegym.llm.providers.api import Api, ApiName
from judgegym.llm.responses.choices import NotACompletion
from judgegym.llm.wire import JSON, mapping_or_empty

MOST_QUESTIONS = 128
"""The most questions of a request."""
QUESTIONS = "questions"
"""The field of a request that holds the questions by name."""

_WRAPPERS = ("result", "data")
_SET_HERE = (QUESTIONS, "state")
_INPUT = ("input_tokens", "inputTokens", "prompt_tokens")
_OUTPUT = ("output_tokens", "outputTokens", "completion_tokens")
_CACHED = ("cached_tokens", "cachedTokens")
_INPUT_DETAILS = ("input_tokens_details", "inputTokensDetails", "prompt_tokens_details")


class DecisionsApi(Api):
    """Typed questions, sent to the base URL as it is."""

    name: ApiName = "decisions"
    path = ""
    takes_n = False
    takes_seed = False
    takes_sampling = False
    probe_fields: Mapping[str, JSON] = {
        QUESTIONS: {"probe": {"type": "noul", "instructions": "Is the text a question?"}}
    }

    def request(self, body: Mapping[str, JSON], cached: Sequence[int] = ()) -> Mapping[str, JSON]:
        """See `Api`."""
        questions, messages = body.get(QUESTIONS), body.get("messages")
        if not isinstance(questions, Mapping) or not questions:
            raise SettingsError(
                "api=decisions is for models that answer typed questions of a judge, not for "
                "prompts; set another api"
            )
        if not isinstance(messages, Sequence) or len(messages) != 1:
            raise SettingsError("api=decisions takes one message, which is the state")
        sent = {name: value for name, value in body.items() if name != "messages"}
        content = mapping_or_empty(messages[0]).get("content")
        return {**sent, "state": _make_state(content)}

    def check(self, fields: Mapping[str, JSON], where: str) -> None:
        """See `Api`; the fields of a whole request have messages, further fields have none."""
        if "messages" in fields:
            super().check(fields, where)
            return
        for name in _SET_HERE:
            if name in fields:
                raise SettingsError(f"{where}: the judge sets {name!r} itself; leave it out")

    def response(self, body: JSON) -> JSON:
        """See `Api`."""
        if not isinstance(body, Mapping):
            return body
        content = _unwrap(body)
        if content.get("error"):
            return content
        answers = content.get("answers")
        if not isinstance(answers, Mapping | list):
            if "choices" in body:
                raise NotACompletion(
                    "it answers in OpenAI's form, not with decisions: set its api to openai"
                )
            return body
        message: JSON = {"role": "assistant", "content": wire.dumps(answers).decode()}
        choice: JSON = {"index": 0, "message": message, "finish_reason": "stop"}
        copied = {
            name: value for name in ("id", "model") if (value := content.get(name)) is not None
        }
        usage = mapping_or_empty(content.get("usage") or body.get("usage"))
        return {**copied, "choices": [choice], "usage": _translate_usage(usage)}


def undecided_answer(question: JSON) -> JSON:
    """Return the answer to a question that finds all labels equally likely, for plans."""
    fields = mapping_or_empty(question)
    kind, criteria = fields.get("type"), fields.get("criteria")
    if kind == "choice":
        labels = [*mapping_or_empty(criteria)]
        probabilities = {label: 1 / len(labels) for label in labels}
        return {"type": kind, "choice": labels[0], "probabilities": probabilities}
    if kind == "score" and isinstance(criteria, Sequence):
        return {"type": kind, "score": (len(criteria) - 1) / 2}
    return {"type": kind, "noul": 0.5}


def _unwrap(body: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """Return the object with the answers, or one with `error` if the body reports an error."""
    content = body
    for name in _WRAPPERS:
        inner = body.get(name)
        if "answers" not in body and isinstance(inner, Mapping):
            content = {**inner, **({"error": body["error"]} if body.get("error") else {})}
            break
    for reporting in (body, content):
        errors = reporting.get("errors")
        if reporting.get("success") is False or errors:
            first = errors[0] if isinstance(errors, list) and errors else errors
            return {"error": first or "the gateway reports no success"}
    return content


def _make_state(content: JSON) -> JSON:
    """Return a message's content as a state: an object or a text, alone or before images."""
    if isinstance(content, str):
        return _parse_state(content)
    state = list[JSON]()
    for part in content if isinstance(content, list) else ():
        text = mapping_or_empty(part).get("text")
        if not isinstance(text, str):
            state.append(part)
        elif state:
            state.append(text)
        else:
            state.append(_parse_state(text))
    return state


def _parse_state(text: str) -> JSON:
    parsed = wire.loads_or_none(text)
    if isinstance(parsed, Mapping):
        return parsed
    return text


def _translate_usage(usage: Mapping[str, JSON]) -> JSON:
    """Return a usage in OpenAI's format, from either spelling."""
    details = _first(usage, _INPUT_DETAILS)
    cached = _first(usage, _CACHED) or _first(mapping_or_empty(details), _CACHED)
    return {
        "prompt_tokens": _first(usage, _INPUT),
        "completion_tokens": _first(usage, _OUTPUT),
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def _first(fields: Mapping[str, JSON], names: Sequence[str]) -> JSON:
    """Return the value of the first of these names that the fields have."""
    return next((fields[name] for name in names if fields.get(name) is not None), None)
