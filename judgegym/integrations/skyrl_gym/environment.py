"""A row of one of our environments as an environment of skyrl-gym.

Source: skyrl-gym 0.4.0, `skyrl_gym.register` and `BaseTextEnv`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import skyrl_gym
from skyrl_gym.envs.base_text_env import BaseTextEnvStepOutput

from judgegym.integrations.scores.results import check_finite
from judgegym.integrations.single_turn.opened import opened
from judgegym.integrations.single_turn.source import EnvironmentSource, source_of
from judgegym.integrations.skyrl_gym.dataset import class_of
from judgegym.integrations.skyrl_gym.episode import SkyRLEpisode
from judgegym.llm.errors import DataError


class SingleTurnEnv(SkyRLEpisode):
    """A row of an environment, and the reward of the completion."""

    def __init__(
        self,
        env_config: object = None,
        extras: Mapping[str, Any] | None = None,
        *,
        source: EnvironmentSource,
        fallback_score: float = 0.0,
    ) -> None:
        """Take the row that `extras` name in `reward_spec.uid`.

        Raises:
            DataError: they name none.
        """
        super().__init__()
        spec = (extras or {}).get("reward_spec")
        uid = spec.get("uid") if isinstance(spec, Mapping) else None
        if not isinstance(uid, str):
            raise DataError("reward_spec.uid: expected the id of a row, as write_dataset writes it")
        self._uid, self._source, self._fallback = uid, source, fallback_score

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """The reward of a completion; blocks until it is there.

        Raises:
            DataError: the environment has no such row.
        """
        (rewarded,) = opened(self._source).rewards_sync(self._uid, [action])
        return self.end(rewarded, self._fallback)


def register_environment(
    source: EnvironmentSource | str, *, env_class: str | None = None, fallback_score: float = 0.0
) -> str:
    """Register an environment with skyrl-gym; to be called in the training entry point, where the generator runs.

    Args:
        source: the environment, or its name if it needs no settings.
        env_class: the id; by default `judgegym_` and the environment's name.
        fallback_score: the reward of a completion whose judge failed.

    Returns:
        The id, which the dataset's rows have as `env_class`.

    Raises:
        SettingsError: a setting is wrong.
        DataError: the rows cannot be loaded.
    """
    check_finite(fallback_score=fallback_score)
    source = source_of(source)
    name = env_class or class_of(source)
    kwargs = {"source": source, "fallback_score": fallback_score}
    skyrl_gym.register(id=name, entry_point=f"{__name__}:SingleTurnEnv", kwargs=kwargs)
    return name
