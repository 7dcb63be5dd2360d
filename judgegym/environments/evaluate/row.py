"""Evaluation of one row: ask the policy, judge its completions, make the sample.

An environment with another way to evaluate a row returns a subclass from
`HasRowRunner.row_runner`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import is_dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, runtime_checkable

from judgegym.data.answers import load_answers
from judgegym.data.rows import TaskT
from judgegym.data.task_list import list_uids
from judgegym.engine.completions import (
    Completion,
    Conversation,
    continue_conversation,
    judge_completions,
    read_completion,
)
from judgegym.engine.records import Sample, SampleRun, digest
from judgegym.engine.terminal import Table
from judgegym.environments.base import DetailT, JudgedEnv
from judgegym.environments.contract import call_judge, make_conversations
from judgegym.environments.simulated_user import collect_user_calls
from judgegym.judges.core.judgment import CallRun
from judgegym.judges.parsing.verdict_parser import Place
from judgegym.llm import wire
from judgegym.llm.at_once import gather_results
from judgegym.llm.errors import EndpointError, UserFailure
from judgegym.llm.ledger import component
from judgegym.llm.wire import JSON, Choice, Message
from judgegym.reports.results.answers import (
    EarlierAnswers,
    RowAnswers,
    are_verdicts,
    find_run,
    name_subject,
)
from judgegym.reports.results.run import SavedRun


@runtime_checkable
class PolicyJudges(Protocol):
    """An environment whose policy may judge, and that finds the verdict, for the ledger."""

    def verdict_at(self, task: Any, answer: str) -> Place | None:
        """Return the position of the verdict in a judging policy's completion.

        `None` without one.
        """


@runtime_checkable
class HasAnswers(Protocol):
    """An environment whose rows may have an answer to judge in place of a policy's."""

    def dataset_answer(self, task: Any) -> str | None:
        """Return the row's answer; `None` if the policy answers."""


