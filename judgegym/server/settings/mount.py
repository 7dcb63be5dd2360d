"""One judge of the reward server: its settings, and how single responses are gathered for it."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from judgegym.judges.config.fields import setting
from judgegym.judges.scorers.registry import MOST_TOGETHER, ScorerSettings
from judgegym.llm.errors import SettingsError


class CohortPlan(NamedTuple):
    """How single responses are gathered: so many, for at most so many seconds."""

    size: int
    wait_s: float


class JudgeMount(ScorerSettings):
    """One judge of the server: its kind, its settings, and how single responses are gathered for it."""

    how_to_gather: ClassVar[str] = "a server with --group_size gathers single ones"

    group_size: int | None = setting(
        None,
        "Gather responses to one prompt that arrive in requests of their own, until there are this many, and judge "
        "them together (judges listwise, tournament, arena_hard, choice). If unset, only those of one request.",
        ge=2,
        common=True,
    )
    group_wait: float | None = setting(
        None,
        "With --group_size: judge those that are there this many seconds after the first one; later ones are flagged "
        "as failed. The rest of the deadline is the judge's. If unset, half of --deadline.",
        gt=0,
    )

    def cohorts(self, deadline_s: float, prefix: str = "") -> CohortPlan | None:
        """How single responses are gathered; `None` if they are not.

        Args:
            deadline_s: seconds within which each response has a result.
            prefix: what an error begins with, before the name of the setting.

        Raises:
            SettingsError: the judge sees each response alone or takes fewer, or no time is left for it.
        """
        if self.group_size is None and self.group_wait is not None:
            raise SettingsError(f"{prefix}group_wait: nothing is gathered without {prefix}group_size")
        if self.group_size is None:
            return None
        most = MOST_TOGETHER.get(self.judge)
        if most is None:
            raise SettingsError(
                f"{prefix}group_size: the judge {self.judge} sees each response alone; those that compare responses "
                f"are {', '.join(MOST_TOGETHER)}"
            )
        if self.group_size > most:
            raise SettingsError(
                f"{prefix}group_size: the judge {self.judge} compares at most {most} responses, found {self.group_size}"
            )
        wait_s = deadline_s / 2 if self.group_wait is None else self.group_wait
        if wait_s >= deadline_s:
            raise SettingsError(
                f"{prefix}group_wait: expected less than the deadline of {deadline_s:g} s, of which the rest is the "
                f"judge's; found {wait_s:g}"
            )
        return CohortPlan(self.group_size, wait_s)

    @property
    def gathers(self) -> bool:
        """Whether single responses are gathered."""
        return self.group_size is not None
