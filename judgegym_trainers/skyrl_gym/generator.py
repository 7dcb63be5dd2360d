"""SkyRL's generator, without the trajectories whose judge failed in the loss.

    from judgegym_trainers.skyrl_gym.generator import JudgedGenerator

`BasePPOExp.get_generator` of an experiment returns it in the place of `SkyRLGymGenerator`, with the
same arguments.

Source: skyrl 0.4.0, `skyrl.train.generators.skyrl_gym_generator`.
"""

from __future__ import annotations

from typing import Any

from skyrl.train.generators.skyrl_gym_generator import SkyRLGymGenerator

from judgegym_trainers.skyrl_gym import leave_out_failed


class JudgedGenerator(SkyRLGymGenerator):
    """Generates as SkyRL does; what has no score has a loss mask of 0, and the mean of the others of its prompt."""

    async def generate(self, input_batch: Any, disable_tqdm: bool = False) -> Any:
        """Generate trajectories, and take those without a score out of the loss.

        Raises:
            SettingsError: `generator.batched` is on, with which no trajectory has metrics.
        """
        return leave_out_failed(await super().generate(input_batch, disable_tqdm), input_batch)
