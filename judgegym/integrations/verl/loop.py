"""An agent loop for verl that samples one turn and judges it; a sample whose judge failed is masked.

    actor_rollout_ref.rollout.agent.agent_loop_config_path="$(python -m judgegym.integrations.verl)/agent_loop.yaml"
    actor_rollout_ref.rollout.agent.default_agent_loop=judgegym
    +reward.custom_reward_function.reward_kwargs.url=http://127.0.0.1:8400

The settings are those of the reward manager (`ManagerSettings`), which is not asked where a loop has given the reward.
Guarantees: the `response_mask` of a sample whose judge failed is 0 everywhere, so that no estimator's advantage, no
whitening and no loss counts a token of it; its reward is the mean of its group, so that it moves no baseline, or
`fallback_score` in a group without any score. The samples of a prompt meet, in whichever workers they are made.

Source: verl 0.9.1, `verl.experimental.agent_loop`, `verl.trainer.ppo.core_algos`.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from judgegym.integrations.scores.results import MOST_FAILED, FailuresInARow, TrainerReward
from judgegym.integrations.verl.gathered import groups_of
from judgegym.integrations.verl.samples import extra_info, sample_of_row
from judgegym.integrations.verl.settings import ManagerSettings
from judgegym.judges.config.extras import needs

with needs("verl"):
    from verl.experimental.agent_loop.agent_loop import AgentLoopOutput
    from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop


class LoopRewards:
    """The rewards of the samples that one process makes for one configuration."""

    def __init__(self, config: Any) -> None:
        """Read the settings in verl's configuration.

        Raises:
            SettingsError: a setting cannot work.
        """
        function = config.reward.get("custom_reward_function") or {}
        settings = ManagerSettings.of(function.get("reward_kwargs"), None)
        rollout = config.actor_rollout_ref.rollout
        self.config = config
        self.is_masked = settings.on_failure != "score"
        self._size, self._validation_size = int(rollout.n), int(rollout.val_kwargs.n)
        self._is_environment = settings.environment is not None
        self._groups = groups_of(settings, self._size, workers=int(rollout.agent.num_workers))
        self._failures = FailuresInARow(max(MOST_FAILED, 2 * self._size))

    async def of(self, row: dict[str, Any], response: str) -> TrainerReward:
        """What a response to a row is worth.

        Raises:
            SettingsError: no sample can be judged.
            NoRewardError: the judge is down.
        """
        sample = sample_of_row(row, response, is_environment=self._is_environment)
        size = self._validation_size if sample.is_validation else self._size
        worth = await self._groups.score(sample.group, sample.row, size=size, recurs=not sample.has_uid)
        if self.is_masked:
            self._failures.add(worth.rewarded)
        return worth


_REWARDS: list[LoopRewards] = []
"""Those of this process: verl makes a loop for each sample, all with the configuration of their worker."""


_LOCK = threading.Lock()


def _rewards_of(config: Any) -> LoopRewards:
    with _LOCK:
        if not _REWARDS or _REWARDS[0].config is not config:
            _REWARDS[:] = [LoopRewards(config)]
        return _REWARDS[0]


class JudgeAgentLoop(SingleTurnAgentLoop):
    """One turn, and its reward by one of our judges or environments."""

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput:
        """Sample as verl does, and judge the response.

        Raises:
            SettingsError: a setting cannot work, or no sample can be judged.
            NoRewardError: the judge is down.
        """
        rewards = await asyncio.to_thread(_rewards_of, self.config)
        output: AgentLoopOutput = await super().run(sampling_params, **row)
        worth = await rewards.of(row, str(self.tokenizer.decode(output.response_ids, skip_special_tokens=True)))
        output.reward_score = worth.score
        output.extra_fields["reward_extra_info"] = extra_info(worth)
        if worth.rewarded.is_failed and rewards.is_masked:
            output.response_mask = [0] * len(output.response_mask)
        return output
