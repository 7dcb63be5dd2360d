"""`--offline`: a stand-in for each endpoint that the user did not set, and small data written for this project."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from environments.settings import BUNDLED_TOKENIZER, ConfigT, EnvSettings
from environments.settings.values import STAND_IN_JUDGE, STAND_IN_POLICY
from judges.config.reading import SettingsSource
from judges.config.sources import LoadedSettings
from judges.config.structure import Values
from judges.core.prompt_format import PromptFormat
from judges.llm.errors import SettingsError
from judges.offline import StandIn

SOURCE = "--offline"
STAND_IN_URL = "http://127.0.0.1:0/v1"
"""The URL in the settings until the stand-in has a port."""


@dataclass(frozen=True, slots=True)
class StandIns:
    """Which endpoints are stand-ins."""

    judge: bool
    policy: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the stand-ins, for messages."""
        return tuple(name for name, is_one in (("judge", self.judge), ("policy", self.policy)) if is_one)


def with_preset(sources: list[SettingsSource], samples: Mapping[str, str]) -> list[SettingsSource]:
    """The sources with the preset of `--offline`, which has the lowest priority.

    Args:
        sources: the sources, in order of priority.
        samples: the environment's settings that name its bundled samples.
    """
    given = next((source.values["offline"] for source in sources if "offline" in source.values), False)
    if not _is_true(given):
        return sources
    env: Values = {"tokenizer_name": str(BUNDLED_TOKENIZER), **samples}
    openai: Values = {}
    if not _sets(sources, "env", "judge_base_url"):
        env |= {"judge_base_url": STAND_IN_URL, "judge_model_name": STAND_IN_JUDGE}
    if not _sets(sources, "openai", "base_url", "replicas"):
        openai |= {"base_url": STAND_IN_URL, "model_name": STAND_IN_POLICY}
    return [*sources, SettingsSource(SOURCE, {"env": env, "openai": openai})]


def _is_true(value: object) -> bool:
    """Whether a value that is not validated yet will be read as true; any other is false or is refused later."""
    try:
        return TypeAdapter(bool).validate_python(value)
    except ValidationError:
        return False


def _sets(sources: list[SettingsSource], section: str, *names: str) -> bool:
    values = [source.values.get(section) for source in sources]
    return any(value.get(name) for value in values if isinstance(value, dict) for name in names)


def stand_ins(loaded: LoadedSettings[EnvSettings[ConfigT]]) -> StandIns:
    """Which endpoints of these settings are stand-ins."""
    settings = loaded.settings
    policy_is_asked = settings.env.model_answers is None
    return StandIns(
        judge=loaded.origins.get("env.judge_base_url") == SOURCE and not settings.env.policy_is_judge,
        policy=loaded.origins.get("openai.base_url") == SOURCE and policy_is_asked,
    )


@asynccontextmanager
async def running(
    loaded: LoadedSettings[EnvSettings[ConfigT]], prompts: Sequence[str | PromptFormat] = ()
) -> AsyncIterator[EnvSettings[ConfigT]]:
    """Start the stand-ins for the duration of the block; yields the settings with their URLs.

    Args:
        loaded: the settings.
        prompts: the environment's `offline_prompts`.

    Raises:
        SettingsError: the latency, the faults or a prompt of the stand-ins is wrong.
    """
    settings, which = loaded.settings, stand_ins(loaded)
    env, openai = settings.env, settings.openai
    async with AsyncExitStack() as stack:
        starting = {
            **({"judge": _start(stack, settings, prompts, judge_only=True)} if which.judge else {}),
            **({"policy": _start(stack, settings, prompts, judge_only=env.policy_is_judge)} if which.policy else {}),
        }
        # Both at once; when one fails, the other one is there to be stopped.
        started = await asyncio.gather(*starting.values(), return_exceptions=True)
        for failed in started:
            if isinstance(failed, BaseException):
                raise failed
        urls = dict(zip(starting, started, strict=True))
        if "judge" in urls:
            env = env.model_copy(update={"judge_base_url": urls["judge"]})
        if "policy" in urls:
            openai = openai.model_copy(update={"base_url": urls["policy"]})
        yield settings.standing_in(which.names, env=env, openai=openai)


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
