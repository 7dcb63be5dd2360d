"""The settings of every environment (`env`), and settings without secrets, as files have them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, TypeVar, cast

from pydantic import BaseModel, ConfigDict, SecretStr, model_validator
from typing_extensions import Self

from judgegym.engine.settings.policy import ReasoningEffort
from judgegym.engine.settings.training import RolloutSettings, TrainerSettings
from judgegym.engine.settings.verbs import EVALUATE, EVALUATIONS, Verb
from judgegym.judges.config.batches import JudgeBatchSettings
from judgegym.judges.config.budgets import BudgetSettings
from judgegym.judges.config.composed import ComposedSettings
from judgegym.judges.config.endpoint import MAX_RETRIES
from judgegym.judges.config.explaining import TextOrFile
from judgegym.judges.config.fields import operational, setting
from judgegym.judges.config.judge import JudgeSettings
from judgegym.judges.config.thinking import ThinkingSettings
from judgegym.llm.urls import (
    redact_credentials,
    redact_secret_fields,
    secrets_in_fields,
    secrets_in_url,
    split_urls,
)
from judgegym.llm.wire import JSON
from judgegym.monitoring.settings import AlarmSettings, MonitorSettings, SignalSettings


class CompletionSettings(ThinkingSettings, use_attribute_docstrings=True):
    """How the policy is prompted and sampled, and when a call is retried."""

    help_group: ClassVar[str] = "policy"

    thinking_mode: bool = setting(False, common=True)
    """Ask the policy to think between <think> and </think>; an answer in any other format counts as
    wrong."""
    thinking_opened_by_template: bool = setting(False)
    """Accept </think> without <think>: set it if the chat template opens <think> in the prompt
    (Qwen3, DeepSeek-R1)."""
    custom_thinking_prompt: TextOrFile | None = setting(None)
    """Use this text instead of the built-in system prompt of thinking_mode; @file reads it from a
    file."""
    custom_system_prompt: TextOrFile | None = setting(None)
    """Add this text to the system prompt, after the prompt of thinking_mode; @file reads it from a
    file."""
    reasoning_effort: ReasoningEffort | None = setting(None, fallback="max_reasoning_tokens")
    """Send this reasoning effort to a hosted reasoning model; max_reasoning_tokens is then
    ignored."""
    max_reasoning_tokens: int | None = setting(None, ge=1024, le=32000)
    """Let a hosted reasoning model think for at most this many tokens (1024 to 32000)."""
    eval_temperature: float = setting(0.6, verbs=EVALUATIONS, ge=0, common=True)
    """Sample the policy at this temperature in evaluations."""
    eval_max_tokens: int = setting(40960, verbs=EVALUATIONS, ge=0)
    """Limit a completion in evaluations to this many tokens; 0 sends no limit, so that the
    endpoint's own applies."""
    min_response_length: int = setting(10, verbs=EVALUATIONS, ge=0)
    """Retry a completion of an evaluation with fewer characters, which is usually a fault of the
    endpoint. Training judges a short completion as it is: asking again would hide from the trainer
    what the policy does."""
    short_answer_retries: int = operational(3, verbs=EVALUATIONS, ge=0)
    """Ask again at most this many times for a completion that is shorter than
    min_response_length."""
    max_retries: int = operational(MAX_RETRIES, ge=0)
    """Retry a failed call to policy or judge at most this many times; waiting for a busy or
    unreachable endpoint is no retry. judge_max_retries overrides it for the judge."""
    policy_deadline: float = operational(3600.0, gt=0)
    """Stop retrying a policy call this many seconds after its first attempt; the call then fails.
    Time in which the policy is unreachable does not count; a deadline that you set also limits
    that wait."""
    retry_delay: float = operational(1.0, ge=0)
    """Wait at most this many seconds before the first retry of a call to policy or judge; the limit
    doubles with each retry, up to a minute."""

    @model_validator(mode="after")
    def _max_retries_is_the_judges_too(self) -> Self:
        """Let `max_retries`, if set, also apply to the judge, unless the judge has its own."""
        fields_set, judge = self.model_fields_set, cast(object, self)
        if (
            isinstance(judge, JudgeSettings)
            and "max_retries" in fields_set
            and "judge_max_retries" not in fields_set
        ):
            judge.judge_max_retries = self.max_retries
            fields_set.discard(
                "judge_max_retries"
            )  # not set by the user, so a later change of max_retries reaches it
        return self

    @property
    def policy_is_judge(self) -> bool:
        """Whether the policy judges, and no other judge is called."""
        return False


class RunSettings(BaseModel, use_attribute_docstrings=True):
    """Where a run takes given answers from and writes its results, and what it logs."""

    help_group: ClassVar[str] = "run"

    model_answers: Path | None = setting(None, verbs=EVALUATE, common=True)
    """Judge the completions in this JSONL file (fields uid and answer), or the unchanged
    completions of this run directory, instead of calling a policy."""
    data_dir_to_save_evals: str | None = operational(None, verbs=EVALUATIONS, common=True)
    """Write the run to this directory; if unset, to runs/<environment>--<model>--<judge>--<time>
    (evaluate), beside the file of groups or to runs/serve--… (serve)."""
    write_report: bool = operational(True)
    """Write a page of the run for a browser: its result, charts, and samples with the judge's
    prompts and responses. evaluate writes report.html into the run directory, process a page beside
    the file of groups."""
    use_wandb: bool | Literal["optional"] = operational(False, verbs=EVALUATIONS)
    """Log metrics to Weights & Biases. optional: if no run can be opened there, warn and continue
    without it; otherwise that is an error before the first call."""
    wandb_name: str | None = operational(None, verbs=EVALUATIONS)
    """Use this name at Weights & Biases and at the rollout API; if unset, that of the run directory
    or the environment."""
    full_debug: bool = operational(False)
    """Log the prompt and the response of each call to policy and judge."""
    max_judge_error_rate: float = operational(0.05, verbs=EVALUATIONS, ge=0, le=1)
    """Fail the command if more than this share of the rows ends without a judgment."""


