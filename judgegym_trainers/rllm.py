"""Evaluators for rLLM: a judge of one completion, or the reward of an environment's row.

    JUDGEGYM_RLLM='{"url": "http://127.0.0.1:8400"}' \
        rllm eval DATASET --agent AGENT --evaluator judgegym_rubric …

`judge_evaluator` and `environment_evaluator` make evaluators for a module of your own (`--evaluator
module:name`, or `import_path` of a dataset's `[verifier]`). rLLM's entry points take no arguments:
`judgegym_environment`, and `judgegym_rubric`, `judgegym_composite` and so on by the kinds of
judges, read theirs from the variable `JUDGEGYM_RLLM`, a JSON object with the names of the
factories' arguments.

Guarantees: a failed judge raises a `NoRewardError`, which rLLM's engine turns into an episode that
ended with an error, without trajectories: it has no reward, no signals, and no group. An empty
completion is a wrong answer, with the signal `invalid_completion`. Status, label and explanation of
the judgment are in the episode's `metadata["judge"]`.

An evaluator sees one episode. A judge that compares waits until the rollouts of a task have
arrived: `group_size` of the server, or of `judge`, is their number (`--attempts`, the trainer's
group size).

Source: rLLM 0.3.0.pre, August 2026: `rllm.eval.evaluator_loader`, `rllm.engine.agentflow_engine`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

try:
    from rllm.eval.reward_fns._helpers import extract_answer_text
    from rllm.eval.types import EvalOutput, Signal
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] != "rllm":
        raise
    hint = "pip install git+https://github.com/rllm-org/rllm"
    raise ImportError(f"{missing.name} is not installed: {hint}", name=missing.name) from None

from judgegym.judges.core.event_loop import run_blocking
from judgegym.judges.core.judge import JudgeDefinition
from judgegym.judges.core.naming import refuse_unknown
from judgegym.judges.scorers.columns import USUAL_COLUMNS
from judgegym.judges.scorers.registry import JUDGES
from judgegym.llm.errors import SettingsError, UserError
from judgegym.llm.wire import JSON
from judgegym_trainers.scores.requests import CompletionRow, make_completion_row
from judgegym_trainers.scores.results import CompletionReward
from judgegym_trainers.scores.sources import JudgeSource, check_settings, read_settings_variable

if TYPE_CHECKING:
    from rllm.types import Episode, Task

    from judgegym_trainers.single_turn import EnvironmentSource

VARIABLE = "JUDGEGYM_RLLM"
_REFERENCES = (*USUAL_COLUMNS["reference"], "ground_truth", "answer", "target")
"""Fields of a row that may have its reference; the first one counts."""
_NUMBER_ARGUMENTS = ("correct_from", "invalid_completion_score", "timeout_s", "deadline_s")
_ARGUMENTS = ("url", "judge", "token", "mount", "offline", *_NUMBER_ARGUMENTS)


class JudgeEvaluator:
    """Scores an episode's answer from 0 to 1.

    The judge sees the task's instruction, the episode's answer, and these fields of the task's
    metadata: `messages` (in place of the instruction), `reference` (or `reference_answer`,
    `ground_truth`, `answer`, `target`), `rubric`, `aspects`, `criteria`, `baseline`, `context`, or
    other usual names of these.
    """

    def __init__(
        self, url: str | None = None, *, correct_from: float = 0.5, **settings: Any
    ) -> None:
        """Make an evaluator from a reward server (`url`) or a judge in rLLM's process (`judge`).

        Args:
            url: the URL of a reward server.
            correct_from: the score from which an answer counts as correct.
            settings: further settings of `JudgeSource`: `judge`, the settings of a judge, under the
                server's names; with it `offline`, to call the stand-in; `token`, `token_env` and
                `mount` of the server; `invalid_completion_score` of an empty answer, `timeout_s`,
                `deadline_s`.

        Raises:
            SettingsError: a setting is wrong, or neither or both of `url` and `judge` are given.
        """
        source = JudgeSource(url, **settings)
        if source.compares and source.judge.get("group_size") is None:
            kind = source.judge.get("judge")
            raise SettingsError(
                f"judge.group_size: {kind} compares the rollouts of a task; expected their number"
            )
        check_settings(correct_from=correct_from)
        self._scoring = source.get_shared_scorer()
        self._correct_from = correct_from

    def evaluate(self, task: Task, episode: Episode) -> EvalOutput:
        """Score the answer.

        Raises:
            NoRewardError: the judge failed.
            SettingsError: a setting cannot work.
        """
        [result] = run_blocking(self._scoring.score_each([_make_row(task, episode)]))
        return _make_output(episode, result, self._correct_from)


class EnvironmentEvaluator:
    """Gives an episode the reward of an environment's row, in the environment's own range."""

    def __init__(
        self, environment: EnvironmentSource | Mapping[str, object] | str, correct_from: float = 0.5
    ) -> None:
        """Make an evaluator.

        Args:
            environment: a name, a source, or the arguments of `EnvironmentSource.from_settings`.
            correct_from: the reward from which an answer counts as correct.

        Raises:
            SettingsError: a setting is wrong.
            DataError: the rows cannot be loaded.
        """
        from judgegym_trainers.single_turn import (
            get_environment,
            parse_source,
        )  # late: not needed with a server

        check_settings(correct_from=correct_from)
        self.environment = get_environment(parse_source(environment))
        if self.environment.compares:
            raise SettingsError(
                "group_judge: rLLM evaluates each episode by itself; choose a judge that sees one"
            )
        self._correct_from = correct_from

    def evaluate(self, task: Task, episode: Episode) -> EvalOutput:
        """Judge the answer to the row whose id is the metadata's `uid`, or else the task's id.

        Raises:
            NoRewardError: the judge failed.
            DataError: there is no such row.
        """
        uid = str(task.metadata.get("uid") or task.id)
        [result] = self.environment.rewards_sync(uid, [_read_answer(episode)])
        return _make_output(episode, result, self._correct_from)


judge_evaluator = JudgeEvaluator
environment_evaluator = EnvironmentEvaluator


def environment_rows(
    environment: EnvironmentSource | Mapping[str, object] | str,
) -> list[dict[str, JSON]]:
    """Return an environment's rows for rLLM: `id`, `uid`, `question`, `messages`, `category`.

    Raises:
        SettingsError: a setting is wrong.
        DataError: the rows cannot be loaded.
    """
    from judgegym_trainers.single_turn import get_environment, parse_source

    return [
        {
            "id": row.uid,
            "uid": row.uid,
            "question": row.messages[-1]["content"],
            "messages": [
                {"role": message["role"], "content": message["content"]} for message in row.messages
            ],
            "category": row.category,
        }
        for row in get_environment(parse_source(environment)).rows()
    ]


def _make_row(task: Task, episode: Episode) -> CompletionRow:
    metadata = task.metadata
    messages = task.metadata.get("messages")
    prompt: object = task.instruction
    if isinstance(messages, Sequence) and not isinstance(messages, str) and messages:
        prompt = messages
    elif not isinstance(prompt, str):
        prompt = [{"role": "user", "content": list(task.instruction)}]
    reference = next(
        (metadata[name] for name in _REFERENCES if metadata.get(name) is not None), None
    )
    cells = {**metadata, "reference": reference}
    # The ids are for a judge that compares the rollouts of a task.
    return make_completion_row(
        prompt, _read_answer(episode), cells, group=task.id, member=episode.id
    )


def _read_answer(episode: Episode) -> str:
    """Return the answer's text; without one rLLM would format `None`, so it is empty."""
    if "answer" in episode.artifacts and episode.artifacts["answer"] is None:
        return ""
    return str(extract_answer_text(episode))


