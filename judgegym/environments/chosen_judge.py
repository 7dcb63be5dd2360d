"""The settings of an environment whose judge the user chooses: any that sees each response by itself."""

from __future__ import annotations

from pydantic import field_validator

from judgegym.engine.settings.env import EnvConfig
from judgegym.judges.config.fields import setting
from judgegym.judges.scorers.registry import SINGLE, USUAL, about, all_kinds, check_sees_each_alone
from judgegym.judges.scorers.settings import AnyJudgeSettings, JudgeKind


class ChosenJudgeSettings(AnyJudgeSettings):
    """Which judge of single responses scores the completions."""

    judge: JudgeKind = setting(USUAL, about(SINGLE), common=True)

    @classmethod
    def readers(cls, name: str) -> list[str]:
        """The judges that see each response by itself and read a setting."""
        comparing = {f"judge={kind}" for kind, judge in all_kinds().items() if judge.most_together is not None}
        return [choice for choice in super().readers(name) if choice not in comparing]

    @field_validator("judge")
    @classmethod
    def _sees_each_alone(cls, value: str) -> str:
        check_sees_each_alone(value, "judge")
        return value


class AnyJudgeConfig(ChosenJudgeSettings, EnvConfig):
    """The settings of an environment whose judge the user chooses."""
