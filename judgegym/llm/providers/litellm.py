"""All other providers (Azure, Bedrock, Vertex, Gemini, …) through litellm, in this process.

litellm translates and sends; its own retries, caches, callbacks and telemetry are off, since the
transport has ours. Its responses are read like any other. litellm reports `stop` for unknown and
missing finish reasons, and for some that mean that a response broke off. These are passed on
unchanged, or as `finish_reason_unspecified`, which never means a whole response.
"""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import wraps
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from judgegym.llm import wire
from judgegym.llm.errors import SettingsError
from judgegym.llm.providers.api import Api, ApiName
from judgegym.llm.responses.finish_reasons import DEFAULT_RULES
from judgegym.llm.responses.outcome import RawResponse
from judgegym.llm.wire import JSON

if TYPE_CHECKING:
    from judgegym.llm.types import Endpoint

SCHEME = "litellm://"
"""The beginning of an endpoint URL that litellm finds by itself; the provider's name follows."""

_RESERVED_ARGUMENTS = frozenset(
    {
        *(
            "num_retries",
            "max_retries",
            "fallbacks",
            "context_window_fallback_dict",
            "caching",
            "cache",
            "timeout",
        ),
        *(
            "request_timeout",
            "stream",
            "mock_response",
            "api_key",
            "api_base",
            "base_url",
            "extra_headers",
            "headers",
        ),
        *("drop_params", "logger_fn", "success_callback", "failure_callback"),
    }
)
"""litellm's arguments that JudgeGym sets, or whose work it does itself."""
_TABLE = "_FINISH_REASON_MAP"
_UNSPECIFIED = "finish_reason_unspecified"
_UNREACHABLE_ERRORS = frozenset(
    {"ConnectError", "ClientConnectorError", "ConnectionRefusedError", "gaierror"}
)


class _FinishReasons(dict[str, str]):
    """litellm's table of finish reasons, in which only known words mean a whole response."""

    def get(self, key: str, default: Any = None) -> Any:
        """Return the finish reason for a provider's word."""
        word = super().get(key)
        is_trusted = word != "stop" or DEFAULT_RULES.state(key) == "whole"
        if word is not None and is_trusted:
            return word
        return _UNSPECIFIED


def _mark_missing_reasons(core: ModuleType, choice: type) -> None:
    """Make litellm report a missing finish reason, which it would take for a whole choice."""
    convert, make = core.convert_to_model_response_object, choice.__init__  # type: ignore[misc]

    @wraps(convert)
    def converted(response_object: Any = None, *args: Any, **fields: Any) -> Any:
        choices = None
        if isinstance(response_object, dict):
            choices = response_object.get("choices")
        for entry in choices if isinstance(choices, list) else ():
            if isinstance(entry, dict) and entry.get("finish_reason") is None:
                entry["finish_reason"] = ""
        return convert(response_object, *args, **fields)

    @wraps(make)
    def init_choice(
        self: object, finish_reason: str | None = None, *args: Any, **fields: Any
    ) -> None:
        is_filled = fields.get("message") is not None  # otherwise the provider's is assigned later
        if finish_reason is None and is_filled:
            finish_reason = ""
        make(self, finish_reason, *args, **fields)

    choice.__init__ = init_choice  # type: ignore[misc]
    name = "convert_to_model_response_object"
    for module in [*sys.modules.values()]:  # they import it by name
        if getattr(module, "__dict__", {}).get(name) is convert:
            setattr(module, name, converted)


