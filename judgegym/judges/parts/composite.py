"""A reward of several named parts, each a judge, a rule or a reward model with settings and an endpoint of its own.

What a part does with its score v, from 0 (worst) to 1 (best):

* a term is combined with the others. `weighted_sum`: Σ w·v / Σ w; `product`: Π v; `min`: the lowest v;
  `first_that_says`: the v of the first part that has one, in their order; a later part is not asked;
  `alternate`: the v of one part, chosen by seed, row and group; the others are not asked;
* a gate has to reach its threshold, else the reward is the gate's `otherwise`, and no other part is asked;
* a penalty takes `penalty` · (1 − v) off the combined terms, so at most `penalty`.

Guarantees: a part without a score fails the reward, with the part's status and reason, and is never a number in a sum;
with `on_failure: leave_out` the others are combined without it, and the judgment names it. Parts are judged at once,
but for gates, which come first, and for `first_that_says`, where each may save the next.

Sources: weighted sums of reward functions as in verl, TRL and OpenRLHF; NeMo Gym's `math_with_judge` (a rule first, a
judge for the rest); DAPO's overlong penalty (Yu et al., 2025), which is a part with the rule `length`, soft and hard
limit, and `penalty: 1`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, model_validator
from pydantic_settings import NoDecode
from typing_extensions import Self

from judgegym.judges.config.fields import setting
from judgegym.judges.config.judge import JudgeSettings
from judgegym.judges.core.judge import SingleJudge
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.core.naming import slug
from judgegym.judges.core.seeding import current_group, derive
from judgegym.judges.core.tasks import JudgeTask, TaskError
from judgegym.llm import wire
from judgegym.llm.at_once import all_results
from judgegym.llm.client import ChatClient
from judgegym.llm.ledger import component
from judgegym.llm.urls import secrets_in_fields, secrets_in_url, split_urls

Combination = Literal["weighted_sum", "product", "min", "first_that_says", "alternate"]
PartRole = Literal["term", "gate", "penalty"]


def _is_number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"expected a number, found {value!r}")
    return value


_Number = Annotated[float, BeforeValidator(_is_number), Field(allow_inf_nan=False)]
_Positive = Annotated[_Number, Field(gt=0)]
_Weight = Annotated[_Number, Field(ge=0)]


class PartOptions(BaseModel):
    """What a part does in the reward; its other settings are those of its judge.

    Attributes:
        weight: of a term in `weighted_sum`; 0 measures the part and leaves it out of the reward.
        gate: the score that the part has to reach.
        otherwise: the reward of a response that does not reach the gate.
        penalty: the most that the part takes off the reward.
        on_failure: what a part without a score does: fail the reward, or leave the part out.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    weight: _Weight = 1.0
    gate: _Positive | None = None
    otherwise: _Number = 0.0
    penalty: _Positive | None = None
    on_failure: Literal["fail", "leave_out"] = "fail"

    @model_validator(mode="after")
    def _has_one_role(self) -> Self:
        roles = [name for name in ("weight", "gate", "penalty") if name in self.model_fields_set]
        if len(roles) > 1:
            raise ValueError(f"{roles[-1]}: expected one of weight, gate and penalty, found {' and '.join(roles)}")
        if "otherwise" in self.model_fields_set and self.gate is None:
            raise ValueError("otherwise: nothing reads it without a gate, the score that the part has to reach")
        return self

    @property
    def role(self) -> PartRole:
        """Term, gate or penalty."""
        return "penalty" if self.penalty is not None else "term" if self.gate is None else "gate"


OPTIONS = frozenset(PartOptions.model_fields)
"""The fields of a part that are not settings of its judge."""
OF_HOST = frozenset({"judge_model_name", "judge_api", "judge_api_key", "judge_api_key_env", "judge_extra_headers"})
"""Settings of the whole that hold for its host alone."""
OF_MODEL = frozenset(
    {"judge_extra_body", "judge_price_input", "judge_price_output", "judge_price_cached_input"}
    | {"judge_finish_reasons", "judge_requests_per_minute", "judge_tokens_per_minute", "judge_max_concurrency"}
)
"""Settings of the whole that hold for its model alone."""
PartFields = Mapping[str, JsonValue]
"""A part as it is given: options, `judge`, and settings of that judge."""


