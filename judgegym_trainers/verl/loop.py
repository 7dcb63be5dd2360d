"""An agent loop for verl that samples one turn, judges it, and masks it if the judge failed.

    config="$(python -m judgegym_trainers.verl)/agent_loop.yaml"
    actor_rollout_ref.rollout.agent.agent_loop_config_path="$config"
    actor_rollout_ref.rollout.agent.default_agent_loop=judgegym
    +reward.custom_reward_function.reward_kwargs.url=http://127.0.0.1:8400

The settings are the reward manager's (`ManagerSettings`); verl does not call the manager if a loop
has set the reward. Guarantees: the `response_mask` of a sample whose judge failed is 0 everywhere,
so that no estimator's advantage, no whitening and no loss counts its tokens; its reward is the mean
of its group, so that it moves no baseline, or `fallback_score` in a group without any score. The
samples of a prompt are gathered from all workers.

Source: verl 0.9.1, `verl.experimental.agent_loop`, `verl.trainer.ppo.core_algos`.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from judgegym.judges.config.extras import report_missing_extra
from judgegym_trainers.scores.results import FailureStreak
from judgegym_trainers.verl.rewards import SampleRewards, make_extra_info, read_row_sample

with report_missing_extra("verl"):
    from verl.experimental.agent_loop.agent_loop import AgentLoopOutput
    from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop


_OPEN: list[tuple[Any, SampleRewards, FailureStreak]] = []
"""This process's rewards: verl makes a loop for each sample, with its worker's configuration."""
_LOCK = threading.Lock()


def _load_rewards(config: Any) -> tuple[SampleRewards, FailureStreak]:
    """Return this process's rewards for samples of a configuration.

    Raises:
        SettingsError: a setting cannot work.
    """
    with _LOCK:
        if not _OPEN or _OPEN[0][0] is not config:
            rewards = SampleRewards(
                config, {}, workers=int(config.actor_rollout_ref.rollout.agent.num_workers)
            )
            _OPEN[:] = [(config, rewards, FailureStreak())]
        return _OPEN[0][1:]


class JudgeAgentLoop(SingleTurnAgentLoop):
    """One turn, and its reward from a judge or an environment."""

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput:
        """Sample as verl does, and judge the response.

        Raises:
            SettingsError: a setting cannot work, or no sample can be judged.
            NoRewardError: the judge is down.
        """
        rewards, failures = await asyncio.to_thread(_load_rewards, self.config)
        output: AgentLoopOutput = await super().run(sampling_params, **row)
        response = str(self.tokenizer.decode(output.response_ids, skip_special_tokens=True))
        is_environment = rewards.settings.environment is not None
        result = await rewards.reward_sample(
            read_row_sample(row, response, is_environment=is_environment)
        )
        output.reward_score = result.score
        output.extra_fields["reward_extra_info"] = make_extra_info(result)
        if rewards.settings.on_failure != "score":
            failures.add(result, rewards.size)
            if result.is_failed:
                output.response_mask = [0] * len(output.response_mask)
        return output
