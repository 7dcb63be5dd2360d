"""What the evaluation of a row has in common where several candidates answer it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence

from judgegym.data.rows import TaskT
from judgegym.engine.records import digest
from judgegym.environments.base import DetailT
from judgegym.environments.evaluate.row import RowRunner
from judgegym.eval_environments.models.candidate import Candidate
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON
from judgegym.reports.results.judged_again import JudgedAgain


class CandidatesRunner(RowRunner[TaskT, DetailT]):
    """Evaluates rows that candidates answer; the policy of the `openai` settings is not asked."""

    keeps_completions = False

    @property
    @abstractmethod
    def candidates(self) -> Sequence[Candidate]:
        """Return the candidates.

        Raises:
            SettingsError: there is none, or an API key is missing.
        """

    def prepare(self, tasks: Sequence[TaskT]) -> None:
        """Open the candidates, and read the answers that are in files and run directories.

        Raises:
            DataError: a candidate's answers cannot be loaded, or are to other questions.
            RunDirectoryError: a run directory is damaged.
            SettingsError: a model is missing or lacks its API key.
        """
        if self._env.config.model_answers is not None:
            raise SettingsError(
                "--env.model_answers: give answers, or a run directory, as a candidate: "
                '{"name": "…", "answers": "file.jsonl"}'
            )
        for candidate in self.candidates:
            candidate.load(tasks, self._env.conversations, self._env.name)

    @property
    def subject(self) -> str:
        """Return the names of the candidates."""
        return ", ".join(candidate.name for candidate in self.candidates)

    @property
    def answers_of(self) -> JSON:
        """Return which runs the candidates' answers are of, by candidate; `None` if they are of none."""
        return {name: run.to_json() for name, run in self._earlier_runs.items()} or None

    @property
    def notices(self) -> Sequence[str]:
        """Return which candidates give the answers of a run."""
        return [f"{name}: {run.words}" for name, run in self._earlier_runs.items()]

    @property
    def _earlier_runs(self) -> Mapping[str, JudgedAgain]:
        runs = {candidate.name: candidate.earlier for candidate in self.candidates}
        return {name: run for name, run in runs.items() if run is not None}

    def digest(self, task: TaskT) -> str:
        """Return a digest of the row, and of the answers in files and runs."""
        return digest(task, {candidate.name: candidate.held_answer(task.uid) for candidate in self.candidates})


def no_answers(errors: Iterable[tuple[str, str | None]]) -> str:
    """Return why no candidate has an answer to a row: one reason that all have, or each one's own.

    Args:
        errors: the name of each candidate, and why it has none.
    """
    by_candidate = dict(errors)
    reasons = {str(error) for error in by_candidate.values()}
    if len(reasons) == 1:
        return reasons.pop()
    return "; ".join(f"{candidate}: {error}" for candidate, error in by_candidate.items())
