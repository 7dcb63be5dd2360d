"""Groups of rollouts of one prompt, judged together: of an environment's row, or of a prompt with a judge.

Guarantees: a builder pickles, and holds neither connections nor secrets; in whichever process and event loop it is
used, it finds there the environment or the judge that is already open. All completions of a group are judged at once;
what the judge says is in the logs of each rollout's last step.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from tinker_cookbook.rl.types import Env, EnvGroupBuilder, Metrics, Trajectory

from judgegym.integrations.scores.requests import Conversation, conversation_json
from judgegym.integrations.scores.results import CompletionReward
from judgegym.integrations.scores.scoring import RewardScorer
from judgegym.integrations.scores.sources import JudgeSource, SharedScorings
from judgegym.integrations.single_turn.opened import opened
from judgegym.integrations.single_turn.source import EnvironmentSource
from judgegym.integrations.tinker.answers import read_answer, renderer_of
from judgegym.integrations.tinker.env import OneTurnEnv
from judgegym.integrations.tinker.rewards import group_rewards
from judgegym.llm.wire import JSON, Choice, Message

_SCORINGS = SharedScorings()


@dataclass(frozen=True, slots=True)
class Rollouts:
    """How a prompt is sampled.

    Attributes:
        group_size: how many rollouts.
        renderer_name: the cookbook's name of the policy's renderer.
        model_name: the model, or the folder, of the policy's tokenizer.
    """

    group_size: int
    renderer_name: str
    model_name: str


@dataclass(frozen=True)
class JudgedGroupBuilder(EnvGroupBuilder):
    """What both kinds of groups share.

    Attributes:
        rollouts: how the prompt is sampled.
        uid: the row's id.
        tags: by which the cookbook groups metrics.
    """

    rollouts: Rollouts
    uid: str
    tags: tuple[str, ...]

    async def make_envs(self) -> Sequence[Env]:
        """An environment for each rollout."""
        messages = await self._messages()
        renderer = renderer_of(self.rollouts.renderer_name, self.rollouts.model_name)
        return [OneTurnEnv(messages, renderer) for _ in range(self.rollouts.group_size)]

    async def compute_group_rewards(
        self, trajectory_group: list[Trajectory], env_group: Sequence[Env]
    ) -> list[tuple[float, Metrics]]:
        """Judge all completions of the group at once.

        Raises:
            NoRewardsError: the group is to be skipped.
        """
        renderer = renderer_of(self.rollouts.renderer_name, self.rollouts.model_name)
        sampled = [trajectory.transitions[-1] for trajectory in trajectory_group]
        answers = [read_answer(renderer, last.ac.tokens, last.ac.stop_reason) for last in sampled]
        results = await self._judged([answer.choice for answer in answers])
        for last, result in zip(sampled, results, strict=True):
            last.logs.update(row=self.uid, judge_status=result.status, judge_explanation=result.explanation)
        return group_rewards(results, "/".join((*self.tags, self.uid)))

    async def cleanup(self) -> None:
        """Do nothing: connections are the process's, shared by all groups, and closed with it."""

    def logging_tags(self) -> list[str]:
        """The tags by which the cookbook groups metrics."""
        return list(self.tags)

    @abstractmethod
    async def _messages(self) -> Sequence[Message]:
        """What the policy is asked."""

    @abstractmethod
    async def _judged(self, choices: Sequence[Choice]) -> Sequence[CompletionReward]:
        """The results of the completions, in order."""


@dataclass(frozen=True)
class EnvironmentGroupBuilder(JudgedGroupBuilder):
    """A row of an environment, with the environment's rewards.

    Attributes:
        source: the environment.
    """

    source: EnvironmentSource

    async def _messages(self) -> Sequence[Message]:
        return await asyncio.to_thread(lambda: opened(self.source).row(self.uid).messages)

    async def _judged(self, choices: Sequence[Choice]) -> Sequence[CompletionReward]:
        environment = await asyncio.to_thread(opened, self.source)
        return await environment.rewards(self.uid, choices)


def scoring_of(source: JudgeSource) -> RewardScorer:
    """What scores in this process; equal sources share it.

    Raises:
        SettingsError: a setting is wrong, or the token's variable is not set.
    """
    return _SCORINGS.of(source)


@dataclass(frozen=True)
class PromptGroupBuilder(JudgedGroupBuilder):
    """A prompt without an environment, and a judge.

    Attributes:
        messages: what the policy is asked.
        fields: what else the judge is told, as in a body of `POST /v1/score`: reference, rubric, ….
        source: the judge.
        invalid_completion_score: the reward of an empty completion.
    """

    messages: tuple[Message, ...]
    source: JudgeSource
    invalid_completion_score: float = 0.0
    fields: Mapping[str, JSON] = field(default_factory=dict)

    async def _messages(self) -> Sequence[Message]:
        return self.messages

    async def _judged(self, choices: Sequence[Choice]) -> Sequence[CompletionReward]:
        prompt = conversation_json(cast(Conversation, self.messages))
        request = {"prompt": prompt, "responses": [choice.text for choice in choices], **self.fields}
        (scored,) = await scoring_of(self.source).score([request])
        return [each.rewarded(self.invalid_completion_score) for each in scored]
