"""The settings of a chat client, its replicas, and the response to a call.

If a model has several replicas, requests go to the least busy one. A failing replica is paused,
longer each time.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

from pydantic import SecretStr

from judgegym.llm.providers import ApiName, load_api
from judgegym.llm.responses.finish_reasons import DEFAULT_RULES, FinishRules
from judgegym.llm.responses.outcome import Habits
from judgegym.llm.urls import (
    is_loopback,
    redact_credentials,
    redact_secret,
    secrets_in_fields,
    secrets_in_url,
    speaks_tls,
)
from judgegym.llm.usage import Prices, Usage
from judgegym.llm.wire import JSON, Choice

ImageUse = Literal["auto", "yes", "no"]
_PATHS = ("/chat/completions", "/messages")
_VERSION_AT_END = re.compile(r"/v\d+$")
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a model.

    Attributes:
        base_url: the URL before `/chat/completions`, such as `http://localhost:8000/v1`.
        model: the model's name at the endpoint.
        api_key: the bearer token, if it needs any.
        headers: further headers of each request.
        api: its API.
    """

    base_url: str
    model: str
    api_key: SecretStr | None = None
    headers: Mapping[str, SecretStr] = field(default_factory=dict)
    api: ApiName = "openai"

    @property
    def url(self) -> str:
        """The URL of completions, which the base URL may already be."""
        return self.api_url(load_api(self.api).path)

    def api_url(self, path: str) -> str:
        """Return the URL of a part of the API: `path` below the base URL, with its query."""
        parts = urlsplit(self.base_url)
        base = parts.path.rstrip("/")
        for end in _PATHS:
            base = base.removesuffix(end).rstrip("/")
        return urlunsplit(parts._replace(path=base + path))

    def server_url(self, path: str) -> str:
        """Return a URL outside the API: `path` below the base URL without its version.

        A base URL may be that already.
        """
        return _server_url(self.api_url(""), path)

    @property
    def redacted_url(self) -> str:
        """The base URL without credentials and query, for messages."""
        parts = urlsplit(self.base_url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


@lru_cache(maxsize=256)
def _server_url(base_url: str, path: str) -> str:
    parts = urlsplit(base_url)
    return urlunsplit(
        parts._replace(path=_VERSION_AT_END.sub("", parts.path.removesuffix(path)) + path)
    )


class Replica:
    """An endpoint with its load, its recent failures and its reachability.

    Attributes:
        endpoint: its endpoint.
        is_reachable: whether it accepts connections, as far as is known.
        unreachable_since: when it first refused a connection after its last response (monotonic
            clock).
        away_in_a_row: the number of probes since its last response.
        was_tried_with_tls: whether it was called with TLS, although its URL begins with `http://`.
        has_answered: whether it has answered any request, even with an error.
        url: the URL of completions.
        proxy: the proxy, if there is one.
        headers: the headers of each request.
        habits: what it usually does.
    """

    def __init__(self, endpoint: Endpoint, rules: FinishRules = DEFAULT_RULES) -> None:
        """Build the URL and the headers and look up the proxy once, not for every request.

        Args:
            endpoint: its endpoint.
            rules: the finish reasons of whole responses.
        """
        self.endpoint, self.url = endpoint, endpoint.url
        self.is_reachable, self.has_answered, self.was_tried_with_tls = True, False, False
        self.unreachable_since: float | None = None
        self.away_in_a_row = self.in_flight = self.failures_in_a_row = 0
        self.paused_until = self.failed_at = float("-inf")
        self.habits = Habits(endpoint.redacted_url, rules)
        self.proxy = environment_proxy(self.url)
        api, key = load_api(endpoint.api), endpoint.api_key
        user_headers = {name: value.get_secret_value() for name, value in endpoint.headers.items()}
        names = set(
            map(str.lower, user_headers)
        )  # a header of the user takes the place of one of the API's
        api_headers = {
            name: value for name, value in api.fixed_headers.items() if name.lower() not in names
        }
        secret = user_headers
        if key is not None:
            key_header = api.key_prefix + key.get_secret_value()
            secret = {api.key_header: key_header, **user_headers}
        self.headers = {**api_headers, **secret}
        values = [value.removeprefix("Bearer ") for value in secret.values()]
        values += secrets_in_url(self.url)
        if self.proxy:
            values += secrets_in_url(self.proxy)
        self._secrets = tuple(dict.fromkeys(values))

    def redact(self, text: str, body: Mapping[str, JSON] | None = None) -> str:
        """Return `text` without keys, passwords and other secrets, which errors may repeat.

        Args:
            text: a message.
            body: the request of the message, whose fields may hold secrets.
        """
        body_secrets = () if body is None else secrets_in_fields({**body, "messages": None})
        for secret in (*self._secrets, *body_secrets):
            text = redact_secret(text, secret)
        return redact_credentials(text)

    async def needs_tls(self) -> bool:
        """Return whether an endpoint that never answered speaks TLS behind an `http://` URL.

        It is found out once.
        """
        if self.habits.reasons or self.was_tried_with_tls or self.proxy is not None:
            return False
        self.was_tried_with_tls = True
        return self.url.startswith("http://") and await speaks_tls(self.url)

    def note_outcome(self, *, succeeded: bool = False) -> None:
        """Report that a request reached the endpoint, and whether it succeeded."""
        if succeeded:
            self.failures_in_a_row = 0
            self.paused_until = float("-inf")
        self.has_answered = True
        if self.is_reachable:  # otherwise it was begun before the endpoint went away
            self.unreachable_since = None
            self.away_in_a_row = 0

    def note_failure(self, retry_after: float | None, begun: float = float("inf")) -> None:
        """Report a failure that another replica might not have, and pause the replica.

        The pause is what the endpoint asked for, or doubles with each consecutive failure, up to
        half a minute.

        Args:
            retry_after: seconds that the endpoint asked to wait.
            begun: when the request began (monotonic clock). Requests in flight at the last failure
                have the same cause, which counts once: only their `Retry-After` makes the pause
                longer.
        """
        now = time.monotonic()
        if begun <= self.failed_at:
            self.paused_until = max(self.paused_until, now + (retry_after or 0.0))
            return
        pause = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**self.failures_in_a_row)
        self.failed_at = now
        self.failures_in_a_row = min(self.failures_in_a_row + 1, 10)
        self.paused_until = now + max(pause, retry_after or 0.0)


