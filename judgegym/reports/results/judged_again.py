"""A run whose completions another run judges again: that they answer the same questions, and how the new run names it.

Guarantee: a row with another question, or with more or fewer completions than it has conversations, is an error that
names the row, before the first call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from judgegym.data.rows import TaskT
from judgegym.data.task_list import uids_of
from judgegym.engine.completions import Conversation
from judgegym.llm import wire
from judgegym.llm.errors import DataError
from judgegym.llm.wire import JSON
from judgegym.reports.results.answers import AnswersOfRun, AnswersReader, RowAnswers
from judgegym.reports.results.run import SavedRun

_SHOWN = 60
_BEFORE_DIFFERENCE = 20
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class JudgedAgain:
    """The answers of a run to the rows of a new one.

    Attributes:
        answers: the answers.
        digest: a digest of all these completions; runs that judge the same completions have the same.
        files: the files that were read, with their SHA-256 as `sha256sum` gives it.
    """

    answers: AnswersOfRun
    digest: str
    files: tuple[tuple[Path, str], ...]

    @classmethod
    def of(
        cls,
        path: Path,
        tasks: Sequence[TaskT],
        conversations: Callable[[TaskT], Sequence[Conversation]],
        *,
        reader: AnswersReader | None = None,
        refusal: Callable[[SavedRun, TaskT, RowAnswers], str | None] = lambda run, task, row: None,
    ) -> JudgedAgain:
        """Find the answers to all tasks in a run, and check that they are answers to these tasks.

        Args:
            path: the run directory.
            tasks: the rows of the new run.
            conversations: what the policy would be asked about a row.
            reader: how the answers are found in a row of the run.
            refusal: why the answers to a row are of no use to the new run, if they are not.

        Raises:
            RunDirectoryError: it is no run directory, or a line is damaged.
            DataError: a row lacks an answer, or its answers are to something else.
        """
        answers = AnswersOfRun(path, uids_of(tasks), reader or AnswersReader())
        files = tuple((file, _digest_of_file(file)) for file in answers.files)
        hashed = hashlib.sha256()
        for task in tasks:
            row = answers[task.uid]
            reason = (
                _other_question(task, row)
                or refusal(answers.run, task, row)
                or _other_conversations(row, conversations(task))
            )
            if reason is not None:
                raise DataError(f"{path}: the answers to row {task.uid!r} cannot be judged again: {reason}")
            hashed.update(wire.dumps([task.uid, _parts(row)]))
        return cls(answers, f"sha256:{hashed.hexdigest()}", files)

    def to_json(self) -> dict[str, JSON]:
        """Return what `metrics.json` says of the run."""
        run = self.answers.run
        return {
            "path": str(run.path),
            "environment": run.environment,
            "policy": self.subject,
            "judge": run.judge,
            "date": run.date.isoformat(timespec="seconds"),
            "thinking_mode": self.answers.thinking_mode,
            "rows": len(self.answers),
            "digest": self.digest,
            "files": [{"name": str(file), "digest": digest} for file, digest in self.files],
            "policy_is_stand_in": self.policy_is_stand_in,
        }

    @property
    def subject(self) -> str:
        """Return the name of the policy that answered."""
        return self.answers.subject

    @property
    def words(self) -> str:
        """Return which run it is, in a sentence."""
        run = self.answers.run
        environment = f"{run.environment}: " if run.environment else ""  # that of an unfinished run is not known
        judge = f", judged by {run.judge}" if run.judge and run.judge != run.policy else ""
        stand_in = (
            " It is an offline stand-in: these numbers are no benchmark result." if self.policy_is_stand_in else ""
        )
        return (
            f"The completions are those of {run.path} ({environment}{self.subject}{judge}, "
            f"{run.date:%Y-%m-%d}); the policy is not asked.{stand_in}"
        )

    @property
    def policy_is_stand_in(self) -> bool:
        """Whether an offline stand-in answered; its URL ends with its run, so `config.yaml` has none."""
        run = self.answers.run
        asked = run.config.get("offline") is True and wire.lookup(run.config, "openai.base_url") is None
        return asked or _is_of_stand_in(run.general.get("answers_of"))


def _is_of_stand_in(answers_of: JSON) -> bool:
    """Whether a run says that its completions, or those of one of its candidates, are a stand-in's."""
    if not isinstance(answers_of, Mapping):
        return False
    return answers_of.get("policy_is_stand_in") is True or any(map(_is_of_stand_in, answers_of.values()))


def are_verdicts(run: SavedRun, row: RowAnswers, environment: str) -> bool:
    """Whether the completions of a row are verdicts of a policy that is the judge, and no answers.

    So it is with `role=judge`, and where another environment asked no judge about a row that has a score.
    """
    others = run.general.get("environment", environment) != environment
    return wire.lookup(run.config, "env.role") == "judge" or (others and row.is_judged is False)


def _other_question(task: TaskT, row: RowAnswers) -> str | None:
    if row.question is None or row.question == task.question:
        return None
    return f"they answer another question; then {_differing(row.question, task.question)}"


def _other_conversations(row: RowAnswers, conversations: Sequence[Conversation]) -> str | None:
    if row.policy_error is not None:
        return None
    if len(row.completions) != len(conversations):
        if row.question is None:
            return f"that run stopped after answer {len(row.completions)} of {len(conversations)} of the policy"
        return f"completions there: {len(row.completions)}, conversations here: {len(conversations)}"
    for asked, conversation in zip(row.asked, conversations, strict=False):
        expected = conversation[-1]["content"]
        if asked is not None and asked != expected:
            return f"the policy was asked something else; then {_differing(asked, expected)}"
    return None


def _differing(then: str, now: str) -> str:
    """Two texts where they begin to differ."""
    equal = takewhile(lambda pair: pair[0] == pair[1], zip(then, now, strict=False))
    start = max(0, sum(1 for _ in equal) - _BEFORE_DIFFERENCE)
    return f"{_part(then, start)}, now {_part(now, start)}"


def _part(text: str, start: int) -> str:
    end = start + _SHOWN
    return f"{'…' if start else ''}{text[start:end]!r}{'…' if len(text) > end else ''}"


def _parts(row: RowAnswers) -> JSON:
    completions: list[JSON] = [
        [each.answer, each.thinking, each.thinking_fault, each.finish_reason, each.short] for each in row.completions
    ]
    return [completions, row.policy_error]


def _digest_of_file(path: Path) -> str:
    hashed = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            hashed.update(piece)
    return f"sha256:{hashed.hexdigest()}"
