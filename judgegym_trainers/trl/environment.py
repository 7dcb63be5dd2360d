"""An environment for TRL: a dataset of its rows, a reward function, and `environment_factory`.

`reward` judges what the policy writes. As `environment_factory`, for training beside environments
with tools, the environment judges what the policy submits with a tool. Both give the rewards of
`serve`, in the environment's own range.

Guarantees: all completions of a batch are judged concurrently; those of a row are judged together,
which judges of groups need, and identical ones once. If the judge's endpoint rejects the key or the
model, or refuses all prompts of a first batch of several prompts, or the first `REFUSED_AT_START`,
a `SettingsError` says that the settings are wrong. The batch is that of all processes if the size
of groups is known.

TRL's completions are text or messages: with tool calls there are several messages, and the last
assistant turn is the answer. If TRL knows the chat template of the tokenizer, reasoning has its own
field.

With `environment_factory`, TRL calls `reset(**row)` before it samples, offers the public methods to
the policy as tools, and at the end asks each environment of the batch, one after another, for
`get_reward()` without arguments: an environment sees only what the policy passes to a tool, not its
text. The policy therefore answers with the tool `answer`. The first call of `get_reward` judges the
answers of all environments at once; the others find their rewards.

Source: TRL 1.16.0, `GRPOTrainer._generate_and_score_completions`, `._calculate_rewards`.
"""

from __future__ import annotations

import asyncio
import itertools
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import groupby
from pathlib import Path
from typing import Any, TypedDict

from judgegym.cli.environments import load_environment
from judgegym.data.rows import Split
from judgegym.llm.errors import DataError, SettingsError
from judgegym.llm.wire import CUT_OFF, JSON, Choice, Message
from judgegym_trainers.scores.groups import GroupedBatch, find_distributed
from judgegym_trainers.scores.requests import CompletionRow, Conversation
from judgegym_trainers.scores.results import CompletionReward, FailureStreak
from judgegym_trainers.scores.sources import RewardScorer
from judgegym_trainers.single_turn import (
    EnvironmentScores,
    EnvironmentSource,
    OpenedEnvironment,
    close_opened,
    get_environment,
)
from judgegym_trainers.trl.functions import RewardFunction, count_failures, log_results, read_cell
from judgegym_trainers.trl.trainer import (
    call_when_gone,
    check_episodes,
    check_worker,
    close_after,
    find_calling_trainer,
    find_group_size,
    find_trainer,
    make_closing_callback,
)

_REASONING = ("reasoning_content", "reasoning", "thinking")
_SPLITS: tuple[Split, ...] = ("train", "eval")


class TrainerRow(TypedDict):
    """A row of a trainer's dataset.

    Attributes:
        prompt: the policy's prompt.
        uid: the row's id in the environment.
        environment: the environment's name.
        split: its split.
    """

    prompt: list[Message]
    uid: str
    environment: str
    split: Split


def make_rollout_row(uid: object, split: object, choice: Choice) -> CompletionRow:
    """Return the completion of the row that these cells name.

    Raises:
        DataError: they name no row.
    """
    if not isinstance(uid, str) or split not in (None, *_SPLITS):
        raise DataError(
            f"expected a row of dataset(), with its uid and split, found uid {uid!r} and split "
            f"{split!r}"
        )
    return CompletionRow({"uid": uid, "split": "eval" if split == "eval" else "train"}, choice)


def read_choice(
    completion: Conversation, ids: object = None, ends: Collection[int] | None = None
) -> Choice:
    """Return the answer in a completion; its text is empty if the completion ends before an answer.

    Args:
        completion: text, or the messages of the policy and its tools.
        ids: the tokens of the completion.
        ends: the tokens that end a completion; one without them at its end was cut off.
    """
    is_cut_off = (
        bool(ends) and isinstance(ids, Sequence) and bool(ids) and ids[-1] not in (ends or ())
    )
    finish_reason = None
    if is_cut_off:
        finish_reason = CUT_OFF
    if isinstance(completion, str):
        return Choice(completion, finish_reason=finish_reason)
    last: Mapping[str, JSON] = completion[-1] if completion else {}
    if last.get("role") != "assistant":
        return Choice("", finish_reason=finish_reason)
    reasoning = next((text for name in _REASONING if isinstance(text := last.get(name), str)), None)
    content = last.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
    return Choice(
        "".join(text for text in texts if isinstance(text, str)), reasoning, finish_reason
    )