def parts_of(value: object) -> object:
    """Parts from their short form, kinds of judges with or without weights: `rule,rubric` or `rubric=0.8,rule=0.2`.

    Raises:
        ValueError: a weight is no number, a kind is named twice, or the text is not JSON.
    """
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("{"):
        return wire.loads(value)
    parts: dict[str, dict[str, JsonValue]] = {}
    for word in filter(None, map(str.strip, value.split(","))):
        kind, has_weight, weight = word.partition("=")
        if kind in parts:
            raise ValueError(f"two parts are named {kind!r}; expected JSON, which names each: {{NAME: {{judge: …}}}}")
        parts[kind] = {"judge": kind}
        if has_weight:
            try:
                parts[kind]["weight"] = float(weight)
            except ValueError:
                raise ValueError(f"{word!r}: expected a number as weight, such as {kind}=0.5") from None
    return parts


def _check_names(parts: dict[str, dict[str, JsonValue]]) -> dict[str, dict[str, JsonValue]]:
    names = [slug(name) for name in parts]
    same = [name for name, other in zip(parts, names, strict=True) if names.count(other) > 1 or not other]
    if same:
        raise ValueError(f"these parts have the same name, or none: {', '.join(map(repr, same))}")
    return parts


def check_fields(place: str, fields: PartFields) -> None:
    """Check that a part, which `config.yaml` keeps, holds no secret; `place` is what the message begins with.

    Raises:
        ValueError: it does.
    """
    url, body = fields.get("judge_base_url"), fields.get("judge_extra_body")
    found = [name for name in ("judge_api_key", "judge_extra_headers") if fields.get(name, "none") != "none"]
    if isinstance(url, str) and any(secret for one in split_urls(url) for secret in secrets_in_url(one)):
        found.append("judge_base_url")
    if isinstance(body, dict) and any(secrets_in_fields(body)):
        found.append("judge_extra_body")
    if "judge_cache" in fields:
        raise ValueError(f"{place}judge_cache: nothing reads it in a part; set that of the whole")
    if found:
        raise ValueError(f"{place}{found[0]}: a secret would be kept in files; name its variable: judge_api_key_env")


def check_parts(parts: Mapping[str, PartOptions], combine: Combination) -> None:
    """Check that the parts make a reward.

    Raises:
        ValueError: there is no part, no term with a weight, or a weight that nothing reads.
    """
    if not parts:
        raise ValueError("reward: expected the parts of the reward, such as {NAME: {judge: rubric, weight: 1}}")
    terms = {name: options for name, options in parts.items() if options.role == "term"}
    if not any(options.weight for options in terms.values()):
        found = "their weights are all 0" if terms else "all parts are gates or penalties"
        raise ValueError(f"reward: expected a part that counts, but {found}")
    weighed = [name for name, options in terms.items() if options.weight not in (0.0, 1.0)]
    if combine != "weighted_sum" and weighed:
        raise ValueError(f"reward.{weighed[0]}.weight: nothing reads it with combine={combine}")


Parts = Annotated[dict[str, dict[str, JsonValue]], NoDecode, BeforeValidator(parts_of), AfterValidator(_check_names)]


class CompositeJudgeSettings(JudgeSettings):
    """The parts of a reward, and how they are combined."""

    help_group: ClassVar[str] = "judge"

    reward: Parts = setting({}, common=True)
    """With the judge composite: make the reward of these parts. An object by names, {"maths": {"judge": "rule", "rule":
    "number"}, "style": {"judge": "rubric", "weight": 0.2}}; each has the settings of its judge, and weight, gate with
    otherwise, or penalty, and on_failure (fail or leave_out). Or kinds of judges with weights: rubric=0.8,rule=0.2.
    Settings that a part leaves out are those of the command."""
    combine: Combination = setting("weighted_sum", common=True)
    """Combine the parts in this way. weighted_sum: Σ weight · score / Σ weight. product: of all scores. min: the lowest
    score. first_that_says: the score of the first part that has one, in their order; later parts are not asked.
    alternate: that of one part, chosen by seed, row and group: completions of a group have the same judge."""


@dataclass(frozen=True)
class Part:
    """One part of a reward: its judge, and what its score does."""

    name: str
    options: PartOptions
    judge: SingleJudge[Any, Any, Any]
    may_abstain: bool = False
    """It is a rule: without a verdict it has not failed, but leaves the response to the next part."""


@dataclass(frozen=True, slots=True)
class PartResult:
    """What a part says of a response.

    Attributes:
        name: of the part.
        role: term, gate or penalty.
        score: from 0 to 1; `None` if the part failed, or was not asked.
        status: of its judgment; `not_asked` where a gate, or a part before it, has settled the reward.
        contribution: what it adds to the reward: of a term in `weighted_sum` w·v / Σ w, of a penalty a number that is
            not positive, of what settled the reward all of it; `None` where it adds nothing, or the reward is no sum.
        label: the verdict in its judge's terms.
        explanation: its judge's reasons; of a failure, what went wrong.
        components: the numbers from which its score is computed.
    """

    name: str
    role: PartRole
    score: float | None
    status: str
    contribution: float | None = None
    label: str | None = None
    explanation: str = ""
    components: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CompositeDetail:
    """The parts of a reward.

    Attributes:
        parts: what each part says, in their order.
        settled_by: the gate that was not reached, or the part of `first_that_says` or `alternate` that settled it.
        left_out: the parts that failed and were left out.
    """

    parts: tuple[PartResult, ...]
    settled_by: str | None = None
    left_out: tuple[str, ...] = ()


