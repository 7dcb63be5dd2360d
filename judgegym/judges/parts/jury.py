"""A jury: several judges of the same response, whose scores are combined.

Members are asked at once, each with its own endpoint, limits and failures. Their scores v, from 0
(worst) to 1 (best), with weights w are combined by `jury_rule`:

* `mean`: Σ w·v / Σ w; `median`: the v with half of the weight on either side; `trimmed_mean`: the
  mean without the lowest and the highest fifth (at least one each);
* `majority`: the v with the most weight; the mean if there are several;
* `unanimous`: the mean if all members are on the same side of ½, or all on ½ itself, a tie; else
  the jury abstains.

Guarantees: a member that fails is left out, and the judgment names it; with fewer members than the
    quorum, or if the jury abstains, there is a reason and no score, and never a default. Weights
    are 0 or more: negative ones look best on the rows that they were learned from, and fail on
    others. A member whose endpoint is down (`EndpointOutage`) is left out until it responds again;
    this ends a run only if the others are fewer than the quorum.

A jury does harm if its members are unequal or make the same errors: `judgegym replay` measures this
on recorded judgments, and learns weights.
"""

from __future__ import annotations

import logging
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, pstdev
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator
from pydantic_settings import NoDecode
from typing_extensions import Self

from judgegym.judges.config.fields import setting
from judgegym.judges.config.judge import JudgeSettings
from judgegym.judges.core.judge import JudgeDefinition, PartsDefinition
from judgegym.judges.core.judgment import CallRun, JudgeCall, Judgment, Status
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.parts.part import (
    Members,
    Part,
    PartOptions,
    PartsDetail,
    PartsJudge,
    parse_members,
    read_text,
)
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import EndpointOutage, drop_traceback
from judgegym.statistics.agreement import side

logger = logging.getLogger(__name__)

JuryRule = Literal["mean", "median", "trimmed_mean", "majority", "unanimous"]
JuryScale = Literal["own", "standardised", "rank"]


def _parse_mapping(value: object) -> object:
    """Parse an object from JSON, a file (`@path`), or `NAME=NUMBER,NAME=NUMBER`.

    Raises:
        ValueError: the text is none of these.
    """
    parsed = read_text(value)
    if not isinstance(parsed, list):
        return parsed
    invalid = [word for word in parsed if "=" not in str(word)]
    if invalid:
        raise ValueError(f"{invalid[0]!r}: expected NAME=NUMBER, JSON, or @FILE")
    return dict(word.rsplit("=", 1) for word in parsed)


_Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Score = Annotated[float, Field(allow_inf_nan=False)]


