"""An episode of one step: what both kinds of environments return, and count.

Source: skyrl-gym 0.4.0, `skyrl_gym.register` and `BaseTextEnv`.
"""

from __future__ import annotations

from collections.abc import Mapping

from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput


class Episode(BaseTextEnv):
    """An episode of one step, with its metrics."""

    def __init__(self) -> None:
        """Begin without metrics."""
        super().__init__()
        self._metrics: dict[str, float] = {}

    def get_metrics(self) -> dict[str, float]:
        """The metrics of the episode; `reward_of_judged` and the environment's own only where the judge gave one."""
        return dict(self._metrics)

    def end(
        self,
        value: float | None,
        fallback: float,
        *,
        is_invalid: bool,
        said: Mapping[str, str | None],
        metrics: Mapping[str, float],
    ) -> BaseTextEnvStepOutput:
        """End the episode with a reward.

        Args:
            value: the reward; `None` if the judge failed.
            fallback: the reward in that case.
            is_invalid: whether the completion is at fault.
            said: what the judge said, for the step's metadata.
            metrics: further metrics of the episode.
        """
        self.turns += 1
        is_failed = value is None
        self._metrics = {"judge_failed": float(is_failed), "invalid_completion": float(is_invalid)}
        if value is not None:
            self._metrics.update({"reward_of_judged": value, **metrics})
        metadata = {"judge_failed": is_failed, "invalid_completion": is_invalid, **said}
        reward = fallback if value is None else value
        return BaseTextEnvStepOutput(observations=[], reward=reward, done=True, metadata=metadata)
