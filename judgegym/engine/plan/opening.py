"""What every plan begins with: clients without a key, and how long replies are taken to be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from judgegym.engine.plan.client import DryRun
from judgegym.engine.plan.earlier import EarlierRun
from judgegym.engine.settings.plan import USUAL_TOKENS, PlanTokens
from judgegym.judges.config.endpoint import ASKS_ENDPOINTS
from judgegym.judges.core.tasks import TaskJudge
from judgegym.judges.scorers.registry import ScorerSettings, open_judge
from judgegym.llm.at_once import holding
from judgegym.offline.answers import known_prompts


@contextmanager
def planning() -> Iterator[None]:
    """Let clients that are opened inside need no key."""
    with holding(ASKS_ENDPOINTS, False):
        yield


def assumed_tokens(given: PlanTokens, earlier: EarlierRun, *, is_offline: bool) -> Mapping[bool, float | None]:
    """The tokens of a policy's completion (`True`) and of any other reply; `None`: as many as the stand-in's have.

    Args:
        given: by the user.
        earlier: the run that is resumed.
        is_offline: stand-ins are asked.
    """
    usual = None if is_offline else USUAL_TOKENS
    return {of: given if isinstance(given, int) else replies.mean or usual for of, replies in earlier.replies.items()}


def open_dry_judge(settings: ScorerSettings, dry: DryRun | None = None) -> TaskJudge:
    """The judge that the settings name, which asks nobody.

    Args:
        settings: of the judge.
        dry: counts what it asks.

    Raises:
        SettingsError: the judge's settings are wrong.
    """
    counting = dry or DryRun(formats=known_prompts(settings))
    with planning():
        return open_judge(settings, counting.open(settings.chat_settings(section="")))
