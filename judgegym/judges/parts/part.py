"""The parts of a composed judge: their settings, their results, and how they are asked.

Guarantees: no part's settings hold a secret; no two parts have the same name in metrics; a part's
    calls are recorded under its name, so that equal calls of two parts are distinguishable; a
    failed part is a result without a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, JsonValue
from pydantic_settings import NoDecode

from judgegym.judges.config.explaining import is_prompt_file, read_text_or_file, split_commas
from judgegym.judges.config.judge import JudgeSettings
from judgegym.judges.config.presets import load_yaml
from judgegym.judges.core.judge import SingleJudge
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.core.naming import slug
from judgegym.judges.core.tasks import JudgeTask, TaskError
from judgegym.llm import wire
from judgegym.llm.at_once import gather_results
from judgegym.llm.client import ChatClient
from judgegym.llm.ledger import component
from judgegym.llm.urls import secrets_in_fields, secrets_in_url, split_urls

PartFields = Mapping[str, JsonValue]
"""A part as the user writes it: options, `judge`, and settings of that judge."""


class PartOptions(BaseModel):
    """What a part does in the whole; its other settings are those of its judge."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def read_text(value: object) -> object:
    """Parse JSON, or words between commas; a file (`@path`) may also be YAML.

    Any other value is returned unchanged.

    Raises:
        ValueError: the file cannot be read, or is neither JSON nor YAML; or a text begins like JSON
            but is not JSON.
    """
    text = read_text_or_file(value)
    if text is value or not isinstance(text, str):
        return split_commas(text)
    try:
        return wire.loads(text)
    except ValueError:
        pass  # it may be YAML
    try:
        return split_commas(load_yaml(text))
    except ValueError as error:
        raise ValueError(f"expected JSON or YAML in the file: {error}") from None


def parse_members(value: object) -> object:
    """Parse members from JSON, from a list, or from `MODEL,MODEL`.

    Members of a list are named by `name`, by the end of the model's name, or by the kind.

    A prompt file may take the place of a model; the member is named after it, without the ending.

    Raises:
        ValueError: the text is not JSON, or a member is not an object.
    """
    value = read_text(value)
    for name, member in value.items() if isinstance(value, Mapping) else ():
        if not isinstance(member, Mapping):
            member_type = type(member).__name__
            problem = f"found a {member_type}; --config reads a file of settings"
            raise ValueError(f"{name}: expected the settings of a judge, {problem}")
    if not isinstance(value, list):
        return value
    members: dict[str, object] = {}
    for entry in value:
        if isinstance(entry, str):
            member = {"judge" if is_prompt_file(entry) else "judge_model_name": entry}
        else:
            member = entry
        if not isinstance(member, Mapping):
            raise ValueError(
                f"expected the settings of a judge or the name of a model, found {entry!r}"
            )
        model = str(member.get("judge_model_name") or "").rstrip("/").rpartition("/")[2]
        name = str(member.get("name") or model or name_judge(member.get("judge")) or "judge")
        candidates = chain([name], (f"{name}_{number}" for number in count(2)))
        unique_name = next(candidate for candidate in candidates if candidate not in members)
        members[unique_name] = {key: field for key, field in member.items() if key != "name"}
    return members


def name_judge(judge: object) -> object:
    """Return a part's default name: its kind, or a prompt file's name without the ending."""
    if is_prompt_file(judge):
        return Path(str(judge)).stem
    return judge


def check_names(parts: dict[str, dict[str, JsonValue]]) -> dict[str, dict[str, JsonValue]]:
    """Check that parts have different names in metrics.

    Raises:
        ValueError: two have the same name, one has none, or one has the sign that separates parts
            from their calls.
    """
    for name in parts:
        if "/" in name:
            raise ValueError(f'{name!r}: expected a name without /; set another one with "name": …')
    slugs = [slug(name) for name in parts]
    unusable = {name_slug for name_slug in slugs if slugs.count(name_slug) > 1} | {""}
    duplicates = [
        name for name, name_slug in zip(parts, slugs, strict=True) if name_slug in unusable
    ]
    if duplicates:
        duplicate_list = ", ".join(map(repr, duplicates))
        raise ValueError(f"these parts have no name, or the same name: {duplicate_list}")
    return parts


Members = Annotated[
    dict[str, dict[str, JsonValue]],
    NoDecode,
    BeforeValidator(parse_members),
    AfterValidator(check_names),
]
"""Judges of the same response, by their names."""


