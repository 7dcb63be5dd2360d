"""A model that answers: at its endpoint, from a file or from an earlier run.

Guarantee: what a candidate says is a completion as that of a policy is, with its thinking split off and its faults; an
endpoint's failure is a reply without a completion, never an exception.

A candidate that gives the answers of an earlier run: of one policy's, or of a run that compared candidates.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from judgegym.data.answers import load_answers
from judgegym.data.rows import Task, TaskT
from judgegym.engine.completions import Completion, Conversation, Policy, read_completion
from judgegym.engine.records import Sample, explained
from judgegym.engine.settings import EnvConfig
from judgegym.judges.core.judgment import CallRun
from judgegym.llm import wire
from judgegym.llm.errors import EndpointError
from judgegym.llm.wire import JSON, Choice
from judgegym.reports.results.answers import AnswersReader, JudgedAgain, RowAnswers, are_verdicts, run_of
from judgegym.reports.results.run import SavedRun

_KEPT = tuple(field.name for field in dataclasses.fields(Completion))
_COMPLETION = TypeAdapter(Completion)


class CandidatesAnswers(AnswersReader):
    """Finds the answers of one candidate by its name; in a run of one policy, those of the policy."""

    def __init__(self, name: str) -> None:
        """Look for the candidate `name`."""
        self._name = name

    def of_sample(self, sample: Sample[JSON]) -> tuple[tuple[Completion, ...], str | None]:
        """Return the candidate's answer, or why there is none.

        Raises:
            ValueError: the run compares other candidates.
        """
        answers = sample.detail.get("answers") if isinstance(sample.detail, Mapping) else None
        if sample.completions or not isinstance(answers, Sequence):
            return super().of_sample(sample)
        by_name = {answer["candidate"]: answer for answer in answers if isinstance(answer, Mapping)}
        if self._name not in by_name:
            names = ", ".join(map(repr, by_name))
            raise ValueError(f"the run has no candidate {self._name!r}; its candidates are {names}")
        found = by_name[self._name]
        if isinstance(found.get("answer"), str):
            return (_completion(found),), None
        error = found.get("error")
        return (), error if isinstance(error, str) else "the candidate never answered"

    def number_of(self, component: str) -> int | None:
        """Return which conversation of its row a call was; a candidate has one."""
        return 0 if component == f"candidate_{self._name}/policy" else super().number_of(component)


def _completion(answer: Mapping[str, JSON]) -> Completion:
    """The completion of an answer, as far as its run has kept it.

    Raises:
        ValueError: a field is not of its type.
    """
    kept = {name: answer[name] for name in _KEPT if name in answer}
    try:
        return _COMPLETION.validate_json(wire.dumps(kept), strict=True)
    except ValidationError as error:
        raise ValueError(explained(error)) from error


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
