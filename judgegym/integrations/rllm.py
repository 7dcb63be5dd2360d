"""Evaluators for rLLM: a judge of one completion, or the reward of an environment's row.

    JUDGEGYM_RLLM='{"url": "http://127.0.0.1:8400"}' rllm eval DATASET --agent AGENT --evaluator judgegym_rubric …

`judge_evaluator` and `environment_evaluator` make evaluators for a module of one's own (`--evaluator module:name`, or
`import_path` of a dataset's `[verifier]`). rLLM's entry points take no arguments: `judgegym_rubric`, `judgegym_aspect`,
`judgegym_peer`, `judgegym_arena_hard` and `judgegym_environment` read theirs from the variable `JUDGEGYM_RLLM`, a JSON
object with the names of the factories' arguments.

Guarantees: a judge that fails raises a `NoRewardError`, from which rLLM's engine makes an episode that ended with an
error, without trajectories: it has no reward and no signals, and is in no group. An empty completion is a wrong answer,
with the signal `invalid_completion`. What the judge said is in the episode's `metadata["judge"]`.

An evaluator sees one episode. A judge that compares waits until the rollouts of a task are there: `group_size` of the
server, or of `judge`, is their number (`--attempts`, the trainer's group size).

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
    how = "pip install git+https://github.com/rllm-org/rllm"
    raise ImportError(f"{missing.name} is not installed: {how}", name=missing.name) from None

from judgegym.integrations.scores.requests import (
    CellError,
    RefusedError,
    Request,
    conversation_json,
    fields_in,
    group_ids,
)
from judgegym.integrations.scores.results import CompletionReward, check_finite
from judgegym.integrations.scores.sources import (
    DEADLINE_S,
    TIMEOUT_S,
    JudgeSource,
    is_of_groups,
    refuse_unknown,
    settings_in,
    shared_scoring,
)
from judgegym.judges.core.event_loop import run_blocking
from judgegym.llm.errors import SettingsError, UserError
from judgegym.llm.wire import JSON

if TYPE_CHECKING:
    from rllm.types import Episode, Task

    from judgegym.integrations.single_turn import EnvironmentSource
    from judgegym.judges.scorers.registry import JudgeKind

VARIABLE = "JUDGEGYM_RLLM"
_REFERENCES = ("reference", "ground_truth", "answer", "target")
"""Where a row has its reference; the first that is there is taken."""
_NUMBERS = ("correct_from", "invalid_completion_score", "timeout_s", "deadline_s")
_ARGUMENTS = ("url", "judge", "token", "mount", "offline", *_NUMBERS)


class JudgeEvaluator:
    """Scores an episode's answer from 0 to 1.

    The judge sees the task's instruction, the episode's answer, and of the task's metadata `messages` (in the place of
    the instruction), `reference` (or `ground_truth`, `answer`, `target`), `rubric`, `aspects`, `baseline`, `context`.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        judge: Mapping[str, object] | None = None,
        token: str | None = None,
        mount: str = "",
        offline: bool = False,
        correct_from: float = 0.5,
        invalid_completion_score: float = 0.0,
        timeout_s: float = TIMEOUT_S,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        """Make an evaluator from a reward server (`url`) or a judge in rLLM's process (`judge`).

        Args:
            url: the URL of a reward server.
            judge: the settings of a judge, under the server's names.
            token: the server's bearer token.
            mount: the name of a judge at the server.
            offline: with `judge`, ask the stand-in.
            correct_from: the score from which an answer counts as correct.
            invalid_completion_score: that of an empty answer.
            timeout_s: seconds for one attempt at the server.
            deadline_s: seconds within which there is a score.

        Raises:
            SettingsError: a setting is wrong, or neither or both of `url` and `judge` are given.
        """
        if judge is not None and is_of_groups(judge) and judge.get("group_size") is None:
            raise SettingsError(f"judge.group_size: {judge.get('judge')} compares the rollouts of a task: how many?")
        check_finite(correct_from=correct_from, invalid_completion_score=invalid_completion_score)
        source = JudgeSource(
            url, judge, token=token, mount=mount, timeout_s=timeout_s, deadline_s=deadline_s, offline=offline
        )
        self._scoring = shared_scoring(source)
        self._correct_from = correct_from
        self._invalid_completion_score = invalid_completion_score

    def evaluate(self, task: Task, episode: Episode) -> EvalOutput:
        """Score the answer.

        Raises:
            NoRewardError: the judge failed.
            SettingsError: a setting cannot work.
        """
        scoring = self._scoring.score([_request(task, episode)], self._invalid_completion_score)
        [[result]] = run_blocking(scoring)
        return _output(episode, result, self._correct_from)


class EnvironmentEvaluator:
    """Gives an episode the reward of an environment's row, in the environment's own range."""

    def __init__(self, environment: EnvironmentSource | Mapping[str, object] | str, correct_from: float = 0.5) -> None:
        """Make an evaluator.

        Args:
            environment: a name, a source, or the arguments of `EnvironmentSource.of`.
            correct_from: the reward from which an answer counts as correct.

        Raises:
            SettingsError: a setting is wrong.
            DataError: the rows cannot be loaded.
        """
        from judgegym.integrations.single_turn import (
            opened,  # late: beside a server it is not needed
            source_of,
        )

        check_finite(correct_from=correct_from)
        self.environment = opened(source_of(environment))
        if self.environment.compares:
            raise SettingsError("group_judge: rLLM evaluates each episode by itself; choose a judge that sees one")
        self._correct_from = correct_from

    def evaluate(self, task: Task, episode: Episode) -> EvalOutput:
        """Judge the answer as that of the row whose id is the metadata's `uid`, or else the task's id.

        Raises:
            NoRewardError: the judge failed.
            DataError: there is no such row.
        """
        uid = str(task.metadata.get("uid") or task.id)
        [rewarded] = self.environment.rewards_sync(uid, [_answer(episode)])
        return _output(episode, rewarded, self._correct_from)


