"""Rewards of an environment's rows, for a reward function and for the environments that a trainer makes.

Guarantees: all answers of a batch are judged at the same time; the answers to a row are judged together, which judges
of groups need, and equal ones are judged once. If the judge's endpoint does not know the key or the model, or refuses
all of the first batch, the settings are at fault, and a `SettingsError` says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from judgegym.data.rows import Split
from judgegym.integrations.scores.requests import GroupedBatch
from judgegym.integrations.scores.results import CompletionReward
from judgegym.integrations.scores.scoring import REFUSED_AT_START
from judgegym.integrations.single_turn.opened import OpenedEnvironment, close_opened, opened
from judgegym.integrations.single_turn.source import EnvironmentSource
from judgegym.llm.at_once import all_results
from judgegym.llm.errors import DataError, SettingsError
from judgegym.llm.wire import Choice


@dataclass(frozen=True, slots=True)
class RowReference:
    """Which row of an environment a rollout is of."""

    uid: str
    split: Split = "train"


@dataclass(frozen=True, slots=True)
class RolloutCompletion:
    """What the policy has answered to a row."""

    place: RowReference
    choice: Choice


def place_of(uid: object, split: object) -> RowReference:
    """The row with these cells.

    Raises:
        DataError: they name none.
    """
    if not isinstance(uid, str) or split not in (None, "train", "eval"):
        raise DataError(f"expected a row of dataset(), with its uid and split, found uid {uid!r} and split {split!r}")
    return RowReference(uid, "eval" if split == "eval" else "train")


class EnvironmentJudge:
    """Judges answers with the environments of the two splits, which open at the first use."""

    def __init__(self, sources: Mapping[Split, EnvironmentSource]) -> None:
        """Judge with the environments of `sources`."""
        self._sources = sources
        self._groups = GroupedBatch(self._judge, lambda answer: answer.place)
        self._is_proven = False
        self._refused = 0

    def opened(self, split: Split) -> OpenedEnvironment:
        """The environment with the rows of a split; blocks while it opens.

        Raises:
            SettingsError: a setting is wrong.
            DataError: the rows cannot be loaded.
        """
        return opened(self._sources[split])

    def close(self) -> None:
        """Close what is open; the next use opens it again. Blocks."""
        for source in self._sources.values():
            close_opened(source)

    async def rewards(self, answers: Sequence[RolloutCompletion], size: int | None) -> list[CompletionReward]:
        """The results of this process's answers, in order.

        Args:
            answers: those of this process.
            size: the number of answers to each row, which may be spread over several processes: all of these call this
                at the same time. `None`: all answers are here, and neighbours with the same row are answers to it.

        Raises:
            SettingsError: the answers are not in groups of this size, or no answer can be judged.
            DataError: there is no such row.
        """
        if size is not None:
            return await self._groups.score(answers, size)
        groups = [list(group) for _, group in groupby(answers, key=lambda answer: answer.place)]
        return [result for group in await self._judge(groups) for result in group]

    async def compares(self, split: Split) -> bool:
        """Whether answers to a row are compared with each other."""
        return (await asyncio.to_thread(self.opened, split)).compares

    async def _judge(self, groups: Sequence[Sequence[RolloutCompletion]]) -> list[list[CompletionReward]]:
        splits = {group[0].place.split for group in groups}
        environments = {split: await asyncio.to_thread(self.opened, split) for split in splits}
        judged = await all_results(
            environments[group[0].place.split].rewards(group[0].place.uid, [answer.choice for answer in group])
            for group in groups
        )
        requests: list[list[CompletionReward]] = []
        for group, results in zip(groups, judged, strict=True):
            judgments = [result for result in results if not result.is_invalid]
            is_one = environments[group[0].place.split].compares
            requests += [judgments] if is_one and judgments else [[result] for result in judgments]
        self._check(requests)
        return judged

    def _check(self, requests: Sequence[Sequence[CompletionReward]]) -> None:
        """Find out at the start whether all is refused; `requests` are the results by what was judged together."""
        refusals = [of[0].refusal for of in requests if all(result.refusal for result in of)]
        self._refused += len(refusals)
        self._is_proven = self._is_proven or any(result.reward is not None for of in requests for result in of)
        is_unauthorized = any(result.is_unauthorized for of in requests for result in of)
        is_whole_batch = len(refusals) == len(requests) > 1
        if not self._is_proven and (is_unauthorized or is_whole_batch or self._refused >= REFUSED_AT_START):
            raise SettingsError(f"the judge's endpoint refuses its requests: {refusals[0]}")
