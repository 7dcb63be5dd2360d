"""The run that a plan resumes: recorded responses and cost. Files are only read."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from judgegym.engine.runs.ledger import CallKeys, RowKey, RunUsage
from judgegym.engine.runs.recorded_calls import read_answer, read_ledger
from judgegym.llm.errors import EndpointError, RunStop
from judgegym.llm.ledger import CallInProgress, CallKey, VerdictLocation
from judgegym.llm.types import ChatResponse
from judgegym.llm.usage import Usage


@dataclass(slots=True)
class Replies:
    """Totals of a run's paid responses, of policies or of judges.

    Attributes:
        calls: the number of paid calls.
        choices: the number of their choices.
        tokens: the tokens of these choices.
        seconds: the sum of the calls' durations.
    """

    calls: int = 0
    choices: int = 0
    tokens: int = 0
    seconds: float = 0.0

    def add(self, answer: ChatResponse) -> None:
        """Add a paid response."""
        self.calls += 1
        self.choices += len(answer.choices)
        self.tokens += answer.usage.completion_tokens
        self.seconds += answer.latency_s

    @property
    def mean(self) -> float | None:
        """The mean tokens of a choice; `None` without choices."""
        if self.choices:
            return self.tokens / self.choices
        return None


@dataclass(slots=True)
class RecordedRow:
    """A row's recorded responses; it replaces the row's ledger, and records nothing."""

    name: str
    parts: dict[str, dict[int, tuple[ChatResponse, bool]]] = field(default_factory=dict)
    """By the call's key and the part's number: a response, and whether it has a verdict."""
    _keys: CallKeys = field(default_factory=CallKeys)

    def open(self, identity: CallKey) -> tuple[str, dict[int, ChatResponse]]:
        """See `RowLedger`."""
        key = self._keys.begin_key(identity)
        return key, {part: answer for part, (answer, _) in self.parts.get(key, {}).items()}

    def holds(self, identity: CallKey) -> bool:
        """See `RowLedger`."""
        return self._keys.peek_key(identity) in self.parts

    async def ready(self) -> float:
        """See `RowLedger`."""
        return 0.0

    def sent(self, number: int | None = None) -> int:
        """See `RowLedger`."""
        return 0

    def not_sent(self, number: int) -> None:
        """See `RowLedger`."""

    def answered(
        self,
        call: CallInProgress,
        part: int,
        number: int | None,
        answer: ChatResponse,
        verdict: VerdictLocation,
    ) -> None:
        """See `RowLedger`."""

    def failed(self, call: CallInProgress, number: int, error: EndpointError | RunStop) -> None:
        """See `RowLedger`."""

    def begin(self) -> RecordedRow:
        """Return the same responses for another pass over the row."""
        return RecordedRow(self.name, self.parts)

    def forget_without_verdict(self) -> None:
        """Drop responses without a verdict: the row has failed and asks for them again."""
        usable = {
            key: {part: record for part, record in parts.items() if record[1]}
            for key, parts in self.parts.items()
        }
        self.parts = {key: parts for key, parts in usable.items() if parts}


@dataclass(slots=True)
class EarlierRun:
    """The ledger of a run.

    Attributes:
        usage: requests and tokens so far.
        replies: the totals of policies (`True`), and of judges and users (`False`).
        answers: the recorded responses of the chosen rows.
    """

    usage: RunUsage = field(default_factory=RunUsage)
    replies: Mapping[bool, Replies] = field(
        default_factory=lambda: {True: Replies(), False: Replies()}
    )
    answers: dict[RowKey, RecordedRow] = field(default_factory=dict)

    @classmethod
    def read(cls, run: Path, rows: Container[str]) -> EarlierRun:
        """Read the ledger in a run's directory, if there is one, with the responses to these rows.

        Raises:
            RunDirectoryError: it cannot be read.
        """
        earlier = cls()
        for line in read_ledger(run, lambda line: line.fields()):
            earlier._note(line, rows)
        return earlier

    def row(self, uid: str, group: int | None = None) -> RecordedRow:
        """Return the recorded responses of a row, or of one of its groups."""
        return self.answers.get((uid, group), RecordedRow(uid))

    def _note(self, line: Mapping[str, Any], rows: Container[str]) -> None:
        if "failed" in line:
            self.usage.note_failure(line)
        elif "row_failed" in line:
            self.row(line["row_failed"], line["group"]).forget_without_verdict()
        elif "call" in line:
            call, answer = line["call"], read_answer(line["call"])
            self.usage.note_answer(call)
            if answer.attempts:
                self.replies[call["component"].rpartition("/")[2] == "policy"].add(answer)
            if call["row"] in rows:
                row = self.answers.setdefault(
                    (call["row"], call["group"]), RecordedRow(call["row"])
                )
                row.parts.setdefault(call["key"], {})[call["part"]] = answer, call["has_verdict"]

    @property
    def cached_share(self) -> float:
        """The share of all prompt tokens that came from endpoints' prefix caches."""
        total = sum(self.usage.usage.values(), Usage())
        return total.cached_prompt_tokens / max(1, total.prompt_tokens)
