"""What an evaluation does with one row: ask the policy, judge what it says, make the sample.

An environment whose rows take another way brings a subclass (`JudgedEnv.row_runner`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any, Generic

from environments.base import DetailT, JudgedEnv
from environments.completions import Completion, judge_completions, read_completion
from environments.data.rows import TaskT, load_answers
from environments.evaluate.report import Table
from environments.records import Sample, SampleRun, digest
from judges.core.judgment import CallRun
from judges.llm.errors import EndpointError
from judges.llm.wire import Choice


class RowRunner(Generic[TaskT, DetailT]):
    """Finishes the rows of one evaluation."""

    def __init__(self, env: JudgedEnv[Any, TaskT, DetailT]) -> None:
        """Ask nobody yet."""
        self._env = env
        self._existing: dict[str, Completion] = {}
        self.asks_policy = False

    def prepare(self, tasks: Sequence[TaskT]) -> None:
        """Get what these rows need, so that what is wrong with it is said before the first call.

        Raises:
            DataError: the file of answers cannot be loaded, or lacks one.
            SettingsError: the policy is needed, and its API key is missing.
        """
        env, config = self._env, self._env.config
        if config.model_answers is not None:
            answers = load_answers(config.model_answers, tasks)
            self._existing = {uid: read_completion(Choice(text), config) for uid, text in answers.items()}
            return
        for task in tasks:
            answer = env.dataset_answer(task)
            if answer is not None:
                self._existing[task.uid] = Completion(answer)  # nobody asked it for thinking
        if len(self._existing) < len(tasks):
            _ = env.clients.policy
            self.asks_policy = True

    @property
    def subject(self) -> str:
        """What is evaluated: the policy, a file of answers, or those of the dataset."""
        env = self._env
        if env.config.model_answers is not None:
            return str(env.config.model_answers.stem)
        return env.settings.openai.model_name if self.asks_policy else "answers of the dataset"

    @property
    def judge_name(self) -> str:
        """Who judges."""
        return self.subject if self._env.policy_is_judge else self._env.config.judge_model_name

    @property
    def rows_in_flight(self) -> int:
        """Rows that are worth having under way at once: enough to fill both endpoints' limits."""
        return int(self._env.config.judge_max_concurrency) + self._env.settings.openai.num_requests_for_eval

    def plan(self, tasks: Sequence[TaskT]) -> str | None:
        """What an evaluation of these rows will call and cost, said before its first call; nothing by default."""
        return None

    async def finish(
        self, task: TaskT, earlier: Sample[DetailT] | None, answered: Callable[[Sample[DetailT]], None]
    ) -> Sample[DetailT]:
        """Evaluate a row.

        Args:
            task: the row.
            earlier: the row as an earlier run left it; completions that are paid for are used again.
            answered: told as soon as new completions are there, so that they outlive whatever comes next.
        """
        env, started = self._env, time.monotonic()
        task_digest, prompt_digest = self.digests(task)
        sample = Sample[DetailT](
            task.uid, task.category, task.question, task_digest=task_digest, prompt_digest=prompt_digest
        )
        policy_calls: tuple[CallRun, ...] = ()
        if earlier is not None and earlier.completions:
            completions, policy_calls = earlier.completions, earlier.run.policy_calls
        elif task.uid in self._existing:
            completions = (self._existing[task.uid],)
        else:
            asking = (env.clients.policy.complete(conversation) for conversation in env.conversations(task))
            replies = await asyncio.gather(*asking, return_exceptions=True)  # none is left running behind us
            for reply in replies:
                if isinstance(reply, EndpointError):
                    run = SampleRun(time.monotonic() - started)
                    return replace(sample, run=run, policy_error=f"the policy at {reply}")
                if isinstance(reply, BaseException):
                    raise reply
            answers = [reply for reply in replies if not isinstance(reply, BaseException)]
            completions, policy_calls = tuple(text for text, _ in answers), tuple(run for _, run in answers)
            run = SampleRun(time.monotonic() - started, policy_calls)
            answered(replace(sample, completions=completions, run=run))
        judgment = await judge_completions(env.judge, task, completions, policy_is_judge=env.policy_is_judge)
        judge_calls = {call.name: call.run for call in judgment.calls}
        run = SampleRun(time.monotonic() - started, policy_calls, judge_calls)
        sample = replace(sample, completions=completions, run=run)
        return sample.with_judgment(judgment, invalid_score=env.invalid_completion_score)

    def digests(self, task: TaskT) -> tuple[str, str]:
        """What tells a row from one that has changed: all that its judge sees, and what the policy's answer is to."""
        existing = self._existing.get(task.uid)
        held = task if is_dataclass(task) else (task.uid, task.category, task.question)
        return digest(held, existing), digest(self._env.conversations(task) if existing is None else existing)

    def is_complete(self, sample: Sample[DetailT]) -> bool:
        """Whether nothing of a finished row is missing that a resumed run should try again."""
        return True

    def answers_held(self, sample: Sample[DetailT]) -> int:
        """How many answers that were paid for a failed or interrupted row holds."""
        return len(sample.completions)

    def answers_alone(self, sample: Sample[DetailT], *, are_usable: bool) -> Sample[DetailT]:
        """What there is of a row that has changed: the policy's answers if they are usable, and no judgment."""
        completions = sample.completions if are_usable else ()
        return replace(sample, completions=completions, judgment=None, score=None, policy_error=None)

    def write_report(self, path: Path, rows: Sequence[tuple[TaskT, Sample[DetailT]]]) -> Sequence[Table]:
        """Write files of the environment's own into the run directory; the tables that it returns are shown.

        Args:
            path: the run directory.
            rows: all finished rows.
        """
        return ()
