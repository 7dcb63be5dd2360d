"""Settings, rows and prompts of Arena-Hard, shared by its evaluations and its training.

A row is a prompt with the baseline's answer to it.
"""

from __future__ import annotations

import logging
from abc import ABC
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal

from pydantic import AfterValidator, BaseModel, model_validator
from typing_extensions import Self

from judgegym.data.answers import CONVERSATIONS, answer_text, warn_unused_columns
from judgegym.data.rows import Row, Split, index_by_uid, load_rows
from judgegym.data.task_list import TaskList
from judgegym.engine.completions import Conversation
from judgegym.engine.settings import SAMPLES
from judgegym.engine.settings.env import AskedEndpoints
from judgegym.engine.settings.verbs import EVALUATE, EVALUATIONS, ROLLOUTS, Verb
from judgegym.environments.answer_judge import EnvironmentJurySettings
from judgegym.environments.base import DetailT, JudgedEnv
from judgegym.environments.spec import EnvSpec
from judgegym.eval_environments.models import Models, ModelSettings, join_names, list_urls
from judgegym.judges.arena import ArenaJudgeSettings
from judgegym.judges.config.fields import setting
from judgegym.judges.core.naming import slug
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.tournament.schedule import TournamentSettings
from judgegym.llm.errors import DataError
from judgegym.llm.wire import Message

CandidatesPlay = Literal["tournament", "baseline"]

BASELINE = "baseline"
"""Name of the baseline among the candidates."""

_VERSUS = "_vs_"
_TOURNAMENT = "candidates_play=tournament"


def _check_candidates(models: list[ModelSettings]) -> list[ModelSettings]:
    if len(models) == 1:
        raise ValueError(
            f"one candidate, {models[0].name!r}, cannot be compared with others; evaluate it "
            "without candidates, with the openai settings or env.model_answers"
        )
    for model in models:
        if slug(model.name) == BASELINE or _VERSUS in slug(model.name):
            raise ValueError(
                f"{model.name!r} cannot be a candidate's name, since metrics use it; choose another"
            )
    return models


class ArenaHardConfig(EnvironmentJurySettings, ArenaJudgeSettings):
    """Settings of Arena-Hard."""

    answer_judge = ArenaJudgeSettings
    always_anchored = True
    choosing = (*EnvironmentJurySettings.choosing, "candidates", "candidates_play")

    candidates: Annotated[Models, AfterValidator(_check_candidates)] = setting(
        [], verbs=EVALUATE, common=True
    )
    """Compare these models instead of evaluating one, a YAML or JSON list: [{"name": "a",
    "model_name": "…", "base_url": "…", "api_key_env": "…"}, {"name": "b", "answers": "b.jsonl"},
    {"name": "c", "answers": "RUN"}]."""
    candidates_play: CandidatesPlay | None = setting(None, verbs=EVALUATE, common=True)
    """Let the candidates of each row, with the baseline as one more, play a tournament (schedule,
    game_orders), or each two games against the baseline. If unset, a tournament."""
    style_control: bool = setting(False, verbs=EVALUATIONS)
    """Also report the win rate at equal length and markdown of both answers; not Arena-Hard-Auto's
    number."""
    cluster_winrates: bool = setting(False, verbs=EVALUATIONS)
    """Also report the win rate of each topic cluster of the prompts (column cluster)."""
    train_prompt_dataset: str = setting(
        "NousResearch/arena-hard-v1-prompts", group="data", common=True
    )
    """Read prompts from this dataset, hub name or file; for evaluations only if eval_prompt_dataset
    is unset."""
    train_baseline_dataset: str = setting(
        "NousResearch/gpt-4-0314-baseline-arenahard", group="data", common=True
    )
    """Read the baseline's answers from this dataset, hub name or file; for evaluations only if
    eval_baseline_dataset is unset."""
    eval_prompt_dataset: str | None = setting(
        None, verbs=EVALUATIONS, group="data", fallback="train_prompt_dataset"
    )
    """Read prompts for evaluations from this dataset; if unset, from train_prompt_dataset."""
    eval_baseline_dataset: str | None = setting(
        None, verbs=EVALUATIONS, group="data", fallback="train_baseline_dataset"
    )
    """Read the baseline's answers for evaluations from this dataset; if unset, from
    train_baseline_dataset."""
    train_split: str = setting("train", verbs=ROLLOUTS, group="data")
    """Train on this split of hub datasets."""
    eval_split: str = setting("train", verbs=EVALUATIONS, group="data")
    """Evaluate on this split of hub datasets."""

    @model_validator(mode="after")
    def _set_default_play(self) -> Self:
        if self.candidates and self.candidates_play is None:
            self.candidates_play = "tournament"
            self.model_fields_set.discard("candidates_play")
        return self

    @classmethod
    def choices(cls) -> Mapping[str, type[BaseModel]]:
        """Return the optional settings by choice, with those of a tournament of candidates."""
        return {**super().choices(), _TOURNAMENT: TournamentSettings}

    @classmethod
    def select_choices(cls, values: Mapping[str, Any]) -> Collection[str]:
        """Return the choices that these values make: candidates play a tournament by default."""
        play = values.get("candidates_play")
        plays = play == "tournament" or (play is None and cls.is_changed(values, "candidates"))
        return {*super().select_choices(values), *[_TOURNAMENT] * plays}

    @property
    def ignored(self) -> Mapping[str, Sequence[str]]:
        """Settings without effect; without candidates also those of candidates."""
        if self.candidates_play is None:
            return {**super().ignored, "candidates": ()}
        return super().ignored

    def built_in_prompt(self) -> str:
        """Return the prompt of the judge of games, or of the judge of a policy's answers."""
        if self.candidates_play == "tournament" and isinstance(self, TournamentSettings):
            return TournamentSettings.built_in_prompt(self)
        return super().built_in_prompt()

    def endpoints_asked(self, verb: Verb, policy: tuple[str, ...]) -> AskedEndpoints:
        """Return the base URLs of the judge and of the policy, or of the candidates."""
        endpoints = super().endpoints_asked(verb, policy)
        if self.candidates:
            return AskedEndpoints(judge=endpoints.judge, policy=list_urls(self.candidates))
        return endpoints

    def run_name(self, policy: str) -> str:
        """Return the first two candidates' names and the number of others, or the policy."""
        return join_names(self.candidates) or policy


