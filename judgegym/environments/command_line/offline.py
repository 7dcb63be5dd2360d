"""Endpoints of a command: stand-ins of `--offline`, and lists of servers in Atropos' format.

Guarantees: `--offline` calls only endpoints named on the command line, whatever presets, files and
environment variables say, and one line says so. One line per source names the overridden settings.
Hub names and missing files are replaced by the bundled samples, since an offline run needs no
network.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from judgegym.engine.settings import ConfigT, EnvSettings
from judgegym.engine.settings.policy import (
    BUNDLED_TOKENIZER,
    STAND_IN_JUDGE,
    STAND_IN_POLICY,
    STAND_IN_USER,
)
from judgegym.judges.config.fields import Values, declared_settings
from judgegym.judges.config.sources import LoadedSettings, SettingsSource
from judgegym.judges.core.prompt_format import PromptFormat
from judgegym.judges.scorers.stand_in import list_references
from judgegym.llm import wire
from judgegym.llm.errors import SettingsError
from judgegym.llm.urls import redact_credentials
from judgegym.offline import running_stand_ins

SOURCE = "--offline"
STAND_IN_URL = "http://127.0.0.1:0/v1"
"""URL in the settings until the stand-in has a port."""

_ENDPOINT_FIELDS = ("base_url", "model_name", "api_key", "api_key_env")
_JUDGE, _USER = ({f"env.{role}_{name}" for name in _ENDPOINT_FIELDS} for role in ("judge", "user"))
_POLICY = {
    f"openai.{name}"
    for name in ("base_url", "replicas", "model_name", "api_key", "api_key_env", "server_type")
}
_MODEL_NAMES = {"env.judge_model_name", "env.user_model_name", "openai.model_name"}
_URLS = ("env.judge_base_url", "env.user_base_url", "openai.base_url", "openai.replicas")


def apply_offline(
    sources: Sequence[SettingsSource], settings_type: type[BaseModel], samples: Mapping[str, str]
) -> tuple[list[SettingsSource], list[str]]:
    """Return the sources with `--offline` applied, and notes about it; unchanged without the flag.

    Args:
        sources: the sources, in order of priority.
        settings_type: the settings, with the optional ones by choice.
        samples: the settings that name the environment's bundled samples.
    """
    if not _is_true(
        next((source.values["offline"] for source in sources if "offline" in source.values), False)
    ):
        return list(sources), []
    stand_in_values: Values = {"env.tokenizer_name": str(BUNDLED_TOKENIZER)}
    stand_in_values |= {f"env.{name}": value for name, value in samples.items()}
    command_line = next((source.values for source in sources if source.kind == "command line"), {})
    endpoints: set[str] = set()
    if not command_line.get("env.judge_base_url"):
        endpoints |= _JUDGE
        stand_in_values |= {
            "env.judge_base_url": STAND_IN_URL,
            "env.judge_model_name": STAND_IN_JUDGE,
        }
    if not command_line.get("openai.base_url") and not command_line.get("openai.replicas"):
        endpoints |= _POLICY
        stand_in_values |= {"openai.base_url": STAND_IN_URL, "openai.model_name": STAND_IN_POLICY}
    declared = [*declared_settings(settings_type)]
    if any(setting.name == "env.user_base_url" for setting in declared) and not command_line.get(
        "env.user_base_url"
    ):
        endpoints |= _USER
        stand_in_values |= {"env.user_base_url": STAND_IN_URL, "env.user_model_name": STAND_IN_USER}
    data = [setting.name for setting in declared if setting.group == "data"]
    places = {"env.tokenizer_name", *(name for name in data if "dataset" in name)}
    notes = []
    named_endpoints = _list_named_endpoints(command_line)
    if named_endpoints:
        flags = " and ".join(f"--{name}" for name in named_endpoints)
        endpoint_names = " and ".join(named_endpoints.values())
        notes = [
            f"{SOURCE}: the command line names {endpoint_names}, which will be asked; without "
            f"{flags} a stand-in plays it"
        ]
    reshaped: list[SettingsSource] = []
    stand_in_names: dict[str, str] = {}
    for source in sources:
        if source.kind in ("environment variable", "file"):
            source, overridden = _override_source(source, endpoints, places, stand_in_names)
            if overridden:
                names = ", ".join(overridden)
                notes.append(
                    f"{SOURCE} overrides {names} ({source.name}): stand-ins and bundled samples "
                    "are used"
                )
        reshaped.append(source)
    return [*reshaped, SettingsSource(SOURCE, stand_in_values)], notes


def _list_named_endpoints(typed: Values) -> dict[str, str]:
    """Return descriptions of the endpoints that the command line names, by setting."""
    listed = [name for name, value in typed.items() if _has_endpoint(value)]
    descriptions = {
        "env.judge_base_url": "the judge at {}",
        "env.user_base_url": "the user at {}",
        **{name: f"the models of {name}" for name in listed if name.startswith("env.")},
        "openai.base_url": "the policy at {}",
        "openai.replicas": "the policy of openai.replicas",
    }
    return {
        name: words.format(redact_credentials(str(typed[name])))
        for name, words in descriptions.items()
        if typed.get(name)
    }


def _has_endpoint(value: Any) -> bool:
    return any(model.get("base_url") for model in _parse_models(value) or ())


def _override_source(
    source: SettingsSource, endpoints: set[str], places: set[str], stand_in_names: dict[str, str]
) -> tuple[SettingsSource, list[str]]:
    """Return a source without its endpoints, hub names and missing files, and the dropped names.

    A file that an offline run has written names its stand-ins, without their URLs; those names are
    kept.
    """
    values: Values = {}
    overridden: list[str] = []
    names_stand_ins = _is_true(source.values.get("offline", False))
    for name, value in source.values.items():
        section, prefix = name.partition(".")[0], name.removesuffix("model_name")
        is_endpoint = name in endpoints and bool(value)
        if name in _MODEL_NAMES and names_stand_ins:
            is_endpoint &= any(source.values.get(url) for url in _URLS if url.startswith(prefix))
        is_place = name in places and isinstance(value, str)
        if (
            is_endpoint
            or (is_place and not Path(value).expanduser().exists())
            or (name == "env.token_source" and value == "token_server")
        ):
            overridden.append(name)
            continue
        values[name] = value
        if section == "env":
            values[name] = _replace_endpoints(value, stand_in_names)
        if values[name] is not value:
            overridden.append(name)
    return replace(source, values=values), overridden


def _replace_endpoints(value: Any, names: dict[str, str]) -> Any:
    """Replace the models of a list that have an endpoint by stand-ins.

    Return other values unchanged.

    The stand-in for a model has the same name in all lists, which is no real model's. The parts of
    a reward lose their endpoints, so that the judge is called for each.
    """
    parts = {}
    if isinstance(value, dict):
        parts = {name: part for name, part in value.items() if isinstance(part, dict)}
    if any("judge_base_url" in part for part in parts.values()):
        return value | {
            name: {field: part[field] for field in part if f"env.{field}" not in _JUDGE}
            for name, part in parts.items()
        }
    models = _parse_models(value)
    if models is None or all(map(_is_answered_by_file, models)):
        return value
    replaced = []
    for model in models:
        if not _is_answered_by_file(model):
            name = stand_in_name = str(model.get("name", ""))
            if not name.startswith(STAND_IN_POLICY):
                number = len(names) + 1
                stand_in_name = f"{STAND_IN_POLICY}-{number}"
            model = {"name": names.setdefault(name, stand_in_name), "base_url": STAND_IN_URL}
        replaced.append(model)
    return replaced


def _parse_models(value: Any) -> list[Values] | None:
    """Return the models of a setting that lists models with endpoints, or `None`."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = wire.loads_or_none(value)  # what is no JSON is refused later
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        return None
    if any({"base_url", "answers"} & item.keys() for item in value):
        return value
    return None