class CompositeJudge(SingleJudge[CompositeJudgeSettings, JudgeTask, CompositeDetail]):
    """Judges a response by all parts; the label names each with its score."""

    def __init__(self, settings: CompositeJudgeSettings, client: ChatClient, parts: Sequence[Part]) -> None:
        """Judge by these parts, of which at least one is a term."""
        super().__init__(settings, client)
        self.parts = parts

    def case_of(self, task: JudgeTask) -> JudgeTask:
        """The task: each part makes its own case of it."""
        return task

    def check(self, task: JudgeTask) -> None:
        """Check that every part can judge the task."""
        for part in self.parts:
            try:
                part.judge.check(task)
            except TaskError as error:
                raise TaskError(f"part {part.name}: {error}") from error

    def components(self, judgment: Judgment[CompositeDetail]) -> Mapping[str, float]:
        """The score of each part by its name, and the numbers that it is computed from, as `style.raw`."""
        found: dict[str, float] = {}
        for part in judgment.detail.parts if judgment.detail is not None else ():
            if part.score is not None:
                found[part.name] = part.score
                found |= {f"{part.name}.{name}": value for name, value in part.components.items()}
        return found

    def contributions(self, judgment: Judgment[CompositeDetail]) -> Mapping[str, float]:
        """What each part adds to the reward, by its name; empty if the reward is no sum of parts."""
        parts = judgment.detail.parts if judgment.detail is not None else ()
        return {part.name: part.contribution for part in parts if part.contribution is not None}

    async def judge(self, case: JudgeTask) -> Judgment[CompositeDetail]:
        """Ask the gates, then the other parts, and combine them; without a score if a part that counts has none."""
        found = await self._ask([part for part in self.parts if part.options.role == "gate"], case)
        if self._closed_gate(found) is None and not self._failures(found):
            found |= await self._ask_terms(case)
        return self._combined(found)

    async def _ask_terms(self, task: JudgeTask) -> dict[str, Judgment[Any]]:
        """Ask all terms and penalties at once; of `first_that_says` one after the other, of `alternate` one."""
        terms = [part for part in self.parts if part.options.role == "term"]
        others = [part for part in self.parts if part.options.role == "penalty"]
        if self.settings.combine == "alternate":
            chosen = self._chosen([part for part in terms if part.options.weight], task)
            terms = [part for part in terms if part is chosen or not part.options.weight]
        if self.settings.combine != "first_that_says":
            return await self._ask([*terms, *others], task)
        first, rest = await all_results((self._ask_in_order(terms, task), self._ask(others, task)))
        return first | rest

    def _chosen(self, terms: Sequence[Part], task: JudgeTask) -> Part:
        """Return the term that judges a row in this group."""
        row = repr((task.prompt, task.reference, task.rubric, task.context, current_group()))
        return terms[derive(self.settings.seed, row, "alternate") % len(terms)]

    async def _ask_in_order(self, terms: Sequence[Part], task: JudgeTask) -> dict[str, Judgment[Any]]:
        """Ask until a part has a score, or has failed and is not left out."""
        found: dict[str, Judgment[Any]] = {}
        for part in terms:
            found |= await self._ask([part], task)
            judgment = found[part.name]
            leaves_it = self._abstains(part, judgment) or part.options.on_failure == "leave_out"
            if judgment.score is not None or not leaves_it:
                break
        return found

    async def _ask(self, parts: Sequence[Part], task: JudgeTask) -> dict[str, Judgment[Any]]:
        judged = await all_results(_judge(part, task) for part in parts)
        return {part.name: judgment for part, judgment in zip(parts, judged, strict=True)}

    def _closed_gate(self, found: Mapping[str, Judgment[Any]]) -> Part | None:
        """The first gate whose score is below its threshold; `None` if one before it has failed."""
        for part in self.parts:
            if part.options.gate is None or part.name not in found:
                continue
            score = _score(part, found[part.name])
            if score is None and part.options.on_failure == "fail":
                return None
            if score is not None and score < part.options.gate:
                return part
        return None

    def _failures(self, found: Mapping[str, Judgment[Any]]) -> list[Part]:
        """The parts that were asked, have no score, and may not be left out."""
        failed = [part for part in self.parts if part.name in found and found[part.name].score is None]
        return [
            part for part in failed if part.options.on_failure == "fail" and not self._abstains(part, found[part.name])
        ]

    def _abstains(self, part: Part, judgment: Judgment[Any]) -> bool:
        """Whether a rule of `first_that_says` leaves the response to the next part."""
        is_asked_in_order = self.settings.combine == "first_that_says" and part.options.role == "term"
        return is_asked_in_order and part.may_abstain and judgment.status is Status.UNPARSABLE

    def _combined(self, found: Mapping[str, Judgment[Any]]) -> Judgment[CompositeDetail]:
        """The judgment of the reward from those of the parts that were asked."""
        gate, failed = self._closed_gate(found), self._failures(found)
        scores = {part.name: _score(part, found.get(part.name)) for part in self.parts}
        value, contributions, settled_by = None, dict[str, float](), None
        if gate is not None:
            value, settled_by = gate.options.otherwise, gate.name
            contributions[gate.name] = value
        elif not failed:
            value, contributions, settled_by = self._value(scores)
        parts = tuple(
            _result(part, found.get(part.name), scores[part.name], contributions.get(part.name)) for part in self.parts
        )
        missing = [part for part in self.parts if part.name in found and scores[part.name] is None]
        left_out = tuple(part.name for part in missing if not self._abstains(part, found[part.name]))
        detail = CompositeDetail(parts, settled_by, () if value is None else left_out)
        calls = tuple(call for judgment in found.values() for call in judgment.calls)
        suspects = max((judgment.suspects for judgment in found.values()), default=0)
        if value is None:
            why = "; ".join(f"{part.name}: {found[part.name].explanation}" for part in missing)
            statuses = {found[part.name].status for part in failed or missing}
            status = Status.JUDGE_FAILED if Status.JUDGE_FAILED in statuses else Status.UNPARSABLE
            return Judgment(None, status, explanation=why, calls=calls, detail=detail, suspects=suspects)
        said = [part for part in parts if part.score is not None]
        label = " ".join(f"{part.name}={part.score:.3g}" for part in said)
        reasons = [f"{part.name}: {part.explanation or part.label or ''}".rstrip() for part in said]
        reasons += [f"{part.name}, which has no score: {found[part.name].explanation}" for part in missing]
        return Judgment(value, Status.OK, label, "\n\n".join(reasons), calls, detail, suspects=suspects)

    def _value(self, scores: Mapping[str, float | None]) -> tuple[float | None, dict[str, float], str | None]:
        """The reward from the parts' scores, what each part adds to it, and the part that settled it.

        The reward is `None` if no term has a score.
        """
        terms: dict[str, float] = {}
        contributions: dict[str, float] = {}
        for part in self.parts:
            score = scores[part.name]
            if score is None:
                continue
            if part.options.penalty is not None:
                contributions[part.name] = -part.options.penalty * (1.0 - score)
            elif part.options.role == "term" and part.options.weight:
                terms[part.name] = score
        if not terms:
            return None, {}, None
        penalty, first, settled_by = sum(contributions.values()), next(iter(terms)), None
        if self.settings.combine == "product":
            value = math.prod(terms.values())
        elif self.settings.combine == "min":
            value = min(terms.values())
        elif self.settings.combine in ("first_that_says", "alternate"):
            value, settled_by = terms[first], first
            contributions[first] = value
        else:
            weights = {part.name: part.options.weight for part in self.parts if part.name in terms}
            total = sum(weights.values())
            shares = {name: weights[name] * score / total for name, score in terms.items()}
            value, contributions = sum(shares.values()), {**shares, **contributions}
        return value + penalty, contributions, settled_by


async def _judge(part: Part, task: JudgeTask) -> Judgment[Any]:
    """A part's judgment, whose calls have its name."""
    with component(part.name):
        judgment: Judgment[Any] = await part.judge.judge_task(task)
    return replace(judgment, calls=tuple(replace(call, name=f"{part.name}/{call.name}") for call in judgment.calls))


def _score(part: Part, judgment: Judgment[Any] | None) -> float | None:
    return None if judgment is None or judgment.score is None else part.judge.unit(judgment.score)


def _result(part: Part, judgment: Judgment[Any] | None, score: float | None, contribution: float | None) -> PartResult:
    role = part.options.role
    if judgment is None:
        return PartResult(part.name, role, None, "not_asked")
    components = {} if score is None else part.judge.components(judgment)
    status, explanation = judgment.status.value, judgment.explanation
    return PartResult(part.name, role, score, status, contribution, judgment.label, explanation, components)
