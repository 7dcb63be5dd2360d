"""Runs the stand-ins of `--offline`; `offline_settings` decides which endpoints they stand in for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from judgegym.engine.settings import ConfigT, EnvSettings
from judgegym.environments.command_line.offline_settings import STAND_IN_URL
from judgegym.judges.config.sources import LoadedSettings
from judgegym.judges.core.prompt_format import PromptFormat
from judgegym.llm.errors import SettingsError
from judgegym.offline import StandIn


@dataclass(frozen=True, slots=True)
class StandIns:
    """Which endpoints are stand-ins."""

    judge: bool
    policy: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the stand-ins, for messages."""
        return tuple(name for name, is_one in (("judge", self.judge), ("policy", self.policy)) if is_one)


def stand_ins(loaded: LoadedSettings[EnvSettings[ConfigT]]) -> StandIns:
    """Which endpoints of these settings are stand-ins."""
    settings = loaded.settings
    asked = settings.env.endpoints_asked(settings.verb, settings.openai.urls)
    return StandIns(judge=STAND_IN_URL in asked.judge, policy=STAND_IN_URL in asked.policy)


@asynccontextmanager
async def running(
    loaded: LoadedSettings[EnvSettings[ConfigT]],
    prompts: Sequence[str | PromptFormat] = (),
    *,
    with_policy: bool = True,
) -> AsyncIterator[EnvSettings[ConfigT]]:
    """Start the stand-ins for the duration of the block; yields the settings with their URLs.

    Args:
        loaded: the settings.
        prompts: the environment's `offline_prompts`.
        with_policy: whether a stand-in of the policy is needed; not where a trainer samples by itself.

    Raises:
        SettingsError: the latency, the faults or a prompt of the stand-ins is wrong.
    """
    settings, which = loaded.settings, stand_ins(loaded)
    env, openai = settings.env, settings.openai
    async with AsyncExitStack() as stack:
        starting = {
            **({"judge": _start(stack, settings, prompts, judge_only=True)} if which.judge else {}),
            **(
                {"policy": _start(stack, settings, prompts, judge_only=env.policy_is_judge)}
                if which.policy and with_policy
                else {}
            ),
        }
        # Both at once; when one fails, the other one is there to be stopped.
        started = await asyncio.gather(*starting.values(), return_exceptions=True)
        for failed in started:
            if isinstance(failed, BaseException):
                raise failed
        urls = {role: url for role, url in zip(starting, started, strict=True) if isinstance(url, str)}
        env = env.with_stand_ins(STAND_IN_URL, judge=urls.get("judge"), policy=urls.get("policy"))
        if "policy" in urls and openai.base_url == STAND_IN_URL:
            openai = openai.model_copy(update={"base_url": urls["policy"]})
        yield settings.standing_in(tuple(starting), env=env, openai=openai)


async def _start(
    stack: AsyncExitStack,
    settings: EnvSettings[ConfigT],
    prompts: Sequence[str | PromptFormat],
    *,
    judge_only: bool,
) -> str:
    try:
        stand_in = StandIn(settings.latency_ms, settings.faults, judge_only=judge_only, prompts=prompts)
        return (await stack.enter_async_context(stand_in)).base_url
    except ValueError as error:
        raise SettingsError(f"--faults, --latency_ms or offline_prompts: {error}") from error
    except RuntimeError as error:
        raise SettingsError(f"--offline: {error}") from error