class LiteLLMApi(Api):
    """Whatever litellm reaches by a model's name.

    Such as `azure/gpt-6-luna` or `bedrock/anthropic.claude-…`.
    """

    name: ApiName = "litellm"
    path = ""
    is_in_process = True

    def __init__(self) -> None:
        """Import litellm, which takes seconds, and turn off what the transport does itself."""
        os.environ.setdefault(
            "LITELLM_LOCAL_MODEL_COST_MAP", "True"
        )  # or its import asks the network for prices
        import litellm
        from litellm.litellm_core_utils import core_helpers
        from litellm.litellm_core_utils.llm_response_utils import convert_dict_to_response

        litellm.telemetry = False
        litellm.cache = None
        litellm.num_retries = 0
        litellm.drop_params = False
        litellm.suppress_debug_info = True
        for name in ("callbacks", "input_callback", "success_callback", "failure_callback"):
            setattr(litellm, name, [])
        setattr(core_helpers, _TABLE, _FinishReasons(getattr(core_helpers, _TABLE)))
        _mark_missing_reasons(convert_dict_to_response, litellm.Choices)
        self._complete = litellm.acompletion

    def request(self, body: Mapping[str, JSON], cached: Sequence[int] = ()) -> Mapping[str, JSON]:
        """See `Api`."""
        for name in body:
            if name in _RESERVED_ARGUMENTS:
                raise SettingsError(
                    f"{name!r} is set by JudgeGym's own settings where api=litellm; leave it out"
                )
        return body

    async def send(
        self, body: Mapping[str, JSON], endpoint: Endpoint, timeout_s: float
    ) -> RawResponse:
        """See `Api`."""
        has_base_url, headers = not endpoint.base_url.startswith(SCHEME), endpoint.headers
        arguments: dict[str, Any] = {
            **body,
            "num_retries": 0,
            "max_retries": 0,
            "caching": False,
            "timeout": timeout_s,
        }
        if has_base_url:
            arguments["api_base"] = endpoint.base_url
        if endpoint.api_key is not None:
            arguments["api_key"] = endpoint.api_key.get_secret_value()
        if headers:
            arguments["extra_headers"] = {
                name: value.get_secret_value() for name, value in headers.items()
            }
        try:
            response = await asyncio.wait_for(self._complete(**arguments), timeout_s)
        except asyncio.TimeoutError:
            raise
        except Exception as error:  # noqa: BLE001  # of litellm, openai or providers' clients
            return _error_response(error, has_base_url=has_base_url)
        return RawResponse(200, wire.dumps(_restore_reasons(response.model_dump(mode="json"))))


def _restore_reasons(body: dict[str, JSON]) -> JSON:
    """Restore the provider's own finish reasons and choice errors, where litellm kept them."""
    choices = body.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        native = wire.lookup(choice, "provider_specific_fields.native_finish_reason")
        if (
            isinstance(choice, dict)
            and isinstance(native, str)
            and choice.get("finish_reason") == _UNSPECIFIED
        ):
            choice["finish_reason"] = native
        if isinstance(choice, dict) and (
            error := wire.lookup(choice, "provider_specific_fields.error")
        ):
            choice["error"] = error
    return body


def _error_response(error: Exception, *, has_base_url: bool) -> RawResponse:
    """Return the HTTP response that an exception stands for.

    Raises:
        OSError: there was no response; a `ConnectionRefusedError` if nothing listens at the base
            URL of the settings.
    """
    causes = list(_causes(error))
    status, message = getattr(error, "status_code", None), str(getattr(error, "message", error))
    if has_base_url and any(type(cause).__name__ in _UNREACHABLE_ERRORS for cause in causes):
        raise ConnectionRefusedError(errno.ECONNREFUSED, message) from None
    if status == 422 and not any(
        type(exception).__name__ == "HTTPStatusError" for exception in causes
    ):
        status = 502  # so litellm calls an error in a body with HTTP 200
    if not isinstance(status, int) or not 400 <= status < 600:
        raise OSError(message) from None
    headers = [getattr(getattr(source, "response", None), "headers", None) for source in causes]
    headers.append(getattr(error, "litellm_response_headers", None))
    waits = (
        cast("Mapping[str, str]", mapping).get("retry-after") for mapping in headers if mapping
    )
    return RawResponse(
        status, wire.dumps({"error": {"message": message}}), next(filter(None, waits), None)
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
