"""The settings that every environment has under `env`."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict

from environments.settings.reasoning import ReasoningEffort
from environments.settings.training import RolloutSettings, TrainerSettings
from environments.settings.verbs import EVALUATE, EVALUATIONS
from judges.config.fields import operational, setting
from judges.config.judge import JudgeSettings


class CompletionSettings(BaseModel):
    """How the policy is prompted, sampled and asked again."""

    help_group: ClassVar[str] = "policy"

    thinking_mode: bool = setting(
        False,
        "Ask the policy to think between <think> and </think>, and treat any other form as a wrong answer.",
        common=True,
    )
    thinking_opened_by_template: bool = setting(
        False,
        "Accept a lone </think>: the chat template has opened <think> in the prompt already (Qwen3, DeepSeek-R1).",
    )
    custom_thinking_prompt: str | None = setting(
        None, "Replace the built-in system prompt of thinking_mode by this text."
    )
    custom_system_prompt: str | None = setting(
        None, "Add this text to the system prompt, after the prompt of thinking_mode."
    )
    reasoning_effort: ReasoningEffort | None = setting(
        None, "Ask a hosted reasoning model for this effort, with a field of the request. Overrides the token budget."
    )
    max_reasoning_tokens: int | None = setting(
        None, "Ask a hosted reasoning model to think at most so many tokens (1024 to 32000).", ge=1024, le=32000
    )
    eval_temperature: float = setting(
        0.6, "Sample the policy at this temperature in evaluations.", verbs=EVALUATIONS, ge=0, common=True
    )
    eval_max_tokens: int = setting(
        40960,
        "Limit an answer in evaluations to so many tokens; 0 sends no limit, so that the endpoint's own applies.",
        verbs=EVALUATIONS,
        ge=0,
    )
    min_response_length: int = setting(
        10, "Ask again for an answer with fewer characters: it is most often a fault of the endpoint.", ge=0
    )
    max_retries: int = operational(
        3, "Retry a policy call that fails, or whose answer is too short, so many times.", ge=0
    )
    retry_delay: float = operational(
        1.0, "Wait at most so many seconds before the first retry; the limit doubles with each retry.", ge=0
    )


class RunSettings(BaseModel):
    """What a run is given, where its results go, and what is logged."""

    help_group: ClassVar[str] = "run"

    model_answers: Path | None = setting(
        None, "Judge the answers in this JSONL file (fields uid and answer), and call no policy.", verbs=EVALUATE
    )
    data_dir_to_save_evals: str | None = operational(
        None,
        "Write the evaluation to this directory; if unset, to runs/<environment>--<model>--<time>.",
        verbs=EVALUATIONS,
        common=True,
    )
    use_wandb: bool = operational(False, "Log metrics to Weights & Biases.", verbs=EVALUATIONS)
    wandb_name: str | None = operational(
        None,
        "Name the run at Weights & Biases, and at the rollout API; if unset, after the run directory or environment.",
        verbs=EVALUATIONS,
    )
    full_debug: bool = operational(False, "Log each call to policy and judge with its messages and its answer.")
    max_judge_error_rate: float = operational(
        0.05,
        "Fail the command if more than this share of the rows ends without a judgment.",
        verbs=EVALUATIONS,
        ge=0,
        le=1,
    )


class EnvConfig(CompletionSettings, RunSettings, RolloutSettings, TrainerSettings, JudgeSettings):
    """What every environment can be told under `env`.

    Settings that Atropos has too keep its names, and its defaults unless the test of this module says otherwise.
    """

    model_config = ConfigDict(extra="forbid")

    @property
    def policy_is_judge(self) -> bool:
        """Whether the policy judges, and no other judge is called."""
        return False

    def run_name(self, policy: str) -> str:
        """What an evaluation's directory is named after: the file of answers, or the policy's model."""
        return policy if self.model_answers is None else self.model_answers.stem


ConfigT = TypeVar("ConfigT", bound=EnvConfig)
