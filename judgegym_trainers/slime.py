"""Reward function for slime, for a whole group (`--group-rm`) or for single samples.

    --custom-rm-path judgegym_trainers.slime.reward --group-rm --rm-url http://127.0.0.1:8400

With `--group-rm` the samples of a prompt are one request, so that any judge can compare them.
Without it, and in evaluations, where slime has no `--group-rm`, each sample is a request of its
own, which names its group and its index.

Further settings are in the YAML file of `--custom-config-path`, under `judgegym`: those of
`RewardSettings`. A `judge` that compares needs `--group-rm`. With a reward server, slime's
environment needs aiohttp and orjson only.

A sample whose judge failed is kept out of the loss (`remove_sample`), and gets the mean of its
group's other samples, which keeps their distances from it; its metadata say so. The same happens,
without a judge call, to a sample whose generation was aborted or failed (`status`), or that is
removed already. A setting that cannot work raises a `SettingsError` at the first sample, which ends
the training.

Source: slime, August 2026, its custom reward models.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import Protocol, TypeAlias

from judgegym.llm.errors import SettingsError
from judgegym.server.protocols.chat_tokens import plain_prompt, plain_response
from judgegym_trainers.scores.requests import CompletionRow, Conversation, make_completion_row
from judgegym_trainers.scores.results import CompletionReward, substitute_reward
from judgegym_trainers.scores.sources import RewardSettings, close

logger = logging.getLogger(__name__)

_ROUTE = "/slime"
"""The route of `--rm-type remote_rm`, which `--rm-url` may end with."""
_UNFINISHED = ("aborted", "failed")
"""Values of slime's `Sample.Status` for incomplete samples."""
_NOT_JUDGED = "not_judged"
_REMOVED = "judge_removed"
"""Marks a sample's metadata if we removed it; slime may generate it again and ask for a reward."""

__all__ = ["close", "reward"]

Reward: TypeAlias = float | dict[str, float]
"""A number; with `--reward-key` a mapping with the number under this key."""


class SlimeSample(Protocol):
    """The attributes of slime's sample that are read or written here."""

    prompt: Conversation
    response: str
    label: object
    metadata: dict[str, object]
    group_index: int | None
    index: int | None
    status: object
    remove_sample: bool


async def reward(
    args: object, samples: SlimeSample | Sequence[SlimeSample], **further: object
) -> Reward | list[Reward]:
    """Return the reward of a sample, or the rewards of several.

    Args:
        args: slime's arguments.
        samples: one sample or several, with `--group-rm` one group; samples without a score are
            marked.
        further: what slime may add; not used.

    Raises:
        SettingsError: a setting cannot work.
    """
    settings = _read_settings(args)
    sample_list = samples if isinstance(samples, Sequence) else [samples]
    together = isinstance(samples, Sequence) and bool(getattr(args, "group_rm", False))
    if not together and settings.compares:
        raise SettingsError(
            "judgegym.judge: a judge that compares responses needs --group-rm, or a reward server"
        )
    if any(isinstance(sample, list) for sample in sample_list):
        raise SettingsError(
            "--group-rm: slime cannot give rewards to rollouts of several samples (a "
            "--custom-generate-function-path that returns a list); without --group-rm each sample "
            "is judged alone"
        )
    skip_results = [_find_skip_result(sample) for sample in sample_list]
    positions = [index for index, result in enumerate(skip_results) if result is None]
    rows = [_make_row(sample_list[position], with_ids=not together) for position in positions]
    groups = [rows] if together and rows else [[row] for row in rows]
    group_results = await settings.get_shared_scorer().score(groups)
    judge_results = [*chain.from_iterable(group_results)]
    remaining = iter(judge_results)
    results = [next(remaining) if result is None else result for result in skip_results]
    substitute = substitute_reward(
        [result.reward for result in judge_results] if together else [], settings.fallback_score
    )
    if not together and any(result.is_failed for result in results):
        _warn_once()
    keys = [key for name in ("reward_key", "eval_reward_key") if (key := getattr(args, name, None))]
    rewards: list[Reward] = []
    for sample, result in zip(sample_list, results, strict=True):
        score = _write_result(sample, result, substitute)
        failed = float(result.is_failed and result.status != _NOT_JUDGED)
        rewards.append({**dict.fromkeys(keys, score), "judge_failed": failed} if keys else score)
    if isinstance(samples, Sequence):
        return rewards
    return rewards[0]


def _find_skip_result(sample: SlimeSample) -> CompletionReward | None:
    """Return the result of an incomplete or removed sample, which is not judged; else `None`."""
    if _read_metadata(sample).get(_REMOVED):
        sample.remove_sample = False
    status = getattr(sample.status, "value", sample.status)
    if status in _UNFINISHED:
        return CompletionReward(None, _NOT_JUDGED, explanation=f"the sample's status is {status}")
    if sample.remove_sample:
        return CompletionReward(None, _NOT_JUDGED, explanation="remove_sample is set")
    return None


def _write_result(sample: SlimeSample, result: CompletionReward, substitute: float) -> float:
    """Write the result into the sample; return its reward."""
    is_removed = result.is_failed and not sample.remove_sample
    sample.remove_sample = sample.remove_sample or is_removed
    metadata = {name: value for name, value in _read_metadata(sample).items() if name != _REMOVED}
    judgment = {"judge_status": result.status, "judge_explanation": result.explanation}
    sample.metadata = {**metadata, **judgment, **({_REMOVED: True} if is_removed else {})}
    return result.or_else(substitute).score


def _read_metadata(sample: SlimeSample) -> Mapping[str, object]:
    if isinstance(sample.metadata, Mapping):
        return sample.metadata
    return {}


@cache
def _warn_once() -> None:
    """Warn once how slime's baselines count a failure here; its evaluations have no baseline."""
    logger.warning(
        "without --group-rm a failed or unfinished sample counts as fallback_score in the mean of "
        "its group, by which slime (grpo, gspo, cispo, reinforce_plus_plus_baseline) normalizes "
        "the others' rewards; the sample itself is kept out of the loss"
    )


def _read_settings(args: object) -> RewardSettings:
    """Read the settings in slime's arguments.

    Raises:
        SettingsError: a setting is unknown, or not a number where a number is needed.
    """
    settings = RewardSettings.from_settings(getattr(args, "judgegym", None), within="judgegym")
    rm_url = getattr(args, "rm_url", None)
    if settings.url is not None or settings.judge is not None:
        return settings
    if not isinstance(rm_url, str):
        raise SettingsError(
            "--rm-url: expected the URL of a reward server, such as http://127.0.0.1:8400"
        )
    return replace(settings, url=rm_url.rstrip("/").removesuffix(_ROUTE))


def _make_row(sample: SlimeSample, *, with_ids: bool) -> CompletionRow:
    prompt = plain_prompt(sample.prompt) if isinstance(sample.prompt, str) else sample.prompt
    ids = {"group": sample.group_index, "member": sample.index} if with_ids else {}
    return make_completion_row(
        prompt, plain_response(sample.response or ""), _read_metadata(sample), sample.label, **ids
    )
