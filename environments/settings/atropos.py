"""Settings of Atropos that have no meaning here. A YAML file written for Atropos may hold them; they are ignored."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

logger = logging.getLogger(__name__)

IGNORED: Mapping[str, str] = {
    "env.batch_size": "the trainer sets it",
    "openai.health_check": "health checks would be completions that somebody pays for",
    "openai.rolling_buffer_length": "metrics are of the whole run",
    "openai.tokenizer_name": "env.tokenizer_name is the one that is used",
}
"""Names of settings that are accepted in a file, and why they have no effect."""


def without_ignored(values: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The values of a file without the settings that have no meaning here; one warning names those that it holds."""
    kept = dict(values)
    found: set[str] = set()
    for name in IGNORED:
        section, _, field = name.partition(".")
        servers = kept.get(section)
        for part in servers if isinstance(servers, list) else [servers]:
            if isinstance(part, dict) and field in part:
                found.add(name)
        kept |= {section: _without(servers, field)} if name in found else {}
    if found:
        said = "; ".join(f"{name} ({IGNORED[name]})" for name in sorted(found))
        logger.warning("%s: ignored, since it has no meaning here: %s", path, said)
    return kept


def _without(section: Any, field: str) -> Any:
    """A section, or each of a list of servers, without a field."""
    if isinstance(section, list):
        return [_without(server, field) for server in section]
    if isinstance(section, dict):
        return {name: value for name, value in section.items() if name != field}
    return section
