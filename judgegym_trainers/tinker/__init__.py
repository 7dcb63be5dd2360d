"""Environments and judges for tinker-cookbook: groups of rollouts of one prompt, judged together.

`datasets.py` has what a recipe's train config takes.

Guarantees: a builder pickles, and holds neither connections nor secrets; in every process and event
loop it uses the environment or the judge that is already open there. All completions of a group are
judged at once; status and explanation are in the logs of each rollout's last step. Malformed tokens
raise no error; thinking that the renderer recognizes is kept apart from the answer.

Every reward is a finite number. If the judge failed, it is the mean of the others, which keeps
their advantages and makes its own zero, with the metric `judge_failed` 1. The cookbook drops a
group with fewer than two results under every rollout strategy, without ending a step.

Source: tinker-cookbook 0.6.1, `tinker_cookbook.rl`.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from judgegym.environments.rollouts.groups import fill_missing_scores
from judgegym.judges.config.extras import report_missing_extra
from judgegym.llm.wire import CUT_OFF, JSON, Choice, Message
from judgegym_trainers.scores.requests import CompletionRow, convert_conversation
from judgegym_trainers.scores.results import CompletionReward
from judgegym_trainers.scores.sources import JudgeSource
from judgegym_trainers.single_turn import EnvironmentSource, get_environment

with report_missing_extra("tinker"):
    import tinker
    from tinker_cookbook.completers import StopCondition
    from tinker_cookbook.exceptions import AllTrajectoriesFailedError, RendererError
    from tinker_cookbook.renderers import Message as RenderedMessage
    from tinker_cookbook.renderers import Renderer, get_renderer, get_text_content
    from tinker_cookbook.rl.types import (
        STOP_METRIC_PREFIX,
        Action,
        ActionExtra,
        Env,
        EnvGroupBuilder,
        Metrics,
        StepResult,
        StopReason,
        Trajectory,
    )
    from tinker_cookbook.tokenizer_utils import get_tokenizer


@dataclass(frozen=True, slots=True)
class TinkerCompletion:
    """A completion that a policy sampled.

    Attributes:
        choice: text, thinking, and whether the text was cut off.
        is_parsed: whether the tokens end as the renderer expects it.
    """

    choice: Choice
    is_parsed: bool

    @property
    def stop_reason(self) -> StopReason:
        """The reason why the rollout ends, in the cookbook's terms."""
        if self.choice.finish_reason == CUT_OFF:
            return StopReason.MAX_TOKENS
        if self.is_parsed:
            return StopReason.COMPLETED
        return StopReason.PARSE_ERROR


@cache
def find_renderer(renderer_name: str, model_name: str) -> Renderer:
    """Return a renderer by name, with a model's tokenizer, which may be a folder.

    Each process makes it once.
    """
    return get_renderer(renderer_name, get_tokenizer(model_name), model_name=model_name)


def read_completion(
    renderer: Renderer, tokens: Sequence[int], stop_reason: str | None
) -> TinkerCompletion:
    """Parse sampled tokens; the stop reason `length` means that they were cut off."""
    finish_reason = "stop"
    if stop_reason == "length":
        finish_reason = CUT_OFF
    try:
        message, termination = renderer.parse_response(list(tokens))
    except (
        RendererError
    ):  # more than one turn: the whole text is the completion, in the wrong format
        return TinkerCompletion(
            Choice(str(renderer.tokenizer.decode(list(tokens))), finish_reason=finish_reason), False
        )
    content = message["content"]
    parts = content
    if isinstance(content, str):
        parts = []
    thinking = "".join(part["thinking"] for part in parts if part["type"] == "thinking")
    return TinkerCompletion(
        Choice(get_text_content(message), thinking or None, finish_reason), termination.is_clean
    )


class OneTurnEnv(Env):
    """Asks the policy once, for a single use, like the cookbook's environments."""

    def __init__(self, messages: Sequence[Message], renderer: Renderer) -> None:
        """Ask with these messages, rendered for the policy."""
        self._messages = [
            RenderedMessage(role=message["role"], content=message["content"])
            for message in messages
        ]
        self._renderer = renderer

    async def initial_observation(self) -> tuple[tinker.ModelInput, StopCondition]:
        """Return the prompt's tokens, and the policy's stop condition."""
        return self._renderer.build_generation_prompt(
            self._messages
        ), self._renderer.get_stop_sequences()

    async def step(self, action: Action, *, extra: ActionExtra | None = None) -> StepResult:
        """End the episode with a reward of 0, to which `compute_group_rewards` adds the judge's."""
        completion = read_completion(self._renderer, action, (extra or {}).get("stop_reason"))
        return StepResult(
            reward=0.0,
            episode_done=True,
            next_observation=tinker.ModelInput.empty(),
            next_stop_condition=self._renderer.get_stop_sequences(),
            metrics={
                "parse_success": float(completion.is_parsed),
                f"{STOP_METRIC_PREFIX}{completion.stop_reason}": 1.0,
            },
            logs={"response": completion.choice.text},
        )


