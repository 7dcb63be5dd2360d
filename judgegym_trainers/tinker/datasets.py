"""Datasets for the train config of a recipe: an environment's rows, or prompts with a judge.

    config = train.Config(dataset_builder=EnvironmentDatasetBuilder(environment="arena_hard", …), …)

Guarantees: the rows of an epoch are in the same order as in `serve` with the same seed, in whatever
order batches are requested; each row is read once before the first rollout, and an unreadable row
is an error that names its place.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, cast

import chz
from tinker_cookbook.rl.types import EnvGroupBuilder, RLDataset, RLDatasetBuilder

from judgegym.data.rows import DataSet, Row, Split, index_by_uid, load_rows
from judgegym.data.task_list import TaskList, epoch_order, list_uids
from judgegym.llm.errors import DataError, SettingsError
from judgegym.llm.wire import JSON, Message
from judgegym_trainers.scores.requests import CellError, read_request_fields, to_json
from judgegym_trainers.scores.sources import DEADLINE_S, TIMEOUT_S, JudgeSource, find_secret
from judgegym_trainers.single_turn import EnvironmentSource, get_environment
from judgegym_trainers.tinker import EnvironmentGroupBuilder, PromptGroupBuilder, Rollouts

GroupFactory: TypeAlias = Callable[[str], EnvGroupBuilder]
_LOGGED_FIELDS = ("settings", "judge", "url")
"""Fields of builders that may hold a secret."""


_ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class PromptRow:
    """A prompt with further fields for the judge, as in a body of `POST /v1/score`."""

    uid: str
    messages: tuple[Message, ...] = ()
    fields: Mapping[str, JSON] = field(default_factory=dict)
    category: str | None = None

    @property
    def question(self) -> str:
        """The last turn of the prompt."""
        return self.messages[-1]["content"]


def load_prompt_rows(prompts: str | Sequence[Mapping[str, object]]) -> TaskList[PromptRow]:
    """Return the rows of a file or a dataset, or the given rows.

    Raises:
        DataError: they cannot be loaded, there are none, or one has no prompt.
    """
    if isinstance(prompts, str):
        rows = load_rows(prompts, split="train")
    else:
        rows = DataSet(
            "prompts", [_convert_row(number, row) for number, row in enumerate(prompts, start=1)]
        )
    if not rows:
        raise DataError("prompts: no rows")
    return TaskList.from_rows(index_by_uid(rows, numbered=True), _make_prompt_row)


def _convert_row(number: int, row: Mapping[str, object]) -> Mapping[str, JSON]:
    try:
        return cast("Mapping[str, JSON]", to_json(row))
    except CellError as error:
        raise DataError(f"prompts, row {number}: {error}") from None


def _make_prompt_row(uid: str, row: Row) -> PromptRow:
    try:
        fields = read_request_fields(row.values)
    except CellError as error:
        raise DataError(f"{row.place}: {error}") from None
    prompt = row.values.get("prompt")
    turns = prompt
    if isinstance(prompt, str) and prompt.strip():
        turns = [{"role": "user", "content": prompt}]
    if not isinstance(turns, list) or not turns or not all(map(_is_message, turns)):
        raise row.missing_error(
            "text, or messages of a role (system, user, assistant) and text, in prompt"
        )
    messages = tuple(
        Message(role=turn["role"], content=turn["content"]) for turn in cast("list[Message]", turns)
    )
    return PromptRow(uid, messages, fields, row.optional_text("category"))


def _is_message(turn: JSON) -> bool:
    return (
        isinstance(turn, Mapping)
        and turn.get("role") in _ROLES
        and isinstance(turn.get("content"), str)
    )


class JudgedDataset(RLDataset):
    """Batches of groups; the last one may be smaller."""

    def __init__(
        self,
        uids: Sequence[str],
        make_group: GroupFactory,
        *,
        batch_size: int,
        epochs: int = 1,
        seed: int | None = None,
    ) -> None:
        """Set the rows.

        Args:
            uids: the rows' ids, each once.
            make_group: makes the group of a row.
            batch_size: number of groups in a batch.
            epochs: how often each row comes.
            seed: shuffles each epoch; `None` keeps the order of `uids`.
        """
        self._uids = uids
        self._make_group = make_group
        self._batch_size = batch_size
        self._epochs = epochs
        self._seed = seed
        self._orders: dict[int, Sequence[str]] = {}

    def __len__(self) -> int:
        """Return the number of batches."""
        return -(-len(self._uids) * self._epochs // self._batch_size)

    def get_batch(self, index: int) -> Sequence[EnvGroupBuilder]:
        """Return the groups of a batch, in the order of the epoch."""
        if not 0 <= index < len(self):
            count = len(self)
            raise IndexError(f"batch {index}: there are {count}")
        start = index * self._batch_size
        positions = range(start, min(start + self._batch_size, len(self._uids) * self._epochs))
        return [
            self._make_group(
                self._epoch_uids(position // len(self._uids))[position % len(self._uids)]
            )
            for position in positions
        ]

    def _epoch_uids(self, epoch: int) -> Sequence[str]:
        if self._seed is None:
            return self._uids
        if epoch not in self._orders:
            rows = TaskList(self._uids, lambda index: PromptRow(self._uids[index]))
            self._orders = {epoch: list_uids(epoch_order(rows, seed=self._seed, epoch=epoch))}
        return self._orders[epoch]


@chz.chz
class JudgedDatasetBuilder(RLDatasetBuilder):
    """Base class of both kinds of datasets.

    Attributes:
        model_name_for_tokenizer: the policy, or a folder with its tokenizer.
        renderer_name: the cookbook's name of its renderer.
        batch_size: number of groups in a batch.
        group_size: number of rollouts in a group.
        epochs: how often each row comes.
        seed: seed of the rows' order.
        test_group_size: number of rollouts of a test row.
    """

    model_name_for_tokenizer: str
    renderer_name: str
    batch_size: int
    group_size: int
    epochs: int = 1
    seed: int = 0
    test_group_size: int = 1

    @chz.validate
    def _check_sizes(self) -> None:
        for name in ("batch_size", "group_size", "epochs", "test_group_size"):
            number = getattr(self, name)
            if number < 1:
                raise SettingsError(f"{name}: expected 1 or more, found {number}")

    @chz.validate
    def _check_secrets(self) -> None:
        """Refuse secrets: the cookbook writes its config into files and to logging services."""
        problem = find_secret(
            {
                name: getattr(self, name)
                for name in _LOGGED_FIELDS
                if getattr(self, name, None) is not None
            }
        )
        if problem is not None:
            raise SettingsError(f"{problem}, since the cookbook writes its config into a log")

    async def __call__(self) -> tuple[JudgedDataset, JudgedDataset | None]:
        """Make the datasets for training and for tests.

        Raises:
            SettingsError: a setting is wrong, or the judge's API key is missing.
            DataError: the rows cannot be loaded, or one has no prompt.
        """
        train = await self._rows(self._rollouts(self.group_size), is_test=False)
        test = await self._rows(self._rollouts(self.test_group_size), is_test=True)
        assert train is not None  # only a test set may be missing
        return (
            JudgedDataset(*train, batch_size=self.batch_size, epochs=self.epochs, seed=self.seed),
            None if test is None else JudgedDataset(*test, batch_size=self.batch_size),
        )

    def _rollouts(self, group_size: int) -> Rollouts:
        return Rollouts(group_size, self.renderer_name, self.model_name_for_tokenizer)

    @abstractmethod
    async def _rows(
        self, rollouts: Rollouts, *, is_test: bool
    ) -> tuple[Sequence[str], GroupFactory] | None:
        """Return the ids of a set's rows, and a function for their groups, or `None` for no set."""


