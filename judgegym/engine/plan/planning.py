"""Planning of a command: its rows or groups are run with counting clients."""

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
    """The rows or groups of a run, with its clients.

    Attributes:
        unit: the noun for one of them.
    """

    unit: ClassVar[str] = "row"

    @abstractmethod
    def left(self, run: Path | None) -> Sequence[int]:
        """Return the numbers of a run directory's unfinished rows; all for a new run (`None`)."""

    @abstractmethod
    def uid(self, number: int) -> str:
        """Return the row's id in the ledger."""

    @abstractmethod
    async def step(self, earlier: EarlierRun, number: int) -> None:
        """Run one row or group, with the responses of an earlier part of the run."""

    @abstractmethod
    async def estimate_rest(self, run: Path | None) -> PlanEstimate:
        """Estimate the rest of the run, such as anchors."""

    @property
    @abstractmethod
    def head(self) -> Iterable[tuple[str, str]]:
        """The first lines of the plan after the estimate: labels and texts."""

    @property
    def notes(self) -> Iterable[str]:
        """Sentences with what else a reader must know."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """The settings of a run that its plan needs.

    Attributes:
        tokens: the setting `plan`.
        is_offline: whether stand-ins are used.
        seed: the seed for choosing the rows to run.
        budget: the run's budget.
        batch_share: the price of a judge's request in a batch, as a share of its live price.
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
        source: the run's rows.
        dry: collects the clients' counts.
        options: the run's settings.

    Raises:
        UserError: the run itself would not begin, or an earlier part of it cannot be read.
    """
    run, left = options.run, source.left(options.run)
    chosen = draw_rows(left, options.seed)
    earlier = EarlierRun()
    if run is not None:
        earlier = EarlierRun.read(run, frozenset(map(source.uid, chosen)))
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
    """Let clients that are opened in the block need no key."""
    with bind_context(ASKS_ENDPOINTS, False):
        yield


def assume_tokens(
    tokens: PlanTokens, earlier: EarlierRun, *, is_offline: bool
) -> Mapping[bool, float | None]:
    """Return the assumed tokens of a policy's completion (`True`) and of other replies.

    `None`: as many as the stand-in's replies have.

    Args:
        tokens: the user's setting.
        earlier: the resumed run.
        is_offline: whether stand-ins are used.
    """
    usual = None
    if not is_offline:
        usual = USUAL_TOKENS
    return {
        is_policy: tokens if isinstance(tokens, int) else replies.mean or usual
        for is_policy, replies in earlier.replies.items()
    }


def open_dry_judge(settings: AnyJudgeSettings, dry: DryRun | None = None) -> TaskJudge:
    """Open the judge of the settings with a client that asks nobody.

    Args:
        settings: the judge's settings.
        dry: counts its requests.

    Raises:
        SettingsError: the judge's settings are invalid.
    """
    counting = dry or DryRun(formats=load_known_prompts(settings))
    with planning():
        return open_judge(settings, counting.open(settings.chat_settings(section="")))
