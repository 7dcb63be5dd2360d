"""Prompts: the policy answers the prompts of any data set, and any judge scores the answers.

The judge is any judge of single responses in `judgegym.judges.scorers.registry`; a judge that is
added there works here. Rows are read as by `judgegym score`: a prompt in one of the usual columns,
and beside it the columns that the judge is shown (`reference`, `rubric`, `aspects`, `context`).
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from pydantic import BaseModel, model_validator
from typing_extensions import Self

if __name__ == "__main__":  # run as a script from any folder: the packages are next to this one
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    # Until the command handles it, Ctrl-C ends the process without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from judgegym.data.answers import AskedTurns, PromptTask, prompt_tasks
from judgegym.data.rows import Split
from judgegym.engine.completions import Completion, Conversation, make_completion_turns
from judgegym.engine.metrics import MetricAggregator, slug
from judgegym.engine.records import Sample
from judgegym.engine.settings import SAMPLES, EnvConfig
from judgegym.engine.settings.verbs import EVALUATIONS, ROLLOUTS
from judgegym.engine.terminal.summary import Outcome
from judgegym.environments.answer_judge import AnyJudge, ChosenJudgeSettings
from judgegym.environments.base import JudgedEnv
from judgegym.environments.simulated_user import ROW_TEXTS, SimulatedUser, UserSettings
from judgegym.environments.spec import EnvSpec
from judgegym.judges.config.fields import setting
from judgegym.judges.conversations.turns import render_transcript
from judgegym.judges.core.judgment import JudgeCall, Judgment, ScoreParts, Status
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.parts.cascade import ESCALATED, CascadeJudge, CascadeSettings
from judgegym.llm.at_once import gather_results
from judgegym.llm.ledger import component
from judgegym.statistics.agreement import side

_TURN = "turn_"
_USER = "user_max_turns"
_NO_CASCADE = "the judge cascade judges conversations of one turn; expected another judge"


class PromptsConfig(ChosenJudgeSettings, EnvConfig):
    """Settings: the judge, the prompts, and who continues after the first answer."""

    choosing = (*ChosenJudgeSettings.choosing, _USER)

    user_max_turns: int = setting(0, ge=0, common=True, group="user")
    """Let a model play the user, who continues after the policy's answer with at most this many
    messages; 0: no simulated user. It continues after a row's own turns if the row has several."""
    train_dataset: str = setting("prompts.jsonl", verbs=ROLLOUTS, group="data", common=True)
    """Train on this dataset: hub name or file."""
    train_split: str = setting("train", verbs=ROLLOUTS, group="data")
    """Train on this split of a hub dataset."""
    eval_dataset: str = setting("prompts.jsonl", verbs=EVALUATIONS, group="data", common=True)
    """Evaluate on this dataset: hub name or file."""
    eval_split: str = setting("train", verbs=EVALUATIONS, group="data")
    """Evaluate on this split of a hub dataset."""
    asked_turns: AskedTurns = setting("last", group="data")
    """Choose which of the user's turns in a row the policy answers. last: the last one, after the
    turns before it. all: one after the other, each after the policy's own answer instead of the
    row's."""
    judged: Literal["whole", "turns", "last"] = setting("whole", common=True)
    """Choose how a conversation of several turns is judged. whole: once, everything after the
    prompt as one response. turns: each of the policy's turns, as a response to the conversation
    before it; the score is their mean. last: only the last turn, in the same way."""

    @model_validator(mode="after")
    def _check_turn_settings(self) -> Self:
        if self.user_max_turns and self.model_answers is not None:
            raise ValueError(
                "user_max_turns: model_answers are given already, so that no user can go on after "
                "them"
            )
        if self.user_max_turns and self.match_settings(CascadeSettings):
            raise ValueError(f"user_max_turns: {_NO_CASCADE}")
        if self.judged == "turns" and self.judge_critique_rounds:
            raise ValueError(
                "judge_critique_rounds: judged=turns has several judgments; expected whole or last"
            )
        if self.reward_by == "turn" and self.judged != "turns":
            raise ValueError(
                "reward_by: turn needs judged=turns, which scores each turn; found "
                f"judged={self.judged}"
            )
        return self

    @classmethod
    def choices(cls) -> Mapping[str, type[BaseModel]]:
        """Return the optional settings by choice, with those of a simulated user."""
        return {**super().choices(), _USER: UserSettings}

    @classmethod
    def select_choices(cls, values: Mapping[str, Any]) -> Collection[str]:
        """Return the choices that these values make: also a simulated user, if it has turns."""
        return {*super().select_choices(values), *[_USER] * cls.is_changed(values, _USER)}

    @property
    def users(self) -> tuple[str, ...]:
        """Base URLs of the simulated user; empty without one."""
        if isinstance(self, UserSettings):
            return (self.user_base_url,)
        return ()


