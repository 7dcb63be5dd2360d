"""Samples: rows as lines of `samples.jsonl` and `failures.jsonl`, written and read back.

The sub-object `run` holds everything that may differ between two runs of one configuration. Without
it, the lines of two runs against a deterministic endpoint are byte-identical. The judgment's
detail, whose fields differ between environments, is under the key `detail`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Generic, Literal, TypeVar, cast

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from judgegym.engine.completions import Completion
from judgegym.engine.metrics import GoldLabel, HeadlineTerm
from judgegym.engine.runs.lines import RawLine
from judgegym.judges.conversations.turns import IMAGE_MARK
from judgegym.judges.core.judgment import CallRun, Critique, Judgment, Status
from judgegym.llm.wire import JSON

DetailT = TypeVar("DetailT")

POLICY_FAILED: Literal["policy_failed"] = "policy_failed"
"""The status of a row, or a response, that the policy never completed."""
USER_FAILED: Literal["user_failed"] = "user_failed"
"""The status of a row whose simulated user gave no message."""
FINISHED = frozenset({Status.OK.value, Status.INVALID_COMPLETION.value})
"""The statuses of rows that count; the others are failures, which `--resume` runs again."""


@dataclass(frozen=True, slots=True)
class SampleRun:
    """Timings, attempts and usage of a row: judge calls by name, others in order."""

    seconds: float
    policy_calls: tuple[CallRun, ...] = ()
    judge_calls: Mapping[str, CallRun] | None = None
    user_calls: tuple[CallRun, ...] = ()


@dataclass(frozen=True)  # no slots: a generic class with them cannot be called as Class[T](…)
class Sample(Generic[DetailT]):
    """One row, evaluated or failed.

    Attributes:
        uid: the row's id.
        category: the row's category, for metrics by category.
        question: the policy's prompt in readable form.
        completions: the policy's completions: one for each conversation, or one for each turn of a
            single conversation; empty if policy or user failed.
        judgment: the judgment of the completions; `None` if policy or user failed.
        score: the row's score in the evaluation; `None` if the judgment failed.
        run: what may differ between runs.
        policy_error: why the policy never answered.
        user_error: why the simulated user gave no message.
        task_digest: a digest of everything that the judge sees of the row.
        headline: the row's part of the headline metric; `None` if it does not count there, or if
            that metric is not a ratio over rows.
        texts: the row's further texts by title, such as `baseline` and `rubric`.
        orders: points of the judged completion, from 0 to 1, in each order of a comparison; empty
            with a single order, or no comparison.
        gold: pairs of gold label and judge label; empty without gold labels.
    """

    uid: str
    category: str | None
    question: str
    completions: tuple[Completion, ...] = ()
    judgment: Judgment[DetailT] | None = None
    score: float | None = None
    run: SampleRun = SampleRun(0.0)
    policy_error: str | None = None
    user_error: str | None = None
    task_digest: str = ""
    headline: HeadlineTerm | None = None
    texts: Mapping[str, str] = field(default_factory=dict)
    orders: Mapping[str, float] = field(default_factory=dict)
    gold: tuple[GoldLabel, ...] = ()

    @property
    def status(self) -> str:
        """The judgment's status, or `policy_failed` or `user_failed`."""
        if self.judgment is None:
            if self.user_error is None:
                return POLICY_FAILED
            return USER_FAILED
        return self.judgment.status.value

    @property
    def finished(self) -> bool:
        """Whether the row counts."""
        return self.status in FINISHED

    @property
    def label(self) -> str | None:
        """The judgment's label, in the judge's terms."""
        if self.judgment is None:
            return None
        return self.judgment.label

    @property
    def detail(self) -> DetailT | None:
        """The judgment's detail, in the judge's terms."""
        if self.judgment is None:
            return None
        return self.judgment.detail

    @property
    def members(self) -> Mapping[str, float]:
        """The scores of a jury's members; empty without a jury."""
        if self.judgment is None:
            return {}
        return self.judgment.members

    @property
    def error(self) -> str | None:
        """Why the row failed."""
        if self.finished:
            return None
        if self.judgment is None:
            return self.policy_error or self.user_error
        return self.judgment.explanation

    @property
    def prompt_key(self) -> str:
        """A key shared by all samples with the same prompt, which form one cluster.

        A sample holds no images, and prompts with the same text may have different ones. With
        images, and without a prompt, the key identifies the row, or an equal one.
        """
        if not self.question or IMAGE_MARK.search(self.question):
            row, _, number = self.uid.partition("/")
            if number:
                return row
            return self.task_digest
        return digest(self.question, *(self.texts.get(name) for name in ("reference", "context")))

    def replace_judgment(
        self, judgment: Judgment[DetailT], *, invalid_score: float
    ) -> Sample[DetailT]:
        """Return the sample with a judgment; malformed completions get `invalid_score`."""
        is_invalid = judgment.status is Status.INVALID_COMPLETION
        return replace(
            self, judgment=judgment, score=invalid_score if is_invalid else judgment.score
        )

    def to_line(self) -> bytes:
        """Return the row as one line of JSON with its newline.

        The fields of a single completion are keys of the line, with `answer` as `model_answer`;
        several completions are a list under `completions`.
        """
        judgment = self.judgment
        line: dict[str, object] = {
            "uid": self.uid,
            "category": self.category,
            "question": self.question,
            "texts": dict(self.texts),
            "task_digest": self.task_digest,
        }
        completions = [
            {
                "model_answer": completion.answer,
                "thinking": completion.thinking,
                "thinking_valid": completion.thinking_fault is None,
                "thinking_fault": completion.thinking_fault,
                "finish_reason": completion.finish_reason,
                "short_response": completion.short,
                **({"follow_up": completion.follow_up} if completion.follow_up else {}),
                **({"turns": completion.turns} if completion.turns else {}),
                **({"written": completion.written} if completion.written else {}),
            }
            for completion in self.completions
        ]
        line |= completions[0] if len(completions) == 1 else {"completions": completions}
        line |= {"score": self.score, "status": self.status, "headline": self.headline}
        line["orders"] = dict(self.orders)
        line["gold"] = self.gold
        if judgment is not None:
            line |= {
                "label": judgment.label,
                "detail": judgment.detail,
                "injection_suspects": judgment.suspects,
            }
            if judgment.critique is not None:
                line["critique"] = judgment.critique
            if judgment.members:
                line["members"] = dict(judgment.members)
        if not self.finished:
            line["error"] = self.error
        line["run"] = self.run
        return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)


