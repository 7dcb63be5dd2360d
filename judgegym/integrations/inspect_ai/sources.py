"""The environment that a task or scorer names, open in this process. Imported by both; loads an environment late."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from judgegym.integrations.inspect_ai.arguments import refuse_secrets, whole
from judgegym.judges.config.extras import require
from judgegym.llm.errors import SettingsError

if TYPE_CHECKING:
    from judgegym.data.rows import Split
    from judgegym.integrations.single_turn.opened import OpenedEnvironment

_LISTS = (list, tuple)


def opened_source(
    environment: str,
    settings: Mapping[str, object],
    *,
    config: str | Path | None,
    split: str,
    offline: bool,
) -> OpenedEnvironment:
    """The environment of these settings; reads its rows, unless it is open already.

    Raises:
        SettingsError: a setting is unknown, wrong or secret, or the packages of the environments are not installed.
        DataError: the rows cannot be loaded.
    """
    require("environments")
    from judgegym.integrations.single_turn.opened import opened
    from judgegym.integrations.single_turn.source import EnvironmentSource

    refuse_secrets(settings)
    given = {name: whole(value) if _was_split(value) else value for name, value in settings.items()}
    found = opened(EnvironmentSource.of(environment, given, config=config, offline=offline, split=cast("Split", split)))
    if found.compares:
        raise SettingsError(
            "group_judge: inspect scores each sample by itself; choose a judge that sees one completion"
        )
    return found


def _was_split(value: object) -> bool:
    """Whether a list may be a text that inspect's command line has split: settings of lists read such a text, too."""
    return isinstance(value, _LISTS) and all(isinstance(part, str) for part in value)
