"""The endpoint of a model: URL, key, sampling, limits, prices, and the settings of its client.

Guarantees: a key from an environment variable is sent only to the host that it belongs to, unless
    the user names the variable; keys, headers and API given for one host are used for no other,
    prices, limits and extra request fields for no other model; unset settings stay unset; no
    message shows a key.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, SecretStr

from judgegym.judges.config.extras import require
from judgegym.judges.config.field_types import (
    BaseUrls,
    ExtraBody,
    ExtraHeaders,
    FinishReasons,
    ModelName,
)
from judgegym.llm.cost.models import DEFAULT_POLICY
from judgegym.llm.cost.prices import find_prices
from judgegym.llm.errors import SettingsError
from judgegym.llm.providers import ApiName, load_api
from judgegym.llm.responses.finish_reasons import FinishRules
from judgegym.llm.types import ChatSettings, Endpoint, ImageUse
from judgegym.llm.urls import have_same_host, is_public, split_urls, strip_quotes
from judgegym.llm.usage import Prices

logger = logging.getLogger(__name__)

ASKS_ENDPOINTS: ContextVar[bool] = ContextVar("asks_endpoints", default=True)
"""Whether endpoints are called; a plan calls none, and needs no key."""
MAX_RETRIES = 100
"""Default maximum of retries; normally the deadline ends a call first."""
ANTHROPIC = "https://api.anthropic.com/v1"
OPENAI = "https://api.openai.com/v1"
NO_ENDPOINT = "http://127.0.0.1:9/v1"
"""The URL of a client that is never called."""
STAND_IN_IDENTITY = "--offline"
"""The stand-in's identity in the judgment cache's keys: its port changes, but its responses do
not."""
_KEY_HEADERS = frozenset(
    {"authorization", "api-key", "x-api-key", "x-goog-api-key", "ocp-apim-subscription-key"}
)
"""Headers that hold an API key at some provider; with one of them no other key is needed."""


class Settings(BaseModel):
    """Base of settings that others hold: an unknown one is an error."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)


class ReplicaSettings(Settings):
    """One of several servers of the same model."""

    base_url: BaseUrls
    model_name: ModelName | None = None
    api_key: SecretStr | None = None
    extra_headers: ExtraHeaders = {}


class FlatSettings(Protocol):
    """A host's settings, which hold those of an endpoint under flat names."""

    @property
    def model_fields_set(self) -> set[str]:
        """The names of the settings that the user gave."""


@dataclass(frozen=True, slots=True)
class SettingNames:
    """The names of an endpoint and its settings in messages.

    Attributes:
        title: the endpoint's role, such as `the judge`.
        prefix: the prefix of its settings, such as `--env.judge_`.
        section: the prefix of the other settings of its calls, such as `env.`.
        base_url: the setting of its URLs, unless it follows from the prefix; so also the next ones.
        prices: the settings of its prices.
        max_tokens: the setting that limits a response.
        finish_reasons: the setting that accepts finish reasons.
    """

    title: str
    prefix: str
    section: str
    base_url: str = ""
    prices: str = ""
    max_tokens: str = ""
    finish_reasons: str = ""


