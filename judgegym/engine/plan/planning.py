"""A plan from its source: the rows or groups of a command, each run with clients that count."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

from judgegym.engine.plan.client import DryRun
from judgegym.engine.plan.earlier import EarlierRun
from judgegym.engine.plan.estimate import PlanEstimate, draw_rows, estimate
from judgegym.engine.plan.lines import Plan
from judgegym.engine.settings.plan import USUAL_TOKENS, PlanTokens
from judgegym.judges.config.budgets import BudgetSettings
from judgegym.judges.config.endpoint import ASKS_ENDPOINTS
from judgegym.judges.core.tasks import TaskJudge
from judgegym.judges.scorers.opening import open_judge
from judgegym.judges.scorers.settings import AnyJudgeSettings
from judgegym.llm.at_once import bind_context
from judgegym.offline.answers import load_known_prompts


class PlanSource(ABC):
    """The rows of a run, or its groups, with its clients.

    Attributes:
        unit: what one of them is called.
    """

    unit: ClassVar[str] = "row"

    @abstractmethod
    def left(self, run: Path | None) -> Sequence[int]:
        """Return the numbers of those that the run in a directory has not finished; all for a new run (`None`)."""

    @abstractmethod
    def uid(self, number: int) -> str:
        """Return the row's id in the ledger."""

    @abstractmethod
    async def step(self, earlier: EarlierRun, number: int) -> None:
        """Run one, with what an earlier part of the run was answered."""

    @abstractmethod
    async def estimate_rest(self, run: Path | None) -> PlanEstimate:
        """Estimate what the run asks besides, such as for anchors."""

    @property
    @abstractmethod
    def head(self) -> Iterable[tuple[str, str]]:
        """The first lines of the plan, once all is estimated: labels and words."""

    @property
    def notes(self) -> Iterable[str]:
        """What else a reader must know, in sentences."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """The settings of a run that its plan reads.

    Attributes:
        tokens: the setting `plan`.
        is_offline: stand-ins are asked.
        seed: chooses the rows that are gone through.
        budget: of the run.
        batch_share: what a judge's request costs in a batch, as a share of what it costs live.
        run: the directory of the run to resume; `None` for a new one.
    """

    tokens: PlanTokens
    is_offline: bool
    seed: int
    budget: BudgetSettings
    batch_share: float
    run: Path | None


async def plan_run(source: PlanSource, dry: DryRun, options: PlanOptions) -> Plan:
    """Plan a run.

    Args:
        source: its rows.
        dry: what its clients count in.
        options: its settings.

    Raises:
        UserError: the run would not begin either, or an earlier part of it cannot be read.
    """
    run, left = options.run, source.left(options.run)
    chosen = draw_rows(left, options.seed)
    earlier = (
        EarlierRun() if run is None else EarlierRun.read(run, frozenset(map(source.uid, chosen)))
    )
    dry.reply_tokens = assume_tokens(options.tokens, earlier, is_offline=options.is_offline)
    dry.cached_share = earlier.cached_share
    plan_estimate = await estimate(dry, partial(source.step, earlier), chosen, len(left))
    plan_estimate += await source.estimate_rest(run)
    return Plan(
        estimate=plan_estimate,
        unit=source.unit,
        head=[*source.head],
        dry=dry,
        budget=options.budget,
        batch_share=options.batch_share,
        earlier=(earlier,),
        notes=[*source.notes],
    )


@contextmanager
def planning() -> Iterator[None]:
    """Let clients that are opened inside need no key."""
    with bind_context(ASKS_ENDPOINTS, False):
        yield


def assume_tokens(
    tokens: PlanTokens, earlier: EarlierRun, *, is_offline: bool
) -> Mapping[bool, float | None]:
    """The tokens of a policy's completion (`True`) and of any other reply; `None`: as many as the stand-in's have.

    Args:
        tokens: by the user.
        earlier: the run that is resumed.
        is_offline: stand-ins are asked.
    """
    usual = None if is_offline else USUAL_TOKENS
    return {
        is_policy: tokens if isinstance(tokens, int) else replies.mean or usual
        for is_policy, replies in earlier.replies.items()
    }


def open_dry_judge(settings: AnyJudgeSettings, dry: DryRun | None = None) -> TaskJudge:
    """Return the judge that the settings name, which asks nobody.

    Args:
        settings: of the judge.
        dry: counts what it asks.

    Raises:
        SettingsError: the judge's settings are wrong.
    """
    counting = dry or DryRun(formats=load_known_prompts(settings))
    with planning():
        return open_judge(settings, counting.open(settings.chat_settings(section="")))
