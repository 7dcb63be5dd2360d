"""The completions of a run, for a new run that judges them again without calling a policy.

Guarantees: the earlier run is never written to. A completion is as the run has recorded it, with
its thinking, faults, finish reason and flags. A row whose policy failed is such a row again. Rows
are read on access from `samples.jsonl` and `failures.jsonl`. Rows that have no line, because the
run was interrupted, are read from its ledger of calls by the run's own settings, and kept
compressed. A file that has changed is an error. A row with another question than in the new run, or
another number of completions than it has conversations there, is an error that names the row,
before the first call.
"""

from __future__ import annotations

import hashlib
import pickle
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, takewhile
from pathlib import Path

from pydantic import ValidationError

from judgegym.data.json_file import digest_file
from judgegym.data.rows import TaskT
from judgegym.engine.completions import Completion, Conversation, read_completion
from judgegym.engine.records import POLICY_FAILED, Sample, explain_errors, read_sample
from judgegym.engine.runs.damaged_lines import read_objects
from judgegym.engine.runs.directory import CONFIG, FAILURES, SAMPLES
from judgegym.engine.runs.recorded_calls import CALLS, PACKED_CALLS, read_calls
from judgegym.engine.settings.env import CompletionSettings
from judgegym.judges.core.judgment import CallRun
from judgegym.llm import wire
from judgegym.llm.errors import DataError, RunDirectoryError
from judgegym.llm.wire import JSON, mapping_or_empty
from judgegym.reports.results.run import SavedRun

_SAMPLE_FILES = (FAILURES, SAMPLES)
"""A row with lines in both files is finished: it failed first, and succeeded later."""
_RUN_FILES = (*_SAMPLE_FILES, CALLS, PACKED_CALLS)
_POLICY_CALL = re.compile(r"conversation_(\d+)(?:/turn_(\d+))?/policy")
_QUICK = 1
_SHOWN = 60
_BEFORE_DIFFERENCE = 20


def find_run(path: Path) -> Path | None:
    """Return the run directory of a path, which may be one of its files; `None` for any other file.

    Samples that were copied without the settings of their run are recognized by their fields.
    """
    if path.is_dir():
        return path
    if path.name in _RUN_FILES and ((path.parent / CONFIG).exists() or _holds_samples(path)):
        return path.parent
    return None


def _holds_samples(path: Path) -> bool:
    if path.name not in _SAMPLE_FILES:
        return False
    try:
        return any("task_digest" in fields for _, fields in islice(read_objects(path), 1))
    except RunDirectoryError:  # a damaged file of answers is reported when it is read
        return False


def name_subject(path: Path) -> str:
    """Return whose answers a path holds: the policy of a run, or the stem of a file.

    Raises:
        RunDirectoryError: a directory holds no run, or a file of the run is damaged.
    """
    run_path = find_run(path)
    if run_path is None:
        return path.stem
    return SavedRun.open(run_path).subject


@dataclass(frozen=True, slots=True)
class RowAnswers:
    """The completions of a row, existing before its evaluation or sampled for it.

    Attributes:
        completions: one for each conversation, as recorded; empty if the policy failed.
        policy_error: why the policy failed.
        runs: the policy's calls for them.
        user_error: why the simulated user gave no message.
        question: the row's question in the run; `None` if the run was interrupted before the row
            had a line.
        last_messages: the last message of each conversation, from the ledger; empty for a row
            with a line.
        task_digest: a digest of everything that the judge saw; empty without a line.
        is_judged: whether a judge other than the policy judged it; `None` if unknown.
    """

    completions: tuple[Completion, ...]
    policy_error: str | None = None
    runs: tuple[CallRun, ...] = ()
    user_error: str | None = None
    question: str | None = None
    last_messages: tuple[str | None, ...] = ()
    task_digest: str = ""
    is_judged: bool | None = None


class AnswersReader:
    """Reads the answers of a run's policy from its samples and its ledger."""

    def read_sample_answer(self, sample: Sample[JSON]) -> tuple[tuple[Completion, ...], str | None]:
        """Return the completions of a row, or why there are none.

        Raises:
            ValueError: the row has neither completions nor a reason.
        """
        if sample.completions:
            return sample.completions, None
        if sample.status != POLICY_FAILED:
            raise ValueError(
                "there are no completions of one policy; a run that compares several candidates "
                "gives its answers to "
                'candidates: {"name": "…", "answers": "RUN"}'
            )
        return (), sample.error or "the policy never answered"

    def parse_conversation_number(self, component: str) -> int | None:
        """Return the conversation of a policy's call, or the turn of the only one; else `None`."""
        match = _POLICY_CALL.fullmatch(component)
        if match is None:
            return None
        return int(match[2] or match[1])