class JurySettings(JudgeSettings):
    """The members of a jury, and how their scores are combined."""

    judges: Members = setting({}, common=True)
    """With the judge jury: let these judges judge each response. A list such as
    [{"judge_model_name": "a"}, {"judge": "aspect", "name": "harm"}], or an object by names; each
    has the settings of its judge (rubric by default), and inherits unset ones from the command. Or
    names of models: gpt-6-luna,claude-sonnet-4-6. @FILE reads YAML or JSON."""
    jury_rule: JuryRule = setting("mean", common=True)
    """Combine the members' scores in this way. mean; median; trimmed_mean: the mean without the
    lowest and the highest fifth; majority: the most frequent score; unanimous: the mean, and no
    score unless all are on the same side of 0.5 or all are ties."""
    jury_weights: Annotated[dict[str, _Weight], NoDecode, BeforeValidator(_parse_mapping)] = (
        setting({})
    )
    """Weight the members: a=2,b=1, JSON, or @FILE. A member that is not named has weight 0: it is
    asked but does not count. If unset, all members have equal weights. judgegym replay --labels
    learns weights."""
    jury_quorum: int | None = setting(None, ge=1)
    """Give no score if fewer members than this have one. If unset, more than half of those with a
    weight are needed."""
    jury_scale: JuryScale = setting("own")
    """Bring the members' scores to one scale before combining them. own: unchanged. standardised:
    equal means and standard deviations on the rows of jury_sample. rank: the share of the sample's
    scores that are lower, plus half of the equal ones."""
    jury_sample: Annotated[dict[str, list[_Score]], NoDecode, BeforeValidator(_parse_mapping)] = (
        setting({})
    )
    """Give each member's scores (0 to 1) on the same rows, by its name; JSON or @FILE. judgegym
    replay writes them."""

    @property
    def part_names(self) -> list[str]:
        """The names of the members."""
        return list(self.judges)

    @property
    def is_jury(self) -> bool:
        """Whether there are members."""
        return bool(self.judges)

    def select_counting(self, names: Iterable[str]) -> list[str]:
        """Return the members that count, of these."""
        if not self.jury_weights:
            return list(names)
        return [name for name in names if self.jury_weights.get(name, 0.0) > 0.0]

    def quorum(self, names: Iterable[str]) -> int:
        """Return how many of the counting members must have a score."""
        return self.jury_quorum or len(self.select_counting(names)) // 2 + 1

    @model_validator(mode="after")
    def _is_a_jury(self) -> Self:
        if self.judges:
            self.check_members(list(self.judges))
        return self

    def check_members(self, names: Sequence[str]) -> None:
        """Check that these members can be a jury with these settings.

        Raises:
            ValueError: they cannot be one.
        """
        weights = self.jury_weights
        if len(names) < 2:
            name_count = len(names)
            raise ValueError(f"judges: a jury has two members or more, found {name_count}")
        unknown = [name for name in (*weights, *self.jury_sample) if name not in names]
        if unknown:
            name_list = ", ".join(names)
            raise ValueError(
                f"jury_weights, jury_sample: no member is named {unknown[0]!r}; the members are "
                f"{name_list}"
            )
        count = len(self.select_counting(names))
        if not count:
            raise ValueError("jury_weights: expected a member that counts, but all weights are 0")
        if weights and self.jury_rule == "trimmed_mean" and len({*weights.values()} - {0.0}) > 1:
            raise ValueError(
                "jury_weights: with jury_rule=trimmed_mean all members that count need the same "
                "weight"
            )
        if self.jury_quorum is not None and self.jury_quorum > count:
            raise ValueError(
                f"jury_quorum: {self.jury_quorum} of {count} members that count can never be "
                "reached"
            )
        without_scores = [name for name in names if len(self.jury_sample.get(name, ())) < 2]
        if self.jury_scale == "own" and self.jury_sample:
            raise ValueError(
                "jury_sample: nothing reads it with jury_scale=own; standardised and rank do"
            )
        if self.jury_scale != "own" and without_scores:
            lacking_list = ", ".join(without_scores)
            raise ValueError(
                f"jury_sample: jury_scale={self.jury_scale} needs scores of {lacking_list}"
            )
        flat = [name for name, scores in self.jury_sample.items() if pstdev(scores) == 0.0]
        if flat and self.jury_scale == "standardised":
            raise ValueError(
                f"jury_sample: all scores of {flat[0]} are equal, so that they cannot be "
                "standardised"
            )


