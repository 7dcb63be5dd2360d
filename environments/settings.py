"""An environment's settings: `env` (itself and its judge), `openai` (the policy) and the command's own flags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Generic, Literal, TypeVar, cast

from atroposlib.envs.base import BaseEnvConfig, EvalHandlingEnum
from atroposlib.envs.server_handling.server_baseline import ReasoningConfig
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, SecretStr, field_validator
from pydantic_settings import CliImplicitFlag
from typing_extensions import Self

from judges.config.judge import JudgeSettings, api_key, is_operational, operational
from judges.config.sources import SourcedSettings
from judges.llm import wire
from judges.llm.replicas import Endpoint
from judges.llm.types import ChatSettings
from judges.llm.urls import check_urls, same_host, split_urls, without_credentials
from judges.llm.usage import Prices
from judges.llm.wire import JSON

HERE = Path(__file__).parent
SAMPLES = HERE / "data" / "samples"
BUNDLED_TOKENIZER = HERE / "rollouts" / "tokenizers" / "bytes"


def comma_separated(value: object) -> object:
    """A list from `a,b`, from a JSON list, or as it is."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return wire.loads(value)
    return [part.strip() for part in value.split(",") if part.strip()]


def text_or_file(value: object) -> object:
    """The text of a file for `@path`; any other value as it is."""
    if not isinstance(value, str) or not value.startswith("@"):
        return value
    try:
        return Path(value[1:]).expanduser().read_bytes().decode("utf-8")  # byte for byte, newlines included
    except OSError as error:
        raise ValueError(f"{value[1:]} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{value[1:]} is not UTF-8 text") from error


TextOrFile = Annotated[str, BeforeValidator(text_or_file)]
"""A text, or `@path` for the text of a file."""


class EnvConfig(BaseEnvConfig, JudgeSettings):
    """What every environment can be told under `env`; Atropos' own settings and the judge's among them."""

    model_config = ConfigDict(extra="forbid")

    worker_timeout: float = operational(
        -1, "Seconds for a group; -1 leaves it to the deadlines of policy and judge, which lose less."
    )
    inference_weight: float = operational(
        1.0, "Share of the policy's capacity, beside that of other environments at the same API.", gt=0
    )
    group_size: int = operational(4, "Completions of one prompt that are trained on together.", ge=1)
    eval_handling: EvalHandlingEnum = operational(
        EvalHandlingEnum.NONE, "While evaluate runs during training, begin no groups, fewer of them, or as many."
    )
    use_wandb: bool = operational(False, "Log to Weights & Biases.")
    thinking_mode: bool = Field(False, description="Ask for <think></think> and validate it.")
    thinking_opened_by_template: bool = Field(
        False,
        description="The chat template opens <think> in the prompt (Qwen3, DeepSeek-R1): a lone </think> is valid.",
    )
    custom_thinking_prompt: str | None = Field(None, description="Instead of the built-in prompt for thinking.")
    custom_system_prompt: str | None = Field(
        None, description="System prompt; stands after the thinking prompt, if any."
    )
    eval_temperature: float = Field(0.6, ge=0, description="Sampling temperature of the policy in evaluate.")
    eval_max_tokens: int = Field(40960, ge=0, description="Longest answer in evaluate, in tokens; 0 leaves it out.")
    rollout_temperature: float = operational(1.0, "Sampling temperature of the policy in training.", ge=0)
    train_max_tokens: int = operational(16384, "Longest answer in training, in tokens; 0 leaves the field out.", ge=0)
    max_retries: int = operational(
        3, "Requests after the first one, for a policy call that fails or is too short.", ge=0
    )
    retry_delay: float = operational(1.0, "Longest pause before the first retry in seconds; doubles each time.", ge=0)
    token_source: Literal["auto", "chat", "token_server", "retokenize"] = operational(
        "auto",
        "Where a rollout's tokens come from. chat: the endpoint returns what it sampled (vLLM 0.10.2 or later). "
        "token_server: Atropos' token-level servers (openai.server_type vllm, sglang or trl). retokenize: the chat "
        "template over the text, without logprobs. auto: token_server if the server type is one, else what the "
        "endpoint can do.",
    )
    invalid_thinking_reward: float = operational(
        0.0,
        "Reward of malformed thinking in training. At 0.0 a policy gains from malforming whatever it would lose with; "
        "-1.0 takes that away.",
    )
    min_response_length: int = Field(10, ge=0, description="Answers with fewer characters are asked for again.")
    seed: int = Field(0, description="Every random choice is a function of it, the row and what it is for.")
    full_debug: bool = operational(False, "Log every call to policy and judge, with its messages and its answer.")
    data_dir_to_save_evals: str | None = operational(
        None, "Run directory of evaluate; runs/<environment>--<model>--<time> if unset."
    )
    model_answers: Path | None = Field(
        None, description="JSONL of uid and answer: score these answers instead of asking a policy."
    )

    @property
    def policy_is_judge(self) -> bool:
        """Whether the policy judges, and no other judge is called."""
        return False

    def run_name(self, policy: str) -> str:
        """What an evaluation's directory is named after: the file of answers, or the policy's model."""
        return policy if self.model_answers is None else self.model_answers.stem


