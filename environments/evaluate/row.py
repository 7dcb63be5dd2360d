"""Evaluate one row: ask the policy, judge its completions, make the sample.

An environment that evaluates a row in another way returns a subclass from `JudgedEnv.row_runner`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic

from environments.base import DetailT, JudgedEnv
from environments.completions import Completion, Conversation, judge_completions, read_completion
from environments.data.answers import load_answers
from environments.data.rows import TaskT
from environments.records import Sample, SampleRun, digest
from environments.terminal import Table
from judges.core.judgment import CallRun
from judges.llm.errors import EndpointError
from judges.llm.ledger import component
from judges.llm.wire import Choice


class RowRunner(Generic[TaskT, DetailT]):
    """Evaluates the rows of one evaluation.

    `keeps_completions` says whether its samples hold the completions of one policy.
    """

    keeps_completions: ClassVar[bool] = True

    def __init__(self, env: JudgedEnv[Any, TaskT, DetailT]) -> None:
        """Set up the runner; no call is made yet."""
        self._env = env
        self._answers: Mapping[str, str] | None = None
        self.asks_policy = False

    def prepare(self, tasks: Sequence[TaskT]) -> None:
        """Load the answers that exist and open the policy, so that errors are reported before the first call.

        Raises:
            DataError: the file of answers cannot be loaded, or lacks one.
            SettingsError: the policy is needed, and its API key is missing.
        """
        env, config = self._env, self._env.config
        if config.model_answers is not None:
            self._answers = load_answers(config.model_answers, tasks)
        elif any(env.dataset_answer(task) is None for task in tasks):
            _ = env.clients.policy
            self.asks_policy = True

    def _existing(self, task: TaskT) -> Completion | None:
        """Return the answer that exists already, if there is one."""
        if self._answers is not None:
            return read_completion(Choice(self._answers[task.uid]), self._env.config)
        answer = self._env.dataset_answer(task)
        return None if answer is None else Completion(answer)  # not checked for thinking: no policy was asked for it

    @property
    def subject(self) -> str:
        """Return the name of what is evaluated: the policy, a file of answers, or the dataset's answers."""
        env = self._env
        if env.config.model_answers is not None:
            return str(env.config.model_answers.stem)
        return env.settings.openai.model_name if self.asks_policy else "answers of the dataset"

    @property
    def judge_name(self) -> str:
        """Return the name of the judge."""
        return self.subject if self._env.policy_is_judge else self._env.config.judge_model_name

    @property
    def rows_in_flight(self) -> int:
        """Return how many rows to run at once: enough to reach the limits of both endpoints."""
        return int(self._env.config.judge_max_concurrency) + self._env.settings.openai.num_requests_for_eval

    def plan(self, tasks: Sequence[TaskT]) -> str | None:
        """Return the number of calls and their cost, to be shown before the first call; by default nothing."""
        return None

    async def finish(self, task: TaskT) -> Sample[DetailT]:
        """Evaluate a row. What an earlier run has paid for comes from the ledger of calls that the loop has set."""
        env, started = self._env, time.monotonic()
        sample = Sample[DetailT](task.uid, task.category, task.question, task_digest=self.digest(task))
        policy_calls: tuple[CallRun, ...] = ()
        existing = self._existing(task)
        if existing is not None:
            completions: tuple[Completion, ...] = (existing,)
        else:
            asking = (self._ask(number, each) for number, each in enumerate(env.conversations(task)))
            replies = await asyncio.gather(
                *asking, return_exceptions=True
            )  # wait for all, so that no call is left running
            failures = [reply for reply in replies if isinstance(reply, EndpointError)]
            for reply in replies:
                if isinstance(reply, BaseException) and reply not in failures:
                    raise reply
            answers = [reply for reply in replies if not isinstance(reply, BaseException)]
            completions, policy_calls = tuple(text for text, _ in answers), tuple(run for _, run in answers)
            if failures:
                failed = (CallRun(attempts=error.attempts, usage=error.usage) for error in failures)
                run = SampleRun(time.monotonic() - started, (*policy_calls, *failed))
                return replace(sample, run=run, policy_error=f"the policy at {failures[0]}")
        judgment = await judge_completions(env.judge, task, completions, policy_is_judge=env.policy_is_judge)
        judge_calls = {call.name: call.run for call in judgment.calls}
        run = SampleRun(time.monotonic() - started, policy_calls, judge_calls)
        sample = replace(sample, completions=completions, run=run)
        return sample.with_judgment(judgment, invalid_score=env.invalid_completion_score)

    async def _ask(self, number: int, conversation: Conversation) -> tuple[Completion, CallRun]:
        with component(f"conversation_{number}"):  # a row may have the same one several times
            return await self._env.clients.policy.complete(conversation)

    def digest(self, task: TaskT) -> str:
        """Return a digest of everything that the judge sees of a row."""
        shown_to_judge = task if is_dataclass(task) else (task.uid, task.category, task.question)
        return digest(shown_to_judge, self._existing(task))

    def is_complete(self, sample: Sample[DetailT]) -> bool:
        """Return whether a resumed run has nothing to add to a row."""
        return sample.finished

    def write_report(self, path: Path, rows: Sequence[tuple[TaskT, Sample[DetailT]]]) -> Sequence[Table]:
        """Write further files into the run directory, and return tables to show.

        Args:
            path: the run directory.
            rows: all finished rows; each is read from the run directory when it is asked for.
        """
        return ()