def _is_answered_by_file(model: Values) -> bool:
    answers = model.get("answers")
    return bool(answers) and not model.get("base_url") and Path(str(answers)).expanduser().exists()


def _is_true(value: object) -> bool:
    """Return whether a value that is not validated yet is true.

    Invalid values are refused later.
    """
    try:
        return TypeAdapter(bool).validate_python(value)
    except ValidationError:
        return False


def list_stand_ins(settings: EnvSettings[ConfigT]) -> list[str]:
    """Return which of `judge`, `policy` and `user` are stand-ins."""
    endpoints = settings.env.endpoints_asked(settings.verb, settings.openai.urls)
    return [
        role for role in ("judge", "policy", "user") if STAND_IN_URL in getattr(endpoints, role)
    ]


@asynccontextmanager
async def run_stand_ins(
    loaded: LoadedSettings[EnvSettings[ConfigT]],
    prompts: Sequence[str | PromptFormat] = (),
    *,
    with_policy: bool = True,
) -> AsyncIterator[EnvSettings[ConfigT]]:
    """Start the stand-ins for the duration of the block; yield the settings with their URLs.

    Args:
        loaded: the settings.
        prompts: the environment's `offline_prompts`.
        with_policy: whether a stand-in of the policy is needed; not where a trainer samples by
            itself.

    Raises:
        SettingsError: the faults or a prompt of the stand-ins are wrong.
    """
    settings = loaded.settings
    env, openai = settings.env, settings.openai
    roles = list_stand_ins(settings)
    if not with_policy:
        roles = [role for role in roles if role != "policy"]
    judges = {role: role == "judge" or env.policy_is_judge for role in roles}
    async with running_stand_ins(
        judges, settings.faults, [*prompts, *list_references(env)]
    ) as urls:
        env = env.fill_in_urls(STAND_IN_URL, urls)
        if "policy" in urls and openai.base_url == STAND_IN_URL:
            openai = openai.model_copy(update={"base_url": urls["policy"], "api": "openai"})
        yield settings.use_stand_ins(roles, env=env, openai=openai)