class ReplicaSettings(BaseModel):
    """One of several servers of the same policy."""

    model_config = ConfigDict(extra="forbid")

    base_url: str
    model_name: str | None = None
    api_key: SecretStr | None = None

    @field_validator("base_url")
    @classmethod
    def _is_url(cls, value: str) -> str:
        return check_urls(value)


class PolicySettings(BaseModel):
    """The policy's endpoint. Atropos' names are kept; those without a meaning here are accepted and ignored."""

    model_config = ConfigDict(extra="forbid")

    model_name: str = Field("gpt-4.1", description="The policy's name at its endpoint.")
    base_url: str = operational(
        "https://api.openai.com/v1", "OpenAI-compatible endpoint of the policy; several replicas with commas between."
    )
    api_key: SecretStr | None = operational(None, "The policy's API key.")
    api_key_env: str = operational("OPENAI_API_KEY", "Environment variable that holds the policy's API key.")
    replicas: list[ReplicaSettings] = operational(
        [], "Servers of the same policy with keys or names of their own; what a YAML list under `openai` becomes."
    )
    timeout: float = operational(1200.0, "Seconds for one attempt.", gt=0)
    deadline: float = operational(3600.0, "Seconds for a call with its retries.", gt=0)
    num_max_requests_at_once: int = operational(512, "Requests in flight in training.", ge=1)
    num_requests_for_eval: int = operational(256, "Requests in flight in evaluate.", ge=1)
    requests_per_minute: int | None = operational(None, "Requests a minute; no limit if unset.", ge=1)
    tokens_per_minute: int | None = operational(None, "Tokens a minute; no limit if unset.", ge=1)
    n_kwarg_is_ignored: bool = operational(False, "The endpoint ignores `n`; found out by itself otherwise.")
    extra_body: dict[str, JsonValue] = Field(default_factory=dict, description="Further fields of the requests.")
    price_input: float = operational(0.0, "US dollars for a million prompt tokens.", ge=0)
    price_output: float = operational(0.0, "US dollars for a million completion tokens.", ge=0)
    server_type: Literal["openai", "trl", "sglang", "vllm"] = operational("openai", "Kind of server.")
    health_check: bool = operational(False, "Ignored: no health-check completions are ever sent.")
    rolling_buffer_length: int = operational(1000, "Ignored.")
    tokenizer_name: str = operational("none", "Ignored: see env.tokenizer_name.")

    @field_validator("base_url")
    @classmethod
    def _is_url(cls, value: str) -> str:
        return check_urls(value)

    def chat_settings(self, config: EnvConfig, *, max_concurrency: int) -> ChatSettings:
        """What the policy's chat client needs.

        Raises:
            SettingsError: a key is needed and there is none.
        """
        return ChatSettings(
            endpoints=self.endpoints(),
            extra_body={**self._reasoning(config), **self.extra_body},
            timeout_s=self.timeout,
            deadline_s=self.deadline,
            max_retries=config.max_retries,
            retry_delay_s=config.retry_delay,
            max_concurrency=max_concurrency,
            requests_per_minute=self.requests_per_minute,
            tokens_per_minute=self.tokens_per_minute,
            n_is_ignored=self.n_kwarg_is_ignored,
            prices=Prices(self.price_input, self.price_output),
        )

    def _reasoning(self, config: EnvConfig) -> Mapping[str, JSON]:
        """Atropos' reasoning parameters, where they are set; our thinking mode (tags in the text) sends none."""
        reasoning = ReasoningConfig(effort=config.reasoning_effort, max_tokens=config.max_reasoning_tokens)
        return cast("Mapping[str, JSON]", reasoning.build_extra_body(self.base_url) or {})

    def endpoints(self) -> tuple[Endpoint, ...]:
        """The servers with their keys.

        Raises:
            SettingsError: a key is needed and there is none.
        """
        replicas = self.replicas or [ReplicaSettings(base_url=url) for url in split_urls(self.base_url)]
        default = type(self).model_fields["base_url"].default
        named = "api_key_env" in self.model_fields_set
        return tuple(
            Endpoint(
                replica.base_url,
                replica.model_name or self.model_name,
                api_key(
                    replica.base_url,
                    given=replica.api_key or self.api_key,
                    variable=self.api_key_env,
                    variable_is_meant=named or same_host(replica.base_url, default),
                    setting="--openai.api_key_env",
                ),
            )
            for replica in replicas
        )


