"""Models that a run compares: each with an endpoint of its own, or with answers from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    SecretStr,
    field_validator,
    model_validator,
)
from pydantic_settings import NoDecode
from typing_extensions import Self

from environments.settings import EnvConfig, ServerSettings
from judges import wire
from judges.chat import ChatSettings
from judges.replicas import Endpoint
from judges.settings import api_key
from judges.urls import check_urls, same_host, split_urls
from judges.usage import Prices


class ModelSettings(BaseModel):
    """One model."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, description="In tables; unique.")
    model_name: str | None = Field(default=None, description="At its endpoint; the name if unset.")
    base_url: str | None = Field(default=None, description="OpenAI-compatible endpoint; replicas with commas between.")
    api_key: SecretStr | None = None
    api_key_env: str = Field(default="OPENAI_API_KEY", description="Environment variable that holds the key.")
    answers: Path | None = Field(default=None, description="JSONL of uid and answer, in place of an endpoint.")
    extra_body: dict[str, JsonValue] = Field(default_factory=dict, description="Further fields of the requests.")
    max_concurrency: int = Field(default=64, ge=1, description="Requests in flight.")
    price_input: float = Field(default=0.0, ge=0, description="US dollars for a million prompt tokens.")
    price_output: float = Field(default=0.0, ge=0, description="US dollars for a million completion tokens.")

    @field_validator("base_url")
    @classmethod
    def _is_url(cls, value: str | None) -> str | None:
        return None if value is None else check_urls(value)

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if (self.base_url is None) == (self.answers is None):
            raise ValueError(f"the model {self.name!r} needs either a base_url or a file of answers")
        return self

    @property
    def identity(self) -> tuple[str | None, str, str]:
        """What makes two models one client."""
        return self.base_url, self.model_name or self.name, str(self.extra_body)

    def chat_settings(self, config: EnvConfig) -> ChatSettings:
        """What the model's chat client needs; sampled as a judge unless a call says otherwise.

        Raises:
            SettingsError: a key is needed and there is none.
        """
        assert self.base_url is not None  # only models with an endpoint are called
        default = ServerSettings.model_fields["base_url"].default
        key = api_key(
            self.base_url,
            given=self.api_key,
            variable=self.api_key_env,
            variable_is_meant="api_key_env" in self.model_fields_set or same_host(self.base_url, default),
            setting=f"the model {self.name!r}: api_key_env",
        )
        endpoints = (Endpoint(url, self.model_name or self.name, key) for url in split_urls(self.base_url))
        return ChatSettings(
            endpoints=tuple(endpoints),
            temperature=config.judge_temperature,
            max_tokens=config.judge_max_tokens,
            extra_body=self.extra_body,
            timeout_s=config.judge_timeout,
            deadline_s=config.judge_deadline,
            max_retries=config.judge_max_retries,
            retry_delay_s=config.retry_delay,
            max_concurrency=self.max_concurrency,
            prices=Prices(self.price_input, self.price_output),
        )


def _from_json(value: object) -> object:
    return wire.loads(value) if isinstance(value, str) else value


def check_names(models: list[ModelSettings]) -> list[ModelSettings]:
    """Models whose names tell them apart.

    Raises:
        ValueError: two have the same.
    """
    names = [model.name for model in models]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"two models have the name {twice!r}")
    return models


Models = Annotated[list[ModelSettings], NoDecode, BeforeValidator(_from_json), AfterValidator(check_names)]
"""Models from YAML or from a JSON list."""