_SERVER_FIELDS = frozenset({"base_url", "model_name", "api_key", "extra_headers"})


def expand_replicas(sources: Sequence[SettingsSource]) -> list[SettingsSource]:
    """Convert lists of servers to replicas; return the sources in order of priority.

    In a source of higher priority, a setting for all servers applies to each of them, and a base
    URL replaces the list.

    Raises:
        SettingsError: the list is empty, a server has no base URL, or servers differ in a setting
            that they must share.
    """
    reshaped: list[SettingsSource] = []
    stronger: set[str] = set()
    for source in sources:
        servers, replicas = source.values.get("openai"), source.values.get("openai.replicas")
        if isinstance(servers, list):
            replica_values = _parse_replicas(servers, stronger, source.name)
            values = source.drop_settings("openai").values | {
                f"openai.{name}": value for name, value in replica_values.items()
            }
            source = replace(source, values=values)
        elif "base_url" in stronger:
            source = source.drop_settings("openai.replicas")
        elif isinstance(replicas, list) and all(isinstance(replica, dict) for replica in replicas):
            source = replace(
                source,
                values={**source.values, "openai.replicas": _drop_overridden(replicas, stronger)},
            )
        reshaped.append(source)
        if not isinstance(servers, list):
            stronger |= {
                name.removeprefix("openai.") for name in source.values if name.startswith("openai.")
            }
    return reshaped


def _drop_overridden(replicas: list[Values], stronger: set[str]) -> list[Values]:
    """Return the replicas without settings that a source of higher priority sets for all."""
    return [
        {name: value for name, value in replica.items() if name not in stronger}
        for replica in replicas
    ]


def _parse_replicas(servers: list[Any], stronger: set[str], where: str) -> Values:
    if not servers or not all(
        isinstance(server, dict) and "base_url" in server for server in servers
    ):
        raise SettingsError(f"openai ({where}): expected a list of servers, each with a base_url")
    for number, server in enumerate(servers, start=1):
        names = (server.keys() | servers[0].keys()) - _SERVER_FIELDS
        differing = sorted(name for name in names if server.get(name) != servers[0].get(name))
        if differing:
            raise SettingsError(
                f"openai.{differing[0]} ({where}): server {number} differs from the first; "
                "only base_url, model_name and api_key may"
            )
    if "base_url" in stronger:
        return dict(servers[0])
    replicas = [
        {name: value for name, value in server.items() if name in _SERVER_FIELDS}
        for server in servers
    ]
    return {**servers[0], "replicas": _drop_overridden(replicas, stronger)}
