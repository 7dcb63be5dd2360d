"""An episode of one step: what both kinds of environments return, and count.

Source: skyrl-gym 0.4.0, `skyrl_gym.register` and `BaseTextEnv`.
"""

from __future__ import annotations

from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput

from judgegym.integrations.scores.results import CompletionReward


class SkyRLEpisode(BaseTextEnv):
    """An episode of one step, with its metrics."""

    def __init__(self) -> None:
        """Begin without metrics."""
        super().__init__()
        self._metrics: dict[str, float] = {}

    def get_metrics(self) -> dict[str, float]:
        """The metrics of the episode; `reward_of_judged` and the environment's own only where the judge gave one."""
        return dict(self._metrics)

    def end(self, rewarded: CompletionReward, fallback: float) -> BaseTextEnvStepOutput:
        """End the episode with a reward, or with `fallback` if the judge failed."""
        self.turns += 1
        self._metrics = rewarded.flags
        if rewarded.reward is not None:
            self._metrics.update({"reward_of_judged": rewarded.reward, **rewarded.metrics})
        flags = {"judge_failed": rewarded.is_failed, "invalid_completion": rewarded.is_invalid}
        reward = rewarded.worth(fallback).score
        return BaseTextEnvStepOutput(observations=[], reward=reward, done=True, metadata={**flags, **rewarded.said})