def check_fields(prefix: str, fields: PartFields) -> None:
    """Check that a part's fields, which `config.yaml` keeps, hold no secret.

    Messages begin with `prefix`.

    Raises:
        ValueError: they hold one.
    """
    url = fields.get("judge_base_url")
    body = fields.get("judge_extra_body")
    secrets = [
        name
        for name in ("judge_api_key", "judge_extra_headers")
        if fields.get(name, "none") != "none"
    ]
    if isinstance(url, str):
        found_in_urls = chain.from_iterable(map(secrets_in_url, split_urls(url)))
        if any(found_in_urls):
            secrets.append("judge_base_url")
    if isinstance(body, dict) and any(secrets_in_fields(body)):
        secrets.append("judge_extra_body")
    for name in ("judge_cache", "judged_thinking"):
        if name in fields:
            raise ValueError(f"{prefix}{name}: a part does not read it; set it for the whole judge")
    if secrets:
        raise ValueError(
            f"{prefix}{secrets[0]}: a secret would be kept in files; name its variable: "
            "judge_api_key_env"
        )


OptionsT = TypeVar("OptionsT", bound=PartOptions)
SettingsT = TypeVar("SettingsT", bound=JudgeSettings)


@dataclass(frozen=True)  # no slots: then Class[T](…) would not work
class Part(Generic[OptionsT]):
    """One part: its judge, and its options."""

    name: str
    options: OptionsT
    judge: SingleJudge[Any, Any]
    may_abstain: bool = False
    """Whether it is a rule: without a verdict it has not failed, but leaves the response to the
    next part."""