_QUESTION = ("prompt", "question")


@dataclass(frozen=True, slots=True)
class ArenaHardTask:
    """A prompt and the baseline's answer to it."""

    uid: str
    question: str
    baseline: str
    category: str | None
    cluster: str | None = None

    def make_judge_task(self, answer: str) -> JudgeTask:
        """Return the judge's task for an answer."""
        return JudgeTask(self.question, (answer,), baseline=self.baseline)


def make_arena_task(uid: str, prompt: Row, baseline: Row) -> ArenaHardTask:
    """Make the task from a prompt's row and the row of the baseline's answer."""
    return ArenaHardTask(
        uid=uid,
        question=prompt.text(*_QUESTION),
        baseline=answer_text(baseline),
        category=prompt.optional_text("category"),
        cluster=prompt.optional_text("cluster"),
    )


logger = logging.getLogger(__name__)


class ArenaEnv(JudgedEnv[ArenaHardConfig, ArenaHardTask, DetailT], ABC, Generic[DetailT]):
    """Prompts with a baseline's answer to each."""

    spec = EnvSpec(
        name="arena_hard",
        headline=("overall_winrate", "win rate"),
        judge="arena_hard",
        offline_samples={
            "train_prompt_dataset": str(SAMPLES / "arena_hard.jsonl"),
            "train_baseline_dataset": str(SAMPLES / "arena_hard_baseline.jsonl"),
        },
    )
    prompts_without_baseline = 0

    def tasks(self, split: Split) -> Sequence[ArenaHardTask]:
        """Load the prompts that have a baseline; warn about the others in one line.

        Raises:
            DataError: the prompts or the baseline's answers cannot be loaded, or no prompt has a
                baseline.
        """
        config = self.config
        prompts = config.train_prompt_dataset
        baselines = config.train_baseline_dataset
        hub_split = config.train_split
        if split == "eval":
            prompts = config.eval_prompt_dataset or prompts
            hub_split = config.eval_split
            baselines = config.eval_baseline_dataset or baselines
        loaded = load_rows(prompts, split=hub_split)
        warn_unused_columns(loaded, (_QUESTION,), CONVERSATIONS)
        rows = index_by_uid(loaded)
        answers = index_by_uid(load_rows(baselines, split=hub_split))

        def build(uid: str, row: Row) -> list[ArenaHardTask]:
            answer = answers.get(uid)
            if answer is None:
                return []
            return [make_arena_task(uid, row, answer)]

        tasks, count = TaskList.expand_rows(rows, build), len(rows)
        if not tasks:
            raise DataError(f"{baselines}: no answer to any of the {count} prompts of {prompts}")
        self.prompts_without_baseline = missing_count = count - len(tasks)
        if missing_count:
            missing = next(uid for uid in rows if uid not in answers)
            self.warn_once(
                logger, f"{missing_count} of {count} prompts have no baseline, such as {missing!r}"
            )
        return tasks

    def conversations(self, task: ArenaHardTask) -> list[Conversation]:
        """Return the conversation: the system prompt and the prompt."""
        return [[*self.system_messages, Message(role="user", content=task.question)]]

    def group_case(self, task: ArenaHardTask) -> JudgeTask:
        """Return the task that compares answers to the prompt.

        The baseline's is one more answer.
        """
        return JudgeTask(task.question, (), baseline=task.baseline)

    def texts(self, task: ArenaHardTask) -> Mapping[str, str]:
        """Return the baseline's answer."""
        return {"baseline": task.baseline}