class EndpointSettings(Settings):
    """The endpoint of a model: judge, jury member, part, gold judge, policy, user, candidate.

    Hosts declare its settings under flat names such as `judge_base_url`, which also check ranges,
    and derive this object from them.
    """

    HOST_SETTINGS: ClassVar[frozenset[str]] = frozenset(
        {"model", "api", "api_key", "api_key_env", "extra_headers", "replicas"}
    )
    """The settings that hold for one host only."""
    MODEL_SETTINGS: ClassVar[frozenset[str]] = frozenset(
        {"extra_body", "price_input", "price_output", "price_cached_input", "finish_reasons"}
        | {"requests_per_minute", "tokens_per_minute", "max_concurrency"}
    )
    """The settings that hold for one model only."""

    model: ModelName = DEFAULT_POLICY
    """Call this model."""
    base_url: BaseUrls = OPENAI
    """Call it at this URL; separate several replicas with commas."""
    replicas: list[ReplicaSettings] = []
    """Spread calls over these servers instead."""
    api: ApiName = "openai"
    """Call it with this API."""
    api_key: SecretStr | None = None
    """Send this API key. Prefer api_key_env."""
    api_key_env: str = "OPENAI_API_KEY"
    """Read the API key from this environment variable."""
    key_host: str = OPENAI
    """The URL whose key the variable holds, unless the user named the variable."""
    temperature: float | None = None
    """Sample at this temperature; if unset, each call has its own or none."""
    max_tokens: int = 0
    """Limit a response to this many tokens; 0 sends no limit."""
    max_retries: int = MAX_RETRIES
    """Retry a failed call at most this many times."""
    timeout: float = 600.0
    """Stop one attempt of a call after this many seconds."""
    deadline: float = 1800.0
    """Stop retrying this many seconds after the first attempt; if it is set, it also limits the
    next two."""
    away_deadline: float = 600.0
    """Wait at most this many seconds for an endpoint that has responded before and now refuses
    connections."""
    start_deadline: float = 60.0
    """Wait at most this many seconds for an endpoint that has never responded."""
    rejected_deadline: float = 120.0
    """Probe an endpoint that rejects the account for this many seconds."""
    max_concurrency: int = 256
    """Send at most this many requests at once."""
    requests_per_minute: int | None = None
    """Send at most this many requests a minute; no limit if unset."""
    tokens_per_minute: int | None = None
    """Use at most this many tokens a minute, prompts included; no limit if unset."""
    extra_body: ExtraBody = {}
    """Add these fields to each request."""
    extra_headers: ExtraHeaders = {}
    """Send these headers with each request."""
    finish_reasons: FinishReasons = []
    """Accept these further finish reasons as a whole response."""
    price_input: float | None = None
    """US dollars for a million prompt tokens; if no price is set, the table of list prices is
    used."""
    price_output: float | None = None
    """US dollars for a million completion tokens."""
    price_cached_input: float | None = None
    """US dollars for a million prompt tokens from the endpoint's prefix cache."""
    images: ImageUse = "auto"
    """Whether images are sent to it; auto: until it refuses them."""
    image_max_side: int = 0
    """Scale images down to this many pixels of the longer side; 0 sends them as they are."""

    def add(self, host: FlatSettings, names: Mapping[str, str], **values: Any) -> EndpointSettings:
        """Return a copy with a host's settings; those that the user has not set are unset.

        Args:
            host: has them under flat names.
            names: the flat names by the endpoint's names.
            values: further settings, by the endpoint's names.
        """
        fields = {name: getattr(host, flat) for name, flat in names.items()}
        set_names = {name for name, flat in names.items() if flat in host.model_fields_set}
        unchanged = self.model_fields_set - names.keys()
        return self.model_construct(
            {*unchanged, *set_names, *values}, **{**dict(self), **fields, **values}
        )

    def inherit(self, whole: EndpointSettings) -> EndpointSettings:
        """Inherit unset settings of the whole that hold for this host and model."""
        inherited = whole.model_fields_set - self.model_fields_set
        if "base_url" in self.model_fields_set:
            inherited -= self.HOST_SETTINGS
        if not self.model_fields_set.isdisjoint(("base_url", "model")):
            inherited -= self.MODEL_SETTINGS
        return self.model_copy(update={name: getattr(whole, name) for name in inherited})

    @property
    def effective_api(self) -> ApiName:
        """The API in use.

        That is Anthropic's own for its host if nothing else is set and its key is there.
        """
        is_chosen = {
            "base_url",
            "api",
            "api_key",
            "api_key_env",
            "extra_body",
        } & self.model_fields_set
        is_default = self.key_host == ANTHROPIC and not is_chosen and (self.temperature or 0) <= 1
        if is_default and os.environ.get(self.api_key_env):
            return "anthropic"
        return self.api

    @property
    def prices(self) -> Prices:
        """The prices of its tokens.

        Replicas with several models have no common price unless one is set.
        """
        models = {replica.model_name or self.model for replica in self.replicas} or {self.model}
        urls = [replica.base_url for replica in self.replicas] or split_urls(self.base_url)
        configured = Prices(self.price_input, self.price_output, self.price_cached_input)
        return find_prices(
            self.effective_api,
            configured,
            urls,
            models.pop() if len(models) == 1 else "",
            self.extra_body,
        )

    def chat_settings(
        self,
        names: SettingNames,
        *,
        retry_delay: float = 1.0,
        identity: str = "",
        thinking_markers: tuple[tuple[str, str], ...] = (),
        takes_tool_calls: bool = False,
        unasked: str | None = None,
    ) -> ChatSettings:
        """Return the settings of the model's chat client.

        Args:
            names: the names of its settings, for messages.
            retry_delay: upper bound of the pause before the first retry, in seconds.
            identity: identifies the endpoint in the cache's key, in place of its URL; with the
                stand-in's identity, the API is OpenAI's.
            thinking_markers: the markers of thinking in its texts, beside the known ones.
            takes_tool_calls: whether a text beside tool calls is a whole response.
            unasked: the name of a judge without a model, which needs no key and costs nothing.

        Raises:
            SettingsError: see `servers`.
        """
        prefix = names.prefix
        limit = self.deadline if "deadline" in self.model_fields_set else math.inf
        start = self.start_deadline
        if (
            "start_deadline" not in self.model_fields_set
            and "away_deadline" in self.model_fields_set
        ):
            start = min(start, self.away_deadline)
        api: ApiName = "openai" if identity == STAND_IN_IDENTITY else self.effective_api
        if api != self.api and unasked is None and identity != STAND_IN_IDENTITY:
            flag = prefix.removeprefix(f"--{names.section}")
            logger.info("%s is called with Anthropic's own API (%sapi=anthropic)", self.model, flag)
        finish_setting = names.finish_reasons or f"{prefix.removeprefix('--')}finish_reasons"
        if unasked is None:
            endpoints = self.servers(prefix, api)
        else:
            endpoints = (Endpoint(NO_ENDPOINT, unasked),)
        return ChatSettings(
            endpoints=endpoints,
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            extra_body=self.extra_body,
            timeout_s=self.timeout,
            deadline_s=self.deadline,
            away_deadline_s=min(self.away_deadline, limit),
            start_deadline_s=min(start, limit),
            rejected_deadline_s=self.rejected_deadline,
            max_retries=self.max_retries,
            retry_delay_s=retry_delay,
            max_concurrency=self.max_concurrency,
            requests_per_minute=self.requests_per_minute,
            tokens_per_minute=self.tokens_per_minute,
            finish_rules=FinishRules(
                frozenset(self.finish_reasons), finish_setting, takes_tool_calls
            ),
            prices=self.prices if unasked is None else Prices(0.0, 0.0),
            identity=identity,
            title=names.title,
            thinking_markers=thinking_markers,
            images=self.images,
            image_max_side=self.image_max_side,
            section=names.section,
            url_setting=names.base_url or f"{prefix}base_url",
            price_settings=names.prices or f"{prefix}price_input and {prefix}price_output",
            limit_setting=names.max_tokens or f"{prefix}max_tokens",
        )

    def servers(self, prefix: str, api: ApiName | None = None) -> tuple[Endpoint, ...]:
        """Return the model's servers, with their keys and headers.

        They have no key if none is set and no host is public.

        Args:
            prefix: the prefix of these settings in messages.
            api: the API; by default that of the settings.

        Raises:
            SettingsError: a package that the API needs is not installed; a host is public and there
                is no key; a key cannot be sent in a header; or a URL or a header has another key.
        """
        api, urls = api or self.effective_api, self.base_url
        if api == "litellm":  # litellm finds the provider by the model's name, and has its own keys
            require("litellm")
            if "base_url" not in self.model_fields_set:
                provider = self.model.partition("/")[0]
                urls = f"litellm://{provider}"
        is_named = bool(self.replicas) or "base_url" in self.model_fields_set
        if api == "decisions" and not is_named and ASKS_ENDPOINTS.get():
            raise SettingsError(
                f"{prefix}api=decisions needs {prefix}base_url, the whole URL of decisions, such as "
                "https://HOST/v1/decisions"
            )
        replicas = self.replicas or [ReplicaSettings.model_construct(base_url=urls)]
        servers: list[Endpoint] = []
        for replica in replicas:
            for url in split_urls(replica.base_url):
                servers.append(self._make_server(replica, url, api, prefix))
        keyless = [server for server in servers if server.api_key is None]
        keyless = [server for server in keyless if not _has_key(server.headers)]
        public = [server.base_url for server in keyless if is_public(server.base_url)]
        if public and api != "litellm" and ASKS_ENDPOINTS.get():
            problem = self._describe_missing_key(public)
            raise SettingsError(
                f"{prefix}api_key_env: {problem} if it needs none, set {prefix}api_key=none"
            )
        return tuple(servers)

    def _describe_missing_key(self, urls: list[str]) -> str:
        """Describe the missing key of public hosts."""
        variable = self.api_key_env
        hosts = ", ".join(sorted({urlsplit(url).hostname or "" for url in urls}))
        if all(map(self._has_variable, urls)):
            state = "is empty" if variable in os.environ else "is not set"
            return f"{hosts} needs an API key, and the environment variable {variable} {state};"
        key_host = urlsplit(self.key_host).hostname
        return (
            f"{hosts} needs an API key; {variable} is only sent to {key_host}; "
            "name the environment variable with the key, or,"
        )

    def _has_variable(self, url: str) -> bool:
        """Return whether the environment variable holds the key of a URL's host."""
        return "api_key_env" in self.model_fields_set or have_same_host(url, self.key_host)

    def _make_server(
        self, replica: ReplicaSettings, url: str, api: ApiName, prefix: str
    ) -> Endpoint:
        headers: Mapping[str, SecretStr] = {**self.extra_headers, **replica.extra_headers}
        server = Endpoint(url, replica.model_name or self.model, None, headers, api)
        secret = replica.api_key or self.api_key
        name = f"{prefix}api_key"
        description = "the key"
        key = strip_quotes(secret.get_secret_value()) if secret is not None else ""
        if not key and self._has_variable(url) and not _has_key(headers):
            key = strip_quotes(os.environ.get(self.api_key_env, ""))
            name = f"{prefix}api_key_env"
            description = f"the key in the environment variable {self.api_key_env}"
        if not key:
            return server
        if "@" in urlsplit(url).netloc:
            raise SettingsError(
                f"{name}: the base URL has a user and a password, and {description} would also be "
                "sent; expected only one of them"
            )
        if (header := load_api(api).key_header).lower() in map(str.lower, headers):
            header_name = header.title()
            raise SettingsError(
                f"{name}: the extra headers also have {header_name}; expected only one of them"
            )
        return replace(server, api_key=SecretStr(_check_sendable(key, f"{name}: {description}")))


