"""Write a row as a line of `samples.jsonl` or `failures.jsonl`, and read it back.

The sub-object `run` holds everything that may differ between two runs of one configuration; without it, the lines of
two runs against a deterministic endpoint are equal byte for byte. The judgment's detail, whose fields differ between
environments, has a key of its own, `detail`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar, cast

import orjson
from pydantic import TypeAdapter

from environments.completions import Completion
from judges.core.judgment import CallRun, Critique, Judgment, Status
from judges.llm.wire import JSON

DetailT = TypeVar("DetailT")


@dataclass(frozen=True, slots=True)
class SampleRun:
    """Timings, attempts and usage of one row: policy calls in the order of the conversations, judge calls by name."""

    seconds: float
    policy_calls: tuple[CallRun, ...] = ()
    judge_calls: Mapping[str, CallRun] | None = None


@dataclass(frozen=True)  # no slots: a generic class with them cannot be called as Class[T](…)
class Sample(Generic[DetailT]):
    """One row, evaluated or failed.

    Attributes:
        uid: the row's id.
        category: the row's category, for metrics by category.
        question: what the policy was asked, as a person reads it.
        completions: the policy's completions, one for each conversation; empty if the policy never answered.
        judgment: the judgment of the completions; `None` if the policy never answered, or before they are judged.
        score: the row's score in the evaluation; `None` if the judgment failed.
        run: what may differ between runs.
        policy_error: why the policy never answered.
        task_digest: a digest of everything that the judge sees of the row.
        prompt_digest: a digest of what the completions depend on.
    """

    uid: str
    category: str | None
    question: str
    completions: tuple[Completion, ...] = ()
    judgment: Judgment[DetailT] | None = None
    score: float | None = None
    run: SampleRun = SampleRun(0.0)
    policy_error: str | None = None
    task_digest: str = ""
    prompt_digest: str = ""

    @property
    def status(self) -> str:
        """Return the judgment's status, `policy_failed`, or (during the run) `not_judged`."""
        if self.judgment is None:
            return "not_judged" if self.policy_error is None else "policy_failed"
        return self.judgment.status.value

    @property
    def finished(self) -> bool:
        """Return whether the row counts; other rows are failures, which `--resume` runs again."""
        return self.judgment is not None and self.judgment.status in (Status.OK, Status.INVALID_COMPLETION)

    @property
    def error(self) -> str | None:
        """Return why the row failed."""
        if self.finished:
            return None
        return self.policy_error if self.judgment is None else self.judgment.explanation

    def with_judgment(self, judgment: Judgment[DetailT], *, invalid_score: float) -> Sample[DetailT]:
        """Return the sample with a judgment; `invalid_score` is the score of completions in the wrong format."""
        is_invalid = judgment.status is Status.INVALID_COMPLETION
        return replace(self, judgment=judgment, score=invalid_score if is_invalid else judgment.score)

    def to_line(self) -> bytes:
        """Return the row as one line of JSON with its newline.

        The fields of a single completion are keys of the row, `answer` as `model_answer`; several completions are a
        list under `completions`.
        """
        judgment = self.judgment
        line: dict[str, object] = {
            "uid": self.uid,
            "category": self.category,
            "question": self.question,
            "task_digest": self.task_digest,
            "prompt_digest": self.prompt_digest,
        }
        completions = [
            {
                "model_answer": completion.answer,
                "thinking": completion.thinking,
                "thinking_valid": completion.thinking_fault is None,
                "thinking_fault": completion.thinking_fault,
                "finish_reason": completion.finish_reason,
                "short_response": completion.short,
            }
            for completion in self.completions
        ]
        line |= completions[0] if len(completions) == 1 else {"completions": completions}
        line |= {"score": self.score, "status": self.status}
        if judgment is not None:
            line |= {"label": judgment.label, "detail": judgment.detail}
            if judgment.critique is not None:
                line["critique"] = judgment.critique
        if not self.finished and self.status != "not_judged":
            line["error"] = self.error
        line["run"] = self.run
        return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)


def digest(*values: object) -> str:
    """Return 16 hexadecimal digits that are equal for equal values, in every process."""
    options = orjson.OPT_NON_STR_KEYS | orjson.OPT_SORT_KEYS
    return hashlib.sha256(orjson.dumps(values, default=_as_json, option=options)).hexdigest()[:16]


def _as_json(value: object) -> object:
    """Convert a value that JSON has no type for: a mapping to a dict, anything else to text."""
    return dict(value) if isinstance(value, Mapping) else str(value)


class SampleReader(Generic[DetailT]):
    """Reads the lines of one environment."""

    def __init__(self, detail_type: type[DetailT]) -> None:
        """Read judgments whose detail is a `detail_type`, a dataclass."""
        self._detail = TypeAdapter(detail_type)
        self._run = TypeAdapter(SampleRun)
        self._critique = TypeAdapter[Critique | None](Critique | None)
        self._completion = TypeAdapter(Completion)

    def read(self, line: Mapping[str, JSON]) -> Sample[DetailT]:
        """Read a row. The judgment's `calls` are not restored: their texts are in the detail, their usage in `run`.

        Raises:
            ValueError: the line is not a sample of this environment.
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
            detail = line["detail"]
            judgment = Judgment(
                score=cast("float | None", line["score"]) if status == Status.OK.value else None,
                status=Status(status),
                label=cast("str | None", line["label"]),
                explanation=error or "",
                detail=None if detail is None else self._detail.validate_python(detail),
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
            task_digest=cast(str, line["task_digest"]),
            prompt_digest=cast(str, line["prompt_digest"]),
        )

    def _completions(self, line: Mapping[str, JSON]) -> tuple[Completion, ...]:
        if "model_answer" in line:
            return (self._one(line),)
        several = cast("list[Mapping[str, JSON]]", line["completions"])
        return tuple(self._one(fields) for fields in several)

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
