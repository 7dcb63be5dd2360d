"""Converts a list of servers under `openai` in a YAML file, as Atropos writes it, to `openai.replicas`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from judgegym.judges.config.help import Values
from judgegym.judges.config.reading import SettingsSource
from judgegym.llm.errors import SettingsError

_OF_ONE_SERVER = frozenset({"base_url", "model_name", "api_key"})


def with_replicas(sources: Sequence[SettingsSource]) -> list[SettingsSource]:
    """The sources, in order of priority, with each list of servers as replicas.

    In a source of higher priority, a setting for all servers applies to each of them, and a base URL replaces the list.

    Raises:
        SettingsError: the list is empty, a server has no base URL, or servers differ in what they must share.
    """
    reshaped: list[SettingsSource] = []
    stronger: set[str] = set()
    for source in sources:
        openai = source.values.get("openai")
        if isinstance(openai, list):
            section = _as_replicas(openai, stronger, source.name)
            source = replace(source, values={**source.values, "openai": section})
        elif isinstance(openai, dict):
            if "replicas" in openai and stronger:
                source = replace(source, values={**source.values, "openai": _yielding(openai, stronger)})
            stronger |= set(openai)
        reshaped.append(source)
    return reshaped


def _yielding(openai: Values, stronger: set[str]) -> Values:
    """A section without the settings of its replicas that a source of higher priority sets for all servers."""
    if "base_url" in stronger:
        return {name: value for name, value in openai.items() if name != "replicas"}
    replicas = openai["replicas"]
    if not isinstance(replicas, list) or not all(isinstance(replica, dict) for replica in replicas):
        return openai  # validated, and refused, later
    kept = [{name: value for name, value in replica.items() if name not in stronger} for replica in replicas]
    return {**openai, "replicas": kept}


def _as_replicas(servers: list[Any], stronger: set[str], where: str) -> Values:
    if not servers or not all(isinstance(server, dict) and "base_url" in server for server in servers):
        raise SettingsError(f"openai ({where}): expected a list of servers, each with a base_url")
    shared = {name: value for name, value in servers[0].items() if name not in _OF_ONE_SERVER}
    for number, server in enumerate(servers, start=1):
        names = (set(server) | set(shared)) - _OF_ONE_SERVER
        differing = sorted(name for name in names if server.get(name) != shared.get(name))
        if differing:
            raise SettingsError(
                f"openai.{differing[0]} ({where}): server {number} differs from the first; "
                "only base_url, model_name and api_key may"
            )
    if "base_url" in stronger:
        return dict(servers[0])
    replicas = [{name: server[name] for name in _OF_ONE_SERVER & set(server) - stronger} for server in servers]
    first = {name: servers[0][name] for name in _OF_ONE_SERVER & set(servers[0])}
    return {**shared, **first, "replicas": replicas}
