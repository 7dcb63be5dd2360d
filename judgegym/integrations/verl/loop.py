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

from judgegym.integrations.scores.results import FailuresInARow
from judgegym.integrations.verl.rewards import SampleRewards, extra_info, sample_of_row
from judgegym.judges.config.extras import needs

with needs("verl"):
    from verl.experimental.agent_loop.agent_loop import AgentLoopOutput
    from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop


class LoopRewards(SampleRewards):
    """The rewards of the samples that one process makes for one configuration."""

    def __init__(self, config: Any) -> None:
        """Read the settings in verl's configuration.

        Raises:
            SettingsError: a setting cannot work.
        """
        super().__init__(config, None, workers=int(config.actor_rollout_ref.rollout.agent.num_workers))
        self.config = config
        self.is_masked = self.settings.on_failure != "score"
        self.failures = FailuresInARow(self.size)


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
        response = str(self.tokenizer.decode(output.response_ids, skip_special_tokens=True))
        is_environment = rewards.settings.environment is not None
        worth = await rewards.of(sample_of_row(row, response, is_environment=is_environment))
        if rewards.is_masked:
            rewards.failures.add(worth.rewarded)
        output.reward_score = worth.score
        output.extra_fields["reward_extra_info"] = extra_info(worth)
        if worth.rewarded.is_failed and rewards.is_masked:
            output.response_mask = [0] * len(output.response_mask)
        return output