def judge_environment(
    environment: str,
    settings: Mapping[str, object] | None = None,
    *,
    config: str | Path | None = None,
    offline: bool = False,
    group_size: int | None = None,
    name: str | None = None,
) -> JudgeEnvironment:
    """Make an environment for a trainer; nothing is read yet.

    Args:
        environment: a built-in name such as `arena_hard`, or `path/to/file.py:Class`,
            `package.module:Class`.
        settings: its settings under `env`, such as `{"judge_model_name": "gpt-6-luna"}`.
        config: a YAML file or a preset with further settings.
        offline: judge with the stand-in, on the bundled samples; its rewards mean nothing.
        group_size: the trainer's `num_generations`; needed with `group_judge` as
            `environment_factory`.
        name: the name in TRL's log and in the rows; by default the environment's.

    Raises:
        SettingsError: there is no such environment, or a setting has no counterpart in JSON.
    """
    source = EnvironmentSource.from_settings(environment, settings, config=config, offline=offline)
    if group_size is not None and group_size < 2:
        raise SettingsError(f"group_size: expected 2 or more completions, found {group_size}")
    return JudgeEnvironment(
        source, name=name or load_environment(environment).spec.name, group_size=group_size
    )


class JudgeEnvironment:
    """The parts of an environment that a trainer takes.

    It does not keep rollouts alive.

    Attributes:
        name: its name in TRL's log.
        reward: for `reward_funcs`: the rewards of completions to rows of `dataset()`; `None` if the
            judge failed, and for rows of other environments.
    """

    def __init__(self, source: EnvironmentSource, *, name: str, group_size: int | None) -> None:
        """See `judge_environment`."""
        self.name = name
        self._factory = partial(JudgeEnvironment, source, name=name, group_size=group_size)
        self._group_size = group_size
        self._failure_streak = FailureStreak()
        self._sources = {split: replace(source, split=split) for split in _SPLITS}
        self._scorer = RewardScorer(EnvironmentScores(source), deadline_s=None)
        self._groups = GroupedBatch(self._scorer)
        self._close = self._close_now  # one object, so that it is recognized
        self._started: list[weakref.ref[ToolEpisode]] = []
        self._alive: set[int] = set()
        self._counter = itertools.count()
        self.reward = RewardFunction(
            self._score, name, self._close_async, partial(getattr, self, "reward"), rows_of=name
        )

    def __reduce__(self) -> tuple[Callable[[], JudgeEnvironment], tuple[()]]:
        """Pickle as the call that makes it again, for asynchronous training; see `check_worker`."""
        check_worker(self)
        return self._factory, ()

    def rows(self, split: Split = "train") -> list[TrainerRow]:
        """Return all rows of a split, in the order of the dataset.

        Raises:
            SettingsError: a setting is wrong.
            DataError: the rows cannot be loaded.
        """
        return [
            TrainerRow(prompt=list(row.messages), uid=row.uid, environment=self.name, split=split)
            for row in self._open_split(split).rows()
        ]

    def dataset(self, split: Split = "train") -> Any:
        """Return the rows as a `datasets.Dataset`, for `train_dataset` or `eval_dataset`."""
        from datasets import Dataset

        return Dataset.from_list(self.rows(split))

    def __call__(self) -> ToolEpisode:
        """Make one of the trainer's environments."""
        episode: ToolEpisode = self._episode_type(self)
        number = next(self._counter)
        self._alive.add(number)
        call_when_gone(episode, lambda: self._forget_episode(number))
        return episode

    @property
    def closing(self) -> object:
        """A callback for `environment_factory` that closes connections when the training ends.

        `reward` does so by itself. Otherwise they are closed when the trainer is deleted, or the
        process ends.
        """
        return make_closing_callback(self._close)

    @cached_property
    def _episode_type(self) -> type[ToolEpisode]:
        # TRL logs rewards under the name of the class, and takes one class for one environment.
        return type(
            self.name,
            (ToolEpisode,),
            {"__doc__": ToolEpisode.__doc__, "__module__": ToolEpisode.__module__},
        )

    def _forget_episode(self, number: int) -> None:
        self._alive.discard(number)
        if not self._alive:
            self._close()

    def _open_split(self, split: Split) -> OpenedEnvironment:
        return get_environment(self._sources[split])

    def _close_now(self) -> None:
        close_opened(*self._sources.values())

    async def _close_async(self) -> None:
        await asyncio.to_thread(self._close)

    async def _score(
        self,
        prompts: Sequence[Conversation],
        completions: Sequence[Conversation],
        columns: Mapping[str, object],
    ) -> list[float | None]:
        if "uid" not in columns:
            raise SettingsError(
                f"train_dataset: expected the rows of {self.name}'s dataset(), found no column uid"
            )
        trainer = find_trainer(columns)
        close_after(trainer, self._close)
        rows: dict[int, CompletionRow] = {}
        for index, completion in enumerate(completions):
            uid, name, split, tokens = (
                read_cell(columns, column, index)
                for column in ("uid", "environment", "split", "completion_ids")
            )
            if name in (None, self.name) and uid is not None:
                choice = read_choice(completion, tokens, getattr(trainer, "eos_token_ids", None))
                rows[index] = make_rollout_row(uid, split, choice)
        size_error = (
            "group_size: completions are compared, which needs the trainer's num_generations"
        )
        size = find_group_size(trainer, self._group_size)
        judgments = await self._judge_rows(list(rows.values()), size, size_error)
        results = dict(zip(rows, judgments, strict=True))
        ordered = [results.get(position) for position in range(len(completions))]
        return log_results(ordered, columns, self.name, self._failure_streak, size)

    async def _judge_rows(
        self, rows: Sequence[CompletionRow], size: int | None, size_error: str
    ) -> list[CompletionReward]:
        """Return the results of this process's completions, in order.

        Args:
            rows: the rows of this process.
            size: the number of completions of each row, which may be spread over several processes:
                all of these call this at the same time. `None`: all are here, and neighbours with
                the same row belong together.
            size_error: the error where they are compared and the size is not known.

        Raises:
            SettingsError: the completions are not in groups of this size, or none can be judged.
            DataError: there is no such row.
        """
        if size is not None:
            return await self._groups.score(rows, size)
        if rows and (await asyncio.to_thread(get_environment, self._find_split(rows[0]))).compares:
            raise SettingsError(size_error)
        groups = [list(group) for _, group in groupby(rows, key=lambda row: row.shared)]
        return [*itertools.chain.from_iterable(await self._scorer.score(groups))]

    def _find_split(self, row: CompletionRow) -> EnvironmentSource:
        return self._sources["eval" if row.shared["split"] == "eval" else "train"]

    def _begin(self, episode: ToolEpisode) -> None:
        """Add an episode to those that are judged together next."""
        reference = weakref.ref(episode)
        if reference in self._started:  # a batch whose rewards nobody asked for
            self._started = []
        self._started.append(reference)

    def _judge(self, episode: ToolEpisode) -> None:
        """Start to judge an episode, with all that began together with it."""
        batch = [member for reference in self._started if (member := reference()) is not None]
        self._started = []
        batch = batch if episode in batch else [episode]
        # Reasoning is outside the tool call, so its format is not checked: it counts as valid.
        rows = [
            make_rollout_row(*row_episode._require_row(), Choice(row_episode._text, reasoning=""))
            for row_episode in batch
        ]
        task = asyncio.ensure_future(
            self._collect_rewards(
                rows, is_mixed=any(batch_episode._is_mixed for batch_episode in batch)
            )
        )
        for number, member in enumerate(batch):
            member._judgment = (task, number, member._text)

    async def _collect_rewards(
        self, rows: Sequence[CompletionRow], *, is_mixed: bool
    ) -> list[CompletionReward]:
        size_error = (
            "group_size: completions are compared, so judge_environment needs the trainer's "
            "num_generations"
        )
        size = self._group_size
        if size is not None and is_mixed and find_distributed() is not None:
            size = None  # a process may have none of these rows, and the others would wait for it
            size_error = (
                "environment_factory: among other environments, a group that is compared cannot be "
                "gathered from several processes; take reward_funcs=….reward, and rows of dataset()"
            )
        results = await self._judge_rows(rows, size, size_error)
        count_failures(results, self._failure_streak, self._group_size or len(results))
        return results


