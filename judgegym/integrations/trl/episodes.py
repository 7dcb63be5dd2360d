"""The environments that a trainer makes with `environment_factory`: one rollout each, again and again.

TRL calls `reset(**row)` before it samples, offers the public methods to the policy as tools, and at the end asks each
environment of the batch, one after another, for `get_reward()`, which is given nothing: what the policy has written is
not shown to an environment, only what it passes to a tool. So the policy answers with the tool `answer`. The first call
of `get_reward` judges the answers of all environments at once; the others find their rewards.

Source: TRL 1.16.0, `GRPOTrainer._generate_and_score_completions`, `._calculate_rewards`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from judgegym.integrations.scores.ranks import distributed
from judges.llm.errors import DataError, SettingsError
from judges.llm.wire import Choice

if TYPE_CHECKING:
    from judgegym.integrations.single_turn.results import Rewarded
    from judgegym.integrations.trl.judging import Answer, Judging, Place

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Begun:
    """A rollout that has begun.

    Attributes:
        place: its row.
        is_mixed: there may be other environments in the batch, which other classes judge.
    """

    place: Place
    is_mixed: bool


class Episodes:
    """The rollouts of one factory that are under way."""

    def __init__(self, judging: Judging, group_size: int | None) -> None:
        """Judge with `judging`, in groups of `group_size` if it is told."""
        self._judging = judging
        self._group_size = group_size
        self._open: list[Episode] = []

    def begin(self, episode: Episode) -> None:
        """Count an episode among those that are judged together next."""
        if episode in self._open:  # of a batch that nobody has asked for its rewards
            self._open = []
        self._open.append(episode)

    def judge(self, episode: Episode) -> asyncio.Task[dict[Episode, tuple[str, Rewarded]]]:
        """Judge an episode, and with it all that have begun with it."""
        batch, self._open = self._open, []
        batch = batch if episode in batch else [episode]
        task = asyncio.ensure_future(self._judge(batch))
        for each in batch:
            each._judged(task)
        return task

    async def _judge(self, batch: Sequence[Episode]) -> dict[Episode, tuple[str, Rewarded]]:
        begun = [each._begun_with() for each in batch]
        texts = [each._text for each in batch]
        answers = [_answer(each.place, text) for each, text in zip(begun, texts, strict=True)]
        size = self._group_size
        if any(each.is_mixed for each in begun) and distributed() is not None:
            size = None  # a process may have none of these rows, and the others would wait for it
        if size is None and await self._judging.compares(begun[0].place.split):
            raise SettingsError(
                "group_size: completions are compared, so judge_environment needs the trainer's num_generations"
                if self._group_size is None
                else "environment_factory: among other environments, a group that is compared cannot be gathered from "
                "several processes; take reward_funcs=….reward, and rows of dataset()"
            )
        results = await self._judging.rewards(answers, size)
        failed = sum(result.is_failed for result in results)
        if failed:
            logger.warning("%d of %d answers have no reward, because the judge failed", failed, len(results))
        return dict(zip(batch, zip(texts, results, strict=True), strict=True))


class Episode:
    """One rollout of a row, in which the policy answers with a tool.

    Attributes:
        rewarded: how the answer was judged; `None` before `get_reward`.
    """

    def __init__(self, episodes: Episodes) -> None:
        """Be one of `episodes`."""
        self.rewarded: Rewarded | None = None
        self._episodes = episodes
        self._text = ""
        self._begun: _Begun | None = None
        self._task: asyncio.Task[dict[Episode, tuple[str, Rewarded]]] | None = None

    def reset(self, **row: object) -> None:
        """Begin with a row of `dataset()`, whose prompt has all that the policy is asked.

        Raises:
            DataError: it is no such row.
        """
        from judgegym.integrations.trl.judging import place_of

        self._begun = _Begun(place_of(row.get("uid"), row.get("split")), "environment" not in row)
        self.rewarded, self._text, self._task = None, "", None
        self._episodes.begin(self)

    def answer(self, text: str) -> str:
        """Submit your answer. Only what is submitted is judged; of several answers, the last.

        Args:
            text: Your whole answer.

        Returns:
            Whether the answer was submitted.
        """
        self._text = str(text)
        return "The answer is submitted."

    async def get_reward(self) -> float | None:
        """What the answer is worth; `None` if the judge failed. No answer is a wrong answer.

        Raises:
            SettingsError: a setting cannot work.
        """
        task = self._task or self._episodes.judge(self)
        text, rewarded = (await asyncio.shield(task))[self]
        if text != self._text:  # another environment was done before this one had answered
            text, rewarded = (await asyncio.shield(self._episodes.judge(self)))[self]
        self.rewarded = rewarded
        return rewarded.reward

    def _begun_with(self) -> _Begun:
        if self._begun is None:
            raise DataError("get_reward: expected a call of reset before")
        return self._begun

    def _judged(self, task: asyncio.Task[dict[Episode, tuple[str, Rewarded]]]) -> None:
        self._task = task


def _answer(place: Place, text: str) -> Answer:
    from judgegym.integrations.trl.judging import Answer

    # Reasoning stands outside the call of the tool, so that its format is not checked: it counts as valid.
    return Answer(place, replace(Choice(text), reasoning=""))


__all__ = ["Episode", "Episodes"]