@chz.chz
class EnvironmentDatasetBuilder(JudgedDatasetBuilder):
    """The rows of an environment, with the environment's rewards.

    Attributes:
        environment: a built-in name such as `arena_hard`, or `path/to/file.py:Class`,
            `package.module:Class`.
        settings: its settings under `env`, without that prefix.
        config: a YAML file or a preset with further settings.
        offline: judge with the stand-in, on the bundled samples; its rewards mean nothing.
        with_test: make the test set of the environment's rows for evaluation.
    """

    environment: str
    settings: Mapping[str, object] = chz.field(default_factory=dict)
    config: str | None = None
    offline: bool = False
    with_test: bool = False

    async def _rows(
        self, rollouts: Rollouts, *, is_test: bool
    ) -> tuple[Sequence[str], GroupFactory] | None:
        if is_test and not self.with_test:
            return None
        split: Split = "eval" if is_test else "train"
        source = EnvironmentSource.from_settings(
            self.environment, self.settings, config=self.config, offline=self.offline, split=split
        )
        environment = await asyncio.to_thread(get_environment, source)

        def make_group(uid: str) -> EnvGroupBuilder:
            tags = _make_tags(environment.name, environment.row(uid).category)
            return EnvironmentGroupBuilder(rollouts, uid, tags, source)

        return environment.uids, make_group


