"""A judge's settings, with the same `judge_*` names in every environment, data set and server; servers with their key.

Guarantees: a key from an environment variable is sent only to the host that it belongs to, unless the user names the
variable; no message shows a key. What the user has not set stays unset, so that a mount or a judge of groups does not
inherit what a judge has chosen by itself.
"""

from __future__ import annotations

import logging
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    JsonValue,
    SecretStr,
    field_validator,
    model_validator,
)
from typing_extensions import Self, TypedDict

from judgegym.judges.config.explaining import TextOrFile, prompt_digest
from judgegym.judges.config.extras import require
from judgegym.judges.config.fields import operational, setting
from judgegym.judges.config.thinking import ThinkingSettings
from judgegym.judges.parsing.verdict_parser import VerdictForm
from judgegym.llm.cost.models import DEFAULT_JUDGE
from judgegym.llm.cost.prices import prices_of
from judgegym.llm.errors import SettingsError
from judgegym.llm.providers import ApiName, api_of
from judgegym.llm.responses.finish_reasons import FinishRules, accepted_reasons
from judgegym.llm.types import ChatSettings, Endpoint, ImageUse
from judgegym.llm.urls import (
    check_model_name,
    check_not_blank,
    check_urls,
    is_public,
    same_host,
    split_urls,
    unquoted,
)
from judgegym.llm.usage import Prices

logger = logging.getLogger(__name__)

MAX_RETRIES = 100
"""Default of the second limit of a call, which its deadline normally ends."""
VOTE_TEMPERATURE = 0.7
"""Default temperature where several votes make one verdict; at 0 all votes would be the same answer."""


JudgeOutput = Literal["text", "json_schema"]
_CONSTRAINTS = frozenset(
    {"response_format", "json_schema", "grammar", "structured_outputs", "regex", "ebnf"}
    | {"guided_json", "guided_regex", "guided_choice", "guided_grammar"}
)
"""Fields by which endpoints are told another form of an answer."""


_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OWN_HEADERS = frozenset({"content-type", "content-length", "transfer-encoding", "host", "connection"})
_KEY_HEADERS = frozenset({"authorization", "api-key", "x-api-key", "x-goog-api-key", "ocp-apim-subscription-key"})
"""Headers that hold an API key at some provider: with one of them no other key is needed."""


class EndpointWaits(TypedDict):
    """How long calls wait for an endpoint, in the names of `ChatSettings`."""

    away_deadline_s: float
    start_deadline_s: float
    rejected_deadline_s: float


NO_ENDPOINT = "http://127.0.0.1:9/v1"
"""The URL of a client that is never asked."""
STAND_IN_IDENTITY = "--offline"
"""The stand-in in the keys of the judgment cache: its port differs each time, but its answers do not."""


def _numbers_as_text(headers: object) -> object:
    """Headers as given, with numbers as text: an error would show a number as harmless."""
    if not isinstance(headers, dict):
        return headers
    return {name: str(value) if isinstance(value, int | float) else value for name, value in headers.items()}