@dataclass(frozen=True, slots=True)
class AskedEndpoints:
    """The base URLs that a command calls, of judges, policies and a simulated user."""

    judge: tuple[str, ...]
    policy: tuple[str, ...]
    user: tuple[str, ...] = ()


class EnvConfig(
    ComposedSettings,
    CompletionSettings,
    RunSettings,
    RolloutSettings,
    TrainerSettings,
    MonitorSettings,
    SignalSettings,
    AlarmSettings,
    BudgetSettings,
    JudgeBatchSettings,
    JudgeSettings,
):
    """The settings that every environment has under `env`.

    Settings that Atropos also has keep its names, and its defaults except for those listed in the
    test of this module.

    Class attributes:
        unused_settings: settings common to all judges that the environment's judge does not read.
            Every judge inherits them, so only its author knows which. They are refused on the
            command line.
    """

    unused_settings: ClassVar[Collection[str]] = ()

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    @property
    def ignored(self) -> Mapping[str, Sequence[str]]:
        """The settings that the environment's own judge does not read."""
        return dict.fromkeys(self.unused_settings, ())

    def endpoints_asked(self, verb: Verb, policy: tuple[str, ...]) -> AskedEndpoints:
        """Return the base URLs that a verb calls; `policy` are those under `openai`."""
        return AskedEndpoints(
            judge=(self.judge_base_url,) if self.asks_endpoint and not self.policy_is_judge else (),
            policy=policy if self.model_answers is None else (),
            user=self.users,
        )

    @property
    def users(self) -> tuple[str, ...]:
        """The base URLs of a model that plays the user; none without one."""
        return ()

    def fill_in_urls(self, url: str, urls: Mapping[str, str]) -> Self:
        """Return a copy with the stand-ins' URLs, by role, in place of `url`, also in lists.

        Candidates are asked as policies, or, where a trainer samples by itself, as judges alone.
        """
        update: dict[str, object] = {}
        roles = {
            "judge_base_url": "judge",
            "judges": "judge",
            "candidates": "policy",
            "user_base_url": "user",
        }
        if "judge" in urls:
            urls = {"policy": urls["judge"], **urls}
        for name, role in roles.items():
            value = None
            if role in urls:
                value = getattr(self, name, None)
            if value == url:
                update |= {name: urls[role], f"{role}_api": "openai"}
            elif isinstance(value, list):
                models = []
                for model in value:
                    if model.base_url == url:
                        models.append(model.model_copy(update={"base_url": urls[role]}))
                    else:
                        models.append(model)
                update[name] = models
        return self.model_copy(update=update)

    def run_name(self, policy: str) -> str:
        """Return the run directory's name part for what is evaluated, such as the policy."""
        return policy

    def judge_run_name(self) -> str | None:
        """Return the run directory's name part for the judge; `None` if the policy is the judge."""
        if self.policy_is_judge:
            return None
        return self.judge_name()


ConfigT = TypeVar("ConfigT", bound=EnvConfig)


def dump_public(model: BaseModel) -> dict[str, JSON]:
    """Return the settings as JSON without secrets: keys, headers, parts of URLs and bodies.

    In lists of models the default names of keys' variables are left out, too.
    """
    secret = {
        name
        for name, field in type(model).model_fields.items()
        if "SecretStr" in str(field.annotation)
    }
    dumped: dict[str, JSON] = model.model_dump(mode="json", exclude=secret)
    for name, value in dumped.items():
        if isinstance(value, str):
            dumped[name] = redact_credentials(value)
        elif name.endswith("extra_body"):
            dumped[name] = redact_secret_fields(value)
        models = getattr(model, name)
        if isinstance(models, list) and any(isinstance(item, BaseModel) for item in models):
            dumped[name] = [_drop_variable_name(item) for item in models]
    return dumped


def _drop_variable_name(model: BaseModel) -> dict[str, JSON]:
    """Return a model of a list, without the default name of its key's variable."""
    dumped = dump_public(model)
    if (
        "api_key_env" not in model.model_fields_set
    ):  # a key whose variable is named may be sent to any host
        dumped.pop("api_key_env", None)
    return dumped


def secrets(model: BaseModel) -> Iterator[str]:
    """Yield every secret in a model, to remove it from output."""
    for name in type(model).model_fields:
        value = getattr(model, name)
        if name.endswith("extra_body"):
            yield from filter(None, secrets_in_fields(value))
            continue
        items = [value]
        if isinstance(value, list):
            items = value
        elif isinstance(value, dict):
            items = [*value.values()]
        for item in items:
            if isinstance(item, BaseModel):
                yield from secrets(item)
            elif isinstance(item, SecretStr) and item.get_secret_value():
                yield item.get_secret_value()
            elif isinstance(item, str) and name.endswith("url"):
                for url in split_urls(item):
                    yield from filter(None, secrets_in_url(url))