class NoRewardsError(AllTrajectoriesFailedError):
    """A group without rewards, which the cookbook skips and counts as skipped."""


def group_rewards(results: Sequence[CompletionReward], name: str) -> list[tuple[float, Metrics]]:
    """Return the reward and the metrics of each rollout.

    A failed judge leaves out the environment's metrics: the cookbook averages those that are
    present.

    Raises:
        NoRewardsError: fewer than two rollouts (in a group of one: none) have a result.
    """
    scores = fill_missing_scores([result.reward for result in results])
    if scores is None:
        failed = [result for result in results if result.reward is None]
        reason = ""
        if failed:
            reason = f": {failed[0].status}: {failed[0].explanation}"
        count = len(failed)
        total = len(results)
        raise NoRewardsError(f"{name}: the judge failed for {count} of {total} rollouts{reason}")
    return [
        (value, {**result.metrics, **result.flags})
        for value, result in zip(scores, results, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Rollouts:
    """How a prompt is sampled.

    Attributes:
        group_size: number of rollouts.
        renderer_name: the cookbook's name of the policy's renderer.
        model_name: the model, or the folder, of the policy's tokenizer.
    """

    group_size: int
    renderer_name: str
    model_name: str


@dataclass(frozen=True)
class JudgedGroupBuilder(EnvGroupBuilder):
    """Base class of both kinds of groups.

    Attributes:
        rollouts: how the prompt is sampled.
        uid: the row's id.
        tags: tags by which the cookbook groups metrics.
    """

    rollouts: Rollouts
    uid: str
    tags: tuple[str, ...]

    async def make_envs(self) -> Sequence[Env]:
        """Make an environment for each rollout."""
        messages = await self._messages()
        renderer = find_renderer(self.rollouts.renderer_name, self.rollouts.model_name)
        return [OneTurnEnv(messages, renderer) for _ in range(self.rollouts.group_size)]

    async def compute_group_rewards(
        self, trajectory_group: list[Trajectory], env_group: Sequence[Env]
    ) -> list[tuple[float, Metrics]]:
        """Judge all completions of the group at once.

        Raises:
            NoRewardsError: the group is to be skipped.
        """
        renderer = find_renderer(self.rollouts.renderer_name, self.rollouts.model_name)
        transitions = [trajectory.transitions[-1] for trajectory in trajectory_group]
        completions = [
            read_completion(renderer, transition.ac.tokens, transition.ac.stop_reason)
            for transition in transitions
        ]
        results = await self._judge_completions([answer.choice for answer in completions])
        for sampled_step, result in zip(transitions, results, strict=True):
            sampled_step.logs.update(
                row=self.uid, judge_status=result.status, judge_explanation=result.explanation
            )
        return group_rewards(results, "/".join((*self.tags, self.uid)))

    async def cleanup(self) -> None:
        """Do nothing: connections belong to the process, and all groups share them."""

    def logging_tags(self) -> list[str]:
        """Return the tags by which the cookbook groups metrics."""
        return list(self.tags)

    @abstractmethod
    async def _messages(self) -> Sequence[Message]:
        """Return the policy's prompt."""

    @abstractmethod
    async def _judge_completions(self, choices: Sequence[Choice]) -> Sequence[CompletionReward]:
        """Judge the completions, in order."""


@dataclass(frozen=True)
class EnvironmentGroupBuilder(JudgedGroupBuilder):
    """A row of an environment, with the environment's rewards.

    Attributes:
        source: the environment.
    """

    source: EnvironmentSource

    async def _messages(self) -> Sequence[Message]:
        return await asyncio.to_thread(lambda: get_environment(self.source).row(self.uid).messages)

    async def _judge_completions(self, choices: Sequence[Choice]) -> Sequence[CompletionReward]:
        environment = await asyncio.to_thread(get_environment, self.source)
        return await environment.rewards(self.uid, choices)


@dataclass(frozen=True)
class PromptGroupBuilder(JudgedGroupBuilder):
    """A prompt without an environment, and a judge.

    Attributes:
        messages: the policy's prompt.
        fields: further fields for the judge, as in a body of `POST /v1/score`: reference, rubric,
            ….
        source: the judge.
    """

    messages: tuple[Message, ...]
    source: JudgeSource
    fields: Mapping[str, JSON] = field(default_factory=dict)

    async def _messages(self) -> Sequence[Message]:
        return self.messages

    async def _judge_completions(self, choices: Sequence[Choice]) -> Sequence[CompletionReward]:
        shared = {"prompt": convert_conversation(self.messages), **self.fields}
        rows = [CompletionRow(shared, choice.text) for choice in choices]
        (results,) = await self.source.get_shared_scorer().score([rows])
        return results
