"""Settings of Atropos that have no effect here; a file that was written for Atropos may hold them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from judgegym.judges.config.reading import SettingsSource
from judgegym.llm.errors import SettingsError

logger = logging.getLogger(__name__)

IGNORED: Mapping[str, str] = {
    "env.batch_size": "the trainer sets it",
    "openai.health_check": "health checks would be completions that somebody pays for",
    "openai.rolling_buffer_length": "metrics are of the whole run",
    "openai.tokenizer_name": "env.tokenizer_name is used instead",
    "openai.weight": "each request goes to the server with the fewest under way",
    "slurm": "name the servers in openai.base_url, or as a list under openai",
    "testing": "--offline has stand-ins for the endpoints",
}
"""Settings without an effect, each with the reason."""
_NEEDED = ("slurm", "testing")
"""Those that ask for something if they are true; nothing else would do it."""


def refuse_ignored(argv: Sequence[str]) -> None:
    """Refuse such settings on the command line.

    Raises:
        SettingsError: a flag sets one.
    """
    for word in argv:
        name = word.partition("=")[0].removeprefix("--")
        if word.startswith("--") and name in IGNORED:
            raise _refusal(name, "command line")


def without_ignored(source: SettingsSource) -> SettingsSource:
    """A source without such settings; a warning names those that a file holds.

    Raises:
        SettingsError: an environment variable sets one.
    """
    values: dict[str, Any] = dict(source.values)
    ignored = [name for name in IGNORED if _holds(values, name)]
    for name in ignored:
        section, _, field = name.partition(".")
        if source.kind != "file" or (name in _NEEDED and values[name] not in (False, None)):
            raise _refusal(name, source.origin(name))
        if field:
            values[section] = _without(values[section], field)
        else:
            del values[section]
    if ignored:
        reasons = "; ".join(f"{name} ({IGNORED[name]})" for name in ignored)
        logger.warning("%s: ignored, because it has no effect here: %s", source.name, reasons)
    return replace(source, values=values)


def _refusal(name: str, origin: str) -> SettingsError:
    return SettingsError(f"--{name} ({origin}): a setting of Atropos that has no effect here: {IGNORED[name]}")


def _holds(values: Mapping[str, Any], name: str) -> bool:
    section, _, field = name.partition(".")
    servers = values.get(section)
    if not field:
        return section in values
    return any(
        isinstance(part, dict) and field in part for part in (servers if isinstance(servers, list) else [servers])
    )


def _without(section: Any, field: str) -> Any:
    """A section, or each of a list of servers, without a field."""
    if isinstance(section, list):
        return [_without(server, field) for server in section]
    if isinstance(section, dict):
        return {name: value for name, value in section.items() if name != field}
    return section