def _make_output(episode: Episode, result: CompletionReward, correct_from: float) -> EvalOutput:
    episode.metadata["judge"] = (
        result.outcome
    )  # an output's metadata would become metrics, which are numbers
    reward = result.reward
    if reward is None:
        raise result.error()
    signals = {"judge_score": reward, "invalid_completion": float(result.is_invalid)}
    return EvalOutput(
        reward=reward,
        is_correct=not result.is_invalid and reward >= correct_from,
        signals=[Signal(name, value) for name, value in signals.items()],
    )


def _read_variable() -> dict[str, Any]:
    settings = read_settings_variable(VARIABLE, missing="{}")
    for name in _NUMBER_ARGUMENTS:
        if name in settings and not isinstance(settings[name], int | float):
            kind = type(settings[name]).__name__
            raise SettingsError(f"{VARIABLE}.{name}: expected a number, found {kind}")
    return settings


class _KindEvaluator(JudgeEvaluator):
    """An evaluator that rLLM makes from an entry point, without arguments."""

    kind: ClassVar[str]

    def __init__(self) -> None:
        """Read the arguments from the variable; without `url`, judge in this process.

        Raises:
            TypeError: an argument is wrong; rLLM's command line shows a `TypeError` in one line.
        """
        try:
            settings = _read_variable()
            refuse_unknown(settings, _ARGUMENTS, prefix=f"{VARIABLE}.")
            judge = settings.get("judge") or {}
            if not isinstance(judge, Mapping):
                found_type = type(judge).__name__
                raise SettingsError(
                    f"{VARIABLE}.judge: expected the judge's settings, found {found_type}"
                )
            if "url" not in settings:
                settings["judge"] = {**judge, "judge": self.kind}
            super().__init__(**settings)
        except UserError as error:
            raise TypeError(str(error)) from error


def _make_evaluator(kind: str, judge: JudgeDefinition) -> type[_KindEvaluator]:
    """Make the evaluator `judgegym_KIND` for rLLM's entry points."""
    name = kind.title().replace("_", "") + "Evaluator"
    text = f"`judgegym_{kind}`: {judge.about}."
    return type(name, (_KindEvaluator,), {"kind": kind, "__doc__": text, "__module__": __name__})


EVALUATORS = {
    evaluator.__name__: evaluator
    for evaluator in (
        _make_evaluator(kind, judge) for kind, judge in JUDGES.items() if not judge.needs_group
    )
}
"""The evaluator class of each kind of judge; `rllm:RubricEvaluator` is that of the kind rubric."""


def __getattr__(name: str) -> type[JudgeEvaluator]:
    """Return the evaluator of a kind of judge."""
    if name not in EVALUATORS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return EVALUATORS[name]


class EnvironmentFromVariable(EnvironmentEvaluator):
    """`judgegym_environment`: an environment's reward, with arguments from the variable."""

    def __init__(self) -> None:
        """Take the arguments from the variable.

        Raises:
            TypeError: an argument is wrong; rLLM's command line shows a `TypeError` in one line.
        """
        try:
            settings = _read_variable()
            if "environment" not in settings:
                raise SettingsError(
                    f'{VARIABLE}: expected an environment, such as {{"environment": "arena_hard"}}'
                )
            correct_from = settings.pop("correct_from", 0.5)
            super().__init__(settings, correct_from)
        except UserError as error:
            raise TypeError(str(error)) from error
