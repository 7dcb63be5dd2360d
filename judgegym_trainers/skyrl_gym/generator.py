"""SkyRL's generator, with trajectories whose judge failed left out of the loss.

    from judgegym_trainers.skyrl_gym.generator import JudgedGenerator

`BasePPOExp.get_generator` of an experiment returns it in place of `SkyRLGymGenerator`, with the
same arguments.

Source: skyrl 0.4.0, `skyrl.train.generators.skyrl_gym_generator`.
"""

from __future__ import annotations

from typing import Any

from skyrl.train.generators.skyrl_gym_generator import SkyRLGymGenerator

from judgegym_trainers.skyrl_gym import leave_out_failed


class JudgedGenerator(SkyRLGymGenerator):
    """Generates as SkyRL does, and leaves trajectories whose judge failed out of the loss.

    They get a loss mask of 0, and the mean of their prompt's other rewards.
    """

    async def generate(self, input_batch: Any, disable_tqdm: bool = False) -> Any:
        """Generate trajectories, and take those without a score out of the loss.

        Raises:
            SettingsError: `generator.batched` is on: trajectories then have no metrics.
        """
        return leave_out_failed(await super().generate(input_batch, disable_tqdm), input_batch)
