"""Groups of rollouts of one prompt, judged together: of an environment's row, or of a prompt with a judge.

Guarantees: a builder pickles, and holds neither connections nor secrets; in whichever process and event loop it is
used, it finds there the environment or the judge that is already open. All completions of a group are judged at once;
what the judge says is in the logs of each rollout's last step.
"""

from __future__ import annotations

import asyncio
import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from tinker_cookbook.rl.types import Env, EnvGroupBuilder, Metrics, Trajectory

from judgegym.integrations.scores.conversations import Conversation, conversation_json
from judgegym.integrations.scores.numbers import check_finite
from judgegym.integrations.scores.scoring import Scoring
from judgegym.integrations.scores.sources import SharedScorings
from judgegym.integrations.single_turn.opened import opened
from judgegym.integrations.single_turn.source import EnvironmentSource
from judgegym.integrations.tinker.answers import read_answer, renderer_of
from judgegym.integrations.tinker.env import OneTurnEnv
from judgegym.integrations.tinker.rewards import Result, group_rewards
from judges.llm.errors import SettingsError
from judges.llm.wire import JSON, Choice, Message

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
    async def _judged(self, choices: Sequence[Choice]) -> Sequence[Result]:
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

    async def _judged(self, choices: Sequence[Choice]) -> Sequence[Result]:
        environment = await asyncio.to_thread(opened, self.source)
        return [Result.of_rewarded(each) for each in await environment.rewards(self.uid, choices)]


@dataclass(frozen=True, slots=True)
class JudgeSource:
    """A judge that scores completions from 0 to 1.

    Attributes:
        url: the URL of a reward server; or
        judge: the settings of a judge to run in each process that judges, under the server's names.
        offline: with `judge`, ask the stand-in; its scores mean nothing.
        token_env: the environment variable with the server's bearer token.
        mount: the name of a judge at the server; empty for the judge at the root.
        invalid_completion_score: the reward of an empty completion.
        timeout_s: seconds for one attempt at the server.
        deadline_s: seconds within which a group has its scores; what has none by then is a failure.
    """

    url: str | None = None
    judge: Mapping[str, object] | None = None
    offline: bool = False
    token_env: str | None = None
    mount: str = ""
    invalid_completion_score: float = 0.0
    timeout_s: float = 150.0
    deadline_s: float = 900.0

    def scoring(self) -> Scoring:
        """What scores in this process; equal sources share it.

        Raises:
            SettingsError: a setting is wrong, or the token's variable is not set.
        """
        check_finite(invalid_completion_score=self.invalid_completion_score)
        token = None if self.token_env is None else os.environ.get(self.token_env)
        if self.token_env is not None and token is None:
            raise SettingsError(f"token_env: there is no environment variable {self.token_env}")
        return _SCORINGS.of(
            self.url,
            self.judge,
            token=token,
            mount=self.mount,
            timeout_s=self.timeout_s,
            deadline_s=self.deadline_s,
            offline=self.offline,
        )

    async def results(self, request: Mapping[str, JSON]) -> list[Result]:
        """The results of one request with `responses`.

        Raises:
            SettingsError: a setting cannot work.
        """
        (scored,) = await self.scoring().score([request])
        return [Result.of_scored(each, invalid=self.invalid_completion_score) for each in scored]


@dataclass(frozen=True)
class PromptGroupBuilder(JudgedGroupBuilder):
    """A prompt without an environment, and a judge.

    Attributes:
        messages: what the policy is asked.
        fields: what else the judge is told, as in a body of `POST /v1/score`: reference, rubric, ….
        source: the judge.
    """

    messages: tuple[Message, ...]
    source: JudgeSource
    fields: Mapping[str, JSON] = field(default_factory=dict)

    async def _messages(self) -> Sequence[Message]:
        return self.messages

    async def _judged(self, choices: Sequence[Choice]) -> Sequence[Result]:
        prompt = conversation_json(cast(Conversation, self.messages))
        return await self.source.results(
            {"prompt": prompt, "responses": [choice.text for choice in choices], **self.fields}
        )