judge_evaluator = JudgeEvaluator
environment_evaluator = EnvironmentEvaluator


def environment_rows(environment: EnvironmentSource | Mapping[str, object] | str) -> list[dict[str, JSON]]:
    """The rows of an environment, for a dataset of rLLM: `id`, `uid`, `question`, `messages`, `category`.

    Raises:
        SettingsError: a setting is wrong.
        DataError: the rows cannot be loaded.
    """
    from judgegym.integrations.single_turn import opened, source_of

    return [
        {
            "id": row.uid,
            "uid": row.uid,
            "question": row.messages[-1]["content"],
            "messages": [{"role": message["role"], "content": message["content"]} for message in row.messages],
            "category": row.category,
        }
        for row in opened(source_of(environment)).rows()
    ]


def _request(task: Task, episode: Episode) -> Request | RefusedError:
    metadata = task.metadata
    reference = next((metadata[name] for name in _REFERENCES if metadata.get(name) is not None), None)
    try:
        fields = fields_in({**metadata, "reference": reference})
    except CellError as error:
        return RefusedError(str(error))
    ids = group_ids(task.id, episode.id)  # for a judge that compares the rollouts of a task
    return {"prompt": _prompt(task), "response": _answer(episode), **fields, **ids}


def _answer(episode: Episode) -> str:
    """The answer's text; rLLM would write out `None`, which an agent without an answer may have set."""
    has_none = "answer" in episode.artifacts and episode.artifacts["answer"] is None
    return "" if has_none else extract_answer_text(episode)


def _prompt(task: Task) -> JSON:
    messages = task.metadata.get("messages")
    if isinstance(messages, Sequence) and not isinstance(messages, str) and messages:
        return conversation_json(messages)
    if isinstance(task.instruction, str):
        return task.instruction
    return conversation_json([{"role": "user", "content": list(task.instruction)}])


def _output(episode: Episode, rewarded: CompletionReward, correct_from: float) -> EvalOutput:
    episode.metadata["judge"] = rewarded.said  # an output's metadata would be among the metrics, which are numbers
    reward = rewarded.reward
    if reward is None:
        raise rewarded.error()
    signals = {"judge_score": reward, "invalid_completion": float(rewarded.is_invalid)}
    return EvalOutput(
        reward=reward,
        is_correct=not rewarded.is_invalid and reward >= correct_from,
        signals=[Signal(name, value) for name, value in signals.items()],
    )


def _from_variable() -> dict[str, Any]:
    given = settings_in(VARIABLE, missing="{}")
    wrong = next((name for name in _NUMBERS if name in given and not isinstance(given[name], int | float)), None)
    if wrong is not None:
        raise SettingsError(f"{VARIABLE}.{wrong}: expected a number, found {type(given[wrong]).__name__}")
    return given


class _OfKind(JudgeEvaluator):
    """An evaluator as rLLM makes one from an entry point: without arguments."""

    kind: ClassVar[JudgeKind]

    def __init__(self) -> None:
        """Take the arguments from the variable; without `url`, the judge of this kind runs in this process.

        Raises:
            TypeError: one is wrong; rLLM's command line shows this kind of error in one line.
        """
        try:
            given = _from_variable()
            refuse_unknown(given, _ARGUMENTS, within=VARIABLE)
            judge = given.get("judge") or {}
            if not isinstance(judge, Mapping):
                raise SettingsError(f"{VARIABLE}.judge: expected the judge's settings, found {type(judge).__name__}")
            if "url" not in given:
                given["judge"] = {**judge, "judge": self.kind}
            super().__init__(**given)
        except UserError as error:
            raise TypeError(str(error)) from error


class RubricEvaluator(_OfKind):
    """`judgegym_rubric`: by a rubric."""

    kind = "rubric"


class AspectEvaluator(_OfKind):
    """`judgegym_aspect`: by yes/no questions."""

    kind = "aspect"


class PeerEvaluator(_OfKind):
    """`judgegym_peer`: as a peer, from 0 to 100 by a rubric in text."""

    kind = "peer"


class ArenaHardEvaluator(_OfKind):
    """`judgegym_arena_hard`: the win rate against the row's baseline."""

    kind = "arena_hard"


class EnvironmentFromVariable(EnvironmentEvaluator):
    """`judgegym_environment`: the reward of an environment, whose arguments are those of `EnvironmentSource.of`."""

    def __init__(self) -> None:
        """Take the arguments from the variable.

        Raises:
            TypeError: one is wrong; rLLM's command line shows this kind of error in one line.
        """
        try:
            given = _from_variable()
            if "environment" not in given:
                raise SettingsError(f'{VARIABLE}: expected an environment, such as {{"environment": "arena_hard"}}')
            correct_from = given.pop("correct_from", 0.5)
            super().__init__(given, correct_from)
        except UserError as error:
            raise TypeError(str(error)) from error