class EarlierAnswers:
    """The answers of a run to the rows of a new one, by uid.

    Attributes:
        run: the run.
        digest: a digest of all these completions; equal for runs that judge the same completions.
        files: the files that were read, with their SHA-256 as in `sha256sum`.
    """

    def __init__(
        self, path: Path, uids: Collection[str], reader: AnswersReader | None = None
    ) -> None:
        """Find the answers to the rows `uids` in a run directory.

        Args:
            path: the run directory.
            uids: the rows of the new run.
            reader: reads the answers from a row of the run.

        Raises:
                RunDirectoryError: it is not a run directory, or a line is damaged.
                DataError: the run lacks an answer; leaving the row out would change the result.
        """
        self.run = SavedRun.open(path)
        self._uids = uids
        self._reader = reader or AnswersReader()
        self.digest = ""
        lacking = frozenset(uid for uid in uids if uid not in self.run.line_locations)
        self._calls: Mapping[str, Mapping[int, bytes]] = (
            self._read_ledger(lacking) if lacking else {}
        )
        not_found = lacking - self._calls.keys()
        missing = [uid for uid in uids if uid in not_found]
        if missing:
            hint = "; that run is not complete: --resume finishes it"
            if self.run.is_complete:
                hint = ""
            raise DataError(
                f"{path}: no answer for {len(missing)} of {len(uids)} rows, such as "
                f"{missing[0]!r}{hint}"
            )

        files_read = [path / name for name in (SAMPLES, FAILURES) if (path / name).exists()]
        if self._calls:
            files_read.append(path / CALLS if (path / CALLS).exists() else path / PACKED_CALLS)
        self.files = tuple((file, f"sha256:{digest_file(file)}") for file in files_read)

    def check(
        self,
        tasks: Sequence[TaskT],
        conversations: Callable[[TaskT], Sequence[Conversation]],
        refusal: Callable[[SavedRun, TaskT, RowAnswers], str | None] = lambda run, task, row: None,
    ) -> None:
        """Check that the answers belong to these tasks, and compute their digest.

        Args:
            tasks: the rows of the new run.
            conversations: returns the conversations of a row in the new run.
            refusal: returns why the new run cannot use the answers to a row, or `None`.

        Raises:
            RunDirectoryError: a line is damaged.
            DataError: the answers to a row belong to something else.
        """
        hashed = hashlib.sha256()
        for task in tasks:
            row = self[task.uid]
            reason = (
                _question_mismatch(task, row)
                or refusal(self.run, task, row)
                or _conversation_mismatch(row, conversations(task))
            )
            if reason is not None:
                raise DataError(
                    f"{self.run.path}: the answers to row {task.uid!r} cannot be judged again: "
                    f"{reason}"
                )
            completions: list[JSON] = [
                [
                    completion.answer,
                    completion.thinking,
                    completion.thinking_fault,
                    completion.finish_reason,
                    completion.short,
                ]
                for completion in row.completions
            ]
            hashed.update(wire.dumps([task.uid, [completions, row.policy_error]]))
        self.digest = f"sha256:{hashed.hexdigest()}"

    @property
    def thinking_mode(self) -> bool:
        """Whether the policy was asked to think, in the run that sampled the answers."""
        recorded = wire.lookup(self.run.general, "answers_of.thinking_mode")
        return (
            wire.lookup(self.run.config, "env.thinking_mode") if recorded is None else recorded
        ) is True

    def __getitem__(self, uid: str) -> RowAnswers:
        """Read a row.

        Raises:
            DataError: the run has changed.
            RunDirectoryError: the line is damaged.
        """
        if uid in self._calls:
            parts = self._calls[uid]
            calls = [
                pickle.loads(zlib.decompress(parts[number])) for number in range(len(parts))
            ]  # only bytes of this process are unpickled
            return RowAnswers(
                tuple(completion for completion, _ in calls),
                last_messages=tuple(message for _, message in calls),
            )
        line = self.run.read_line(uid)
        sample = read_sample(line)
        try:
            completions, error = self._reader.read_sample_answer(sample)
        except ValueError as problem:
            raise line.error(f"row {uid!r}: {problem}") from None
        return RowAnswers(
            completions,
            error,
            question=sample.question,
            task_digest=sample.task_digest,
            is_judged=bool(sample.run.judge_calls) if sample.status == "ok" else None,
        )

    def _read_ledger(self, uids: frozenset[str]) -> dict[str, dict[int, bytes]]:
        """Read the completions of answered rows among `uids`, compressed, by conversation."""
        rows: defaultdict[str, dict[int, bytes]] = defaultdict(dict)
        for call in read_calls(self.run.path, uids):
            number = self._reader.parse_conversation_number(call.component)
            if number is not None:
                message = call.messages[-1]["content"] if call.messages else None
                follow_up = message or "" if "/turn_" in call.component else ""
                completion = replace(
                    read_completion(call.answer.choices[0], self._settings), follow_up=follow_up
                )
                rows[call.row][number] = zlib.compress(
                    pickle.dumps((completion, message)), _QUICK
                )  # the last one counts
        return {uid: calls for uid, calls in rows.items() if set(calls) == set(range(len(calls)))}

    @cached_property
    def _settings(self) -> CompletionSettings:
        """The run's settings for reading completions."""
        env_settings = mapping_or_empty(self.run.config.get("env"))
        shaping = {
            name: env_settings[name]
            for name in CompletionSettings.model_fields
            if name in env_settings
        }
        try:
            return CompletionSettings.model_validate(shaping)
        except ValidationError as error:
            raise RunDirectoryError(f"{self.run.path / CONFIG}: {explain_errors(error)}") from error

    def to_json(self) -> dict[str, JSON]:
        """Return the description of the run for `metrics.json`."""
        run = self.run
        return {
            "path": str(run.path),
            "environment": run.environment,
            "policy": run.subject,
            "judge": run.judge,
            "date": run.date.isoformat(timespec="seconds"),
            "thinking_mode": self.thinking_mode,
            "rows": len(self._uids),
            "digest": self.digest,
            "files": [{"name": str(file), "digest": digest} for file, digest in self.files],
            "policy_is_stand_in": self.policy_is_stand_in,
        }

    @property
    def description(self) -> str:
        """A sentence that says which run it is."""
        run = self.run
        environment = ""
        if run.environment:  # unknown for an unfinished run
            environment = f"{run.environment}: "
        judge = f", judged by {run.judge}" if run.judge and run.judge != run.policy else ""
        stand_in = ""
        if self.policy_is_stand_in:
            stand_in = " It is an offline stand-in: these numbers are no benchmark result."
        return (
            f"The completions are those of {run.path} ({environment}{run.subject}{judge}, "
            f"{run.date:%Y-%m-%d}); the policy is not asked.{stand_in}"
        )

    @property
    def policy_is_stand_in(self) -> bool:
        """Whether an offline stand-in answered; `config.yaml` does not store a stand-in's URL."""
        run = self.run
        is_stand_in = (
            run.config.get("offline") is True and wire.lookup(run.config, "openai.base_url") is None
        )
        return is_stand_in or _is_stand_in(run.general.get("answers_of"))


