"""Settings of a judge that scores batches, and each process's share of its endpoint's limits.

Guarantee: an API key is never copied to another process; each process reads it from the environment
variable that `judge_api_key_env` names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import orjson

from judgegym.datasets.rows.schema import ColumnSettings
from judgegym.datasets.rows.task import DatasetJudgeSettings
from judgegym.engine.settings.env import dump_public
from judgegym.judges.config.composed import expand_choices, json_defaults
from judgegym.judges.config.fields import declared_settings, operational, setting
from judgegym.judges.config.judge import JudgeSettings
from judgegym.judges.config.sources import settings_from_keywords
from judgegym.judges.scorers.settings import AnyJudgeSettings
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON

LIMITS = ("judge_max_concurrency", "judge_requests_per_minute", "judge_tokens_per_minute")
"""The limits of an endpoint that are divided among the processes."""
LOCAL = "local"
"""The address that starts a Ray cluster on this machine."""
NO_KEY = "none"
"""The value of `judge_api_key` for an endpoint that needs no key."""

SettingsT = TypeVar("SettingsT", bound=JudgeSettings)


class BatchSettings(DatasetJudgeSettings, ColumnSettings):
    """The judge, the columns, and where results are kept."""

    offline: bool = setting(False)
    """Use a local stand-in for the judge, one for each process; its scores mean nothing."""
    ledger: Path | None = operational(None)
    """Append each result to a file in this directory, one for each process; a response with a
    result in one of them is not judged again. Processes on several machines need a directory
    that all of them see."""

    @classmethod
    def from_values(cls, values: Mapping[str, object]) -> BatchSettings:
        """Check settings given by name.

        Raises:
            SettingsError: a setting is unknown, wrong, or not allowed for batches.
        """
        settings = settings_from_keywords(cls, values)
        check_no_key(settings, "judge_api_key")
        if settings.group_by is not None:
            raise SettingsError(
                "group_by: the rows of a group may be in different batches; give a row a list of "
                "responses instead, or use judgegym score --group_by"
            )
        if settings.ledger is not None:
            settings.ledger = settings.ledger.expanduser().absolute()
        if settings.judge_cache is not None:
            settings.judge_cache = settings.judge_cache.expanduser().absolute()
        return settings

    def to_values(self) -> dict[str, JSON]:
        """Return the settings that were set, as `from_values` reads them.

        Equal settings give equal JSON: the names are sorted. Text files are read in, and
        credentials in a URL are kept, since the endpoint needs them.
        """
        dumped: dict[str, JSON] = self.model_dump(
            mode="json", exclude={"judge_api_key"}, exclude_unset=True
        )
        if self.judge_api_key is not None:
            dumped["judge_api_key"] = NO_KEY
        return dict(sorted(dumped.items()))


def check_no_key(settings: JudgeSettings, name: str) -> None:
    """Check that the settings hold no API key, since other processes get a copy of them.

    Raises:
        SettingsError: they hold one.
    """
    key = settings.judge_api_key
    if key is not None and key.get_secret_value() not in ("", NO_KEY):
        raise SettingsError(
            f"{name}: a key would be copied to all processes with the settings; name the "
            "environment variable that holds it there: judge_api_key_env"
        )


def divide_limits(settings: SettingsT, parts: int, setting_name: str) -> SettingsT:
    """Return the settings with an equal share of the endpoint's limits, so that the sum keeps them.

    Args:
        settings: the settings with the limits of the whole.
        parts: the most processes that call the endpoint at once.
        setting_name: the name of the setting that says how many, for the message.

    Raises:
        SettingsError: a limit is lower than the number of parts.
    """
    if parts < 1:
        raise SettingsError(f"{setting_name}: expected at least 1; found {parts}")
    shares: dict[str, int] = {}
    for name in LIMITS:
        limit: int | None = getattr(settings, name)
        if limit is None:
            continue
        if limit < parts:
            raise SettingsError(
                f"{setting_name}: {name} is {limit} for all of them together, and {parts} need a "
                f"share of at least 1 each; expected at most {limit}"
            )
        shares[name] = limit // parts
    return settings.model_copy(update=shares)


_ADDED_LATER = frozenset(("judged_thinking", "judge_prompt", "thinking_markers"))
"""Settings that earlier versions lacked: at their defaults they are not part of a result's key."""


def judge_digest(settings: AnyJudgeSettings, *, offline: bool) -> str:
    """Return a digest of all settings that determine a judgment, for the keys of saved results."""
    settings_type = expand_choices(AnyJudgeSettings)
    shaping = [
        declared for declared in declared_settings(settings_type) if not declared.is_operational
    ]
    public = {
        **json_defaults(settings_type, [declared.name for declared in shaping]),
        **dump_public(settings),
    }
    later = [declared for declared in shaping if declared.name in _ADDED_LATER]
    omitted = {declared.name for declared in later if public.get(declared.name) == declared.default}
    names = sorted(declared.name for declared in shaping if declared.name not in omitted)
    content: JSON = [offline, {name: public[name] for name in names if name in public}]
    return hashlib.blake2b(
        orjson.dumps(content, option=orjson.OPT_SORT_KEYS), digest_size=16
    ).hexdigest()