@chz.chz
class PromptDatasetBuilder(JudgedDatasetBuilder):
    """Prompts without an environment, and a judge.

    Attributes:
        prompts: a JSONL, JSON, CSV or Parquet file, a dataset on the hub, or the rows themselves. A
            row has `prompt` (text or messages), and may have an id and fields for the judge:
            `reference`, `rubric`, `aspects`, `criteria`, `baseline`, `context`.
        test_prompts: the same for the test set.
        url: the URL of a reward server; or
        judge: the settings of a judge to run in each process that judges, under the server's names.
        judge_offline: with `judge`, call the stand-in; its scores mean nothing.
        token_env: the environment variable with the server's bearer token, which is never written
            to a file.
        mount: the name of a judge at the server; empty for the judge at the root.
        invalid_completion_score: the reward of an empty completion.
        timeout_s: seconds for one attempt at the server.
        deadline_s: seconds within which a group gets its scores; without them it has failed.
        name: the tag under which the cookbook logs metrics.
    """

    prompts: str | Sequence[Mapping[str, object]]
    test_prompts: str | Sequence[Mapping[str, object]] | None = None
    url: str | None = None
    judge: Mapping[str, object] | None = None
    judge_offline: bool = False
    token_env: str | None = None
    mount: str = ""
    invalid_completion_score: float = 0.0
    timeout_s: float = TIMEOUT_S
    deadline_s: float = DEADLINE_S
    name: str = "judge"

    async def _rows(
        self, rollouts: Rollouts, *, is_test: bool
    ) -> tuple[Sequence[str], GroupFactory] | None:
        prompts = self.test_prompts if is_test else self.prompts
        if prompts is None:
            return None
        source = JudgeSource(
            self.url,
            self.judge,
            offline=self.judge_offline,
            token_env=self.token_env,
            mount=self.mount,
            invalid_completion_score=self.invalid_completion_score,
            timeout_s=self.timeout_s,
            deadline_s=self.deadline_s,
        )
        await asyncio.to_thread(
            source.get_shared_scorer
        )  # its settings are checked before the first rollout
        rows = await asyncio.to_thread(load_prompt_rows, prompts)

        def make_group(uid: str) -> EnvGroupBuilder:
            row = rows[rows.positions[uid]]
            return PromptGroupBuilder(
                rollouts, uid, _make_tags(self.name, row.category), row.messages, source, row.fields
            )

        return rows.uids, make_group


def _make_tags(name: str, category: str | None) -> tuple[str, ...]:
    if category is None:
        return (name,)
    return (name, f"{name}/{category}")
