"""`/openapi.json`: the server's routes, with schemas of the models that validate the requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from pydantic import BaseModel

from judgegym.llm.wire import JSON
from judgegym.server.protocols.base import RequestBody
from judgegym.server.protocols.nemo_gym import AggregateBody
from judgegym.server.settings import JudgeMount

_REF = "#/components/schemas/{model}"

_NUMBER: JSON = {"type": "number"}
_TEXT: JSON = {"type": "string"}
_NUMBERS: JSON = {"type": "array", "items": _NUMBER}
_ANY_OBJECT: JSON = {"type": "object"}
_NAMED_NUMBERS: JSON = {"type": "object", "additionalProperties": _NUMBER}


def _ref(name: str) -> JSON:
    return {"$ref": _REF.format(model=name)}


def _object(**properties: JSON) -> JSON:
    """Return the schema of an object that has all of these fields."""
    return {"type": "object", "required": [*properties], "properties": properties}


_USAGE: dict[str, JSON] = {
    **dict.fromkeys(
        ("prompt_tokens", "cached_prompt_tokens", "completion_tokens", "judge_calls"), _NUMBER
    ),
    "cost_usd": {"type": ["number", "null"], "description": "null if no price is set"},
}
_SHARED = "the judgment is that of an equal response, which has its usage"
_SCHEMAS: Mapping[str, JSON] = {
    "Result": _object(
        score={
            "type": ["number", "null"],
            "description": "from 0 to 1, but for a reward model whose reward_scale is another; "
            "null for a failed judge",
        },
        status={
            "type": "string",
            "enum": ["ok", "judge_failed", "unparsable", "invalid_completion"],
        },
        label={"type": ["string", "null"]},
        explanation=_TEXT,
        components=_NAMED_NUMBERS,
        usage={"type": "object", "properties": _USAGE},
        cached={"type": "boolean"},
        shared={"type": "boolean", "description": _SHARED},
        injection_suspects={"type": "integer", "minimum": 0},
    ),
    "Results": _object(results={"type": "array", "items": _ref("Result")}),
    "Score": {"anyOf": [_ref("Result"), _ref("Results")]},
    "Error": _object(error=_object(type=_TEXT, message=_TEXT, request_id=_TEXT)),
    "Rewards": _object(
        rewards=_NUMBERS,
        scores=_NUMBERS,
        extra_logs={"type": "object", "additionalProperties": _NUMBERS},
    ),
    "Reward": _NUMBER,
    "Compared": _object(
        rewards=_NUMBERS,
        comparison_results={"type": "array", "items": _ANY_OBJECT},
        metrics=_NAMED_NUMBERS,
    ),
    "Verified": _object(reward=_NUMBER),
}


def document(
    mounts: Mapping[str, JudgeMount], protocols: Sequence[type[RequestBody]], *, secured: bool
) -> JSON:
    """Return the OpenAPI 3.1 document.

    Args:
        mounts: the judges by name.
        protocols: the protocols of every judge.
        secured: whether requests need a token.
    """
    schemas: dict[str, JSON] = dict(_SCHEMAS)
    bodies = {protocol.path: _schema(protocol, schemas) for protocol in protocols}
    aggregate = _operation(
        "nemo_gym: means over verified rollouts", _ANY_OBJECT, body=_schema(AggregateBody, schemas)
    )
    mode: JSON = {"type": "string", "enum": ["stateless", "unsupported"]}
    paths: dict[str, JSON] = {
        "/healthz": {"get": _operation("The process is up", _ANY_OBJECT, open_to_all=True)},
        "/readyz": {
            "get": _operation(
                "New requests are taken", _ANY_OBJECT, codes=("503",), open_to_all=True
            )
        },
        "/metrics": {"get": _operation("Prometheus' text format", _TEXT, media="text/plain")},
        "/v1/recent": {"get": _operation("The last hundred judgments", _ANY_OBJECT)},
    }
    for name, mount in mounts.items():
        prefix = ""
        model = mount.judge_name()
        if name:
            prefix = f"/{name}"
        title = f"{mount.judge} judge ({model})"
        for protocol in protocols:
            summary = f"{protocol.protocol}: scores of the {title}"
            operation = _operation(summary, _ref(protocol.answer), body=bodies[protocol.path])
            paths[prefix + protocol.path] = {"post": operation}
        for route, summary in (
            ("seed_session", "nemo_gym: begin a session"),
            ("close_session", "nemo_gym: end it"),
        ):
            paths[f"{prefix}/{route}"] = {
                "post": _operation(summary, _ANY_OBJECT, body=_ANY_OBJECT)
            }
        paths[f"{prefix}/aggregate_metrics"] = {"post": aggregate}
        paths[f"{prefix}/reverify_mode"] = {
            "get": _operation("nemo_gym: how rows are verified again", mode)
        }
    components: dict[str, JSON] = {"schemas": schemas}
    api: dict[str, JSON] = {
        "openapi": "3.1.0",
        "info": {"title": "JudgeGym reward server", "version": "1"},
        "paths": paths,
        "components": components,
    }
    if secured:
        components["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer"},
            "url": {
                "type": "http",
                "scheme": "basic",
                "description": "the token as user or as password",
            },
        }
        api["security"] = [{"token": []}, {"url": []}]
    return api


def _operation(
    summary: str,
    answer: JSON,
    *,
    body: JSON = None,
    codes: Sequence[str] = (),
    media: str = "application/json",
    open_to_all: bool = False,
) -> JSON:
    errors = {
        *codes,
        *(() if open_to_all else ("401",)),
        *(("400", "408", "413", "415", "422", "503") if body is not None else ()),
    }
    error: JSON = {"application/json": {"schema": _ref("Error")}}
    operation: dict[str, JSON] = {
        "summary": summary,
        "responses": {
            "200": {"description": "OK", "content": {media: {"schema": answer}}},
            **{code: {"description": "An error", "content": error} for code in sorted(errors)},
        },
    }
    if body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": body}},
        }
    if open_to_all:
        operation["security"] = []
    return operation


def _schema(model: type[BaseModel], schemas: dict[str, JSON]) -> JSON:
    """Return a reference to the model's schema; add it, and those it refers to, to `schemas`."""
    schema = cast("dict[str, JSON]", model.model_json_schema(ref_template=_REF))
    schemas.update(cast("dict[str, JSON]", schema.pop("$defs", {})))
    schemas[model.__name__] = schema
    return _ref(model.__name__)