CALL_NAMES: Mapping[str, str] = {
    "away_deadline": "endpoint_away_deadline",
    "start_deadline": "wait_for_endpoints",
    "rejected_deadline": "endpoint_rejected_deadline",
}
"""The flat settings shared by all endpoints of a host, by the endpoint's names."""


def flat_names(host: type[BaseModel], prefix: str = "") -> dict[str, str]:
    """Return the flat names of a host's endpoint settings, by the endpoint's names."""
    names = {
        **{name: f"{prefix}{name}" for name in EndpointSettings.model_fields},
        "model": f"{prefix}model_name",
    }
    return {name: flat for name, flat in names.items() if flat in host.model_fields}


def _has_key(headers: Mapping[str, SecretStr]) -> bool:
    """Return whether a header holds a key, which replaces that of a variable."""
    return not _KEY_HEADERS.isdisjoint(map(str.lower, headers))


def _check_sendable(key: str, subject: str) -> str:
    """Return the key.

    Raises:
        SettingsError: a character cannot be sent in a header; the message does not show the key.
    """
    wrong = next((character for character in key if not "!" <= character <= "~"), None)
    if wrong is not None:
        name = {"\n": "a line break", "\r": "a line break", " ": "a space"}.get(
            wrong, f"the character {wrong!r}"
        )
        position = key.index(wrong) + 1
        key_length = len(key)
        raise SettingsError(
            f"{subject} has {name} at position {position} of {key_length}, which no header can "
            "contain"
        )
    return key
