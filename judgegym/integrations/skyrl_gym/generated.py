"""What SkyRL's generator has made, without the trajectories whose judge failed.

Source: skyrl 0.4.0, `skyrl.train.generators.base.GeneratorOutput`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

from judgegym.integrations.scores.results import stand_in
from judgegym.llm.errors import SettingsError


def leave_out_failed(output: MutableMapping[str, Any], input_batch: Mapping[str, Any]) -> MutableMapping[str, Any]:
    """Take the trajectories whose judge failed out of the loss.

    Their loss masks become zero, and their rewards the mean of the others of their prompt, so that those keep their
    advantages' order and signs, and a prompt without any other has no signal.

    Args:
        output: what `SkyRLGymGenerator.generate` returned, which is changed and returned.
        input_batch: what it was called with.

    Raises:
        SettingsError: the output has no `env_metrics`, as with `generator.batched`.
    """
    metrics = output.get("env_metrics")
    if metrics is None:
        raise SettingsError("generator.batched: expected false; batched generation tells no metrics of a trajectory")
    ids = output.get("trajectory_ids") or input_batch.get("trajectory_ids")
    groups: dict[object, list[int]] = defaultdict(list)
    for place in range(len(metrics)):
        groups[place if ids is None else ids[place].instance_id].append(place)
    for places in groups.values():
        totals = [None if metrics[place].get("judge_failed") else _total(output["rewards"][place]) for place in places]
        if None not in totals:
            continue
        mean = stand_in(totals, 0.0)
        for place, total in zip(places, totals, strict=True):
            if total is None:
                output["rewards"][place] = _as(output["rewards"][place], mean)
                output["loss_masks"][place] = [0] * len(output["loss_masks"][place])
    return output


def _total(reward: float | Sequence[float]) -> float:
    return math.fsum(reward) if isinstance(reward, Sequence) else float(reward)


def _as(reward: float | Sequence[float], value: float) -> float | list[float]:
    """A reward in the form of another: a number, or one for each token, of which the last has it all."""
    return [*([0.0] * (len(reward) - 1)), value] if isinstance(reward, Sequence) and reward else value