def _checked_headers(headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
    """Further headers of requests, if they can be sent.

    Raises:
        ValueError: one cannot be, or is not the user's to set; no value is shown.
    """
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a header; expected NAME=VALUE or a JSON object")
        if name.lower() in _OWN_HEADERS:
            raise ValueError(f"{name} cannot be set: it follows from the request")
        if not value.get_secret_value().isprintable() or not value.get_secret_value().isascii():
            raise ValueError(f"the value of {name} holds a character that no header can hold")
    return headers


def _without_blanks(body: dict[str, JsonValue]) -> dict[str, JsonValue]:
    check_not_blank(body)
    return body


BaseUrls: TypeAlias = Annotated[str, AfterValidator(check_urls)]
"""One or more base URLs with commas between."""
ModelName: TypeAlias = Annotated[str, AfterValidator(check_model_name)]
"""The name of a model, as an endpoint serves it."""
ExtraBody: TypeAlias = Annotated[dict[str, JsonValue], AfterValidator(_without_blanks)]
"""Further fields of requests; none is the blank that stands for a secret in a file."""
ModelPrice: TypeAlias = dict[Literal["input", "output", "cached_input"], Annotated[float, Field(ge=0)]]
"""US dollars for a million tokens of a model, by their kind."""
ExtraHeaders: TypeAlias = Annotated[
    dict[str, SecretStr], BeforeValidator(_numbers_as_text), AfterValidator(_checked_headers)
]
"""Further headers of requests."""
FinishReasons: TypeAlias = Annotated[list[str], AfterValidator(lambda words: sorted(accepted_reasons(words)))]
"""Finish reasons that are whole beside the known ones, normalized."""


class JudgeSettings(ThinkingSettings, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True):
    """Settings that every judge has: endpoint, sampling, prompt and self-critique. An unknown setting is an error.

    Each judge's package subclasses it with that judge's own settings; environments and the reward server inherit those.
    """

    help_group: ClassVar[str] = "judge"
    how_to_gather: ClassVar[str] = ""
    """How single responses come to be judged together, for the message about a response that is alone."""

    judge_model_name: ModelName = setting(DEFAULT_JUDGE, common=True)
    """Ask for this model at the judge's endpoint."""
    judge_base_url: BaseUrls = operational("https://api.anthropic.com/v1", common=True)
    """Call the judge at this OpenAI-compatible URL; separate several replicas with commas."""
    judge_api: ApiName = operational("openai", common=True)
    """Ask the judge in this form. openai: OpenAI's chat completions, which most servers speak. anthropic: Anthropic's
    Messages API, with thinking apart and its prefix cache used. litellm: whatever litellm reaches by the model's name,
    such as azure/…, bedrock/…, vertex_ai/… or gemini/…, with judge_base_url only if it is set. If unset, anthropic for
    the default judge with its key in ANTHROPIC_API_KEY."""
    judge_api_key: SecretStr | None = operational(None, instead_of="judge_api_key_env")
    """Send this API key to the judge. Prefer judge_api_key_env, which keeps the key off the command line."""
    judge_api_key_env: str = operational("ANTHROPIC_API_KEY", common=True)
    """Read the judge's API key from this environment variable. Only a public host needs one."""
    judge_temperature: float = setting(0.2, common=True, ge=0)
    """Sample the judge at this temperature. If unset, several votes or samples of one judgment are drawn at 0.7."""
    judge_max_tokens: int = setting(4096, ge=0)
    """Limit the judge's answer to this many tokens; 0 sends no limit."""
    judge_max_retries: int = operational(MAX_RETRIES, ge=0)
    """Retry a failed judge call at most this many times; waiting for a judge that is busy or away is no retry."""
    judge_timeout: float = operational(300.0, gt=0)
    """Stop one attempt of a judge call after this many seconds."""
    judge_deadline: float = operational(900.0, gt=0)
    """Stop retrying a judge call this many seconds after its first attempt; the call then fails. Time in which the
    judge is away does not count; where this is set, it also bounds that wait."""
    endpoint_away_deadline: float = operational(600.0, ge=0, common=True, group="run")
    """Wait at most this many seconds for an endpoint, judge or policy, that has answered before and now refuses
    connections; its calls then fail."""
    wait_for_endpoints: float = operational(60.0, ge=0, group="run")
    """Wait at most this many seconds for an endpoint, judge or policy, that has never answered in this run and refuses
    connections, or whose host is unknown; the command then ends with exit code 2. Raise it where the endpoint starts
    beside the run."""
    endpoint_rejected_deadline: float = operational(120.0, ge=0, group="run")
    """After ten requests in a row that an endpoint, judge or policy, rejects with HTTP 401, 402, 403 or 404, or because
    the account has no credit, send nothing new and try one request again, with growing pauses, for this many seconds;
    the command then ends with exit code 1, and can be resumed."""
    judge_max_concurrency: int = operational(256, ge=1)
    """Send the judge at most this many requests at once; the limit is halved while it answers 429 or 503."""
    judge_requests_per_minute: int | None = operational(None, ge=1)
    """Send the judge at most this many requests a minute; no limit if unset."""
    judge_tokens_per_minute: int | None = operational(None, ge=1)
    """Use at most this many tokens of the judge a minute, prompts included; no limit if unset."""
    judge_cache: Path | None = operational(None)
    """Cache judgments in this SQLite file and reuse them; several runs may share it. Off if unset."""
    judge_extra_body: ExtraBody = setting({})
    """Add these fields to each request to the judge, such as {"reasoning_effort": "low"}."""
    judge_extra_headers: ExtraHeaders = operational({})
    """Send these headers with each request to the judge: NAME=VALUE, or JSON. Their values are secrets, which no file
    keeps; give them again when a run is resumed."""
    judge_finish_reasons: FinishReasons = operational([])
    """Take these finish reasons of the judge's endpoint, too, to mean a whole answer. Known are stop, end_turn,
    eos_token, complete and their like; an answer with an unknown one is asked for again."""
    judge_output: JudgeOutput = setting("text")
    """Choose how a verdict is asked for. text: in the words of the prompt. json_schema: as a JSON object, reasons
    first, to whose schema the endpoint holds the judge (response_format); one that refuses it gets text. For a policy
    that judges, set openai.extra_body."""
    judge_price_input: float | None = operational(None, ge=0)
    """Report the judge's cost with this price in US dollars for a million prompt tokens; if no price is set, with those
    of the table of list prices, or else the cost is unknown."""
    judge_price_output: float | None = operational(None, ge=0)
    """Report the judge's cost with this price in US dollars for a million completion tokens; if no price is set, with
    those of the table of list prices, or else the cost is unknown."""
    judge_price_cached_input: float | None = operational(None, ge=0)
    """Report the judge's cost with this price in US dollars for a million prompt tokens that its endpoint had in a
    prefix cache; if unset, they cost what all prompt tokens cost, and the cost is an upper bound."""
    judge_images: ImageUse = operational("auto")
    """Choose what becomes of rows with images. auto: the judge is sent them, until its endpoint refuses images, which
    is remembered for the run. yes: it is sent them, always. no: such rows are refused, for a judge that reads texts
    alone. No row is judged without its images."""
    judge_image_max_side: int = setting(1568, ge=0)
    """Scale images whose data is here (not those of a URL) down to this many pixels of the longer side before the judge
    is sent them, which takes Pillow (extra images); 0 sends them as they are."""
    judge_critique_rounds: int = setting(0, ge=0)
    """Let the judge critique and revise its own judgment in this many rounds, one call each."""
    judge_system_prompt: TextOrFile | None = setting(None)
    """Use this text instead of the judge's built-in system prompt; @file reads it from a file, byte for byte."""
    seed: int = setting(0, ge=0, common=True, group="run")
    """Seed every random choice (rows, orders of answers, votes, bootstrap); equal seeds give equal choices."""

    @field_validator("judge_model_name")
    @classmethod
    def _is_one_name(cls, value: str) -> str:
        if "," in value:
            raise ValueError(
                f"{value!r} would be sent as the name of one model; expected one name. Commas separate replicas of one "
                "model in judge_base_url; several judges are for `judgegym evaluate self_critique` (--env.judges)"
            )
        return value

    @model_validator(mode="after")
    def _set_vote_temperature(self) -> Self:
        if self.vote_count() > 1 and "judge_temperature" not in self.model_fields_set:
            self.judge_temperature = VOTE_TEMPERATURE
            # Not set by the user: a mount inherits only the settings that were given, so it must not inherit this one.
            self.model_fields_set.discard("judge_temperature")
        return self

    @model_validator(mode="after")
    def _has_one_form(self) -> Self:
        others = sorted(_CONSTRAINTS & self.judge_extra_body.keys())
        if self.judge_output != "text" and others:
            raise ValueError(
                f"judge_extra_body: with judge_output={self.judge_output} the form of an answer is the judge's own; "
                f"leave out {', '.join(others)}"
            )
        return self

    def waits(self, call_deadline: str = "judge_deadline") -> EndpointWaits:
        """How long calls wait for an endpoint that is away, or was never there.

        Args:
            call_deadline: the setting of a call's own deadline; where it is set lower, it bounds both.
        """
        longest = float(getattr(self, call_deadline)) if call_deadline in self.model_fields_set else math.inf
        start = self.wait_for_endpoints
        if "wait_for_endpoints" not in self.model_fields_set and "endpoint_away_deadline" in self.model_fields_set:
            start = min(start, self.endpoint_away_deadline)
        return EndpointWaits(
            away_deadline_s=min(self.endpoint_away_deadline, longest),
            start_deadline_s=min(start, longest),
            rejected_deadline_s=self.endpoint_rejected_deadline,
        )

    @property
    def gathers(self) -> bool:
        """Whether single responses are gathered, so that the judge must be able to compare them."""
        return False

    def form(self, form: VerdictForm) -> VerdictForm | None:
        """The form, if verdicts are asked for as JSON objects."""
        return None if self.judge_output == "text" else form

    @property
    def asks_endpoint(self) -> bool:
        """Whether the judge asks a model; one that asks none needs no endpoint, key or price."""
        return True

    def judge_name(self) -> str:
        """Who judges, for results and names of files: the model, unless none is asked."""
        return self.judge_model_name

    @property
    def api(self) -> ApiName:
        """The form in which the judge is asked."""
        asked_of = {"judge_api", "judge_base_url", "judge_api_key", "judge_api_key_env", "judge_extra_body"}
        variable = type(self).model_fields["judge_api_key_env"].default
        is_default = self.asks_endpoint and not asked_of & self.model_fields_set and self.judge_temperature <= 1
        return "anthropic" if is_default and os.environ.get(variable) else self.judge_api

    @property
    def prices(self) -> Prices:
        """What the judge's tokens cost; a judge that asks no model costs nothing."""
        if not self.asks_endpoint:
            return Prices(0.0, 0.0)
        given = Prices(self.judge_price_input, self.judge_price_output, self.judge_price_cached_input)
        urls = split_urls(self.judge_base_url)
        return prices_of(self.api, given, urls, self.judge_model_name, self.judge_extra_body)

    def vote_count(self) -> int:
        """How many independent judgments make one verdict; judges with several votes override it."""
        return 1

    def built_in_prompt(self) -> str:
        """The prompt that `judge_system_prompt` replaces; each judge overrides it."""
        return ""

    def prompt_digests(self) -> dict[str, str]:
        """Digests of the judge's prompts in use, given or built in, by the setting that replaces them."""
        prompt = self.built_in_prompt() if self.judge_system_prompt is None else self.judge_system_prompt
        return {"judge_system_prompt": prompt_digest(prompt)}

    def chat_settings(self, *, retry_delay: float = 1.0, identity: str = "", section: str = "env.") -> ChatSettings:
        """What the judge's chat client needs.

        Args:
            retry_delay: upper bound of the pause before the first retry, in seconds.
            identity: identifies the endpoint in the cache's key, in place of its URL.
            section: prefix of these settings on the command line, for messages.

        Raises:
            SettingsError: the endpoint needs a key and none is set.
        """
        votes = self.vote_count()
        if votes > 1 and self.judge_temperature == 0:
            logger.warning("%d votes at temperature 0 are the same answer %d times", votes, votes)
        owner, where = type(self).model_fields["judge_base_url"].default, f"--{section}judge_"
        endpoints: tuple[Endpoint, ...] = (Endpoint(NO_ENDPOINT, self.judge_name()),)
        api: ApiName = "openai" if identity == STAND_IN_IDENTITY else self.api
        if self.asks_endpoint:
            url = served_at(api, self, "judge_base_url")
            endpoints = endpoints_of(self, url, self.judge_model_name, owner=owner, where=where, api=api)
            if api != self.judge_api and identity != STAND_IN_IDENTITY:
                logger.info("%s is asked in Anthropic's own form (judge_api=anthropic)", self.judge_model_name)
        return ChatSettings(
            endpoints=endpoints,
            temperature=self.judge_temperature,
            max_tokens=self.judge_max_tokens,
            extra_body=self.judge_extra_body,
            timeout_s=self.judge_timeout,
            deadline_s=self.judge_deadline,
            **self.waits(),
            max_retries=self.judge_max_retries,
            retry_delay_s=retry_delay,
            max_concurrency=self.judge_max_concurrency,
            requests_per_minute=self.judge_requests_per_minute,
            tokens_per_minute=self.judge_tokens_per_minute,
            finish_rules=FinishRules(frozenset(self.judge_finish_reasons), f"{section}judge_finish_reasons"),
            prices=self.prices,
            identity=identity,
            title="the judge",
            thinking_markers=self.added_markers,
            images=self.judge_images,
            image_max_side=self.judge_image_max_side,
            section=section,
            url_setting=f"--{section}judge_base_url",
            price_settings=f"--{section}judge_price_input and --{section}judge_price_output",
            limit_setting=f"--{section}judge_max_tokens",
        )


def prices_given(price: ModelPrice) -> Prices:
    """The prices of a setting."""
    return Prices(price.get("input"), price.get("output"), price.get("cached_input"))


def served_at(api: ApiName, section: BaseModel, name: str) -> str:
    """The base URLs of a setting; none where litellm finds the provider by the model's name."""
    return "" if api == "litellm" and name not in section.model_fields_set else str(getattr(section, name))


def endpoints_of(
    section: BaseModel,
    urls: str,
    model: str,
    *,
    owner: str,
    where: str,
    api: ApiName = "openai",
    given: SecretStr | None = None,
    further: Mapping[str, SecretStr] | None = None,
    prefix: str | None = None,
) -> tuple[Endpoint, ...]:
    """The servers of a model, with their key and headers; without a key if none is set and no host is public.

    A key from an environment variable is sent only to the host it belongs to: the setting's default host, or any host
    if the user named the variable. A header that names a key takes the place of a variable's.

    Args:
        section: the settings of the endpoint: the judge's (`judge_…`), the policy's or a candidate's.
        urls: the base URLs; none where the API finds the provider by the model's name, with keys of its own.
        model: the model's name there.
        owner: the URL whose key the variable of `api_key_env` holds, unless the user named the variable.
        where: what stands before the name of one of these settings in messages, such as `--env.judge_`.
        api: the form in which it is asked.
        given: a key of these servers alone.
        further: headers of these servers alone.
        prefix: of the names of these settings in their section; by default `judge_` among those of a judge, else none.

    Raises:
        SettingsError: a package that the API needs is not installed; a host is public and there is no key; or a key
            cannot be sent in a header, or a URL or a header has another one.
    """
    if prefix is None:
        prefix = "judge_" if isinstance(section, JudgeSettings) else ""
    if api == "litellm":
        require("litellm")
        urls = urls or f"litellm://{model.partition('/')[0]}"
    headers: Mapping[str, SecretStr] = {**getattr(section, f"{prefix}extra_headers", {}), **(further or {})}
    names = {name.lower() for name in headers}
    has_own = bool(names & _KEY_HEADERS)
    own: SecretStr | None = given or getattr(section, f"{prefix}api_key")
    variable: str = getattr(section, f"{prefix}api_key_env")
    is_meant = f"{prefix}api_key_env" in section.model_fields_set or same_host(urls, owner)
    setting_name, what = f"{where}api_key", "the key"
    key = unquoted(own.get_secret_value()) if own is not None else ""
    if not key and is_meant and not has_own:
        key = unquoted(os.environ.get(variable, ""))
        setting_name, what = f"{where}api_key_env", f"the key in the environment variable {variable}"
    servers = split_urls(urls)
    if key:
        if any("@" in urlsplit(url).netloc for url in servers):
            raise SettingsError(
                f"{setting_name}: the base URL has a user and a password, and {what} would be sent, too; expected one "
                "of both"
            )
        if (header := api_of(api).key_header).lower() in names:
            raise SettingsError(f"{setting_name}: the extra headers have {header.title()}, too; expected one of both")
        secret = SecretStr(_sendable(key, f"{setting_name}: {what}"))
        return tuple(Endpoint(url, model, secret, headers, api) for url in servers)
    hosts = ", ".join(sorted({urlsplit(url).hostname or "" for url in servers if is_public(url)}))
    if hosts and not has_own and api != "litellm":  # which has keys of its own
        state = "is empty" if variable in os.environ else "is not set"
        missing = f"and the environment variable {variable} {state};"
        elsewhere = (
            f"{variable} is sent to {urlsplit(owner).hostname} alone; name the environment variable that holds it"
        )
        how = missing if is_meant else f"{elsewhere}, or,"
        raise SettingsError(
            f"{where}api_key_env: {hosts} needs an API key{', ' if is_meant else '; '}{how} "
            f"if it takes none, set {where}api_key=none"
        )
    return tuple(Endpoint(url, model, None, headers, api) for url in servers)


def _sendable(key: str, what: str) -> str:
    """The key.

    Raises:
        SettingsError: a character of it cannot be sent in a header; the message does not show the key.
    """
    wrong = next((character for character in key if not "!" <= character <= "~"), None)
    if wrong is not None:
        name = {"\n": "a line break", "\r": "a line break", " ": "a space"}.get(wrong, f"the character {wrong!r}")
        raise SettingsError(
            f"{what} holds {name} at place {key.index(wrong) + 1} of {len(key)}; no header can hold that"
        )
    return key


PromptLayout = Literal["published", "shared_first"]


class PromptLayoutSettings(JudgeSettings):
    """The settings of a judge whose prompt can be laid out in both ways.

    vLLM, SGLang and the hosted APIs compute, and charge for, a prefix that several prompts share once. `published` is
    the order of the benchmark, paper or specification that a judge follows. In `shared_first` everything that the
    prompts of one row have in common comes first, and the completion under judgment last.
    """

    judge_prompt_layout: PromptLayout = setting("published")
    """Choose the order of the judge's prompt. published: that of the benchmark or paper. shared_first: first everything
    that the completions of one prompt share, the completion last, so that a server's prefix cache computes the shared
    part once; results are then not comparable with published ones. If unset, shared_first for a single aspect, whose
    order is ours, and published for all other judges."""

    @model_validator(mode="after")
    def _set_usual_layout(self) -> Self:
        if "judge_prompt_layout" not in self.model_fields_set:
            self.judge_prompt_layout = self.usual_layout()
            # Not set by the user: a mount inherits only the settings that were given, so it must not inherit this one.
            self.model_fields_set.discard("judge_prompt_layout")
        return self

    def usual_layout(self) -> PromptLayout:
        """The layout of a judge for which the user chose none; judges may override it."""
        return "published"


class ReaskSettings(JudgeSettings):
    """The settings of a judge that is asked again in the same conversation."""

    judge_reask: int = setting(1, ge=0)
    """Ask a judge whose answer has no verdict again, in the same conversation, at most this many times."""
