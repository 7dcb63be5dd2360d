"""A client of the endpoint for probes of its behaviour."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass

from judgegym.llm import wire
from judgegym.llm.wire import JSON

_PATIENCE_S = 300.0
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True, slots=True)
class EndpointResponse:
    """A response of the endpoint.

    Attributes:
        status: the HTTP status.
        body: its JSON.
        seconds: how long it took.
    """

    status: int
    body: JSON
    seconds: float

    def at(self, path: str) -> JSON:
        """Return the value at a dotted path of the body; `None` if there is none."""
        return wire.lookup(self.body, path)

    def text(self, path: str) -> str:
        """Return the text at a path; empty if there is none."""
        value = self.at(path)
        if isinstance(value, str):
            return value
        return ""

    def number(self, path: str) -> float:
        """Return the number at a path; not a number if there is none."""
        value = self.at(path)
        if isinstance(value, int | float):
            return value
        return float("nan")

    def items(self, path: str) -> list[JSON]:
        """Return the list at a path; empty if there is none."""
        value = self.at(path)
        if isinstance(value, list):
            return value
        return []

    @property
    def content(self) -> str:
        """The text of the first choice."""
        return self.text("choices.0.message.content")

    @property
    def finish_reason(self) -> str:
        """The finish reason of the first choice."""
        return self.text("choices.0.finish_reason")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A llama.cpp server: its address without a path, and the model's name there."""

    url: str
    model: str

    def status(self, path: str) -> int | None:
        """Return the HTTP status of a path; `None` if the server is unreachable."""
        try:
            return self.get(path).status
        except OSError:
            return None

    def get(self, path: str) -> EndpointResponse:
        """Get a path.

        Raises:
            OSError: the server is unreachable.
        """
        return _send(urllib.request.Request(self.url + path))

    def post(self, path: str, body: Mapping[str, JSON]) -> EndpointResponse:
        """Post a body to a path.

        Raises:
            OSError: the server is unreachable.
        """
        return _send(
            urllib.request.Request(
                self.url + path, data=wire.dumps(body), headers={"Content-Type": "application/json"}
            )
        )

    def chat(self, question: str, **fields: JSON) -> EndpointResponse:
        """Send a question as a chat request, with further fields."""
        messages: JSON = [{"role": "user", "content": question}]
        return self.post(
            "/v1/chat/completions", {"model": self.model, "messages": messages, **fields}
        )


def _send(request: urllib.request.Request) -> EndpointResponse:
    began = time.monotonic()
    try:
        with _OPENER.open(request, timeout=_PATIENCE_S) as response:
            status, data = response.status, response.read()
    except urllib.error.HTTPError as error:
        status, data = error.code, error.read()
    try:
        body = wire.loads(data)
    except ValueError:
        body = {"text": json.dumps(data.decode("utf-8", "replace"))}
    return EndpointResponse(status, body, time.monotonic() - began)