class PromptsEnv(JudgedEnv[PromptsConfig, PromptTask, ScoreParts]):
    """A policy's answer, scored from 0 to 1."""

    spec = EnvSpec(
        name="prompts",
        headline=("mean_score", "score"),
        offline_samples=dict.fromkeys(
            ("train_dataset", "eval_dataset"), str(SAMPLES / "rubric_absolute.jsonl")
        ),
    )
    _holds_conversations = False

    def tasks(self, split: Split) -> Sequence[PromptTask]:
        """Load the prompts; raise if the judge cannot judge a row."""
        config = self.config
        source, hub_split = config.train_dataset, config.train_split
        if split == "eval":
            source, hub_split = config.eval_dataset, config.eval_split

        def check(task: PromptTask) -> None:
            self._any_judge.check(task)
            if task.follow_ups and config.match_settings(CascadeSettings):
                raise ValueError(f"it has several turns: {_NO_CASCADE}")
            if task.follow_ups and config.model_answers is not None and split == "eval":
                raise ValueError("it has several turns, to which model_answers has no answers")

        columns = {*self._any_judge.shown_columns}
        if self._user is not None:
            columns.update(ROW_TEXTS)
        turns = config.asked_turns
        return prompt_tasks(
            source, hub_split, also=sorted(columns), turns=turns, shows_images=True, check=check
        )

    @cached_property
    def _user(self) -> SimulatedUser | None:
        config = self.config
        if not isinstance(config, UserSettings):
            return None
        settings = config.user_chat_settings(config, self.settings.openai.finish_reasons)
        return SimulatedUser(self.clients.open("user", settings), config, config.seed)

    @property
    def _any_judge(self) -> AnyJudge:
        assert isinstance(self.answer_judge, AnyJudge)  # the settings choose it
        return self.answer_judge

    def conversations(self, task: PromptTask) -> list[Conversation]:
        """Ask the prompt."""
        return [[*self.system_messages, *task.messages]]

    async def follow_up(self, task: PromptTask, completions: Sequence[Completion]) -> str | None:
        """Return the row's next turn; after the last one, the simulated user's message."""
        number, config = len(completions), self.config
        if number <= len(task.follow_ups):
            return task.follow_ups[number - 1]
        if self._user is None or number - len(task.follow_ups) > config.user_max_turns:
            return None
        turns = (*task.turns, *make_completion_turns(completions))
        return await self._user.ask_message(task.uid, turns, task.fields, number)

    async def judge(
        self, task: PromptTask, completions: Sequence[Completion]
    ) -> Judgment[ScoreParts]:
        """Score the answer, or the conversation in the way that `judged` names."""
        tasks = self._judge_tasks(task, completions)
        if self.config.judged != "turns":
            judgment = await self.answer_judge.judge(tasks[0])
        else:
            turns = enumerate(tasks, start=1)
            judgment = _average_turns(
                await gather_results(self._judge_turn(number, turn) for number, turn in turns)
            )
        if judgment.detail is None or not judgment.left_out:
            return judgment
        parts = {**judgment.detail.parts, "left_out": float(judgment.left_out)}
        return replace(judgment, detail=replace(judgment.detail, parts=parts))

    def _judge_tasks(self, task: PromptTask, completions: Sequence[Completion]) -> list[JudgeTask]:
        """Return the judge's tasks: the whole conversation, its last turn, or each of its turns."""
        turns = make_completion_turns(completions)
        indices = [index for index, turn in enumerate(turns) if turn.role == "assistant"]
        spans = {
            "whole": [(0, len(turns))],
            "turns": [(position, position + 1) for position in indices],
            "last": [(indices[-1], len(turns))],
        }
        written = {
            completion.answer: completion.written
            for completion in reversed(completions)  # of equal answers the first one counts
            if completion.written
        }
        tasks: list[JudgeTask] = []
        for begin, end in spans[self.config.judged]:
            response = turns[begin:end]
            answer = response[0].text if len(response) == 1 else render_transcript(response)
            prompt = render_transcript((*task.turns, *turns[:begin]))
            judge_task = self._any_judge.task(task, answer, prompt)
            if answer in written:
                judge_task = replace(judge_task, written=(written[answer],))
            if self.has_follow_ups(task):
                judge_task = replace(judge_task, traces=(response,))
            tasks.append(judge_task)
        return tasks

    async def _judge_turn(self, number: int, task: JudgeTask) -> Judgment[ScoreParts]:
        with component(f"turn_{number}"):
            return await self.answer_judge.judge(task)

    def record_metrics(
        self, metrics: MetricAggregator, task: PromptTask, sample: Sample[ScoreParts]
    ) -> None:
        """Record the score overall and by category, the turns, and a cascade's escalations."""
        score = self.spec.invalid_score if sample.score is None else sample.score
        metrics.mean("mean_score", score, interval=True)
        if task.category is not None:
            category = metrics.names(task.category)
            metrics.mean(f"mean_score_category_{category}", score)
        if self._holds_conversations:
            metrics.mean("turns", len(sample.completions))
        detail = sample.detail
        if detail is not None:
            for name, value in detail.parts.items():
                if name.startswith(_TURN):
                    metrics.mean(f"mean_score_{name}", value)
            self._record_cascade(metrics, detail.parts)

    def _record_cascade(self, metrics: MetricAggregator, parts: Mapping[str, float]) -> None:
        """Record how often a cascade's strong judge decides, and how often both judges differ."""
        if ESCALATED not in parts:
            return
        metrics.rate("escalated_rate", parts[ESCALATED] == 1.0)
        sides = [side(parts[name]) for name in self.config.part_names if name in parts]
        if parts[ESCALATED] == 0.0 and len(sides) == 2:
            metrics.rate("rechecked_differ_rate", sides[0] != sides[1])

    def texts(self, task: PromptTask) -> Mapping[str, str]:
        """Return the fields that judge and simulated user are shown, if they are texts."""
        return {name: value for name, value in task.fields.items() if isinstance(value, str)}

    @classmethod
    def spec_for(cls, config: PromptsConfig) -> EnvSpec:
        """Show the mean score of each part of a reward."""
        parts = []
        for name in config.part_names:
            metric = slug(name)
            parts.append(Outcome.from_metric(f"part {name}", f"part_{metric}", unit="number"))
        return replace(cls.spec, outcomes=parts)

    def has_follow_ups(self, task: PromptTask) -> bool:
        """Return whether the row has further turns, or a simulated user continues."""
        return bool(task.follow_ups or self.config.user_max_turns)

    @property
    def depends_on_group(self) -> bool:
        """Whether rewards depend on the group: only with a cascade."""
        return isinstance(self._any_judge.single, CascadeJudge)

    async def level(
        self,
        task: PromptTask,
        rollouts: Sequence[Sequence[Completion]],
        judgments: Sequence[Judgment[ScoreParts]],
    ) -> Sequence[Judgment[ScoreParts]]:
        """Let the strong judge of a cascade decide all completions of a group if it decides one."""
        cascade = self._any_judge.single
        if not isinstance(cascade, CascadeJudge):
            return judgments
        tasks = [self._any_judge.task(task, completions[0].answer) for completions in rollouts]
        judgments_with_parts = [
            replace(judgment, components={} if judgment.detail is None else judgment.detail.parts)
            for judgment in judgments
        ]
        escalated = await cascade.escalate_group(tasks, judgments_with_parts)
        results: list[Judgment[ScoreParts]] = []
        for before, judgment in zip(judgments_with_parts, escalated, strict=True):
            if judgment is not before and judgment.score is not None:
                contributions = {cascade.strong.name: judgment.score}
                detail = ScoreParts(dict(judgment.components), contributions)
                judgment = replace(judgment, detail=detail)
            results.append(judgment)
        return results

    def expect_metrics(self, metrics: MetricAggregator, tasks: Sequence[PromptTask]) -> None:
        """Declare the means of categories and of turns."""
        longest = max((len(task.follow_ups) for task in tasks), default=0)
        max_turns = 1 + self.config.user_max_turns + longest
        self._holds_conversations = max_turns > 1
        if max_turns > 1:
            metrics.expect("no completion has a score", "turns")
        if self.config.judged == "turns":
            for number in range(1, max_turns + 1):
                metrics.expect(
                    "no conversation with a score has this turn", f"mean_score_{_TURN}{number}"
                )
        if self.config.match_settings(CascadeSettings):
            metrics.expect("no completion has a score", "escalated_rate")
            metrics.expect(
                "no row that the cheap judge decides was shown to both", "rechecked_differ_rate"
            )
        for category in {task.category: None for task in tasks if task.category is not None}:
            name = metrics.names(category)
            metrics.expect("no row of this category has a score", f"mean_score_category_{name}")