class RowRunner(Generic[TaskT, DetailT]):
    """Runner of the rows of one evaluation.

    `keeps_completions` tells whether its samples hold the completions of one policy.
    """

    keeps_completions: ClassVar[bool] = True

    def __init__(self, env: JudgedEnv[Any, TaskT, DetailT]) -> None:
        """Set up the runner; make no call yet."""
        self._env = env
        self._dataset = env if isinstance(env, HasAnswers) else None
        self._file: Mapping[str, str] | None = None
        self._earlier: EarlierAnswers | None = None
        self.asks_policy = False

    def prepare(self, tasks: Sequence[TaskT]) -> None:
        """Load existing answers or open the policy: errors are reported before the first call.

        Raises:
            DataError: the answers cannot be loaded, one is missing, or they answer other questions.
            RunDirectoryError: the answers are in a damaged run directory.
            SettingsError: the policy is needed, and its API key is missing.
        """
        env, path = self._env, self._env.config.model_answers
        run_path = None
        if path is not None:
            run_path = find_run(path)
        if run_path is not None:
            self._earlier = EarlierAnswers(run_path, list_uids(tasks))
            self._earlier.check(tasks, env.conversations, self._find_refusal)
        elif path is not None:
            self._file = load_answers(path, tasks)
        elif self._dataset is None or any(
            self._dataset.dataset_answer(task) is None for task in tasks
        ):
            _ = env.clients.policy
            self.asks_policy = True

    def _find_existing_answers(self, task: TaskT) -> RowAnswers | None:
        """Return the answers that exist already, if there are any."""
        if self._earlier is not None:
            return self._earlier[task.uid]
        if self._file is not None:
            return RowAnswers((read_completion(Choice(self._file[task.uid]), self._env.config),))
        answer = None
        if self._dataset is not None:
            answer = self._dataset.dataset_answer(task)
        if answer is None:
            return None
        # No policy was asked to think here, so the answer may have no thinking.
        visible = self._env.config.hide_thinking(answer)
        return RowAnswers((Completion(visible.text, visible.thinking, written=visible.written),))

    def _find_refusal(self, run: SavedRun, task: TaskT, row: RowAnswers) -> str | None:
        """Return why answers of an earlier run cannot be used here; `None` if they can.

        Where the policy judges, its answers must be verdicts.
        """
        env = self._env
        if not env.config.policy_is_judge:
            if are_verdicts(run, row, env.spec.name):
                return "they are verdicts of a policy that judged"
            return None
        if wire.lookup(run.config, "env.role") in ("policy", "respondent"):
            return "they are answers that a judge judged, and no verdicts of the policy"
        shown = {self._digest(task, None), self._digest(task, row)}
        if row.task_digest and row.task_digest not in shown:
            return (
                "the policy was shown other answers, or in another order, or the gold label was "
                "another one"
            )
        return None

    @property
    def subject(self) -> str:
        """Name of the subject: the policy, a file of answers, or the data set's answers."""
        env = self._env
        if self._earlier is not None:
            return self._earlier.run.subject
        if env.config.model_answers is not None:
            return name_subject(env.config.model_answers)
        if self.asks_policy:
            return env.settings.openai.model_name
        return "answers of the dataset"

    @property
    def judge_name(self) -> str:
        """Name of the judge."""
        config = self._env.config
        if config.policy_is_judge:
            return self.subject
        return str(config.judge_name())

    @property
    def rows_in_flight(self) -> int:
        """Maximum number of rows in progress: enough to reach the limits of both endpoints."""
        return (
            int(self._env.config.judge_max_concurrency)
            + self._env.settings.openai.num_requests_for_eval
        )

    @property
    def thinking_mode(self) -> bool:
        """Whether the policy was asked to think before it answers."""
        if self._earlier is None:
            return bool(self._env.config.thinking_mode)
        return self._earlier.thinking_mode

    @property
    def answers_run(self) -> JSON:
        """Earlier run of the completions, for `metrics.json`; `None` without one."""
        if self._earlier is None:
            return None
        return self._earlier.to_json()

    @property
    def notices(self) -> Sequence[str]:
        """Remarks about the completions that a reader of the numbers needs."""
        if self._earlier is None:
            return ()
        return (self._earlier.description,)

    def plan(self, tasks: Sequence[TaskT]) -> str | None:
        """Return a line about the planned calls, to show it before the first call."""
        if self._earlier is None:
            return None
        return self._earlier.description

    async def finish(self, task: TaskT) -> Sample[DetailT]:
        """Evaluate a row; calls of an earlier run come from the ledger that the loop has set."""
        env, started = self._env, time.monotonic()
        existing = self._find_existing_answers(task)
        sample = Sample[DetailT](
            task.uid, task.category, task.question, task_digest=self._digest(task, existing)
        )
        with collect_user_calls() as user_runs:
            answers = existing or await self._ask(task)
        completions, policy_runs = answers.completions, answers.runs
        if answers.policy_error is not None or answers.user_error is not None:
            run = SampleRun(time.monotonic() - started, policy_runs, user_calls=tuple(user_runs))
            return replace(
                sample, run=run, policy_error=answers.policy_error, user_error=answers.user_error
            )
        policy_is_judge = env.config.policy_is_judge
        judgment = await judge_completions(
            partial(call_judge, env), task, completions, policy_is_judge=policy_is_judge
        )
        judge_calls = {call.name: call.run for call in judgment.calls}
        run = SampleRun(time.monotonic() - started, policy_runs, judge_calls, tuple(user_runs))
        sample = replace(sample, completions=completions, run=run)
        return sample.replace_judgment(judgment, invalid_score=env.spec.invalid_score)

    async def _ask(self, task: TaskT) -> RowAnswers:
        """Hold all conversations of a row at once.

        If the policy failed in one, the row has failed.
        """
        conversations = make_conversations(self._env, task)
        is_single = len(conversations) == 1
        answers = await gather_results(
            self._converse(task, *pair, is_single=is_single) for pair in enumerate(conversations)
        )
        failed = [answer for answer in answers if answer.policy_error is not None]
        completions = chain.from_iterable(answer.completions for answer in answers)
        runs = chain.from_iterable(answer.runs for answer in answers)
        # Only a row's single conversation has a user.
        end = failed[0] if failed else answers[0]
        return replace(end, completions=tuple(completions), runs=tuple(runs))

    async def _converse(
        self, task: TaskT, number: int, conversation: Conversation, *, is_single: bool
    ) -> RowAnswers:
        """Hold a conversation: one completion, then one per message of the user.

        The conversation ends with a turn that cannot be judged: nothing follows a malformed answer.
        """
        env, completions, runs = self._env, list[Completion](), list[CallRun]()
        is_judge = env.config.policy_is_judge
        verdict_at = None
        if is_judge and isinstance(env, PolicyJudges):
            verdict_at = partial(env.verdict_at, task)
        messages, follow_up = conversation, ""
        with component(f"conversation_{number}"):  # a row may have the same one several times
            while True:
                turn = len(runs)
                with component(f"turn_{turn}") if runs else nullcontext():
                    try:
                        completion, run = await env.clients.policy.complete(messages, verdict_at)
                    except EndpointError as error:
                        failed = CallRun(attempts=error.attempts, usage=error.usage)
                        return RowAnswers(
                            tuple(completions), f"the policy at {error}", (*runs, failed)
                        )
                completions.append(replace(completion, follow_up=follow_up))
                runs.append(run)
                if not is_single or completion.unjudgeable is not None:
                    break
                try:
                    message = await env.follow_up(task, completions)
                except (UserFailure, EndpointError) as error:
                    return RowAnswers(tuple(completions), None, tuple(runs), f"the user: {error}")
                if message is None:
                    break
                follow_up = message
                messages = [
                    *continue_conversation(conversation, completions),
                    Message(role="user", content=follow_up),
                ]
        return RowAnswers(tuple(completions), runs=tuple(runs))

    def digest(self, task: TaskT) -> str:
        """Return a digest of everything that the judge sees of a row."""
        return self._digest(task, self._find_existing_answers(task))

    @staticmethod
    def _digest(task: TaskT, existing: RowAnswers | None) -> str:
        shown_to_judge = task if is_dataclass(task) else (task.uid, task.category, task.question)
        if existing is None:
            return digest(shown_to_judge, None)
        return digest(shown_to_judge, *(existing.completions or (existing.policy_error,)))

    def is_complete(self, sample: Sample[DetailT]) -> bool:
        """Return whether a resumed run has nothing to add to a row."""
        return sample.finished

    def write_report(
        self, path: Path, rows: Sequence[tuple[TaskT, Sample[DetailT]]]
    ) -> Sequence[Table]:
        """Write further files into the run directory, and return tables to show.

        Args:
            path: the run directory.
            rows: all finished rows; each is read from the run directory when it is accessed.
        """
        return ()
