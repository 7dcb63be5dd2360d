"""What NeMo-RL's main branch reads of a row of `/verify`, by its `rollouts.py` and `environments/nemo_gym.py`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from tests.core.server.bodies import DOWN
from tests.core.server.running import asked
from tests.scripted import Json, Reply


def is_masked(row: Json) -> bool:
    """Whether the row is left out of the loss: it looks at no other field."""
    return bool((row.get("instance_config") or {}).get("mask_sample", False))


def check_components(row: Json) -> None:
    """Components, if there are any, sum to the reward; its tolerances.

    Raises:
        ValueError: they do not, which ends its training.
    """
    components = row.get("reward_components")
    if components and not math.isclose(
        row["reward"], sum(components.values()), rel_tol=1e-5, abs_tol=1e-6
    ):
        raise ValueError(f"reward {row['reward']}, components {components}")


def advantages(rows: Sequence[Json]) -> list[float]:
    """Reward less the mean of all others of the group, the masked ones, too; 0 where the row is masked."""
    rewards = [float(row["reward"]) for row in rows]
    left_out = [fmean(rewards[:place] + rewards[place + 1 :]) for place in range(len(rewards))]
    return [
        0.0 if is_masked(row) else reward - baseline
        for row, reward, baseline in zip(rows, rewards, left_out, strict=True)
    ]


def battle(request: Json, number: int) -> str | Reply:
    """The first of the two in the alphabet wins; whoever meets `c` gets no verdict."""
    text = asked(request)
    first = text.partition("<|The Start of Assistant A's Answer|>\n")[2][:1]
    other = text.partition("<|The Start of Assistant B's Answer|>\n")[2][:1]
    if "c" in (first, other):
        return DOWN
    return "[[A>B]]" if first < other else "[[B>A]]"
