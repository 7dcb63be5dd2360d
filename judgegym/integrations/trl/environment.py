"""An environment for TRL: its rows as a dataset, its rewards as a reward function, and as `environment_factory`.

`reward` judges what the policy writes. As `environment_factory`, for training beside environments with tools, it judges
what the policy submits with a tool. Both give the rewards of `serve`, in the environment's own range.

Guarantees: all answers of a batch are judged at the same time; the answers to a row are judged together, which judges
of groups need, and equal ones are judged once. If the judge's endpoint does not know the key or the model, or refuses
all of the first batch, the settings are at fault, and a `SettingsError` says so.

TRL's completions are text, or messages: after calls of tools several of them, of which the last turn of the assistant
is the answer. Where the chat template of the tokenizer is known to TRL, reasoning has a field of its own.

With `environment_factory`, TRL calls `reset(**row)` before it samples, offers the public methods to the policy as
tools, and at the end asks each environment of the batch, one after another, for `get_reward()`, which is given nothing:
what the policy has written is not shown to an environment, only what it passes to a tool. So the policy answers with
the tool `answer`. The first call of `get_reward` judges the answers of all environments at once; the others find their
rewards.

Source: TRL 1.16.0, `GRPOTrainer._generate_and_score_completions`, `._calculate_rewards`.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import weakref
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from judgegym.cli.environments import load_environment
from judgegym.data.rows import Split
from judgegym.integrations.scores.groups import GroupedBatch, distributed
from judgegym.integrations.scores.requests import Conversation
from judgegym.integrations.scores.results import CompletionReward, FirstRequests
from judgegym.integrations.single_turn import EnvironmentSource, OpenedEnvironment, close_opened, opened
from judgegym.integrations.trl.functions import RewardFunction, log, log_means, named
from judgegym.integrations.trl.trainer import (
    call_when_gone,
    check_episodes,
    close_after,
    closing,
    group_size_of,
    trainer_of,
    trainer_that_calls,
)
from judgegym.llm.at_once import all_results
from judgegym.llm.errors import DataError, SettingsError
from judgegym.llm.wire import CUT_OFF, JSON, Choice, Message

logger = logging.getLogger(__name__)

_REASONING = ("reasoning_content", "reasoning", "thinking")


class TrainerRow(TypedDict):
    """A row of a trainer's dataset.

    Attributes:
        prompt: what the policy is asked.
        uid: the row's id in the environment.
        environment: the environment's name.
        split: of which split it is.
    """

    prompt: list[Message]
    uid: str
    environment: str
    split: Split


class RowReference(NamedTuple):
    """Which row of an environment a rollout is of."""

    uid: str
    split: Split


@dataclass(frozen=True, slots=True)
class RolloutCompletion:
    """What the policy has answered to a row."""

    row: RowReference
    choice: Choice


def row_of(uid: object, split: object) -> RowReference:
    """The row with these cells.

    Raises:
        DataError: they name none.
    """
    if not isinstance(uid, str) or split not in (None, "train", "eval"):
        raise DataError(f"expected a row of dataset(), with its uid and split, found uid {uid!r} and split {split!r}")
    return RowReference(uid, "eval" if split == "eval" else "train")


def choice_of(completion: Conversation, ids: object = None, ends: Collection[int] | None = None) -> Choice:
    """The answer in a completion as a choice; without text if the completion ends before an answer.

    Args:
        completion: text, or the messages of the policy and its tools.
        ids: the tokens of the completion.
        ends: the tokens that end a completion; one without them at its end was cut off.
    """
    is_cut_off = bool(ends) and isinstance(ids, Sequence) and bool(ids) and ids[-1] not in (ends or ())
    finish_reason = CUT_OFF if is_cut_off else None
    if isinstance(completion, str):
        return Choice(completion, finish_reason=finish_reason)
    last: Mapping[str, JSON] = completion[-1] if completion else {}
    if last.get("role") != "assistant":
        return Choice("", finish_reason=finish_reason)
    reasoning = next((text for name in _REASONING if isinstance(text := last.get(name), str)), None)
    return Choice(_text(last.get("content")), reasoning, finish_reason)


def _text(content: JSON) -> str:
    if isinstance(content, list):
        blocks = [block.get("text") for block in content if isinstance(block, Mapping)]
        return "".join(text for text in blocks if isinstance(text, str))
    return content if isinstance(content, str) else ""


class EnvironmentJudge:
    """Judges answers with the environments of the two splits, which open at the first use."""

    def __init__(self, sources: Mapping[Split, EnvironmentSource]) -> None:
        """Judge with the environments of `sources`."""
        self._sources = sources
        self._groups = GroupedBatch(self._judge, lambda answer: answer.row)
        self._first = FirstRequests()

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
        groups = [list(group) for _, group in groupby(answers, key=lambda answer: answer.row)]
        return [result for group in await self._judge(groups) for result in group]

    async def compares(self, split: Split) -> bool:
        """Whether answers to a row are compared with each other."""
        return (await asyncio.to_thread(self.opened, split)).compares

    async def _judge(self, groups: Sequence[Sequence[RolloutCompletion]]) -> list[list[CompletionReward]]:
        rows = [group[0].row for group in groups]
        of = {split: await asyncio.to_thread(self.opened, split) for split in {row.split for row in rows}}
        judged = await all_results(
            of[row.split].rewards(row.uid, [answer.choice for answer in group])
            for row, group in zip(rows, groups, strict=True)
        )
        requests: list[list[CompletionReward]] = []
        for row, results in zip(rows, judged, strict=True):
            judgments = [result for result in results if not result.is_invalid]
            requests += [judgments] if of[row.split].compares and judgments else [[result] for result in judgments]
        refusals = self._first.add(*requests)
        if self._first.are_refused(whole_batch=len(refusals) > 1 and all(refusals)):
            raise SettingsError(f"the judge's endpoint refuses its requests: {self._first.refusal}")
        return judged


def judge_environment(
    environment: str,
    settings: Mapping[str, object] | None = None,
    *,
    config: str | Path | None = None,
    offline: bool = False,
    group_size: int | None = None,
    name: str | None = None,
) -> JudgeEnvironment:
    """An environment for a trainer; nothing is read yet.

    Args:
        environment: a built-in name such as `arena_hard`, or `path/to/file.py:Class`, `package.module:Class`.
        settings: its settings under `env`, such as `{"judge_model_name": "gpt-4.1-mini"}`.
        config: a YAML file or a preset with further settings.
        offline: judge with the stand-in, on the bundled samples; its rewards mean nothing.
        group_size: the trainer's `num_generations`; needed with `group_judge` as `environment_factory`.
        name: under which TRL logs the rewards, and the rows name it; by default the environment's.

    Raises:
        SettingsError: there is no such environment, or a setting has no counterpart in JSON.
    """
    splits: tuple[Split, ...] = ("train", "eval")
    sources = {
        split: EnvironmentSource.of(environment, settings, config=config, offline=offline, split=split)
        for split in splits
    }
    if group_size is not None and group_size < 2:
        raise SettingsError(f"group_size: expected 2 or more completions, found {group_size}")
    return JudgeEnvironment(sources, name=name or load_environment(environment).name, group_size=group_size)


class JudgeEnvironment:
    """The parts of an environment that a trainer takes.

    Attributes:
        name: under which TRL logs its rewards.
        reward: for `reward_funcs`: the rewards of what the policy has written to rows of `dataset()`; `None` where the
            judge failed, and for rows of other environments.
    """

    def __init__(self, sources: Mapping[Split, EnvironmentSource], *, name: str, group_size: int | None) -> None:
        """See `judge_environment`."""
        self.name = name
        self._group_size = group_size
        self._judging = EnvironmentJudge(sources)
        self._close = self._judging.close  # one object, so that it is known again
        self._episodes = Episodes(self._judging, group_size)
        self._alive: set[int] = set()
        self._numbers = itertools.count()
        self.reward: RewardFunction = named(self._score, name, self._closed, rows_of=name)

    def rows(self, split: Split = "train") -> list[TrainerRow]:
        """All rows of a split, in the order of the dataset.

        Raises:
            SettingsError: a setting is wrong.
            DataError: the rows cannot be loaded.
        """
        return [
            TrainerRow(prompt=list(row.messages), uid=row.uid, environment=self.name, split=split)
            for row in self._judging.opened(split).rows()
        ]

    def dataset(self, split: Split = "train") -> Any:
        """The rows as a `datasets.Dataset`, for `train_dataset` or `eval_dataset`."""
        from datasets import Dataset

        return Dataset.from_list(self.rows(split))

    def __call__(self) -> ToolEpisode:
        """One environment of those that the trainer makes."""
        episode: ToolEpisode = self._episode_type(self._episodes)
        number = next(self._numbers)
        self._alive.add(number)
        call_when_gone(episode, lambda: self._gone(number))
        return episode

    @property
    def closing(self) -> object:
        """For `callbacks`, with `environment_factory`: closes the judge's connections when the training ends.

        `reward` does so by itself. Without it they are closed when the trainer is given up, or the process ends.
        """
        return closing(self._close)

    @cached_property
    def _episode_type(self) -> type[ToolEpisode]:
        # TRL logs rewards under the name of the class, and takes one class for one environment.
        return type(self.name, (ToolEpisode,), {"__doc__": ToolEpisode.__doc__, "__module__": ToolEpisode.__module__})

    def _gone(self, number: int) -> None:
        self._alive.discard(number)
        if not self._alive:
            self._close()

    async def _closed(self) -> None:
        await asyncio.to_thread(self._close)

    async def _score(
        self, prompts: Sequence[Conversation], completions: Sequence[Conversation], columns: Mapping[str, object]
    ) -> list[float | None]:
        trainer = trainer_of(columns)
        close_after(trainer, self._close)
        own = self._own(columns, len(completions))
        cells, splits, tokens = columns.get("uid"), columns.get("split"), columns.get("completion_ids")
        ends = getattr(trainer, "eos_token_ids", None)
        answers = [
            RolloutCompletion(
                row_of(_cell(cells, place), _cell(splits, place)),
                choice_of(completions[place], _cell(tokens, place), ends),
            )
            for place in own
        ]
        size = group_size_of(trainer, self._group_size)
        if size is None and answers and await self._judging.compares(answers[0].row.split):
            raise SettingsError("group_size: completions are compared, which needs the trainer's num_generations")
        results = dict(zip(own, await self._judging.rewards(answers, size), strict=True))
        log([results.get(place) for place in range(len(completions))], columns, self.name)
        log_means([result.metrics for result in results.values()], columns, self.name)
        return [results[place].reward if place in results else None for place in range(len(completions))]

    def _own(self, columns: Mapping[str, object], count: int) -> list[int]:
        """The places of the rows that are of this environment.

        Raises:
            SettingsError: the dataset is of another kind.
        """
        if "uid" not in columns:
            raise SettingsError(f"train_dataset: expected the rows of {self.name}'s dataset(), found no column uid")
        names = columns.get("environment")
        return [
            place
            for place in range(count)
            if _cell(names, place) in (None, self.name) and _cell(columns["uid"], place) is not None
        ]


def _cell(column: object, place: int) -> object:
    return column[place] if isinstance(column, Sequence) and place < len(column) else None


class _Answer(NamedTuple):
    """What a rollout has submitted, and how it was judged."""

    text: str
    rewarded: CompletionReward


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

    def judge(self, episode: ToolEpisode) -> None:
        """Begin to judge an episode, and with it all that have begun with it."""
        batch = [each for reference in self._open if (each := reference()) is not None]
        self._open = []
        batch = batch if episode in batch else [episode]
        task = asyncio.ensure_future(self._judge(batch))
        for number, each in enumerate(batch):
            each._judgment = (task, number)

    async def _judge(self, batch: Sequence[ToolEpisode]) -> list[_Answer]:
        rows = [each._begun_with() for each in batch]
        texts = [each._text for each in batch]
        # Reasoning stands outside the call of the tool, so that its format is not checked: it counts as valid.
        answers = [RolloutCompletion(row, Choice(text, reasoning="")) for row, text in zip(rows, texts, strict=True)]
        size = self._group_size
        if any(each._is_mixed for each in batch) and distributed() is not None:
            size = None  # a process may have none of these rows, and the others would wait for it
        if size is None and await self._judging.compares(rows[0].split):
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
        return list(map(_Answer, texts, results))


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
        self._row: RowReference | None = None
        self._is_mixed = False  # whether there may be other environments in the batch, which other classes judge
        self._judgment: tuple[asyncio.Task[list[_Answer]], int] | None = None  # of a batch, and its number there

    def reset(self, **row: object) -> None:
        """Begin with a row of `dataset()`, whose prompt has all that the policy is asked.

        Raises:
            DataError: it is no such row.
        """
        self._row, self._is_mixed = row_of(row.get("uid"), row.get("split")), "environment" not in row
        self.rewarded, self._text, self._judgment = None, "", None
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
        if self._judgment is None:
            check_episodes(trainer_that_calls())
        answer = await self._judged()
        if answer.text != self._text:  # another environment was done before this one had answered
            self._judgment = None
            answer = await self._judged()
        self.rewarded = answer.rewarded
        return answer.rewarded.reward

    async def _judged(self) -> _Answer:
        """Judge, unless another episode of the batch has begun to; to stop waiting does not stop it for the others."""
        if self._judgment is None:
            self._episodes.judge(self)
        assert self._judgment is not None  # `judge` sets it
        task, number = self._judgment
        return (await asyncio.shield(task))[number]

    def _begun_with(self) -> RowReference:
        if self._row is None:
            raise DataError("get_reward: expected a call of reset before")
        return self._row