def compute_jury_score(
    scores: Mapping[str, float], rule: JuryRule, weights: Mapping[str, float]
) -> float | None:
    """Combine the scores of the members that have one.

    Args:
        scores: from 0 to 1, by member.
        rule: how they are combined.
        weights: by member, 0 or more; empty for equal ones.

    Returns:
        From 0 to 1; `None` if `unanimous` members disagree, or no member that counts has a score.
    """
    counted = sorted(
        (score, weights.get(name, 0.0) if weights else 1.0) for name, score in scores.items()
    )
    counted = [(score, weight) for score, weight in counted if weight > 0.0]
    total = math.fsum(weight for _, weight in counted)
    if not counted:
        return None
    if rule == "median":
        return _median(counted, total)
    if rule == "majority":
        by_score: dict[float, float] = {}
        for score, weight in counted:
            by_score[round(score, 9)] = by_score.get(round(score, 9), 0.0) + weight
        highest_weight = max(by_score.values())
        return fmean(
            score for score, weight in by_score.items() if math.isclose(weight, highest_weight)
        )
    if rule == "trimmed_mean" and len(counted) > 2:
        cut = max(1, len(counted) // 5)
        counted = counted[cut:-cut]
        total = math.fsum(weight for _, weight in counted)
    elif rule == "unanimous" and len({side(score) for score, _ in counted}) > 1:
        return None
    return math.fsum(score * weight for score, weight in counted) / total


def _median(counted: Sequence[tuple[float, float]], total: float) -> float:
    """Return the weighted median of ascending scores.

    It is the mean of two scores if exactly half of the weight is on either side.
    """
    below = 0.0
    for index, (score, weight) in enumerate(counted):
        below += weight
        if math.isclose(below, total / 2.0):
            return (score + counted[index + 1][0]) / 2.0
        if below > total / 2.0:
            return score
    return counted[-1][0]


class JuryScales:
    """Brings the members' scores to one scale."""

    def __init__(self, scale: JuryScale, sample: Mapping[str, Sequence[float]]) -> None:
        """Align by the members' scores on a sample of rows."""
        self._scale, self._sample = scale, {name: sorted(scores) for name, scores in sample.items()}
        self._centre = fmean(map(fmean, sample.values())) if sample else 0.0
        self._spread = fmean(map(pstdev, sample.values())) if sample else 0.0

    def align(self, name: str, score: float) -> float:
        """Return a member's score, from 0 to 1, on the common scale, from 0 to 1."""
        if self._scale == "own":
            return score
        sample = self._sample[name]
        if self._scale == "rank":
            return (bisect_left(sample, score) + bisect_right(sample, score)) / (2.0 * len(sample))
        standardised = self._centre + self._spread * (score - fmean(sample)) / pstdev(sample)
        return min(1.0, max(0.0, standardised))


def compute_jury_scores(
    scores: Mapping[str, Sequence[float]], settings: JurySettings, *, quorum: int | None = None
) -> list[float]:
    """Compute the jury's score of each row; NaN below its quorum, or if it abstains.

    Args:
        scores: from 0 to 1, by member and row; NaN where a member has none.
        settings: the jury's settings.
        quorum: replaces the quorum of the settings.
    """
    scales = JuryScales(settings.jury_scale, settings.jury_sample)
    results = list[float]()
    counting = settings.select_counting(scores)
    required = quorum or settings.quorum(scores)
    for row in zip(*scores.values(), strict=True):
        present = {
            name: score for name, score in zip(scores, row, strict=True) if not math.isnan(score)
        }
        aligned = {name: scales.align(name, present[name]) for name in counting if name in present}
        if len(aligned) >= required:
            score = compute_jury_score(aligned, settings.jury_rule, settings.jury_weights)
        else:
            score = None
        results.append(math.nan if score is None else score)
    return results


class JuryJudge(PartsJudge[JurySettings, PartOptions]):
    """A judge that asks all members and combines their scores."""

    part_label = "member"

    def __init__(
        self, settings: JurySettings, client: ChatClient, parts: Sequence[Part[PartOptions]]
    ) -> None:
        """Set the members."""
        super().__init__(settings, client, parts)
        self.scales = JuryScales(settings.jury_scale, settings.jury_sample)
        names = [part.name for part in parts]
        self.counting, self.quorum = settings.select_counting(names), settings.quorum(names)
        self._outages: dict[str, EndpointOutage] = {}
        for part in parts:
            part.judge.client.is_spare = self._reaches_quorum

    def _align_scores(self, scores: Mapping[str, float | None]) -> dict[str, float]:
        """Return the scores, on the common scale, of the counting members that have one."""
        counted = ((name, scores.get(name)) for name in self.counting)
        return {
            name: self.scales.align(name, score) for name, score in counted if score is not None
        }

    async def judge(self, task: JudgeTask) -> Judgment[PartsDetail]:
        """Ask all members at once.

        There is no score below the quorum, or if a unanimous jury disagrees.

        Raises:
            EndpointOutage: so many members' endpoints are down that the quorum cannot be reached.
        """
        return self.combine_judgments(await self.ask(self.parts, task))

    def combine_judgments(self, judgments: Mapping[str, Judgment[Any]]) -> Judgment[PartsDetail]:
        """Make the jury's judgment from those of all members; raises as `judge` does.

        Its confidence `members` is 1 − the distance between the highest and the lowest score of the
        counting members.
        """
        scores = self._align_scores(self.unit_scores(judgments))
        values = scores.values()
        if scores:
            agreement = {"members": round(1.0 - (max(values) - min(values)), 9)}
        else:
            agreement = {}
        if len(scores) < self.quorum:
            outages = [self._outages[name] for name in self.counting if name in self._outages]
            remaining = len(self.counting) - len(outages)
            if outages and remaining < self.quorum:
                part_count = len(self.parts)
                reason = (
                    f"{outages[0]} (a jury of {part_count}: {remaining} are left, and the quorum "
                    f"is {self.quorum})"
                )
                raise EndpointOutage(reason, outages[0].exit_code)
            score_count = len(scores)
            reason = f"{score_count} members have a score, and the quorum is {self.quorum}"
            return self.make_judgment(judgments, None, reason=reason, confidences=agreement)
        value = compute_jury_score(scores, self.settings.jury_rule, self.settings.jury_weights)
        if value is None:
            score_list = ", ".join(f"{name} {score:.3g}" for name, score in scores.items())
            return self.make_judgment(
                judgments,
                None,
                reason=f"the members disagree ({score_list})",
                confidences=agreement,
            )
        return self.make_judgment(
            judgments, value, contributions=self._contributions(scores), confidences=agreement
        )

    async def judge_part(self, part: Part[PartOptions], task: Any) -> Judgment[Any]:
        """Return a member's judgment; an outage of its endpoint is a failed judgment."""
        try:
            judgment = await super().judge_part(part, task)
        except EndpointOutage as outage:
            if part.name not in self._outages:
                logger.warning(
                    "the member %s gives no judgments, and is left out: %s", part.name, outage
                )
            self._outages[part.name] = outage
            drop_traceback(outage)
            run = CallRun(attempts=outage.attempts, usage=outage.usage)
            call = JudgeCall[object](
                f"{part.name}/outage", "", None, None, str(outage), run, failed=True
            )
            return Judgment(None, Status.JUDGE_FAILED, explanation=str(outage), calls=(call,))
        if self._outages.pop(part.name, None) is not None:
            logger.warning("the member %s gives judgments again", part.name)
        return judgment

    def _reaches_quorum(self) -> bool:
        """Return whether the members whose endpoints have not been given up are enough."""
        available: set[str] = set()
        for part in self.parts:
            if part.may_abstain or not part.judge.client.is_given_up:
                available.add(part.name)
        return len(available & {*self.counting}) >= self.quorum

    def _contributions(self, scores: Mapping[str, float]) -> dict[str, float]:
        """Return what each member adds to the score, if that is a mean."""
        if self.settings.jury_rule != "mean":
            return {}
        weights = self.settings.jury_weights or dict.fromkeys(scores, 1.0)
        total = math.fsum(weights[name] for name in scores)
        return {name: score * weights[name] / total for name, score in scores.items()}


JUDGE = JudgeDefinition(
    JurySettings,
    "several judges, whose scores make one (--judges)",
    JuryJudge,
    parts=PartsDefinition("judges", "members", PartOptions, parse_members),
    confidences=frozenset(("members",)),
)
