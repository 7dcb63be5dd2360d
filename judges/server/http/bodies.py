"""Request bodies: read within limits of time and size, parsed as JSON, validated by a model; else a `RequestError`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TypeVar

from aiohttp import web
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from judges.llm import wire
from judges.llm.wire import JSON
from judges.server.errors import RequestError
from judges.server.settings import RewardServerSettings

BodyT = TypeVar("BodyT", bound=BaseModel)

_SHOWN_ERRORS = 5


async def read_object(request: web.Request, settings: RewardServerSettings) -> Mapping[str, JSON]:
    """The body as a JSON object.

    Raises:
        RequestError: it is late, too large, incomplete, or no JSON object.
    """
    try:
        data = await asyncio.wait_for(request.read(), settings.body_timeout)
    except asyncio.TimeoutError:
        reason = f"the body did not come within {settings.body_timeout:g} seconds"
        raise RequestError(408, "timeout", reason, is_unread=True) from None
    except web.HTTPRequestEntityTooLarge:
        reason = f"the body is larger than {settings.max_body_mb:g} MB (--max_body_mb)"
        raise RequestError(413, "too_large", reason, is_unread=True) from None
    except web.RequestPayloadError as error:
        reason = "the body could not be read: it ends early, or is not compressed as its Content-Encoding says"
        raise RequestError(400, "malformed", reason, is_unread=True) from error
    try:
        value = wire.loads(data)  # accepts lone surrogates: trainers cut texts at tokens
    except ValueError as error:
        raise RequestError(400, "malformed", f"the body is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise RequestError(422, "invalid", f"expected a JSON object, found {type(value).__name__}")
    return value


def validated(model: type[BodyT], raw: Mapping[str, JSON]) -> BodyT:
    """The object as an instance of `model`.

    Raises:
        RequestError: it is not valid; the message names the fields.
    """
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        reasons = [_explained(wrong, model) for wrong in error.errors()[:_SHOWN_ERRORS]]
        raise RequestError(422, "invalid", "; ".join(reasons)) from error


def _explained(wrong: ErrorDetails, model: type[BaseModel]) -> str:
    """One validation error: field and reason; for an unknown field, the known ones."""
    place = ".".join(map(str, wrong["loc"])) or "body"
    if wrong["type"] == "extra_forbidden" and len(wrong["loc"]) == 1:
        return f"{place}: unknown field; expected {', '.join(model.model_fields)}"
    return f"{place}: {wrong['msg']}"
