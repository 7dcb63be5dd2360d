"""What TRL has logged of a run, and what this project says of the same texts."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping, Sequence
from typing import Any, cast

from judgegym.llm.wire import Choice
from judgegym_trainers.single_turn import EnvironmentSource, get_environment
from tests.core.server.running import Reached
from tests.scripted import Json

TEXTS = [
    "It takes the string apart with a regular expression, and raises ValueError for anything else.",
    "No.",
    "def parse_duration(text: str) -> int: units such as d, h, m and s, each at most once, and "
    "only in that order",
    "A Python function that turns strings such as 1h30m into seconds; three calls with their "
    "results.",
]

EACH_BY_ITSELF = {"multi_objective_aggregation": "normalize_then_sum"}
"""The configuration with which several functions may stand in `reward_funcs`."""


def settings_of(url: str, **further: object) -> dict[str, object]:
    """The settings of an environment whose judge is at `url`, and fails at once where it fails."""
    return {
        "judge_base_url": url,
        "judge_model_name": "m",
        "judge_api_key": "k",
        "judge_max_retries": 0,
        **further,
    }


def environment(name: str, url: str, **further: object) -> dict[str, object]:
    """The keywords of `judge_environment`, for the bundled rows."""
    return {"environment": name, "settings": settings_of(url, **further), "offline": True}


async def environments_rewards(
    keywords: Mapping[str, Any], groups: Sequence[Sequence[str | Choice]]
) -> list[float | None]:
    """The rewards of the answers to the first rows, of each row together."""
    source = EnvironmentSource.from_settings(
        keywords["environment"], keywords["settings"], offline=True
    )
    opened_here = await asyncio.to_thread(get_environment, source)
    judged = [
        await opened_here.rewards(uid, group)
        for uid, group in zip(opened_here.uids, groups, strict=False)
    ]
    return [result.reward for of_row in judged for result in of_row]


async def servers_scores(
    server: Reached, body: Json, path: str = "/v1/score"
) -> list[float | None]:
    """The scores of a reward server for the responses of a request."""
    answer = (await server.post(path, body)).json
    return [result["score"] for result in answer.get("results", [answer])]


def logged(run: Json, name: str, table: int = 0) -> list[float | None]:
    """The rewards in TRL's table of completions."""
    return [row[name] for row in run["tables"][table]]


def single(rewards: Sequence[float | None]) -> list[float | None]:
    """The same with TRL's precision, whose tensors have single floats."""
    return [None if reward is None else rounded(reward) for reward in rewards]


def rounded(value: float) -> float:
    return cast(float, struct.unpack("f", struct.pack("f", value))[0])


def mean(run: Json, name: str) -> float | None:
    """The mean that TRL has logged at the first step."""
    entry = next(entry for entry in run["log"] if "reward" in entry)
    return cast("float | None", entry[f"rewards/{name}/mean"])


def launched(processes: int) -> tuple[str, ...]:
    """What starts a program in several processes of this machine."""
    return (
        "-m",
        "torch.distributed.run",
        f"--nproc_per_node={processes}",
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=127.0.0.1:0",
        "--local-addr=127.0.0.1",
    )
