"""A finished row as a line of `samples.jsonl` or `failures.jsonl`, and back.

All that may differ between two runs of one configuration stands in the sub-object `run`; without it, the lines of two
runs against a deterministic endpoint are the same, byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

import orjson
from pydantic import TypeAdapter

from environments.completions import Completion
from judges.core.judgment import CallRun, Critique, Judgment, Status
from judges.llm.wire import JSON

DetailT = TypeVar("DetailT")


@dataclass(frozen=True, slots=True)
class SampleRun:
    """Timings, attempts and usage of one row; policy calls by conversation, judge calls by name."""

    seconds: float
    policy_calls: tuple[CallRun, ...] = ()
    judge_calls: Mapping[str, CallRun] | None = None


@dataclass(frozen=True)  # no slots: a generic class with them cannot be called as Class[T](…)
class Sample(Generic[DetailT]):
    """One row, evaluated or failed.

    Attributes:
        uid: the row's id.
        category: what metrics are broken down by.
        question: what the policy was asked, for people.
        completions: the policy's, one for each conversation; empty if the policy never answered.
        judgment: what became of them; `None` if the policy never answered, or nobody has judged yet.
        score: what the judgment is worth in evaluation; `None` if it is worth nothing because it failed.
        policy_error: why the policy never answered.
        run: what may differ between runs.
    """

    uid: str
    category: str | None
    question: str
    completions: tuple[Completion, ...]
    judgment: Judgment[DetailT] | None
    score: float | None
    run: SampleRun
    policy_error: str | None = None

    @property
    def status(self) -> str:
        """The judgment's status, or `policy_failed`, or (while a run is under way) `not_judged`."""
        if self.judgment is None:
            return "not_judged" if self.policy_error is None else "policy_failed"
        return self.judgment.status.value

    @property
    def finished(self) -> bool:
        """Whether the row counts; the others are failures, to be repeated by `--resume`."""
        return self.judgment is not None and self.judgment.status in (Status.OK, Status.INVALID_COMPLETION)

    @property
    def error(self) -> str | None:
        """Why the row failed."""
        if self.finished:
            return None
        return self.policy_error if self.judgment is None else self.judgment.explanation

    def to_line(self) -> bytes:
        """The row as one line of JSON, newline included.

        With one conversation the completion's fields stand in the row itself, `answer` as `model_answer`; with
        several, in `completions`. The judgment's detail (the judge's raw texts among it) stands in the row itself too.
        """
        line: dict[str, object] = {"uid": self.uid, "category": self.category, "question": self.question}
        completions = [_completion_fields(completion) for completion in self.completions]
        line |= completions[0] if len(completions) == 1 else {"completions": completions}
        line |= {"score": self.score, "status": self.status}
        if self.judgment is not None:
            line["label"] = self.judgment.label
            if self.judgment.critique is not None:
                line["critique"] = self.judgment.critique
            if self.judgment.detail is not None:
                line |= cast("dict[str, object]", orjson.loads(orjson.dumps(self.judgment.detail)))
        if self.error is not None:
            line["error"] = self.error
        line["run"] = self.run
        return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)


def _completion_fields(completion: Completion) -> dict[str, object]:
    return {
        "model_answer": completion.answer,
        "thinking": completion.thinking,
        "thinking_valid": completion.valid,
        "thinking_fault": completion.thinking_fault,
        "finish_reason": completion.finish_reason,
        "short_response": completion.short,
    }


class SampleReader(Generic[DetailT]):
    """Reads lines of one environment back."""

    def __init__(self, detail_type: type[DetailT]) -> None:
        """Read judgments whose detail is a `detail_type`, a dataclass."""
        self._detail = TypeAdapter(detail_type)
        self._run = TypeAdapter(SampleRun)
        self._critique = TypeAdapter[Critique | None](Critique | None)
        self._completion = TypeAdapter(Completion)
        self._detail_fields = frozenset(detail_type.__dataclass_fields__)  # type: ignore[attr-defined]  # no public bound for "a dataclass"

    def read(self, line: Mapping[str, JSON]) -> Sample[DetailT]:
        """A row from its line. Its judgment has no `calls`: what they said is in the detail, what they cost in `run`.

        Raises:
            ValueError: the line is not of this environment (pydantic's `ValidationError` and `KeyError` among it).
        """
        try:
            return self._read(line)
        except KeyError as error:
            raise ValueError(f"the field {error} is missing") from error

    def _read(self, line: Mapping[str, JSON]) -> Sample[DetailT]:
        completions = self._completions(line)
        status = line["status"]
        judgment: Judgment[DetailT] | None = None
        error = cast("str | None", line.get("error"))
        if status not in ("policy_failed", "not_judged"):
            fields = {name: line[name] for name in self._detail_fields if name in line}
            judged = bool(fields) or status == Status.OK.value
            judgment = Judgment(
                score=cast("float | None", line["score"]) if status == Status.OK.value else None,
                status=Status(status),
                label=cast("str | None", line["label"]),
                explanation=error or "",
                detail=self._detail.validate_python(fields) if judged else None,
                critique=self._critique.validate_python(line.get("critique")),
            )
        return Sample(
            uid=cast(str, line["uid"]),
            category=cast("str | None", line["category"]),
            question=cast(str, line["question"]),
            completions=completions,
            judgment=judgment,
            score=cast("float | None", line["score"]),
            run=self._run.validate_python(line["run"]),
            policy_error=error if judgment is None else None,
        )

    def _completions(self, line: Mapping[str, JSON]) -> tuple[Completion, ...]:
        if "model_answer" in line:
            return (self._one(line),)
        several = cast("list[Mapping[str, JSON]]", line["completions"])
        return tuple(self._one(each) for each in several)

    def _one(self, fields: Mapping[str, JSON]) -> Completion:
        return self._completion.validate_python(
            {
                "answer": fields["model_answer"],
                "thinking": fields["thinking"],
                "thinking_fault": fields["thinking_fault"],
                "finish_reason": fields["finish_reason"],
                "short": fields["short_response"],
            }
        )
