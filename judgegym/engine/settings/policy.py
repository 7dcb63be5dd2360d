"""The policy's endpoint settings (`openai`), bundled files, and the stand-ins' names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal, Protocol

from pydantic import SecretStr

from judgegym.engine.settings.verbs import EVALUATIONS, ROLLOUTS
from judgegym.judges.config.endpoint import (
    CALL_NAMES,
    OPENAI,
    EndpointSettings,
    FlatSettings,
    ReplicaSettings,
    SettingNames,
    Settings,
    flat_names,
)
from judgegym.judges.config.field_types import (
    BaseUrls,
    ExtraBody,
    ExtraHeaders,
    FinishReasons,
    ModelName,
    ModelPrice,
    price_fields,
)
from judgegym.judges.config.fields import operational, setting
from judgegym.llm.cost.models import DEFAULT_POLICY
from judgegym.llm.providers import ApiName
from judgegym.llm.types import ChatSettings
from judgegym.llm.urls import split_urls
from judgegym.llm.wire import JSON

ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]
_OPENAI = "api.openai.com"


def reasoning_body(
    base_url: str, *, effort: ReasoningEffort | None, max_reasoning_tokens: int | None
) -> Mapping[str, JSON]:
    """Return the request fields for a hosted model's reasoning effort or budget; none if unset.

    The fields are those that Atropos sends (`atroposlib` 0.4.0,
    `ReasoningConfig.build_extra_body`). They are unrelated to `thinking_mode`, which asks for
    `<think>` tags in the text.

    OpenAI accepts an effort at the top level. Other providers (OpenRouter, Nebius, Nous Portal)
    accept an object with either an effort or a budget: the effort wins.
    """
    if effort is None and max_reasoning_tokens is None:
        return {}
    if _OPENAI in base_url:
        return {"reasoning_effort": effort or "medium"}
    if effort is not None:
        return {"reasoning": {"enabled": True, "effort": effort}}
    return {"reasoning": {"enabled": True, "max_tokens": max_reasoning_tokens}}


class CallSettings(FlatSettings, Protocol):
    """Further settings of how the policy is called, of an environment or a data set."""

    reasoning_effort: ReasoningEffort | None
    max_reasoning_tokens: int | None
    policy_deadline: float
    max_retries: int
    retry_delay: float
    endpoint_away_deadline: float
    wait_for_endpoints: float
    endpoint_rejected_deadline: float

    @property
    def policy_is_judge(self) -> bool:
        """Whether the policy judges."""


class PolicySettings(Settings):
    """The policy's endpoint. Settings that Atropos' `APIServerConfig` also has keep its names."""

    help_group: ClassVar[str] = "policy"

    model_name: ModelName = setting(DEFAULT_POLICY, common=True)
    """Ask for this model at the policy's endpoint."""
    base_url: BaseUrls = operational(OPENAI, common=True)
    """Call the policy at this OpenAI-compatible URL; separate several replicas with commas."""
    api: ApiName = operational("openai")
    """Call the policy with this API. openai: OpenAI's chat completions. anthropic: Anthropic's
    Messages API. litellm: whatever litellm reaches by the model's name, such as azure/… or
    gemini/…, with base_url only if it is set."""
    api_key: SecretStr | None = operational(None, fallback="api_key_env")
    """Send this API key to the policy. Prefer api_key_env, which keeps the key off the command
    line."""
    api_key_env: str = operational("OPENAI_API_KEY", common=True)
    """Read the policy's API key from this environment variable. Only a public host needs one,
    a local server does not."""
    replicas: list[ReplicaSettings] = operational([])
    """Spread calls over these servers of the same policy, each with its base_url and, if they
    differ, model_name, api_key and extra_headers. In YAML a list under `openai` does the same."""
    timeout: float = operational(1200.0, gt=0)
    """Stop one attempt of a policy call after this many seconds."""
    num_max_requests_at_once: int = operational(512, verbs=ROLLOUTS, ge=1)
    """Send the policy at most this many requests at once in training."""
    num_requests_for_eval: int = operational(256, verbs=EVALUATIONS, ge=1)
    """Send the policy at most this many requests at once in evaluations."""
    requests_per_minute: int | None = operational(None, ge=1)
    """Send the policy at most this many requests a minute; no limit if unset."""
    tokens_per_minute: int | None = operational(None, ge=1)
    """Use at most this many tokens of the policy a minute, prompts included; no limit if unset."""
    extra_body: ExtraBody = setting({})
    """Add these fields to each request to the policy, such as {"top_p": 0.95}."""
    extra_headers: ExtraHeaders = operational({})
    """Send these headers with each request to the policy: NAME=VALUE, or JSON. Their values are
    secrets, which no file keeps; give them again when a run is resumed."""
    finish_reasons: FinishReasons = operational([])
    """Also accept these finish reasons of policy and simulated user as the end of a whole
    completion. stop, end_turn, eos_token, complete and the like are known; a completion with an
    unknown one is requested again."""
    price: ModelPrice = operational({})
    """Report the policy's cost with these prices in US dollars for a million tokens:
    input=0.25,output=2, or JSON. cached_input is the price of prompt tokens from the endpoint's
    prefix cache (without it they cost as much as the others, and the cost is an upper bound). If
    unset, the list prices of judgegym/llm/cost/models.yaml apply, or else the cost is unknown."""
    server_type: Literal["openai", "trl", "sglang", "vllm"] = operational("openai", verbs=ROLLOUTS)
    """Choose the client for rollouts. openai: chat completions. vllm, sglang, trl: Atropos'
    token-level client for that kind of server."""

    @property
    def urls(self) -> tuple[str, ...]:
        """The base URLs of the servers."""
        return tuple(replica.base_url for replica in self.replicas) or tuple(
            split_urls(self.base_url)
        )

    @property
    def endpoint(self) -> EndpointSettings:
        """The policy's model, without how it is called."""
        return EndpointSettings().add(self, _NAMES, **price_fields(self.price))

    def chat_settings(
        self, config: CallSettings, *, max_concurrency: int, section: str = "env."
    ) -> ChatSettings:
        """Return the settings of the policy's chat client.

        Args:
            config: the settings of the calls.
            max_concurrency: the concurrency limit.
            section: prefix of the settings of `config` on the command line, for messages.

        Raises:
            SettingsError: a required key is missing.
        """
        reasoning = reasoning_body(
            self.base_url,
            effort=config.reasoning_effort,
            max_reasoning_tokens=config.max_reasoning_tokens,
        )
        body = {**reasoning, **self.extra_body}
        endpoint = self.endpoint.add(
            config, CALLS, max_concurrency=max_concurrency, extra_body=body
        )
        names = SettingNames(
            "the policy",
            "--openai.",
            section,
            prices="--openai.price input=…,output=…",
            max_tokens=f"--{section}eval_max_tokens",
        )
        return endpoint.chat_settings(
            names, retry_delay=config.retry_delay, takes_tool_calls=not config.policy_is_judge
        )


_NAMES = flat_names(PolicySettings)
CALLS: Mapping[str, str] = {
    "deadline": "policy_deadline",
    "max_retries": "max_retries",
    **CALL_NAMES,
}
"""The settings of the policy's calls, by their names in an endpoint's settings."""


_PACKAGE = Path(__file__).parents[2]
SAMPLES = _PACKAGE / "data" / "samples"
BUNDLED_TOKENIZER = _PACKAGE / "environments" / "rollouts" / "tokenizers" / "bytes"

STAND_IN_JUDGE = "offline-judge"
STAND_IN_POLICY = "offline-policy"
STAND_IN_USER = "offline-user"
"""The model names of the offline stand-ins."""
