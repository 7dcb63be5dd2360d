"""The single-turn environments over the offline judge: their settings, and the rewards that they give by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from judgegym_trainers.scores.results import CompletionReward
from judgegym_trainers.single_turn import EnvironmentSource, get_environment

Rewarded = Sequence[tuple[str, CompletionReward]]
"""Completions of a row, with their rewards."""
ENVIRONMENTS = (
    "arena_hard",
    "pairwise_judgement",
    "self_critique",
    "aspect_critique",
    "rubric_absolute",
)


def settings_of(name: str, url: str) -> dict[str, Any]:
    """The judge of an environment; the policy of pairwise_judgement judges by itself."""
    if name == "pairwise_judgement":
        return {}
    if name == "self_critique":
        # No critique: a round that fails keeps the score of the one before, and a refusal leaves
        # one of two rewards.
        return {
            "judges": [{"name": "the-judge", "base_url": url}],
            "judge_max_retries": 0,
            "critique_rounds": 0,
        }
    asked = {"aspects": ["coherence"]} if name == "aspect_critique" else {}
    return {"judge_base_url": url, "judge_model_name": "the-judge", "judge_max_retries": 0, **asked}


def of_example(name: str, settings: dict[str, Any]) -> str:
    """The environment on the bundled samples, as an expression of Python."""
    return f"EnvironmentSource.from_settings({name!r}, {settings!r}, offline=True)"


async def expected(name: str, url: str, *, rows: int = 3) -> dict[str, Rewarded]:
    """Completions of some rows, by row id, with the rewards that the environment itself gives in this process."""
    environment = await asyncio.to_thread(
        get_environment, EnvironmentSource.from_settings(name, settings_of(name, url), offline=True)
    )
    found: dict[str, Rewarded] = {}
    for uid in environment.uids[:rows]:
        question = environment.row(uid).messages[-1]["content"]
        texts = [
            question[:400],
            "<think>Well.</think> The sky is green. [[A]]",
            "<think>So.</think>[[B]]",
            "",
        ]
        found[uid] = list(zip(texts, await environment.rewards(uid, texts), strict=True))
    return found


def texts_of(wanted: Mapping[str, Rewarded]) -> dict[str, list[str]]:
    """The completions by row id, as programs are given them."""
    return {uid: [text for text, _ in pairs] for uid, pairs in wanted.items()}


def rewards_of(wanted: Mapping[str, Rewarded]) -> list[CompletionReward]:
    """The rewards of all completions."""
    return [rewarded for pairs in wanted.values() for _, rewarded in pairs]
