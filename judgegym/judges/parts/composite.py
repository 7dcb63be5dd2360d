"""Composite rewards of several named parts: judges, rules and reward models.

Each part has its own settings and endpoint. Its score v, from 0 (worst) to 1 (best), is used by its
role:

* a term is combined with the others, as the setting `combine` says. `weighted_sum`: Σ w·v / Σ w;
  `product`: Π v; `min`: the lowest v; `first_that_says`: the terms are asked in order until one has
  a v, which is used; `alternate`: the v of one term, chosen by seed, row and group; the others are
  not asked;
* a gate must reach its threshold, else the reward is the gate's `otherwise`, and no other part is
  asked;
* a penalty subtracts `penalty` · (1 − v) from the combined terms, so at most `penalty`.

Guarantees: a part without a score fails the reward, with the part's status and reason, and never
    counts as a number; with `on_failure: leave_out` the others are combined without it, and the
    judgment names it. Parts are judged at once, except gates, which come first, and the terms
    of `first_that_says`, where one may make the next unnecessary.

Sources: weighted sums of reward functions as in verl, TRL and OpenRLHF; NeMo Gym's
    `math_with_judge` (a rule first, a judge for the rest); DAPO's overlong penalty (Yu et al.,
    2025), which is a part with the rule `length`, soft and hard limit, and `penalty: 1`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, model_validator
from pydantic_settings import NoDecode
from typing_extensions import Self

from judgegym.judges.config.fields import setting
from judgegym.judges.config.judge import JudgeSettings
from judgegym.judges.core.judge import JudgeDefinition, PartsDefinition
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.core.seeding import current_group, derive_seed
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.parts.part import (
    Part,
    PartOptions,
    PartsDetail,
    PartsJudge,
    check_names,
    name_judge,
    read_text,
)
from judgegym.llm.at_once import gather_results

Combination = Literal["weighted_sum", "product", "min", "first_that_says", "alternate"]
PartRole = Literal["term", "gate", "penalty"]


def _check_number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"expected a number, found {value!r}")
    return value


_Number = Annotated[float, BeforeValidator(_check_number), Field(allow_inf_nan=False)]
_Positive = Annotated[_Number, Field(gt=0)]
_Weight = Annotated[_Number, Field(ge=0)]


class TermOptions(PartOptions):
    """The role of a part: term, gate or penalty. Its other settings are those of its judge.

    Attributes:
        weight: makes the part a term with this weight (default 1); 0: scored and reported, but not
            counted.
        gate: makes the part a gate with this minimum score; below it the reward is `otherwise`, and
            no other part is asked.
        otherwise: the reward of a response below the gate (default 0).
        penalty: makes the part a penalty, which subtracts `penalty` · (1 − score).
        on_failure: what happens if the part has no score. `fail` (default): the reward has none.
            `leave_out`: the others are combined, with renormalised weights, and the explanation
            says so; a gate counts as passed.
    """

    weight: _Weight = 1.0
    gate: _Positive | None = None
    otherwise: _Number = 0.0
    penalty: _Positive | None = None
    on_failure: Literal["fail", "leave_out"] = "fail"

    @model_validator(mode="after")
    def _has_one_role(self) -> Self:
        roles = [name for name in ("weight", "gate", "penalty") if name in self.model_fields_set]
        if len(roles) > 1:
            role_list = " and ".join(roles)
            raise ValueError(
                f"{roles[-1]}: expected one of weight, gate and penalty, found {role_list}"
            )
        if "otherwise" in self.model_fields_set and self.gate is None:
            raise ValueError(
                "otherwise: nothing reads it without a gate, the score that the part has to reach"
            )
        return self

    @property
    def role(self) -> PartRole:
        """Its role: term, gate or penalty."""
        if self.penalty is not None:
            return "penalty"
        if self.gate is None:
            return "term"
        return "gate"


def parse_parts(value: object) -> object:
    """Parse parts from JSON, a file (`@path`), or kinds of judges.

    Kinds are written `rule,rubric`, or with weights `rubric=0.8,rule=0.2`.

    A prompt file counts as a kind; its part is named after the file, without the ending.

    Raises:
        ValueError: a weight is no number, a kind occurs twice, or the text is not JSON.
    """
    parsed = read_text(value)
    if not isinstance(parsed, list):
        return parsed
    parts: dict[str, dict[str, JsonValue]] = {}
    for entry in map(str, parsed):
        kind, has_weight, weight = entry.partition("=")
        name = str(name_judge(kind))
        if name in parts:
            raise ValueError(
                f"two parts are named {name!r}; expected JSON, which names each: {{NAME: {{judge: "
                f"…}}}}"
            )
        parts[name] = {"judge": kind}
        if has_weight:
            try:
                parts[name]["weight"] = float(weight)
            except ValueError:
                raise ValueError(
                    f"{entry!r}: expected a number as weight, such as {kind}=0.5"
                ) from None
    return parts


def check_parts(parts: Mapping[str, TermOptions], combine: Combination) -> None:
    """Check that the parts make a reward.

    Raises:
        ValueError: there is no part, no term with a weight, or a weight that `combine` ignores.
    """
    if not parts:
        raise ValueError(
            "reward: expected the parts of the reward, such as {NAME: {judge: rubric, weight: 1}}"
        )
    terms = {name: options for name, options in parts.items() if options.role == "term"}
    if not any(options.weight for options in terms.values()):
        if terms:
            problem = "their weights are all 0"
        else:
            problem = "all parts are gates or penalties"
        raise ValueError(f"reward: expected a part that counts, but {problem}")
    # Every combination reads 0 (not counted) and 1 (the default); only a weighted sum reads others.
    weighted = [name for name, options in terms.items() if options.weight not in (0.0, 1.0)]
    if combine != "weighted_sum" and weighted:
        raise ValueError(f"reward.{weighted[0]}.weight: nothing reads it with combine={combine}")


Parts = Annotated[
    dict[str, dict[str, JsonValue]],
    NoDecode,
    BeforeValidator(parse_parts),
    AfterValidator(check_names),
]


class CompositeJudgeSettings(JudgeSettings):
    """The parts of a reward, and how they are combined."""

    reward: Parts = setting({}, common=True)
    """With the judge composite: combine these parts into the reward. An object by names, {"maths":
    {"judge": "rule", "rule": "number"}, "style": {"judge": "rubric", "weight": 0.2}}; each has the
    settings of its judge, one of weight, gate (with otherwise) and penalty, and on_failure (fail or
    leave_out). Or kinds of judges with weights: rubric=0.8,rule=0.2. Each part inherits unset
    settings from the command."""
    combine: Combination = setting("weighted_sum", common=True)
    """Combine the parts in this way. weighted_sum: Σ weight · score / Σ weight. product: the
    product of all scores. min: the lowest score. first_that_says: the score of the first part that
    has one, in order; later parts are not asked. alternate: the score of one part, chosen by seed,
    row and group, so that the completions of a group have the same judge."""


class CompositeJudge(PartsJudge[CompositeJudgeSettings, TermOptions]):
    """A judge that combines all parts, at least one of which is a term."""

    def role(self, part: Part[TermOptions]) -> str:
        """Return `term`, `gate` or `penalty`."""
        return part.options.role

    async def judge(self, task: JudgeTask) -> Judgment[PartsDetail]:
        """Ask the gates, then the other parts, and combine them.

        There is no score if a part that counts has none.
        """
        judgments = await self.ask(
            [part for part in self.parts if part.options.role == "gate"], task
        )
        if self._find_closed_gate(judgments) is None and not self._find_failures(judgments):
            judgments |= await self._ask_terms_and_penalties(task)
        return self._combine(judgments)

    async def _ask_terms_and_penalties(self, task: JudgeTask) -> dict[str, Judgment[Any]]:
        """Ask all terms and penalties at once.

        With `first_that_says` terms are asked one after the other, with `alternate` only one.
        """
        terms = [part for part in self.parts if part.options.role == "term"]
        penalties = [part for part in self.parts if part.options.role == "penalty"]
        if self.settings.combine == "alternate":
            weighted = [part for part in terms if part.options.weight]
            chosen = self._choose_term(weighted, task)
            skipped = {part.name for part in weighted if part is not chosen}
            terms = [part for part in terms if part.name not in skipped]
        if self.settings.combine != "first_that_says":
            return await self.ask([*terms, *penalties], task)
        term_judgments, penalty_judgments = await gather_results(
            (self._ask_in_order(terms, task), self.ask(penalties, task))
        )
        return term_judgments | penalty_judgments

    def _choose_term(
        self, terms: Sequence[Part[TermOptions]], task: JudgeTask
    ) -> Part[TermOptions]:
        """Return the term that judges a row in this group."""
        row = repr((task.prompt, task.reference, task.rubric, task.context, current_group()))
        return terms[derive_seed(self.settings.seed, row, "alternate") % len(terms)]

    async def _ask_in_order(
        self, terms: Sequence[Part[TermOptions]], task: JudgeTask
    ) -> dict[str, Judgment[Any]]:
        """Ask terms until the reward is settled.

        That is when a term that counts has a score, or a term that must not be left out has failed.
        """
        judgments: dict[str, Judgment[Any]] = {}
        for part in terms:
            judgments |= await self.ask([part], task)
            judgment = judgments[part.name]
            if judgment.score is None:
                may_continue = part.options.on_failure == "leave_out"
                is_settled = not (may_continue or self._abstains(part, judgment))
            else:
                is_settled = part.options.weight > 0
            if is_settled:
                break
        return judgments

    def _find_closed_gate(self, judgments: Mapping[str, Judgment[Any]]) -> Part[TermOptions] | None:
        """Return the first gate below its threshold; `None` if a gate before it has failed."""
        for part in self.parts:
            if part.options.gate is None or part.name not in judgments:
                continue
            score = self.unit_scores(judgments)[part.name]
            if score is None and part.options.on_failure == "fail":
                return None
            if score is not None and score < part.options.gate:
                return part
        return None

    def _find_failures(self, judgments: Mapping[str, Judgment[Any]]) -> list[Part[TermOptions]]:
        """Return the asked parts that have no score and may not be left out."""
        failed: list[Part[TermOptions]] = []
        for part in self.parts:
            judgment = judgments.get(part.name)
            if judgment is None or judgment.score is not None:
                continue
            if part.options.on_failure == "fail" and not self._abstains(part, judgment):
                failed.append(part)
        return failed

    def _abstains(self, part: Part[TermOptions], judgment: Judgment[Any]) -> bool:
        """Return whether a rule of `first_that_says` leaves the response to the next part.

        A rule that cannot decide is unparsable; its other failures are failures of the reward.
        """
        is_asked_in_order = (
            self.settings.combine == "first_that_says" and part.options.role == "term"
        )
        return is_asked_in_order and part.may_abstain and judgment.status is Status.UNPARSABLE

    def _combine(self, judgments: Mapping[str, Judgment[Any]]) -> Judgment[PartsDetail]:
        """Make the reward's judgment from those of the asked parts."""
        gate = self._find_closed_gate(judgments)
        failed = self._find_failures(judgments)
        asked_parts = [part for part in self.parts if part.name in judgments]
        value = None
        contributions = dict[str, float]()
        settled_by = None
        if gate is not None:
            value, settled_by = gate.options.otherwise, gate.name
            contributions[gate.name] = value
        elif not failed:
            value, contributions, settled_by = self._compute_value(self.unit_scores(judgments))
        return self.make_judgment(
            judgments,
            value,
            contributions=contributions,
            settled_by=settled_by,
            abstained=[
                part.name for part in asked_parts if self._abstains(part, judgments[part.name])
            ],
            fatal=[part.name for part in failed],
        )

    def _compute_value(
        self, scores: Mapping[str, float | None]
    ) -> tuple[float | None, dict[str, float], str | None]:
        """Compute the reward, each part's contribution, and the part that settled it.

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
        deduction = sum(contributions.values())  # of the penalties: 0 or negative
        first = next(iter(terms))
        settled_by = None
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
            value = sum(shares.values())
            contributions = {**shares, **contributions}
        return value + deduction, contributions, settled_by


JUDGE = JudgeDefinition(
    CompositeJudgeSettings,
    "several parts, each a judge or a rule (--reward)",
    CompositeJudge,
    parts=PartsDefinition("reward", "parts", TermOptions, parse_parts, default_kind=None),
)
