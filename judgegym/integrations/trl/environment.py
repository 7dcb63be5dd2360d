"""An environment for TRL: its rows as a dataset, its rewards as a reward function, and as `environment_factory`.

`reward` judges what the policy writes. As `environment_factory`, for training beside environments with tools, it judges
what the policy submits with a tool. Both give the rewards of `serve`, in the environment's own range.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from judgegym.integrations.scores.requests import Conversation
from judgegym.integrations.trl.answers import choice_of
from judgegym.integrations.trl.episodes import Episodes, ToolEpisode
from judgegym.integrations.trl.reward_function import RewardFunction, log, log_means, named
from judgegym.integrations.trl.trainer import call_when_gone, close_after, closing, group_size_of, trainer_of
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import Message

if TYPE_CHECKING:
    from judgegym.data.rows import Split
    from judgegym.integrations.single_turn.source import EnvironmentSource


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
    # Late: beside a reward server a trainer's environment needs none of the environments' packages.
    from judgegym.cli.environments import load_environment
    from judgegym.integrations.single_turn.source import EnvironmentSource

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
        from judgegym.integrations.trl.judging import EnvironmentJudge

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
        from judgegym.integrations.trl.judging import RolloutCompletion, place_of

        trainer = trainer_of(columns)
        close_after(trainer, self._close)
        own = self._own(columns, len(completions))
        cells, splits, tokens = columns.get("uid"), columns.get("split"), columns.get("completion_ids")
        ends = getattr(trainer, "eos_token_ids", None)
        answers = [
            RolloutCompletion(
                place_of(_cell(cells, place), _cell(splits, place)),
                choice_of(completions[place], _cell(tokens, place), ends),
            )
            for place in own
        ]
        size = group_size_of(trainer, self._group_size)
        if size is None and answers and await self._judging.compares(answers[0].place.split):
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


__all__ = ["JudgeEnvironment", "TrainerRow", "judge_environment"]