class ToolEpisode:
    """One rollout of a row, in which the policy answers with a tool.

    Attributes:
        rewarded: how the answer was judged; `None` before `get_reward`.
    """

    def __init__(self, environment: JudgeEnvironment) -> None:
        """Make a rollout of `environment`."""
        self.rewarded: CompletionReward | None = None
        self._environment = environment
        self._text = ""
        self._row: tuple[object, object] | None = None
        self._is_mixed = (
            False  # whether the batch may have other environments, which other classes judge
        )
        self._judgment: tuple[asyncio.Task[list[CompletionReward]], int, str] | None = None
        """The batch's judgment, the episode's index in it, and its answer at that time."""

    def reset(self, **row: object) -> None:
        """Begin with a row of `dataset()`, whose prompt has all that the policy is asked.

        Raises:
            DataError: it is no such row.
        """
        self._row = (row.get("uid"), row.get("split"))
        self._is_mixed = "environment" not in row
        make_rollout_row(*self._row, Choice(""))  # an error here, not later
        self.rewarded = None
        self._text = ""
        self._judgment = None
        self._environment._begin(self)

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
        """Return the answer's reward; `None` if the judge failed. No answer is a wrong answer.

        Raises:
            SettingsError: a setting cannot work, or the trainer adds other scores to this one.
        """
        if self._judgment is None:
            check_episodes(find_calling_trainer())
        self.rewarded, text = await self._await_judgment()
        if text != self._text:  # another environment finished before this one answered
            self._judgment = None
            self.rewarded, _ = await self._await_judgment()
        return self.rewarded.reward

    async def _await_judgment(self) -> tuple[CompletionReward, str]:
        """Judge the batch, unless another episode has; a cancelled caller does not stop it."""
        if self._judgment is None:
            self._environment._judge(self)
        assert self._judgment is not None  # `_judge` sets it
        task, number, text = self._judgment
        return (await asyncio.shield(task))[number], text

    def _require_row(self) -> tuple[object, object]:
        if self._row is None:
            raise DataError("get_reward: call reset first")
        return self._row