ConfigT = TypeVar("ConfigT", bound=EnvConfig)


class EnvSettings(SourcedSettings, Generic[ConfigT]):
    """Everything that an environment's command line accepts."""

    env: ConfigT
    openai: PolicySettings
    config: Path | None = Field(None, description="YAML file with sections `env` and `openai`.")
    show_config: CliImplicitFlag[bool] = Field(False, description="Print each setting with its layer, and exit.")
    limit: int | None = Field(None, ge=1, description="So many rows, chosen by the seed.")
    resume: CliImplicitFlag[bool] = Field(False, description="Take up the run directory where it stopped.")
    offline: CliImplicitFlag[bool] = Field(
        False, description="A stand-in for each endpoint that is not set, and the bundled samples: no key, no network."
    )
    latency_ms: float = Field(0.0, ge=0, description="With --offline: how long a stand-in takes to answer.")
    faults: dict[str, float] = Field(default_factory=dict, description='With --offline: {"500": 0.1, "drop": 0.05, …}.')

    _stand_ins: frozenset[str] = frozenset()

    def standing_in(self, roles: Sequence[str], *, env: ConfigT, openai: PolicySettings) -> Self:
        """These settings with the URLs of stand-ins for `judge`, `policy` or both."""
        settings = self.model_copy(update={"env": env, "openai": openai})
        settings._stand_ins = frozenset(roles)
        return settings

    @property
    def stand_ins(self) -> tuple[str, ...]:
        """Which of `judge` and `policy` are the offline stand-in."""
        return tuple(sorted(self._stand_ins))

    def public(self) -> dict[str, JSON]:
        """What `config.yaml` holds: every setting but secrets; it can be given to `--config` again.

        A stand-in's URL is gone with its run, so it is left out; and so is the name of a key's variable that nobody
        gave, since what is given there may go to any host.
        """
        env, openai = _without_secrets(self.env), _without_secrets(self.openai)
        for model, section, name in ((self.env, env, "judge_api_key_env"), (self.openai, openai, "api_key_env")):
            if name not in model.model_fields_set:
                del section[name]
        if "judge" in self._stand_ins or self.env.policy_is_judge:
            del env["judge_base_url"]
        if "policy" in self._stand_ins:
            del openai["base_url"]
        sections: dict[str, JSON] = {"env": env, "openai": openai, "limit": self.limit}
        if self.offline:
            sections |= {"offline": True, "latency_ms": self.latency_ms, "faults": dict(self.faults)}
        return sections

    def matters(self) -> dict[str, JSON]:
        """The settings that shape what `evaluate` finds, by dotted name: the ones a resumed run cannot change."""
        public = self.public()
        names = [f"env.{name}" for name in type(self.env).model_fields if _shapes_evaluation(type(self.env), name)]
        names += [f"openai.{name}" for name in ("model_name", "extra_body")]
        names = [each for name in names for each in _expanded(self.env, name)]
        values = {name: wire.lookup(public, name) for name in names}
        return {**values, "limit": self.limit}


# Atropos' own settings are about training, but for these.
_ATROPOS_IN_EVALUATION = frozenset(
    {"thinking_mode", "custom_thinking_prompt", "reasoning_effort", "max_reasoning_tokens"}
)


def _shapes_evaluation(model: type[BaseModel], name: str) -> bool:
    if name in BaseEnvConfig.model_fields:
        return name in _ATROPOS_IN_EVALUATION
    return not is_operational(model, name)


def _expanded(env: BaseModel, name: str) -> list[str]:
    """The name of a setting; for a list of models, the names of their settings that shape what is found."""
    several = getattr(env, name.removeprefix("env."), None) if name.startswith("env.") else None
    if not isinstance(several, list) or not any(isinstance(each, BaseModel) for each in several):
        return [name]
    fields = [field for field in type(several[0]).model_fields if not is_operational(type(several[0]), field)]
    # The place behind the last one tells a longer list from this one.
    return [f"{name}.{place}.{field}" for place in range(len(several) + 1) for field in fields]


def _without_secrets(model: BaseModel) -> dict[str, JSON]:
    secret = {name for name, field in type(model).model_fields.items() if "SecretStr" in str(field.annotation)}
    dumped = model.model_dump(mode="json", exclude=secret)
    for name, value in dumped.items():
        if isinstance(value, str):
            dumped[name] = without_credentials(value)
        several = getattr(model, name)
        if isinstance(several, list) and any(isinstance(each, BaseModel) for each in several):
            dumped[name] = [_without_secrets(each) for each in several]
            for one, shown in zip(several, dumped[name], strict=True):
                if "api_key_env" not in one.model_fields_set:
                    shown.pop("api_key_env", None)
    return dumped