def _is_stand_in(answers_run: JSON) -> bool:
    """Return whether a run records that its completions, or a candidate's, are a stand-in's."""
    if not isinstance(answers_run, Mapping):
        return False
    return answers_run.get("policy_is_stand_in") is True or any(
        map(_is_stand_in, answers_run.values())
    )


def are_verdicts(run: SavedRun, row: RowAnswers, environment: str) -> bool:
    """Return whether the completions of a row are verdicts of a policy that is the judge.

    They are with `role=judge`, and where another environment called no judge for a row that has a
    score.
    """
    others = run.general.get("environment", environment) != environment
    return wire.lookup(run.config, "env.role") == "judge" or (others and row.is_judged is False)


def _question_mismatch(task: TaskT, row: RowAnswers) -> str | None:
    if row.question is None or row.question == task.question:
        return None
    difference = _show_difference(row.question, task.question)
    return f"they answer another question; then {difference}"


def _conversation_mismatch(row: RowAnswers, conversations: Sequence[Conversation]) -> str | None:
    if row.policy_error is not None:
        return None
    first = [completion for completion in row.completions if not completion.follow_up]
    if len(first) != len(conversations):
        if row.question is None:
            total = len(conversations)
            return f"that run stopped after answer {len(first)} of {total} of the policy"
        return f"completions there: {len(first)}, conversations here: {len(conversations)}"
    for message, conversation in zip(row.last_messages, conversations, strict=False):
        expected = conversation[-1]["content"]
        if message is not None and message != expected:
            difference = _show_difference(message, expected)
            return f"the policy was asked something else; then {difference}"
    return None


def _show_difference(then: str, now: str) -> str:
    """Show two texts where they begin to differ."""
    equal = takewhile(lambda pair: pair[0] == pair[1], zip(then, now, strict=False))
    start = max(0, sum(1 for _ in equal) - _BEFORE_DIFFERENCE)
    end = start + _SHOWN
    before = "…" if start else ""
    parts = []
    for text in (then, now):
        after = "…" if len(text) > end else ""
        parts.append(f"{before}{text[start:end]!r}{after}")
    return f"{parts[0]}, now {parts[1]}"
