"""A judge's settings: the same `judge_*` names in every environment and in the reward server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, JsonValue, SecretStr, field_validator

from judges.config.fields import operational, setting
from judges.llm.errors import SettingsError
from judges.llm.replicas import Endpoint
from judges.llm.types import ChatSettings
from judges.llm.urls import check_urls, is_loopback, same_host, split_urls
from judges.llm.usage import Prices


class JudgeSettings(BaseModel):
    """How the judge is called."""

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
        None, "The judge's API key. Better kept in an environment variable: see judge_api_key_env."
    )
    judge_api_key_env: str = operational(
        "ANTHROPIC_API_KEY",
        "Read the judge's API key from this environment variable, unless the host is this machine.",
        common=True,
    )
    judge_temperature: float = setting(0.2, "Sample the judge at this temperature.", common=True, ge=0)
    judge_max_tokens: int = Field(4096, ge=0, description="Longest judge answer in tokens; 0 leaves the field out.")
    judge_max_retries: int = operational(3, "Requests after the first one, for a judge call that fails.", ge=0)
    judge_timeout: float = operational(300.0, "Seconds for one attempt of a judge call.", gt=0)
    judge_deadline: float = operational(
        900.0, "Seconds for a judge call with its retries, from its first attempt.", gt=0
    )
    judge_max_concurrency: int = operational(
        256,
        "Send the judge at most so many requests at once; the limit halves while it is overloaded.",
        common=True,
        ge=1,
    )
    judge_requests_per_minute: int | None = operational(None, "Judge requests a minute; no limit if unset.", ge=1)
    judge_tokens_per_minute: int | None = operational(None, "Judge tokens a minute; no limit if unset.", ge=1)
    judge_cache: Path | None = operational(None, "File of the judgment cache; off if unset. Several runs may share it.")
    judge_extra_body: dict[str, JsonValue] = Field(
        default_factory=dict,
        description='Further fields of the judge\'s requests, such as {"reasoning_effort": "low"}.',
    )
    judge_price_input: float = operational(0.0, "US dollars for a million prompt tokens of the judge.", ge=0)
    judge_price_output: float = operational(0.0, "US dollars for a million completion tokens of the judge.", ge=0)
    judge_critique_rounds: int = Field(
        0,
        ge=0,
        description="Rounds in which the judge critiques and revises its own judgment, a call each.",
    )

    @field_validator("judge_base_url")
    @classmethod
    def _is_url(cls, value: str) -> str:
        return check_urls(value)

    def chat_settings(self, *, retry_delay: float = 1.0, identity: str = "", section: str = "env.") -> ChatSettings:
        """What the judge's chat client needs.

        Args:
            retry_delay: upper bound of the first pause before a retry, in seconds.
            identity: what stands for the endpoint in the cache's key, if not its URL.
            section: where these settings stand on the command line, for messages.

        Raises:
            SettingsError: a key is needed and there is none.
        """
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
