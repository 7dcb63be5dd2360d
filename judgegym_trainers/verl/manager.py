"""A reward manager for verl that scores the groups of a batch.

    reward.reward_manager.source=importlib
    reward.reward_manager.name=JudgeRewardManager
    reward.reward_manager.module.path=pkg://judgegym_trainers.verl.manager
    +reward.custom_reward_function.reward_kwargs.judge.judge=listwise

verl knows no missing reward: a sample without a score gets the mean of its group, which only some
estimators subtract. With other estimators the manager is refused; `loop.py` masks such a sample.
The samples of a `uid` are gathered from all reward workers; see `ManagerSettings` for all settings,
and `scores.groups` for the guarantees. The judge is shown the policy's own prompt (`raw_prompt`),
unless `extra_info` has a `question`. Every sample has the same keys in `reward_extra_info`.

Source: verl 0.9.1, `verl.experimental.reward_loop`.
"""

from __future__ import annotations

import asyncio
from typing import Any, TypedDict

from judgegym.judges.config.extras import report_missing_extra
from judgegym_trainers.verl.rewards import SampleRewards, make_extra_info, read_sample

with report_missing_extra("verl"):
    from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase


class RewardOfVerl(TypedDict):
    """A reward manager's result for verl."""

    reward_score: float
    reward_extra_info: dict[str, float | str]


class JudgeRewardManager(RewardManagerBase):
    """Scores samples with a judge or an environment, together with their prompt's other samples."""

    def __init__(
        self,
        config: Any,
        tokenizer: Any,
        compute_score: object,
        reward_router_address: str | None = None,
        reward_model_tokenizer: object = None,
    ) -> None:
        """Read the settings in verl's configuration.

        Args:
            config: the trainer's configuration.
            tokenizer: the policy's tokenizer.
            compute_score: verl's reward function, which is not called.
            reward_router_address: the address of a reward model that verl deployed.
            reward_model_tokenizer: that model's tokenizer.

        Raises:
            SettingsError: a setting cannot work, or the estimator would train a failed judge as a
                score.
        """
        super().__init__(config, tokenizer, compute_score)
        arguments = {
            "reward_router_address": reward_router_address,
            "reward_model_tokenizer": reward_model_tokenizer,
        }
        workers = int(config.reward.num_workers)
        algorithm = config.get("algorithm") or {}
        self._rewards = SampleRewards(config, arguments, workers=workers, algorithm=algorithm)

    async def run_single(self, data: Any) -> RewardOfVerl:
        """Return the reward of one sample, once its judge has what it needs of the group.

        Raises:
            SettingsError: no sample can be judged, which ends the training.
        """
        is_environment = self._rewards.settings.environment is not None
        sample = await asyncio.to_thread(
            read_sample, data, self.tokenizer, is_environment=is_environment
        )
        result = await self._rewards.reward_sample(sample)
        return {"reward_score": result.score, "reward_extra_info": make_extra_info(result)}
