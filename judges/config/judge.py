"""A judge's settings: the same `judge_*` names in every environment and in the reward server."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from pydantic import BaseModel, JsonValue, SecretStr, field_validator, model_validator
from typing_extensions import Self

from judges.config.fields import operational, setting
from judges.config.text import TextOrFile, prompt_digest
from judges.llm.errors import SettingsError
from judges.llm.replicas import Endpoint
from judges.llm.types import ChatSettings
from judges.llm.urls import check_urls, is_loopback, same_host, split_urls
from judges.llm.usage import Prices

logger = logging.getLogger(__name__)

VOTE_TEMPERATURE = 0.7
"""Temperature of several votes where none is set: at 0 all votes would be the same answer."""


class JudgeSettings(BaseModel, extra="forbid"):
    """Settings that every judge has: its endpoint, sampling, prompt and self-critique. A misspelt one is an error.

    Each judge's room subclasses it with the settings of that judge; environments and the reward server inherit those.
    """

    help_group: ClassVar[str] = "judge"

    judge_model_name: str = setting(
        "claude-sonnet-4-20250514", "Ask for this model at the judge's endpoint.", common=True
    )
    judge_base_url: str = operational(
        "https://api.anthropic.com/v1",
        "Call the judge at this OpenAI-compatible URL; separate several replicas with commas.",
        common=True,
    )
    judge_api_key: SecretStr | None = operational(
        None, "Send this API key to the judge. An environment variable keeps it better: see judge_api_key_env."
    )
    judge_api_key_env: str = operational(
        "ANTHROPIC_API_KEY",
        "Read the judge's API key from this environment variable, unless the host is this machine.",
        common=True,
    )
    judge_temperature: float = setting(
        0.2,
        "Sample the judge at this temperature; if unset, at 0.7 where several votes make a verdict.",
        common=True,
        ge=0,
    )
    judge_max_tokens: int = setting(4096, "Limit a judge's answer to so many tokens; 0 sends no limit.", ge=0)
    judge_max_retries: int = operational(3, "Retry a judge call that fails so many times.", ge=0)
    judge_timeout: float = operational(300.0, "Give up one attempt of a judge call after so many seconds.", gt=0)
    judge_deadline: float = operational(
        900.0, "Give up a judge call with its retries so many seconds after its first attempt.", gt=0
    )
    judge_max_concurrency: int = operational(
        256, "Send the judge at most so many requests at once; the limit halves while it is overloaded.", ge=1
    )
    judge_requests_per_minute: int | None = operational(
        None, "Send the judge at most so many requests a minute; no limit if unset.", ge=1
    )
    judge_tokens_per_minute: int | None = operational(
        None, "Use at most so many tokens of the judge a minute; no limit if unset.", ge=1
    )
    judge_cache: Path | None = operational(
        None, "Keep judgments in this file and take repeats from it, which several runs may share; off if unset."
    )
    judge_extra_body: dict[str, JsonValue] = setting(
        {}, 'Add these fields to the judge\'s requests, such as {"reasoning_effort": "low"}.'
    )
    judge_price_input: float = operational(
        0.0, "Count so many US dollars for a million prompt tokens of the judge.", ge=0
    )
    judge_price_output: float = operational(
        0.0, "Count so many US dollars for a million completion tokens of the judge.", ge=0
    )
    judge_critique_rounds: int = setting(
        0, "Let the judge critique and revise its own judgment in so many rounds, a call each.", ge=0
    )
    judge_system_prompt: TextOrFile | None = setting(
        None, "Replace the judge's built-in system prompt by this text; @file reads it from a file, byte for byte."
    )
    seed: int = setting(
        0,
        "Derive every random choice from this number, the id of the row (or request) and the purpose of the choice.",
        common=True,
        group="run",
    )

    @field_validator("judge_base_url")
    @classmethod
    def _is_url(cls, value: str) -> str:
        return check_urls(value)

    @model_validator(mode="after")
    def _set_vote_temperature(self) -> Self:
        if self.vote_count() > 1 and "judge_temperature" not in self.model_fields_set:
            self.judge_temperature = VOTE_TEMPERATURE
            # Nobody set it: what inherits only the settings that were given must not inherit this one.
            self.model_fields_set.discard("judge_temperature")
        return self

    def vote_count(self) -> int:
        """How many independent judgments make one verdict; a judge that votes overrides it."""
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
            retry_delay: upper bound of the first pause before a retry, in seconds.
            identity: what stands for the endpoint in the cache's key, if not its URL.
            section: where these settings stand on the command line, for messages.

        Raises:
            SettingsError: a key is needed and there is none.
        """
        votes = self.vote_count()
        if votes > 1 and self.judge_temperature == 0:
            logger.warning("%d votes at temperature 0 are the same answer %d times", votes, votes)
        default = type(self).model_fields["judge_base_url"].default
        key = api_key(
            self.judge_base_url,
            given=self.judge_api_key,
            variable=self.judge_api_key_env,
            variable_is_meant="judge_api_key_env" in self.model_fields_set or same_host(self.judge_base_url, default),
            setting=f"--{section}judge_api_key_env",
        )
        return ChatSettings(
            endpoints=tuple(Endpoint(url, self.judge_model_name, key) for url in split_urls(self.judge_base_url)),
            temperature=self.judge_temperature,
            max_tokens=self.judge_max_tokens,
            extra_body=self.judge_extra_body,
            timeout_s=self.judge_timeout,
            deadline_s=self.judge_deadline,
            max_retries=self.judge_max_retries,
            retry_delay_s=retry_delay,
            max_concurrency=self.judge_max_concurrency,
            requests_per_minute=self.judge_requests_per_minute,
            tokens_per_minute=self.judge_tokens_per_minute,
            prices=Prices(self.judge_price_input, self.judge_price_output),
            identity=identity,
        )


def api_key(
    urls: str, *, given: SecretStr | None, variable: str, variable_is_meant: bool, setting: str
) -> SecretStr | None:
    """The key for an endpoint.

    A key in an environment variable goes to no host but the one it is meant for: the setting's default host, or any
    host if the user named the variable.

    Args:
        urls: the endpoint's base URLs.
        given: a key that was set directly.
        variable: the environment variable that may hold one.
        variable_is_meant: the variable is for this host.
        setting: the setting that names the variable, for the message.

    Raises:
        SettingsError: the host is not loopback and there is no key.
    """
    if given is not None and given.get_secret_value():
        return given
    held = os.environ.get(variable) if variable_is_meant else None
    if held:
        return SecretStr(held)
    if all(is_loopback(url) for url in split_urls(urls)):
        return None
    hosts = ", ".join(sorted({urlsplit(url).hostname or "" for url in split_urls(urls)}))
    if not variable_is_meant:
        raise SettingsError(f"{setting}: {hosts} needs an API key; name the environment variable that holds it")
    raise SettingsError(f"{setting}: {hosts} needs an API key, and the environment variable {variable} is not set")
