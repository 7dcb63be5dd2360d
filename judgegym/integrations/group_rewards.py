"""The rewards of samples that a trainer gives one by one, and that meet in groups: settings, and what scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from judgegym.integrations.scores.groups import GROUP_WAIT_S, GatheringSettings, SampleBatcher, judged_by
from judgegym.integrations.scores.sources import RewardSettings, is_of_groups
from judgegym.llm.errors import SettingsError

if TYPE_CHECKING:
    from typing_extensions import Self

    from judgegym.integrations.single_turn import EnvironmentSource


@dataclass(frozen=True, kw_only=True)
class GroupSettings(RewardSettings):
    """The settings of a judge or an environment for samples that meet in groups.

    One of `url`, `judge` and `environment` is set.

    Attributes:
        environment: instead: an environment, whose rewards these are: a name, a source, or the arguments of
            `EnvironmentSource.of`.
        together: whether the samples of a prompt are one request; by default if `judge` is one that
            compares, or `environment` has a `group_judge`.
        group_wait_s: seconds after its first sample for which a group waits for the others.
        on_failure: `leave_out`: a failed judgment adds nothing to the loss; or `score`: the mean of its group, or
            `fallback_score`, may be trained as a reward.
    """

    environment: EnvironmentSource | Mapping[str, object] | str | None = None
    together: bool | None = None
    group_wait_s: float = GROUP_WAIT_S
    on_failure: str = "leave_out"

    @classmethod
    def of(cls, given: object, *, within: str) -> Self:
        """See `JudgeSource`.

        Raises:
            SettingsError: a setting is unknown, or cannot work.
        """
        settings = super().of(given, within=within)
        if settings.on_failure not in ("leave_out", "score"):
            raise SettingsError(f"{within}.on_failure: expected leave_out or score, found {settings.on_failure!r}")
        if sum(each is not None for each in (settings.url, settings.judge, settings.environment)) != 1:
            raise SettingsError(f"{within}: expected one of url, judge and environment")
        if settings.environment is None:
            settings.scoring()  # so that a setting that cannot work is told here
            return settings
        from judgegym.integrations.single_turn import source_of  # late: it needs all packages

        return replace(settings, environment=source_of(settings.environment))

    @property
    def compares(self) -> bool:
        """Whether the samples of a prompt are judged together; an environment is opened to know it.

        Raises:
            SettingsError: a setting of the environment is wrong.
            DataError: its rows cannot be loaded.
        """
        if self.together is not None:
            return self.together
        if self.environment is not None:
            from judgegym.integrations.single_turn import opened, source_of  # late: it needs all packages

            return opened(source_of(self.environment)).compares  # wherever its `group_judge` comes from
        return self.judge is not None and is_of_groups(self.judge)

    def gathering(self, size: int) -> SampleBatcher:
        """What scores samples one by one, and lets those of a prompt meet.

        Args:
            size: how many samples a prompt has.

        Raises:
            SettingsError: a setting is wrong.
        """
        settings = GatheringSettings(
            size=size,
            together=self.compares,
            wait_s=self.group_wait_s,
            fallback_score=self.fallback_score,
            invalid_completion_score=self.invalid_completion_score,
        )
        if self.environment is None:
            return SampleBatcher(judged_by(self.scoring(), settings), settings)
        from judgegym.integrations.single_turn import judged_in, source_of  # late: it needs all packages

        if self.url is not None or self.judge is not None:
            raise SettingsError("expected one of url, judge and environment")
        return SampleBatcher(judged_in(source_of(self.environment), deadline_s=self.deadline_s), settings)