def _average_turns(judgments: Sequence[Judgment[ScoreParts]]) -> Judgment[ScoreParts]:
    """Average the judgments of a conversation's turns; without a score if one of them has none."""
    named_judgments = [
        (f"{_TURN}{number}", judgment) for number, judgment in enumerate(judgments, start=1)
    ]
    explanation = "\n\n".join(
        f"{name}: {judgment.explanation}"
        for name, judgment in named_judgments
        if judgment.explanation
    )
    calls: list[JudgeCall[Any]] = []
    for name, judgment in named_judgments:
        calls += [replace(call, name=f"{call.name}/{name}") for call in judgment.calls]
    suspects = sum(judgment.suspects for judgment in judgments)
    failed = [(name, judgment) for name, judgment in named_judgments if judgment.score is None]
    if failed:
        name, first = next((pair for pair in failed if pair[1].status.is_failure), failed[0])
        reason = f"{name}: {first.explanation}"
        return Judgment(
            None, first.status, explanation=reason, calls=tuple(calls), suspects=suspects
        )
    scores = {
        name: judgment.score for name, judgment in named_judgments if judgment.score is not None
    }
    details = [judgment.detail for judgment in judgments if judgment.detail is not None]
    parts, terms = (
        _average_shared([getattr(detail, field) for detail in details])
        for field in ("parts", "contributions")
    )
    label = ", ".join(f"{score:.4g}" for score in scores.values())
    detail = ScoreParts({**scores, **parts}, terms)
    left_out = sum(judgment.left_out for judgment in judgments)
    return Judgment(
        fmean(scores.values()),
        Status.OK,
        label,
        explanation,
        tuple(calls),
        detail,
        suspects=suspects,
        left_out=left_out,
    )


def _average_shared(values: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each number that all mappings have."""
    shared = [name for name in values[0] if all(name in numbers for numbers in values)]
    return {name: fmean(numbers[name] for numbers in values) for name in shared}


if __name__ == "__main__":
    PromptsEnv.cli()
