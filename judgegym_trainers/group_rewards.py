"""Settings of trainers whose samples arrive one by one and are gathered into groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from judgegym.llm.errors import SettingsError
from judgegym_trainers.scores.groups import GROUP_WAIT_S, SampleBatcher
from judgegym_trainers.scores.sources import RewardScorer, RewardSettings


@dataclass(frozen=True, kw_only=True)
class GroupSettings(RewardSettings):
    """Settings of a judge or an environment for samples that are gathered into groups.

    Exactly one of `url`, `judge` and `environment` is set.

    Attributes:
        environment: instead, an environment for its rewards: a name, a source, or the arguments of
            `EnvironmentSource.from_settings`.
        together: whether the samples of a prompt are one request; by default if `judge` compares or
            is a cascade, or if the rewards of `environment` depend on each other.
        group_wait_s: seconds after its first sample for which a group waits for the others.
        on_failure: `leave_out`: a failed judgment adds nothing to the loss; or `score`: the mean of
            its group, or `fallback_score`, may be trained as a reward.
    """

    environment: Any = None
    together: bool | None = None
    group_wait_s: float = GROUP_WAIT_S
    on_failure: str = "leave_out"

    def __post_init__(self) -> None:
        """Check the settings.

        Raises:
            SettingsError: a setting cannot work.
        """
        super().__post_init__()
        if sum(source is not None for source in (self.url, self.judge, self.environment)) != 1:
            raise SettingsError("url: expected one of url, judge and environment")
        if self.environment is not None:
            from judgegym_trainers.single_turn import parse_source  # late: it needs all packages

            object.__setattr__(self, "environment", parse_source(self.environment))

    @property
    def compares(self) -> bool:
        """Whether a prompt's samples are judged together; an environment is opened to find out.

        Raises:
            SettingsError: a setting of the environment is wrong.
            DataError: its rows cannot be loaded.
        """
        if self.together is not None or self.environment is None:
            if self.together is None:
                return super().compares
            return self.together
        from judgegym_trainers.single_turn import get_environment

        return get_environment(self.environment).compares  # wherever its `group_judge` comes from

    @property
    def depends_on_group(self) -> bool:
        """Whether samples need their prompt's others for scores on one scale.

        Raises:
            SettingsError: a setting of the environment is wrong.
            DataError: its rows cannot be loaded.
        """
        if self.environment is None:
            return super().depends_on_group
        from judgegym_trainers.single_turn import get_environment

        return get_environment(self.environment).depends_on_group

    def make_scorer(self) -> RewardScorer:
        """Make a scorer with connections of its own.

        Raises:
            SettingsError: a setting is wrong.
        """
        if self.environment is None:
            return super().make_scorer()
        from judgegym_trainers.single_turn import EnvironmentScores

        return RewardScorer(EnvironmentScores(self.environment), deadline_s=self.deadline_s)

    def make_batcher(self, size: int) -> SampleBatcher:
        """Make a batcher that scores samples one by one, and gathers those of a prompt.

        Args:
            size: number of samples of a prompt.

        Raises:
            SettingsError: a setting is wrong.
        """
        together = self.compares or (self.together is None and size > 1 and self.depends_on_group)
        return SampleBatcher(
            self.make_scorer().score,
            size=size,
            together=together,
            may_be_alone=together and self.depends_on_group,
            wait_s=self.group_wait_s,
            fallback_score=self.fallback_score,
            invalid_completion_score=self.invalid_completion_score,
        )
