"""`/openapi.json`: the server's routes, with schemas from the models that validate the requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic import BaseModel

from judgegym.llm.wire import JSON
from judgegym.server.protocols.base import Adapter
from judgegym.server.protocols.nemo_gym import AggregateBody
from judgegym.server.settings import JudgeMount

_REF = "#/components/schemas/{model}"

_NUMBER: JSON = {"type": "number"}
_NUMBERS: JSON = {"type": "array", "items": _NUMBER}
_RESULT: JSON = {
    "type": "object",
    "required": [
        "score",
        "status",
        "label",
        "explanation",
        "components",
        "usage",
        "cached",
        "shared",
        "injection_suspects",
    ],
    "properties": {
        "score": {"type": ["number", "null"], "minimum": 0, "maximum": 1, "description": "null for a failed judge"},
        "status": {"type": "string", "enum": ["ok", "judge_failed", "unparsable", "invalid_completion"]},
        "label": {"type": ["string", "null"]},
        "explanation": {"type": "string"},
        "components": {"type": "object", "additionalProperties": _NUMBER},
        "usage": {
            "type": "object",
            "properties": {
                **dict.fromkeys(("prompt_tokens", "cached_prompt_tokens", "completion_tokens", "judge_calls"), _NUMBER),
                "cost_usd": {"type": ["number", "null"], "description": "null if no price is set"},
            },
        },
        "cached": {"type": "boolean"},
        "shared": {"type": "boolean", "description": "the judgment is that of an equal response, which has its usage"},
        "injection_suspects": {"type": "integer", "minimum": 0},
    },
}
_ERROR: JSON = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["type", "message", "request_id"],
            "properties": {name: {"type": "string"} for name in ("type", "message", "request_id")},
        }
    },
}
_SCHEMAS: Mapping[str, JSON] = {
    "Result": _RESULT,
    "Results": {
        "type": "object",
        "required": ["results"],
        "properties": {"results": {"type": "array", "items": {"$ref": "#/components/schemas/Result"}}},
    },
    "Error": _ERROR,
    "Rewards": {
        "type": "object",
        "required": ["rewards", "scores", "extra_logs"],
        "properties": {
            "rewards": _NUMBERS,
            "scores": _NUMBERS,
            "extra_logs": {"type": "object", "additionalProperties": _NUMBERS},
        },
    },
    "Reward": _NUMBER,
    "Compared": {
        "type": "object",
        "required": ["rewards", "comparison_results", "metrics"],
        "properties": {
            "rewards": _NUMBERS,
            "comparison_results": {"type": "array", "items": {"type": "object"}},
            "metrics": {"type": "object", "additionalProperties": _NUMBER},
        },
    },
    "Verified": {"type": "object", "required": ["reward"], "properties": {"reward": _NUMBER}},
}
_ANSWERS: Mapping[str, JSON] = {
    "/v1/score": {"anyOf": [{"$ref": "#/components/schemas/Result"}, {"$ref": "#/components/schemas/Results"}]},
    "/get_reward": {"$ref": "#/components/schemas/Rewards"},
    "/slime": {"$ref": "#/components/schemas/Reward"},
    "/verify": {"$ref": "#/components/schemas/Verified"},
    "/compare": {"$ref": "#/components/schemas/Compared"},
}
_ANY_OBJECT: JSON = {"type": "object"}


def document(mounts: Mapping[str, JudgeMount], adapters: Sequence[Adapter[Any]], *, secured: bool) -> JSON:
    """The OpenAPI 3.1 document.

    Args:
        mounts: the judges by name.
        adapters: the protocols.
        secured: whether a bearer token is needed.
    """
    schemas: dict[str, JSON] = dict(_SCHEMAS)
    bodies = {adapter.path: _schema(adapter.body, schemas) for adapter in adapters}
    aggregate_body = _schema(AggregateBody, schemas)
    paths: dict[str, JSON] = {
        "/healthz": {"get": _operation("The process is up", _ANY_OBJECT, open_to_all=True)},
        "/readyz": {"get": _operation("New requests are taken", _ANY_OBJECT, codes=("503",), open_to_all=True)},
        "/metrics": {"get": _operation("Prometheus' text format", {"type": "string"}, media="text/plain")},
        "/v1/recent": {"get": _operation("The last hundred judgments", _ANY_OBJECT)},
    }
    for name, mount in mounts.items():
        prefix, who = (f"/{name}" if name else ""), f"{mount.judge} judge ({mount.judge_model_name})"
        for adapter in adapters:
            summary = f"{adapter.name}: scores of the {who}"
            paths[prefix + adapter.path] = {
                "post": _operation(summary, _ANSWERS[adapter.path], body=bodies[adapter.path])
            }
        paths[f"{prefix}/seed_session"] = {
            "post": _operation("nemo_gym: nothing to seed", _ANY_OBJECT, body=_ANY_OBJECT)
        }
        aggregate = _operation("nemo_gym: means over verified rollouts", _ANY_OBJECT, body=aggregate_body)
        paths[f"{prefix}/aggregate_metrics"] = {"post": aggregate}
        mode: JSON = {"type": "string", "enum": ["stateless", "unsupported"]}
        paths[f"{prefix}/reverify_mode"] = {"get": _operation("nemo_gym: how rows are verified again", mode)}
    components: dict[str, JSON] = {"schemas": schemas}
    described: dict[str, JSON] = {
        "openapi": "3.1.0",
        "info": {"title": "JudgeGym reward server", "version": "1"},
        "paths": paths,
        "components": components,
    }
    if secured:
        components["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer"},
            "url": {"type": "http", "scheme": "basic", "description": "the token as user or as password"},
        }
        described["security"] = [{"token": []}, {"url": []}]
    return described


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
    error: JSON = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    operation: dict[str, JSON] = {
        "summary": summary,
        "responses": {
            "200": {"description": "OK", "content": {media: {"schema": answer}}},
            **{code: {"description": "An error", "content": error} for code in sorted(errors)},
        },
    }
    if body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    if open_to_all:
        operation["security"] = []
    return operation


def _schema(model: type[BaseModel], schemas: dict[str, JSON]) -> JSON:
    """A reference to the model's schema; adds the schema, and those that it refers to, to `schemas`."""
    schema = cast("dict[str, JSON]", model.model_json_schema(ref_template=_REF))
    schemas.update(cast("dict[str, JSON]", schema.pop("$defs", {})))
    schemas[model.__name__] = schema
    return {"$ref": _REF.replace("{model}", model.__name__)}
