"""Settings of a training run's monitors, gold judge and signal meter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BaseModel, JsonValue, field_validator, model_validator
from typing_extensions import Self

from judgegym.judges.config.budgets import BUDGETS, BudgetSettings
from judgegym.judges.config.fields import operational
from judgegym.judges.config.sources import settings_from_keywords
from judgegym.judges.parts.part import check_fields
from judgegym.judges.prompt_files.settings import PromptJudgeSettings
from judgegym.judges.scorers.own_kinds import CODE_SETTINGS
from judgegym.judges.scorers.registry import check_is_single
from judgegym.judges.scorers.sections import flat_settings
from judgegym.judges.scorers.settings import AnyJudgeSettings, replace_card
from judgegym.llm.cost.budget import Budget
from judgegym.llm.errors import SettingsError
from judgegym.monitoring.alarms import check_alarm_action
from judgegym.monitoring.monitors import MONITORS
from judgegym.statistics.signal import MIN_GROUPS, Advantage

_ROLLOUTS = ("serve", "process")
_PROCESS, _SERVE = ("process",), ("serve",)


_ALARM = "alarm"
Limits = Mapping[str, tuple[float | None, float | None]]
"""Lowest and highest value of monitors, by name; `None` for no such limit."""


class MonitorSettings(BaseModel, use_attribute_docstrings=True):
    """Settings of the gold judge, its alarm, and the limits of other monitors."""

    help_group: ClassVar[str] = "monitor"

    gold_judge: dict[str, JsonValue] = operational({}, verbs=_ROLLOUTS)
    """Let this judge score a sample of the rollouts beside training, never for the reward: an
    object with judge and the settings of that judge, {"judge": "rubric", "judge_model_name":
    "a-better-model"}. Settings that it leaves out have their defaults, not those of the training
    judge. budget_calls and budget_usd in the object limit its requests and its cost in US
    dollars."""
    gold_share: float = operational(0.25, verbs=_ROLLOUTS, gt=0, le=1)
    """Let the gold judge see one rollout of this share of the groups, and all rollouts of a quarter
    of these, chosen by seed and row."""
    gold_rollouts: int = operational(32, verbs=_ROLLOUTS, ge=8)
    """Compare both judges each time that this many groups have a rollout with both scores."""
    gold_reference: int = operational(384, verbs=_ROLLOUTS, ge=32)
    """Take this many rollouts with both scores, from the start, as the reference: a gap that exists
    from the start is no alarm."""
    gold_tolerance: float = operational(0.05, verbs=_ROLLOUTS, gt=0)
    """Let the gap grow by this much, on the scale from 0 to 1, before anything counts as
    evidence."""

    monitor_every: int = operational(16, verbs=_PROCESS, ge=1)
    """Write the monitors' values each time that this many groups are judged. serve writes them at
    each step."""
    monitor_limits: dict[str, float | list[float | None]] = operational({}, verbs=_ROLLOUTS)
    """Mark the monitors that exceed these limits, by name: a number is the highest value, a list of
    two the lowest and the highest (null for none), as in {"length_mean": 900,
    "reward_spread_within": [0.05, null]}. With "alarm": true a monitor that exceeds its limit three
    times in a row raises an alarm, once a run. Nothing bounds how often such an alarm is false:
    these values drift in healthy runs, too."""

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        for name, limit in self.monitor_limits.items():
            if name == _ALARM and limit in (0.0, 1.0):  # true or false
                continue
            if name not in MONITORS:
                names = ", ".join(MONITORS)
                raise ValueError(
                    f"monitor_limits: there is no monitor {name!r}; expected one of {names}"
                )
            if isinstance(limit, list) and (len(limit) != 2 or limit == [None, None]):
                raise ValueError(
                    f"monitor_limits.{name}: expected the lowest and the highest value, found "
                    f"{limit}"
                )
        return self

    @property
    def limits(self) -> Limits:
        """Limits of the monitors."""
        return {
            name: (limit[0], limit[1]) if isinstance(limit, list) else (None, limit)
            for name, limit in self.monitor_limits.items()
            if name != _ALARM
        }

    @property
    def limits_alarm(self) -> bool:
        """Whether a monitor beyond its limit raises an alarm."""
        return bool(self.monitor_limits.get(_ALARM))

    @model_validator(mode="after")
    def _check_gold_judge(self) -> Self:
        if self.gold_judge:
            try:
                scorer = self.gold_scorer()
            except SettingsError as error:
                raise ValueError(str(error)) from None
            replace_card(self.gold_judge)
            # A prompt file's content replaces its name; for the user's code, its digest or
            # package is noted.
            if scorer.match_settings(PromptJudgeSettings):
                file_settings = {"judge", "judge_prompt"}
            else:
                file_settings = {*CODE_SETTINGS}
            self.gold_judge.update(scorer.model_dump(mode="json", include=file_settings))
        return self

    def gold_scorer(self) -> AnyJudgeSettings:
        """Return the settings of the gold judge.

        Raises:
            SettingsError: a setting is unknown or wrong.
            ValueError: the judge compares responses, or a secret would be written to files.
        """
        values = flat_settings(
            {name: value for name, value in self.gold_judge.items() if name not in BUDGETS}
        )
        try:
            judge = AnyJudgeSettings.expand_short_forms(values)
        except ValueError as error:
            raise ValueError(f"gold_judge.{error}") from None
        check_is_single(judge.get("judge"), "gold_judge.judge")
        self.gold_budget()
        check_fields("gold_judge.", judge)
        return settings_from_keywords(AnyJudgeSettings, judge, prefix="gold_judge.", others=BUDGETS)

    def gold_budget(self) -> Budget:
        """Return the budget of the gold judge.

        Raises:
            SettingsError: a limit is not a number above 0.
        """
        limits = {name: self.gold_judge[name] for name in BUDGETS if name in self.gold_judge}
        budget = settings_from_keywords(BudgetSettings, limits, prefix="gold_judge.")
        return Budget(budget.budget_calls, budget.budget_usd)


class SignalSettings(BaseModel, use_attribute_docstrings=True):
    """Settings of the signal meter, which judges some groups twice."""

    help_group: ClassVar[str] = "monitor"

    signal_groups: int = operational(0, verbs=_ROLLOUTS, ge=0, le=1024)
    """Judge this many groups, chosen by seed and row, a second time, and report how much of the
    gradient is noise of the judge; 0: none. The second judgments are calls of the training judge
    and count in its budget; no reward depends on them. 64 tell a share to about 0.13; fewer than 32
    are too few to tell."""
    signal_advantage: Advantage = operational("deviation", verbs=_ROLLOUTS)
    """Measure the signal in this advantage, your trainer's. deviation: centred on the group's mean
    and divided by its standard deviation (GRPO); centre: centred only; rloo: minus the mean of the
    others; dr_grpo: centred only, as in Dr. GRPO."""

    @field_validator("signal_groups")
    @classmethod
    def _check_signal_groups(cls, groups: int) -> int:
        if 0 < groups < MIN_GROUPS:
            raise ValueError(
                f"signal_groups: expected 0 (off) or at least {MIN_GROUPS}, since fewer groups are "
                f"too few to tell; got {groups}"
            )
        return groups


class AlarmSettings(BaseModel, use_attribute_docstrings=True):
    """Settings of `serve` for alarms."""

    help_group: ClassVar[str] = "monitor"

    on_alarm: Annotated[str, AfterValidator(check_alarm_action)] = operational("log", verbs=_SERVE)
    """log: continue. pause: send no group, so that the trainer waits, until SIGUSR1 or a file named
    resume in the run directory; pause:600 also continues after so many seconds; groups in progress
    are finished and kept. exit: end as on a signal, with exit code 3; --resume continues."""
