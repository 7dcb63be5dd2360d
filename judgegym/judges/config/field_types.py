"""The types of an endpoint's settings; they check values, and no message shows a secret."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, SecretStr

from judgegym.llm.responses.finish_reasons import parse_accepted
from judgegym.llm.urls import check_model_name, check_not_blank, check_urls

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_REQUEST_HEADERS = frozenset(
    {"content-type", "content-length", "transfer-encoding", "host", "connection"}
)


def _convert_numbers(headers: object) -> object:
    """Convert numbers in headers to text: an error would show a number as harmless."""
    if not isinstance(headers, dict):
        return headers
    return {
        name: str(value) if isinstance(value, int | float) else value
        for name, value in headers.items()
    }


def _check_headers(headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
    """Check that further headers can be sent.

    Raises:
        ValueError: a header cannot be sent, or may not be set; no value is shown.
    """
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a header name; expected NAME=VALUE or a JSON object")
        if name.lower() in _REQUEST_HEADERS:
            raise ValueError(f"{name} cannot be set: the request determines it")
        if not value.get_secret_value().isprintable() or not value.get_secret_value().isascii():
            raise ValueError(f"the value of {name} has a character that no header can contain")
    return headers


def _drop_blanks(body: dict[str, JsonValue]) -> dict[str, JsonValue]:
    check_not_blank(body)
    return body


BaseUrls: TypeAlias = Annotated[str, AfterValidator(check_urls)]
"""One or more base URLs with commas between."""
ModelName: TypeAlias = Annotated[str, AfterValidator(check_model_name)]
"""The name of a model, as an endpoint serves it."""
ExtraBody: TypeAlias = Annotated[dict[str, JsonValue], AfterValidator(_drop_blanks)]
"""Further fields of requests; none may be the blank that replaces a secret in a file."""
ModelPrice: TypeAlias = dict[
    Literal["input", "output", "cached_input"], Annotated[float, Field(ge=0)]
]
"""US dollars for a million tokens of a model, by their kind."""
ExtraHeaders: TypeAlias = Annotated[
    dict[str, SecretStr], BeforeValidator(_convert_numbers), AfterValidator(_check_headers)
]
"""Further headers of requests."""
FinishReasons: TypeAlias = Annotated[
    list[str], AfterValidator(lambda words: sorted(parse_accepted(words)))
]
"""Further finish reasons that mean a whole response, normalized."""


def price_fields(price: ModelPrice) -> dict[str, Any]:
    """Return prices by the names of an endpoint's settings."""
    return {f"price_{kind}": dollars for kind, dollars in price.items()}
