"""The reward server's settings: where it listens, who may call it, and the judges that it serves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import CliImplicitFlag, NoDecode

from judges.arena.settings import ArenaJudgeSettings
from judges.aspects.settings import AspectJudgeSettings
from judges.config.judge import JudgeSettings
from judges.config.sources import ShowConfig, SourcedSettings
from judges.config.text import TextOrFile
from judges.llm import wire
from judges.llm.errors import SettingsError
from judges.llm.urls import is_loopback
from judges.pairwise.settings import ChoiceJudgeSettings
from judges.peers.settings import PeerJudgeSettings
from judges.rubrics.settings import RubricJudgeSettings

JudgeKind = Literal["rubric", "aspect", "peer", "arena_hard", "choice"]
_NAME = r"^[a-z0-9][a-z0-9_-]{0,63}$"
RESERVED = frozenset({"v1", "get_reward", "slime", "verify", "metrics", "healthz", "readyz", "openapi"})


class JudgeMount(ArenaJudgeSettings, AspectJudgeSettings, ChoiceJudgeSettings, PeerJudgeSettings, RubricJudgeSettings):
    """One judge of the server: its kind, and the settings of all kinds under the names that the environments have.

    >>> JudgeMount(judge="aspect", aspects="harmfulness", strictness=3).judge_temperature
    0.7
    """

    judge: JudgeKind = Field(
        default="rubric",
        description="rubric: a score by a rubric. aspect: yes/no questions. peer: 0 to 100 by a rubric in text. "
        "arena_hard: against a baseline, or the responses of a request against each other. choice: the best of the "
        "responses of a request.",
    )
    rubric: TextOrFile | None = Field(
        default=None,
        description="Rubric of requests that have none (rubric, peer); a general one if unset. @file reads it.",
    )

    def vote_count(self) -> int:
        """The votes of a judge of its kind."""
        return _SETTINGS[self.judge].vote_count(self)

    def built_in_prompt(self) -> str:
        """The prompt of a judge of its kind."""
        return _SETTINGS[self.judge].built_in_prompt(self)


_SETTINGS: Mapping[JudgeKind, type[JudgeSettings]] = {
    "rubric": RubricJudgeSettings,
    "aspect": AspectJudgeSettings,
    "peer": PeerJudgeSettings,
    "arena_hard": ArenaJudgeSettings,
    "choice": ChoiceJudgeSettings,
}


def _from_json(value: object) -> object:
    return wire.loads(value) if isinstance(value, str) else value


def _hide_keys(mounts: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The mounts with their API keys as secrets, so that no dump of the settings shows one."""
    for values in mounts.values():
        if isinstance(values.get("judge_api_key"), str):
            values["judge_api_key"] = SecretStr(values["judge_api_key"])
    return mounts


Mounts = Annotated[dict[str, dict[str, Any]], NoDecode, BeforeValidator(_from_json), AfterValidator(_hide_keys)]


class RewardServerSettings(SourcedSettings, JudgeMount):
    """Everything that `python -m judges.server` accepts."""

    config: Path | None = Field(None, description="YAML file of these settings.")
    show_config: ShowConfig = Field(
        None, description="Print each setting with its source, and exit. changed: only what differs from the defaults."
    )
    offline: CliImplicitFlag[bool] = Field(False, description="The judge is a stand-in: no key, no network.")
    latency_ms: float = Field(0.0, ge=0, description="With --offline: how long the stand-in takes to answer.")
    faults: dict[str, float] = Field(default_factory=dict, description="With --offline: the stand-in's faults.")
    mounts: Mounts = Field(
        default_factory=dict,
        description='Further judges under names: {"safety": {"judge": "aspect", "aspects": ["harmfulness"]}} is served '
        "under /safety/…; what a mount does not set is as above.",
    )
    host: str = Field("127.0.0.1", description="Address to listen at.")
    port: int = Field(8400, ge=0, le=65535, description="Port to listen at; 0 takes a free one.")
    workers: int = Field(1, ge=1, description="Processes that share the port.")
    tokens: Annotated[dict[str, SecretStr], NoDecode, BeforeValidator(_from_json)] = Field(
        default_factory=dict,
        description='Bearer tokens by name: {"trainer-a": "…"}. Better kept in JUDGEGYM_TOKENS or the YAML file. '
        "Wanted wherever the address is not loopback.",
    )
    insecure: CliImplicitFlag[bool] = Field(False, description="Serve without tokens wherever the address is.")
    deadline: float = Field(100.0, gt=0, description="Seconds within which every request is answered.")
    fallback_score: float = Field(
        0.0,
        allow_inf_nan=False,
        description="What goes out for a failed judge where a protocol wants a number.",
    )
    max_pending: int = Field(10_000, ge=1, description="Judgments under way or waiting; beyond, requests get a 503.")
    max_body_mb: float = Field(8.0, gt=0, description="Largest body of a request.")
    body_timeout: float = Field(30.0, gt=0, description="Seconds in which a request's body must have come.")
    drain_timeout: float = Field(110.0, ge=0, description="Seconds for requests under way once asked to stop.")

    def check_access(self) -> None:
        """Whether who may call the server is settled.

        Raises:
            SettingsError: the address is open to others and there is no token.
        """
        if any(not token.get_secret_value() for token in self.tokens.values()):
            raise SettingsError("--tokens: a token is empty")
        if self.tokens or self.insecure or is_loopback(f"http://{_bracketed(self.host)}"):
            return
        raise SettingsError(
            f"--host: {self.host} is not this machine alone: set bearer tokens, such as "
            """JUDGEGYM_TOKENS='{"name": "…"}', or say --insecure"""
        )

    def judges(self) -> dict[str, JudgeMount]:
        """The judges by name; the one without a name is the root's.

        Raises:
            SettingsError: a mount is wrong.
        """
        own = {name: getattr(self, name) for name in JudgeMount.model_fields if name in self.model_fields_set}
        mounted = {"": JudgeMount(**own)}
        for name, values in self.mounts.items():
            mounted[name] = _mount(name, {**own, **values})
        return mounted


def _mount(name: str, values: Mapping[str, object]) -> JudgeMount:
    if re.match(_NAME, name) is None or name in RESERVED:
        raise SettingsError(
            f"mounts: {name!r} cannot be part of a path; expected lower-case letters, digits, - and _, and none of "
            + ", ".join(sorted(RESERVED))
        )
    unknown = next((field for field in values if field not in JudgeMount.model_fields), None)
    if unknown is not None:
        raise SettingsError(f"mounts.{name}.{unknown}: unknown setting of a judge")
    try:
        return JudgeMount(**values)  # type: ignore[arg-type]  # validated here
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ")
        raise SettingsError(f"mounts.{name}.{place}: {message[:1].lower()}{message[1:]}") from None


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
