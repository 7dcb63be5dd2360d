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
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from judgegym.integrations.scores.ranks import distributed
from judgegym.integrations.trl.trainer import check_episodes, trainer_that_calls
from judgegym.llm.errors import DataError, SettingsError
from judgegym.llm.wire import Choice

if TYPE_CHECKING:
    from judgegym.integrations.scores.results import CompletionReward
    from judgegym.integrations.trl.judging import EnvironmentJudge, RolloutCompletion, RowReference

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _OpenRollout:
    """A rollout that has begun.

    Attributes:
        place: its row.
        is_mixed: there may be other environments in the batch, which other classes judge.
    """

    place: RowReference
    is_mixed: bool


@dataclass(frozen=True, slots=True)
class _AnswerJudgment:
    """An answer and how it was judged."""

    text: str
    rewarded: CompletionReward


@dataclass(frozen=True, slots=True)
class _PendingJudgment:
    """A judgment that is under way, or done, and the episode's number in it."""

    task: asyncio.Task[list[_AnswerJudgment]]
    number: int

    async def result(self) -> _AnswerJudgment:
        """Wait for it; who stops waiting does not stop it for the others."""
        return (await asyncio.shield(self.task))[self.number]


class Episodes:
    """The rollouts of one factory that are under way. It keeps none of them alive."""

    def __init__(self, judging: EnvironmentJudge, group_size: int | None) -> None:
        """Judge with `judging`, in groups of `group_size` if it is told."""
        self._judging = judging
        self._group_size = group_size
        self._open: list[weakref.ref[ToolEpisode]] = []

    def begin(self, episode: ToolEpisode) -> None:
        """Count an episode among those that are judged together next."""
        own = weakref.ref(episode)
        if own in self._open:  # of a batch that nobody has asked for its rewards
            self._open = []
        self._open.append(own)

    def judge(self, episode: ToolEpisode) -> _PendingJudgment:
        """Judge an episode, and with it all that have begun with it."""
        batch = [each for reference in self._open if (each := reference()) is not None]
        self._open = []
        batch = batch if episode in batch else [episode]
        task = asyncio.ensure_future(self._judge(batch))
        for number, each in enumerate(batch):
            each._asked = _PendingJudgment(task, number)
        return _PendingJudgment(task, batch.index(episode))

    async def _judge(self, batch: Sequence[ToolEpisode]) -> list[_AnswerJudgment]:
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
        return list(map(_AnswerJudgment, texts, results))


class ToolEpisode:
    """One rollout of a row, in which the policy answers with a tool.

    Attributes:
        rewarded: how the answer was judged; `None` before `get_reward`.
    """

    def __init__(self, episodes: Episodes) -> None:
        """Be one of `episodes`."""
        self.rewarded: CompletionReward | None = None
        self._episodes = episodes
        self._text = ""
        self._begun: _OpenRollout | None = None
        self._asked: _PendingJudgment | None = None

    def reset(self, **row: object) -> None:
        """Begin with a row of `dataset()`, whose prompt has all that the policy is asked.

        Raises:
            DataError: it is no such row.
        """
        from judgegym.integrations.trl.judging import place_of

        self._begun = _OpenRollout(place_of(row.get("uid"), row.get("split")), "environment" not in row)
        self.rewarded, self._text, self._asked = None, "", None
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
            SettingsError: a setting cannot work, or the trainer adds other scores to this one.
        """
        if self._asked is None:
            check_episodes(trainer_that_calls())
        judged = await (self._asked or self._episodes.judge(self)).result()
        if judged.text != self._text:  # another environment was done before this one had answered
            judged = await self._episodes.judge(self).result()
        self.rewarded = judged.rewarded
        return judged.rewarded.reward

    def _begun_with(self) -> _OpenRollout:
        if self._begun is None:
            raise DataError("get_reward: expected a call of reset before")
        return self._begun


def _answer(place: RowReference, text: str) -> RolloutCompletion:
    from judgegym.integrations.trl.judging import RolloutCompletion

    # Reasoning stands outside the call of the tool, so that its format is not checked: it counts as valid.
    return RolloutCompletion(place, replace(Choice(text), reasoning=""))


__all__ = ["Episodes", "ToolEpisode"]
