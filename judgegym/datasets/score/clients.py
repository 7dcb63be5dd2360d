"""The clients of a run: the judge, and the policy that samples responses; or stand-ins.

Guarantee: `--offline` calls no endpoint; naming one on the command line is an error then.

`resume_command` returns the command that resumes a run; it holds no secrets.

The budget is that of the whole run: what earlier commands have spent, by the ledger, counts. A
command that is repeated with `--resume` spends the budget once.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from judgegym.datasets.score.settings import ScoreSettings
from judgegym.engine.completions import Policy, RunClients
from judgegym.engine.settings.policy import STAND_IN_JUDGE, STAND_IN_POLICY
from judgegym.environments.command_line.arguments import redact_command_line
from judgegym.environments.command_line.offline import STAND_IN_URL
from judgegym.judges.config.batches import open_client
from judgegym.judges.config.endpoint import STAND_IN_IDENTITY
from judgegym.judges.config.sources import LoadedSettings
from judgegym.judges.scorers.stand_in import list_references
from judgegym.llm.cache import JudgmentCache
from judgegym.llm.client import ChatClient
from judgegym.llm.cost.budget import Budget, Expense
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON

if TYPE_CHECKING:
    from judgegym.engine.plan.client import DryRun

logger = logging.getLogger(__name__)

_ENDPOINTS = ("judge_base_url", "openai.base_url", "openai.replicas")


class ScoreClients(RunClients):
    """The judge and the policy of a run.

    Attributes:
        judge: the judge's client.
        policy: the policy; `None` if the data's own responses are judged.
    """

    def __init__(
        self, judge: ChatClient, policy: Policy | None = None, budget: Budget | None = None
    ) -> None:
        """Take open clients that share the budget."""
        super().__init__(budget)
        self.judge, self.policy = self.add("judge", judge), policy
        if policy is not None:
            self.add("policy", policy.client)


@asynccontextmanager
async def open_clients(
    loaded: LoadedSettings[ScoreSettings], budget: Budget | None, dry_run: DryRun | None = None
) -> AsyncIterator[ScoreClients]:
    """Open the clients, which share the budget, for the duration of the block.

    Args:
        loaded: the settings, and where each was set.
        budget: the run's budget.
        dry_run: counts the calls, in place of all endpoints and stand-ins.

    Raises:
            SettingsError: a key is missing, the stand-ins' faults are wrong, or `--offline` is
                combined with an endpoint.
    """
    settings = loaded.settings
    endpoint_flags = [name for name in _ENDPOINTS if loaded.origins.get(name) == "command line"]
    if settings.offline and endpoint_flags:
        raise SettingsError(
            f"--{endpoint_flags[0]}: --offline uses stand-ins instead of endpoints; leave out one "
            "of the two"
        )
    async with AsyncExitStack() as stack:
        urls: Mapping[str, str] = {}
        make, make_cache = (
            (ChatClient, JudgmentCache) if dry_run is None else (dry_run.open, dry_run.open_cache)
        )
        if dry_run is not None:
            urls = dict.fromkeys(settings.stand_ins, STAND_IN_URL)
        elif settings.stand_ins:
            from judgegym.offline import (
                running_stand_ins,
            )  # late: only offline use starts a child process

            judges = {role: role == "judge" for role in settings.stand_ins}
            urls = await stack.enter_async_context(
                running_stand_ins(judges, settings.faults, list_references(settings))
            )
        judge = settings
        if "judge" in urls:
            judge = settings.replace_endpoint(urls["judge"], STAND_IN_JUDGE)
        identity = STAND_IN_IDENTITY if "judge" in urls else ""
        shared: dict[str, Any] = {"budget": budget, "make": make}
        delay = settings.retry_delay
        client = await open_client(
            stack, judge, identity=identity, retry_delay=delay, make_cache=make_cache, **shared
        )
        yield ScoreClients(
            client, await _open_policy(stack, settings, urls.get("policy"), **shared), budget
        )


async def _open_policy(
    stack: AsyncExitStack,
    settings: ScoreSettings,
    stand_in: str | None,
    *,
    budget: Budget | None,
    make: Callable[..., ChatClient],
) -> Policy | None:
    """Open the policy; return `None` if the run needs none."""
    if settings.responses_per_prompt is None:
        return None
    openai, count = settings.openai, settings.responses_per_prompt
    if settings.eval_temperature == 0 and count > 1:
        logger.warning("at temperature 0, the %d responses to a prompt are all the same", count)
    if stand_in is not None:
        stand_in_settings: dict[str, JSON] = {
            "base_url": stand_in,
            "replicas": [],
            "api": "openai",
            "api_key": None,
            "model_name": STAND_IN_POLICY,
        }
        openai = openai.model_copy(update=stand_in_settings)
    chat = openai.chat_settings(settings, max_concurrency=openai.num_requests_for_eval, section="")
    return Policy(await stack.enter_async_context(make(chat, budget=budget)), settings)


def resume_command(
    settings: ScoreSettings, command: Sequence[str], spent: Expense | None = None
) -> str:
    """Return the user's command with `--resume`.

    Args:
        settings: the run's settings.
        command: the words of the command, as the user typed them.
        spent: what the whole run has spent, if its budget is used up.
    """
    words, hint = redact_command_line(settings, command)
    resumed = [*(word for word in words if word not in ("--resume", "--no-resume")), "--resume"]
    if spent is not None:
        resumed = settings.enlarge_command(resumed, spent)
    return shlex.join(resumed) + hint


def describe_progress(judged: int, total: int, out: Path) -> str:
    """Describe what an unfinished run has kept.

    Args:
        judged: the responses that have ended with a score or a failure.
        total: all responses.
        out: the run's output file; an earlier run, whose failures were judged again, may have
            written it.
    """
    file = f"{out} is as an earlier run has left it" if out.exists() else f"{out} is not written"
    return f"{judged:,} of {total:,} responses are judged and kept; {file}"