@dataclass(frozen=True, slots=True)
class PartResult:
    """A part's result for a response.

    Attributes:
        name: the part's name.
        role: `term`, `gate` or `penalty` of a reward, `member` of a jury, `cheap` or `strong` judge
            of a cascade.
        score: from 0 to 1; `None` if the part failed, or was not asked.
        status: the judgment's status; `not_asked` if the others have settled the score.
        contribution: what it adds to the score, if that is a sum or settled by one part; else
            `None`.
        label: the verdict in its judge's terms.
        explanation: its judge's reasons; for a failure, what went wrong.
        components: the numbers behind its score.
    """

    name: str
    role: str
    score: float | None
    status: str
    contribution: float | None = None
    label: str | None = None
    explanation: str = ""
    components: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartsDetail:
    """The results of all parts.

    Attributes:
        parts: each part's result, in order.
        settled_by: the part that alone decided the score; `None` if several count.
        left_out: the parts that failed and were left out.
        numbers: further numbers of the whole, such as the confidence of a cascade's cheap judge.
    """

    parts: tuple[PartResult, ...]
    settled_by: str | None = None
    left_out: tuple[str, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def components(self) -> Mapping[str, float]:
        """Each part's score by name, its components (`style.raw`), and the further numbers."""
        components: dict[str, float] = {}
        for part in self.parts:
            if part.score is not None:
                components[part.name] = part.score
                components |= {
                    f"{part.name}.{name}": value for name, value in part.components.items()
                }
        return {**components, **self.numbers}


class PartsJudge(SingleJudge[SettingsT, PartsDetail], Generic[SettingsT, OptionsT]):
    """A judge made of parts; its label names each part with its score."""

    truncates_inputs = False
    part_label = "part"
    """The word for a part in messages."""

    def __init__(
        self, settings: SettingsT, client: ChatClient, parts: Sequence[Part[OptionsT]]
    ) -> None:
        """Set the parts."""
        super().__init__(settings, client)
        self.parts = parts

    def check(self, task: JudgeTask) -> None:
        """Check that every part can judge the task, each response by itself."""
        single = task.select_responses((0,)) if task.responses else task
        for part in self.parts:
            try:
                part.judge.check(task)
                if part.judge.compares(single):
                    raise TaskError("expected a baseline: it sees each response by itself here")
            except TaskError as error:
                raise TaskError(f"{self.part_label} {part.name}: {error}") from error

    def role(self, part: Part[OptionsT]) -> str:
        """Return a part's role, as `PartResult` names it."""
        return self.part_label

    async def ask(self, parts: Iterable[Part[OptionsT]], task: Any) -> dict[str, Judgment[Any]]:
        """Ask parts at once; return judgments by name, with the calls named after the part."""
        part_list = list(parts)
        judgments = await gather_results(self.judge_part(part, task) for part in part_list)
        return {part.name: judgment for part, judgment in zip(part_list, judgments, strict=True)}

    async def judge_part(self, part: Part[OptionsT], task: Any) -> Judgment[Any]:
        """Return a part's judgment, with the calls named after the part."""
        with component(part.name):
            judgment: Judgment[Any] = await part.judge.judge_task(task)
        calls = tuple(replace(call, name=f"{part.name}/{call.name}") for call in judgment.calls)
        return replace(judgment, calls=calls)

    def unit_scores(self, judgments: Mapping[str, Judgment[Any]]) -> dict[str, float | None]:
        """Return each part's score from 0 to 1; `None` if it failed or was not asked."""
        by_name = {part.name: judgments.get(part.name) for part in self.parts}
        return {
            name: None if judgment is None else judgment.unit_score
            for name, judgment in by_name.items()
        }

    def make_judgment(
        self,
        judgments: Mapping[str, Judgment[Any]],
        value: float | None,
        *,
        contributions: Mapping[str, float] = {},
        settled_by: str | None = None,
        abstained: Iterable[str] = (),
        numbers: Mapping[str, float] = {},
        confidences: Mapping[str, float] = {},
        reason: str = "",
        fatal: Iterable[str] = (),
    ) -> Judgment[PartsDetail]:
        """Make the composed judgment from those of the asked parts.

        Args:
            judgments: the judgments of the parts that were asked.
            value: the composed score; `None` if there is none.
            contributions: what each part adds to it.
            settled_by: the part that alone decided it.
            abstained: parts without a score that have not failed.
            numbers: further numbers for the detail.
            confidences: confidence measures beside the margin.
            reason: the reason why there is no score, put before the explanations of failed parts.
            fatal: the failed parts that are the cause; by default all without a score.
        """
        parts = tuple(
            self._make_result(part, judgments.get(part.name), contributions.get(part.name))
            for part in self.parts
        )
        judged_parts = [part for part in parts if part.name in judgments]
        missing = [part.name for part in judged_parts if part.score is None]
        left_out: tuple[str, ...] = ()
        if value is not None:
            left_out = tuple(name for name in missing if name not in {*abstained})
        detail = PartsDetail(parts, settled_by, left_out, numbers)
        calls = tuple(chain.from_iterable(judgment.calls for judgment in judgments.values()))
        suspects = max((judgment.suspects for judgment in judgments.values()), default=0)
        omitted = max((judgment.left_out for judgment in judgments.values()), default=0)
        if value is None:
            reasons = "; ".join(f"{name}: {judgments[name].explanation}" for name in missing)
            reason = ": ".join(filter(None, (reason, reasons)))
            statuses = {judgments[name].status for name in [*fatal] or missing}
            if Status.JUDGE_FAILED in statuses:
                status = Status.JUDGE_FAILED
            else:
                status = Status.UNPARSABLE
            failed = Judgment(
                None, status, explanation=reason, calls=calls, detail=detail, suspects=suspects
            )
            return replace(failed, components=detail.components, confidences=confidences)
        scored_parts = [part for part in parts if part.score is not None]
        label = " ".join(f"{part.name}={part.score:.3g}" for part in scored_parts)
        texts = [
            f"{part.name}: {part.explanation or part.label or ''}".rstrip() for part in scored_parts
        ]
        texts += [f"{name}, which has no score: {judgments[name].explanation}" for name in missing]
        return Judgment(
            value,
            Status.OK,
            label,
            "\n\n".join(texts),
            calls,
            detail,
            suspects=suspects,
            left_out=omitted,
            components=detail.components,
            confidences=confidences,
            contributions={
                part.name: part.contribution for part in parts if part.contribution is not None
            },
        )

    def _make_result(
        self, part: Part[OptionsT], judgment: Judgment[Any] | None, contribution: float | None
    ) -> PartResult:
        if judgment is None:
            return PartResult(part.name, self.role(part), None, "not_asked")
        score = judgment.unit_score
        status = judgment.status.value
        explanation = judgment.explanation
        components = {} if score is None else judgment.components
        return PartResult(
            part.name,
            self.role(part),
            score,
            status,
            contribution,
            judgment.label,
            explanation,
            components,
        )