def environment_proxy(url: str) -> str | None:
    """Return the proxy for a URL by `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`."""
    parts = urlsplit(url)
    proxy = getproxies().get(parts.scheme)
    # Never proxy loopback: HTTP_PROXY is not meant for servers on this machine, and NO_PROXY is
    # often forgotten.
    if proxy is None or is_loopback(url) or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    return proxy


BatchKind = Literal["openai", "anthropic", "folder"]


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """How requests are sent in batches.

    Attributes:
        kind: OpenAI's files and batches, Anthropic's message batches, or a folder of OpenAI's batch
            lines.
        folder: the folder; `None` for the others.
        share: a request's price as a share of its live price.
        lines: the most requests in a batch.
        retries: the number of retries of a request without a usable response.
        is_live_after: whether such a request is sent live instead.
        poll_s: the seconds between two status requests of a batch.
        live_prices: the prices of live requests.
        live_concurrency: the concurrency limit of live requests.
    """

    kind: BatchKind
    folder: Path | None = None
    share: float = 0.5
    lines: int = 50_000
    retries: int = 3
    is_live_after: bool = False
    poll_s: float = 30.0
    live_prices: Prices = Prices()
    live_concurrency: int = 256


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """The settings of a chat client: a model, and how to call it.

    Attributes:
        endpoints: the replicas that serve it, one or more.
        temperature: sampling temperature; `None` leaves it out.
        max_tokens: longest completion in tokens; 0 leaves it out.
        extra_body: further fields of the request's body.
        timeout_s: seconds for one attempt.
        deadline_s: seconds for a call with its retries, from its first attempt, without the time in
            which the endpoint was unreachable.
        away_deadline_s: seconds to wait for an unreachable endpoint.
        start_deadline_s: seconds to wait for an endpoint that has never answered; a call then
            raises `EndpointOutage`. `None` treats it as unreachable.
        rejected_deadline_s: seconds to probe an endpoint that rejects the account
            (`reachability.py`); a call then raises `EndpointOutage`. With `None` each rejected
            request is a failed call.
        max_retries: requests after the first; waiting for a busy or unreachable endpoint is no
            retry.
        retry_delay_s: upper bound of the first pause before a retry.
        max_concurrency: concurrency limit.
        requests_per_minute: rate limit; `None` for none.
        tokens_per_minute: rate limit; `None` for none.
        finish_rules: the finish reasons of whole responses.
        prices: US dollars for a million tokens.
        identity: the endpoint's name in the cache's key; its first base URL by default.
        title: the name of the endpoint in messages, such as "the judge".
        section: prefix of its settings on the command line, for messages.
        url_setting: the setting that names the endpoints on the command line, for messages.
        price_settings: how its prices are set on the command line, for messages.
        thinking_markers: further pairs of markers around thinking in its texts.
        limit_setting: the command-line setting of `max_tokens`, for messages; empty if each call
            has its own.
        images: whether a judge is sent images: `auto`, `yes` or `no`; with `auto` until it refuses
            them.
        image_max_side: pixels of the longer side to which local images are scaled down; 0 scales
            none.
        batch: how its requests are sent in batches; `None` if each is sent live. `prices` are those
            of a batch.
    """

    endpoints: tuple[Endpoint, ...]
    temperature: float | None = None
    max_tokens: int = 0
    extra_body: Mapping[str, JSON] = field(default_factory=dict)
    timeout_s: float = 600.0
    deadline_s: float = 1800.0
    away_deadline_s: float = 600.0
    start_deadline_s: float | None = None
    rejected_deadline_s: float | None = None
    max_retries: int = 100
    retry_delay_s: float = 1.0
    max_concurrency: int = 256
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    finish_rules: FinishRules = DEFAULT_RULES
    prices: Prices = field(default_factory=Prices)
    identity: str = ""
    title: str = "the model"
    section: str = ""
    url_setting: str = "base_url"
    price_settings: str = "price_input and price_output"
    thinking_markers: tuple[tuple[str, str], ...] = ()
    limit_setting: str = ""
    images: ImageUse = "auto"
    image_max_side: int = 0
    batch: BatchOptions | None = None

    def __post_init__(self) -> None:
        """Check that there is an endpoint."""
        if not self.endpoints:
            raise ValueError("a chat client needs an endpoint")

    @property
    def display_name(self) -> str:
        """The model and its endpoints, for messages."""
        names = ", ".join(dict.fromkeys(endpoint.redacted_url for endpoint in self.endpoints))
        return f"{self.title} at {names}"

    @property
    def model_setting(self) -> str:
        """The command-line setting that names the model, for messages."""
        return self.url_setting.replace("base_url", "model_name")

    @property
    def prefix(self) -> str:
        """The prefix of the names of its settings, for messages."""
        return self.url_setting.removeprefix("--").removesuffix("base_url")

    @property
    def limits(self) -> tuple[int | None, ...]:
        """The concurrency limit, and the rate limits of requests and tokens a minute."""
        return self.max_concurrency, self.requests_per_minute, self.tokens_per_minute


@dataclass(frozen=True, slots=True)
class ChatResponse:
    """The response to one call.

    Attributes:
        choices: the requested number of choices.
        usage: tokens and cost; all zero for a response that was paid for before (`cached`).
        latency_s: seconds from the first attempt to the response, pauses included; the time in
            which the endpoint was unreachable is not.
        attempts: the number of requests sent.
        cached: the response came from the cache, or from an identical call in flight.
        prompt_token_ids: the prompt's tokens, if requested and returned.
        prompt_tokens: the prompt's tokens, as the endpoint counted them; 0 if it did not.
        served: the model that answered, with its fingerprint in brackets, if the response has them.
        refused: request fields that the endpoint refused and that were changed or left out.
    """

    choices: tuple[Choice, ...]
    usage: Usage = Usage()
    latency_s: float = 0.0
    attempts: int = 0
    cached: bool = False
    prompt_token_ids: tuple[int, ...] | None = None
    prompt_tokens: int = 0
    served: str | None = None
    refused: tuple[str, ...] = ()

    @property
    def first(self) -> Choice:
        """The first choice; the only one unless `n` was greater than 1."""
        return self.choices[0]
