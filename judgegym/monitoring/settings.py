"""The settings of the monitors of a training run, and of the gold judge beside it."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, JsonValue, model_validator
from typing_extensions import Self

from judgegym.judges.composite import check_fields
from judgegym.judges.config.fields import operational
from judgegym.judges.config.sources import settings_from_keywords
from judgegym.judges.scorers.registry import COMPOSITE, JUDGES, SINGLE, ScorerSettings
from judgegym.llm.errors import SettingsError

_ROLLOUTS = ("serve", "process")


class MonitorSettings(BaseModel, use_attribute_docstrings=True):
    """A gold judge, how many rollouts it sees, and when a gap is an alarm."""

    help_group: ClassVar[str] = "monitor"

    gold_judge: dict[str, JsonValue] = operational({}, verbs=_ROLLOUTS)
    """Let this judge score a sample of the rollouts beside training, never for the reward: an object with judge and the
    settings of that judge, {"judge": "rubric", "judge_model_name": "a-better-model"}. Settings that it leaves out have
    their defaults, not those of the training judge."""
    gold_share: float = operational(0.25, verbs=_ROLLOUTS, gt=0, le=1)
    """Let the gold judge see one rollout of this share of the groups, chosen by seed and row."""
    gold_ranked_share: float = operational(0.25, verbs=_ROLLOUTS, ge=0, le=1)
    """Of these groups, let it see all rollouts in this share, so that the order within groups can be compared."""
    gold_rollouts: int = operational(32, verbs=_ROLLOUTS, ge=8)
    """Compare both judges each time that so many groups have a rollout with both scores."""
    gold_reference: int = operational(384, verbs=_ROLLOUTS, ge=32)
    """Take the first so many of these rollouts as the reference: a gap that is there from the start is no alarm."""
    gold_tolerance: float = operational(0.05, verbs=_ROLLOUTS, gt=0)
    """Let the gap grow by this much, on the scale from 0 to 1, before anything counts as evidence."""
    gold_queue: int = operational(256, verbs=_ROLLOUTS, ge=1)
    """Keep at most so many rollouts waiting for the gold judge; further ones are not scored, and counted."""
    gold_budget_calls: int | None = operational(None, verbs=_ROLLOUTS, ge=1)
    """Send at most so many requests to the gold judge."""
    gold_budget_usd: float | None = operational(None, verbs=_ROLLOUTS, gt=0)
    """Spend at most so many US dollars on the gold judge."""

    @model_validator(mode="after")
    def _gold_judge_is_usable(self) -> Self:
        if self.gold_judge:
            try:
                self.gold_scorer()
            except SettingsError as error:
                raise ValueError(str(error)) from None
        return self

    def gold_scorer(self) -> ScorerSettings:
        """Return the settings of the gold judge.

        Raises:
            SettingsError: a setting is unknown or wrong.
            ValueError: it compares responses, or a secret would be kept in files.
        """
        kind = self.gold_judge.get("judge")
        if kind not in SINGLE or kind == COMPOSITE:
            kinds = ", ".join(one for one in JUDGES if one in SINGLE and one != COMPOSITE)
            raise ValueError(f"gold_judge.judge: expected one of {kinds}, found {kind!r}")
        check_fields("gold_judge.", self.gold_judge)
        return settings_from_keywords(ScorerSettings, self.gold_judge, prefix="gold_judge.")