def digest(*values: object) -> str:
    """Return 16 hexadecimal digits that are the same for equal values, in every process."""
    options = orjson.OPT_NON_STR_KEYS | orjson.OPT_SORT_KEYS
    return hashlib.sha256(orjson.dumps(values, default=_as_json, option=options)).hexdigest()[:16]


def _as_json(value: object) -> object:
    """Convert a value without a JSON type: a mapping to a dict, anything else to text."""
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)


def _fill_fields(line: dict[str, object]) -> dict[str, object]:
    missing = {
        "model_answer",
        "thinking",
        "thinking_fault",
        "finish_reason",
        "short_response",
    } - line.keys()
    if missing:
        names = ", ".join(sorted(missing))
        raise ValueError(f"{names}: Field required")
    return line


_WholeCompletion = Annotated[Completion, BeforeValidator(_fill_fields)]


class _SampleLine(BaseModel, Generic[DetailT]):
    """The fields of a line, except those of a single completion."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    uid: str
    category: str | None
    question: str
    task_digest: str
    completions: list[_WholeCompletion] | None = None
    score: float | None
    status: Status | Literal["policy_failed", "user_failed"]
    headline: HeadlineTerm | None = None
    texts: dict[str, str] = {}
    orders: dict[str, float] = {}
    gold: tuple[GoldLabel, ...] = ()
    label: str | None = None
    detail: DetailT | None = None
    critique: Critique | None = None
    injection_suspects: int = Field(default=0, ge=0)
    members: dict[str, float] = {}
    error: str | None = None
    run: SampleRun

    def judgment(self) -> Judgment[DetailT] | None:
        """Return the judgment, without its calls; `None` if policy or user failed.

        Raises:
            ValueError: the row was judged, but the line lacks the judgment.
        """
        if not isinstance(self.status, Status):
            return None
        for name in ("label", "detail"):
            if name not in self.model_fields_set:
                raise ValueError(f"{name}: Field required")
        return Judgment(
            score=self.score if self.status is Status.OK else None,
            status=self.status,
            label=self.label,
            explanation=self.error or "",
            detail=self.detail,
            critique=self.critique,
            suspects=self.injection_suspects,
            members=self.members,
        )


_COMPLETION = TypeAdapter(_WholeCompletion)
_SAMPLE_FIELDS = (
    "uid",
    "category",
    "question",
    "task_digest",
    "score",
    "headline",
    "texts",
    "orders",
    "gold",
    "run",
)
"""The fields that a sample and its line have in common."""


class SampleReader(Generic[DetailT]):
    """Reads the lines of one environment, or of any: then the detail stays JSON.

    Lines of older versions are read, too; missing fields are empty.
    """

    def __init__(self, detail_type: type[DetailT]) -> None:
        """Read details as the dataclass `detail_type`; `object` for any environment."""
        # The line's type is made at run time, which mypy refuses.
        self._lines = TypeAdapter(_SampleLine[detail_type])  # type: ignore[valid-type]

    def read(self, line: bytes) -> Sample[DetailT]:
        """Read a row. The judgment's `calls` are not restored.

        Their texts are in the detail, their usage is in `run`.

        Raises:
            ValueError: the line is not a sample of this environment; the message names the invalid
                fields.
        """
        try:
            fields: _SampleLine[DetailT] = self._lines.validate_json(line)
            single = fields.completions is None
            completions = [_COMPLETION.validate_json(line)] if single else fields.completions or []
        except ValidationError as error:
            raise ValueError(explain_errors(error)) from error
        judgment = fields.judgment()
        return Sample(
            **{name: getattr(fields, name) for name in _SAMPLE_FIELDS},
            completions=tuple(completions),
            judgment=judgment,
            policy_error=fields.error if fields.status == POLICY_FAILED else None,
            user_error=fields.error if fields.status == USER_FAILED else None,
        )


_ANY_ENVIRONMENT: SampleReader[JSON] = SampleReader(cast("type[JSON]", object))


def read_sample(line: RawLine) -> Sample[JSON]:
    """Read a line of `samples.jsonl` or `failures.jsonl` of any environment; the detail stays JSON.

    Raises:
        ValueError: it is damaged.
    """
    return _ANY_ENVIRONMENT.read(line.data)


def explain_errors(error: ValidationError) -> str:
    """Return which fields of a line are invalid, and why, in one line."""
    return "; ".join(map(_explain_error, error.errors()))


def _explain_error(details: ErrorDetails) -> str:
    path = ".".join(str(part) for part in details["loc"]) or "line"
    return f"{path}: {details['msg']}"
