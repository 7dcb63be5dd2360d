"""A model that answers: at its endpoint, from a file or from an earlier run.

Guarantee: what a candidate says is a completion as that of a policy is, with its thinking split off and its faults; an
endpoint's failure is a reply without a completion, never an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from judgegym.data.answers import load_answers
from judgegym.data.rows import Task, TaskT
from judgegym.engine.completions import Completion, Conversation, Policy, read_completion
from judgegym.engine.settings import EnvConfig
from judgegym.eval_environments.models.earlier import CandidatesAnswers
from judgegym.judges.core.judgment import CallRun
from judgegym.llm.errors import EndpointError
from judgegym.llm.wire import Choice
from judgegym.reports.results.answers import RowAnswers, run_of
from judgegym.reports.results.judged_again import JudgedAgain, are_verdicts
from judgegym.reports.results.run import SavedRun


@dataclass(frozen=True, slots=True)
class CandidateReply:
    """What a candidate said to a row.

    Attributes:
        completion: its completion; `None` if it never answered.
        error: why it never answered.
        run: the call to its endpoint; `None` if none was made.
    """

    completion: Completion | None
    error: str | None = None
    run: CallRun | None = None


class Candidate:
    """A model that answers, at its endpoint, from a file or from a run."""

    def __init__(self, name: str, policy: Policy | None, config: EnvConfig, *, answers: Path | None = None) -> None:
        """Answer through `policy`, or from a file or a run directory."""
        self.name = name
        self._policy = policy
        self._file = answers
        self._config = config
        self._answers: Mapping[str, str] = {}
        self.earlier: JudgedAgain | None = None
        """The run whose answers it gives, if it gives those of a run."""

    @property
    def asks_endpoint(self) -> bool:
        """Return whether its answers come from an endpoint."""
        return self._policy is not None

    def load(
        self, tasks: Sequence[TaskT], conversations: Callable[[TaskT], Sequence[Conversation]], environment: str
    ) -> None:
        """Read its answers, if they are in a file or a run directory.

        Args:
            tasks: the rows that need an answer.
            conversations: what a policy would be asked about a row.
            environment: the name of the environment that evaluates.

        Raises:
            DataError: they cannot be loaded, one is missing, or they are to other questions.
            RunDirectoryError: the run directory is damaged.
        """

        def refusal(run: SavedRun, task: Task, row: RowAnswers) -> str | None:
            return "they are verdicts of a policy that judged" if are_verdicts(run, row, environment) else None

        if self._file is None:
            return
        run_path = run_of(self._file)
        if run_path is None:
            self._answers = load_answers(self._file, tasks)
        else:
            reader = CandidatesAnswers(self.name)
            self.earlier = JudgedAgain.of(run_path, tasks, conversations, reader=reader, refusal=refusal)

    def held_answer(self, uid: str) -> str | tuple[Completion, ...] | None:
        """Return its answer from its file or run, if it has one; of a run also the reason why there is none."""
        if self.earlier is None:
            return self._answers.get(uid)
        row = self.earlier.answers[uid]
        return row.completions or row.policy_error

    async def reply(self, uid: str, conversation: Conversation) -> CandidateReply:
        """Return what it says to a row."""
        if self.earlier is not None:
            row = self.earlier.answers[uid]
            if row.policy_error is not None:
                return CandidateReply(None, row.policy_error)
            (completion,) = row.completions
            return CandidateReply(completion)
        if self._policy is None:
            return CandidateReply(read_completion(Choice(self._answers[uid]), self._config))
        try:
            completion, run = await self._policy.complete(conversation)
        except EndpointError as error:
            run = CallRun(attempts=error.attempts, usage=error.usage)
            return CandidateReply(None, f"the candidate at {error}", run)
        return CandidateReply(completion, run=run)
