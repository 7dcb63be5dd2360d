"""An environment's settings from a command line: its layers, presets, and lists of servers.

Everything that the user may write in more than one way is brought into one shape here, before it is validated.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from environments import offline
from environments.base import JudgedEnv
from environments.settings import EnvSettings
from environments.settings.atropos import without_ignored
from judges.config.sources import LoadedSettings, SettingsSource, load
from judges.llm.errors import SettingsError


def program() -> str:
    """The program's name, for messages."""
    return f"python {sys.argv[0]}"


def load_settings(
    env_type: type[JudgedEnv[Any, Any, Any]], argv: Sequence[str], *, verb: str
) -> LoadedSettings[EnvSettings[Any]]:
    """The settings of a command.

    Raises:
        SettingsError: one is wrong.
    """
    settings_type: type[EnvSettings[Any]] = EnvSettings[env_type.config_type]  # type: ignore[name-defined]  # made at run time

    def reshape(layers: list[SettingsSource]) -> list[SettingsSource]:
        presets = [SettingsSource("process", _process_preset(env_type))] if verb == "process" else []
        known = [
            SettingsSource(layer.name, without_ignored(layer.values, layer.name)) if layer.is_file else layer
            for layer in layers
        ]
        return [
            *offline.preset(_openai_lists(known), env_type.offline_samples),
            *presets,
        ]

    loaded = load(settings_type, argv, prog=f"{program()} {verb}", reshape=reshape)
    for name in ("latency_ms", "faults"):
        if loaded.given(name) and not loaded.settings.offline:
            raise SettingsError(f"--{name}: the stand-ins' setting, without --offline there are none")
    return loaded


def _process_preset(env_type: type[JudgedEnv[Any, Any, Any]]) -> dict[str, Any]:
    """What Atropos' `process` sets unless told otherwise."""
    path = f"data/{env_type.name}.jsonl"
    return {"env": {"ensure_scores_are_not_same": False, "include_messages": True, "data_path_to_save_groups": path}}


def _openai_lists(layers: list[SettingsSource]) -> list[SettingsSource]:
    """Layers in which a list of servers under `openai` is `openai.replicas`.

    What a stronger layer says of all servers holds for each of them; a base URL there replaces the list.
    """
    reshaped: list[SettingsSource] = []
    stronger: set[str] = set()
    for layer in layers:
        openai = layer.values.get("openai")
        if isinstance(openai, list):
            values = _as_replicas(openai, stronger, layer.name)
            layer = SettingsSource(layer.name, {**layer.values, "openai": values})
        elif isinstance(openai, dict):
            if "replicas" in openai and stronger:
                layer = SettingsSource(layer.name, {**layer.values, "openai": _yielding(openai, stronger)})
            stronger |= set(openai)
        reshaped.append(layer)
    return reshaped


def _yielding(openai: dict[str, Any], stronger: set[str]) -> dict[str, Any]:
    """A section whose replicas leave out what a stronger layer says of all servers."""
    if "base_url" in stronger:
        return {name: value for name, value in openai.items() if name != "replicas"}
    replicas = openai["replicas"]
    if not isinstance(replicas, list) or not all(isinstance(each, dict) for each in replicas):
        return openai  # validated, and refused, later
    kept = [{name: value for name, value in each.items() if name not in stronger} for each in replicas]
    return {**openai, "replicas": kept}


def _as_replicas(servers: list[Any], stronger: set[str], where: str) -> dict[str, Any]:
    if not servers or not all(isinstance(server, dict) and "base_url" in server for server in servers):
        raise SettingsError(f"openai ({where}): expected a list of servers, each with a base_url")
    of_one = {"base_url", "model_name", "api_key"}
    shared = {name: value for name, value in servers[0].items() if name not in of_one}
    for number, server in enumerate(servers, start=1):
        differing = [
            name for name in set(server) | set(shared) if name not in of_one and server.get(name) != shared.get(name)
        ]
        if differing:
            raise SettingsError(
                f"openai.{differing[0]} ({where}): server {number} differs from the first; "
                "only base_url, model_name and api_key may"
            )
    if "base_url" in stronger:
        return dict(servers[0])
    replicas = [{name: server[name] for name in of_one & set(server) - stronger} for server in servers]
    first = {name: servers[0][name] for name in of_one & set(servers[0])}
    return {**shared, **first, "replicas": replicas}
