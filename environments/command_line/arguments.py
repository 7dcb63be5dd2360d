"""The arguments of a command: the verb, its help, and its settings from all sources."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from environments.command_line.offline_settings import with_stand_ins
from environments.command_line.servers import with_replicas
from environments.command_line.verb_settings import of_verb
from environments.settings import EnvSettings
from environments.settings.atropos import refuse_ignored, without_ignored
from environments.settings.verbs import Verb, uses
from judges.config.fields import OTHER_GROUP
from judges.config.help import HelpDetail, help_page
from judges.config.reading import SettingsSource
from judges.config.sources import ConfigLine, LoadedSettings, load
from judges.llm.errors import SettingsError

if TYPE_CHECKING:
    from environments.base import JudgedEnv

VERBS: Mapping[Verb, str] = {
    "evaluate": "Score a policy and print benchmark numbers.",
    "serve": "Send judged rollouts to a trainer, over the Atropos rollout API.",
    "process": "Write judged rollouts to a file.",
}
_GROUPS = {
    "policy": "policy (the model that is trained or evaluated)",
    "judge": "judge (the model that scores it)",
    "data": "data",
    "run": "run",
    OTHER_GROUP: "this environment",
    "rollouts": "rollouts (how groups are sampled, and which are kept)",
    "trainer": "trainer (the rollout API and the trainer behind it)",
}


def program() -> str:
    """The program's name, for messages."""
    return f"python {sys.argv[0]}"


def overview() -> str:
    """The verbs, and where the help of each is."""
    verbs = "\n".join(f"  {verb:<10} {about}" for verb, about in VERBS.items())
    help_of_verbs = f"{program()} VERB --help lists a verb's most used settings, --help_all every one."
    return f"usage: {program()} {'|'.join(VERBS)} [--name=value …]\n\n{verbs}\n\n{help_of_verbs}"


def read_verb(arguments: Sequence[str]) -> tuple[Verb, Sequence[str]]:
    """The verb and the arguments after it.

    Raises:
        SettingsError: the first argument is not a verb.
    """
    if arguments and arguments[0] in VERBS:
        return cast(Verb, arguments[0]), arguments[1:]
    actual = f"found {arguments[0]!r}" if arguments else "found nothing"
    raise SettingsError(f"expected one of {', '.join(VERBS)} as the first argument, {actual}\n{overview()}")


def command_help(env_type: type[JudgedEnv[Any, Any, Any]], verb: Verb, detail: HelpDetail) -> str:
    """What `VERB --help` and `VERB --help_all` print."""
    return help_page(
        _settings_type(env_type),
        usage=f"{program()} {verb}",
        about=VERBS[verb],
        groups=_GROUPS,
        detail=detail,
        uses=lambda setting: uses(verb, setting.model, setting.field),
    )


def load_settings(
    env_type: type[JudgedEnv[Any, Any, Any]], argv: Sequence[str], *, verb: Verb
) -> LoadedSettings[EnvSettings[Any]]:
    """The settings of a command.

    Raises:
        SettingsError: a setting is wrong or not one of the verb's.
    """
    settings_type = _settings_type(env_type)
    notes: list[str] = []

    def reshape(sources: list[SettingsSource]) -> list[SettingsSource]:
        sources = with_replicas([without_ignored(source) for source in sources])
        sources, said = with_stand_ins(sources, env_type.config_type, env_type.offline_samples)
        notes.extend(said)
        if verb == "process":
            sources.append(SettingsSource("process", _process_preset(env_type)))
        return of_verb(sources, settings_type, verb)

    refuse_ignored(argv)
    loaded = load(settings_type, argv, prog=f"{program()} {verb}", reshape=reshape)
    for name in ("latency_ms", "faults"):
        if loaded.given(name) and not loaded.settings.offline:
            raise SettingsError(f"--{name}: a setting of the stand-ins; it needs --offline")
    return replace(loaded, settings=loaded.settings.of_verb(verb), notes=tuple(notes))


def config_lines(loaded: LoadedSettings[EnvSettings[Any]], verb: Verb) -> list[ConfigLine]:
    """What `--show_config` prints: the settings of the verb."""
    return loaded.lines(show=loaded.settings.show_config, uses=lambda setting: uses(verb, setting.model, setting.field))


def _settings_type(env_type: type[JudgedEnv[Any, Any, Any]]) -> type[EnvSettings[Any]]:
    return EnvSettings[env_type.config_type]  # type: ignore[name-defined]  # made at run time


def _process_preset(env_type: type[JudgedEnv[Any, Any, Any]]) -> dict[str, Any]:
    """The defaults of Atropos' `process`, which differ from those of `serve`."""
    path = f"data/{env_type.name}.jsonl"
    return {"env": {"ensure_scores_are_not_same": False, "include_messages": True, "data_path_to_save_groups": path}}
