"""The arguments of a command: the verb, its help, and its settings from all sources.

Removes the settings that a verb does not use, and refuses flags that nothing reads.

A setting of another verb is refused on the command line and in environment variables. In a file, which may hold the
settings of several verbs, and in a preset it is ignored; and so is there a setting that the others make useless, such
as the schedule of a tournament where none is played.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from judgegym.engine.settings import EnvSettings
from judgegym.engine.settings.training import refuse_ignored, without_ignored
from judgegym.engine.settings.verbs import Verb, uses
from judgegym.environments.command_line.offline import with_stand_ins
from judgegym.environments.command_line.program import VERBS, CommandLine, Program
from judgegym.environments.command_line.servers import with_replicas
from judgegym.judges.config.fields import OTHER_GROUP, group_of, is_common, read_instead_of, verbs_of
from judgegym.judges.config.help import DeclaredSetting, HelpDetail, declared_settings, help_page, names_given, without
from judgegym.judges.config.reading import SettingsSource
from judgegym.judges.config.sources import ConfigLine, LoadedSettings, ShowConfig, SourcedSettings, load
from judgegym.llm.errors import SettingsError

if TYPE_CHECKING:
    from judgegym.environments.base import JudgedEnv


_STRICT_SOURCES = ("command line", "environment variable")


def of_verb(
    sources: Sequence[SettingsSource], settings_type: type[SourcedSettings], verb: Verb
) -> list[SettingsSource]:
    """The sources with only the settings that the verb uses; unknown settings stay, to be refused later.

    Raises:
        SettingsError: a flag or an environment variable sets one that the verb does not use; the message names all.
    """
    others = {
        setting.name: setting
        for setting in declared_settings(settings_type)
        if not uses(verb, setting.model, setting.field)
    }
    refused: list[str] = []
    kept: list[SettingsSource] = []
    for source in sources:
        for name in [name for name in names_given(settings_type, source.values) if name in others]:
            if source.kind in _STRICT_SOURCES:
                refused.append(f"--{name} ({source.origin(name)}): a setting of {_verbs(others[name])}, not of {verb}")
            source = replace(source, values=without(source.values, name))
        kept.append(source)
    if refused:
        hint = f"A --config file that {verb} shares with other verbs may hold such settings."
        raise SettingsError("\n".join([*refused, hint]))
    return kept


def check_flags_are_read(loaded: LoadedSettings[EnvSettings[Any]], verb: Verb) -> None:
    """Check that each flag of the command line has an effect, given the other settings.

    Raises:
        SettingsError: one that nothing reads was set to another value than its default.
    """
    env, fields = loaded.settings.env, type(loaded.settings.env).model_fields
    refused = []
    for name, readers in env.without_effect.items():
        given = loaded.origins.get(f"env.{name}") == "command line"
        if not given or getattr(env, name) == fields[name].get_default(call_default_factory=True, validated_data={}):
            continue
        readers = [reader for reader in readers if uses(verb, type(env), reader.partition("=")[0])]
        needs = " or ".join(f"--env.{reader}" for reader in readers)
        refused.append(f"--env.{name} (command line): nothing reads it" + (f" without {needs}" if needs else ""))
    if refused:
        raise SettingsError("\n".join(refused))


def _verbs(setting: DeclaredSetting) -> str:
    return " and ".join(verbs_of(setting.model, setting.field))


_GROUPS = {
    "policy": "policy (the model that is trained or evaluated)",
    "judge": "judge (the model that scores it)",
    "data": "data",
    "run": "run",
    OTHER_GROUP: "this environment",
    "rollouts": "rollouts (how groups are sampled, and which are kept)",
    "trainer": "trainer (the rollout API and the trainer behind it)",
}


def overview(program: Program) -> str:
    """The verbs, and where the help of each is."""
    verbs = "\n".join(f"  {verb:<10} {about}" for verb, about in VERBS.items())
    help_of_verbs = f"{program.usage('VERB')} --help lists a verb's most used settings, --help_all every one."
    return f"usage: {program.usage('VERB')} [--name=value …]\n\n{verbs}\n\n{help_of_verbs}"


def read_verb(program: Program, arguments: Sequence[str]) -> CommandLine:
    """The verb and the arguments after it.

    Raises:
        SettingsError: the first argument is not a verb.
    """
    if arguments and arguments[0] in VERBS:
        return CommandLine(program, cast(Verb, arguments[0]), arguments[1:])
    actual = f"found {arguments[0]!r}" if arguments else "found nothing"
    raise SettingsError(f"expected one of {', '.join(VERBS)} as the first argument, {actual}\n{overview(program)}")


def command_help(env_type: type[JudgedEnv[Any, Any, Any]], typed: CommandLine, detail: HelpDetail) -> str:
    """What `VERB --help` and `VERB --help_all` print."""
    of_env = settings_type(env_type)
    return help_page(
        of_env,
        usage=typed.program.usage(typed.verb),
        about=VERBS[typed.verb],
        groups=_GROUPS,
        detail=detail,
        uses=lambda setting: uses(typed.verb, setting.model, setting.field),
        most_used=_most_used(of_env, typed.verb),
    )


def _most_used(of_env: type[EnvSettings[Any]], verb: Verb) -> list[str]:
    """The settings that help lists; of two for one thing the one that the verb reads first."""
    common = [each for each in declared_settings(of_env) if is_common(each.model, each.field)]
    first = {
        each.name.removesuffix(each.field) + other: each.name
        for each in declared_settings(of_env)
        if group_of(each.model, each.field) == "data"
        and uses(verb, each.model, each.field)
        and not _are_two_data_sets(each, verb)
        and (other := read_instead_of(each.model, each.field)) is not None
    }
    return list(dict.fromkeys(first.get(each.name, each.name) for each in common))


def load_settings(
    env_type: type[JudgedEnv[Any, Any, Any]], argv: Sequence[str], *, verb: Verb
) -> LoadedSettings[EnvSettings[Any]]:
    """The settings of a command.

    Raises:
        SettingsError: a setting is wrong or not one of the verb's.
    """
    of_env = settings_type(env_type)
    notes: list[str] = []

    def reshape(sources: list[SettingsSource]) -> list[SettingsSource]:
        sources = with_replicas([without_ignored(source) for source in sources])
        sources, said = with_stand_ins(sources, env_type.config_type, env_type.offline_samples)
        notes.extend(said)
        if verb == "process":
            sources.append(SettingsSource("process", {"env": process_defaults(env_type.name)}))
        return of_verb(sources, of_env, verb)

    refuse_ignored(argv)
    loaded = load(
        of_env,
        argv,
        prog=verb,
        reshape=reshape,
        uses=lambda setting: uses(verb, setting.model, setting.field),
        differ=lambda setting: _are_two_data_sets(setting, verb),
    )
    for name in ("latency_ms", "faults"):
        if loaded.given(name) and not loaded.settings.offline:
            raise SettingsError(f"--{name}: a setting of the stand-ins; it needs --offline")
    check_flags_are_read(loaded, verb)
    return replace(loaded, settings=loaded.settings.of_verb(verb), notes=(*notes, *loaded.notes))


def _are_two_data_sets(setting: DeclaredSetting, verb: Verb) -> bool:
    """Whether a verb reads both a setting and the one that it is read instead of: `serve` trains and evaluates."""
    return verb == "serve" and group_of(setting.model, setting.field) == "data"


def config_lines(loaded: LoadedSettings[EnvSettings[Any]], verb: Verb, show: ShowConfig) -> list[ConfigLine]:
    """The settings of the verb with values and sources; with `changed`, those that differ from their defaults."""
    return loaded.lines(show=show, uses=lambda setting: uses(verb, setting.model, setting.field))


def settings_type(env_type: type[JudgedEnv[Any, Any, Any]]) -> type[EnvSettings[Any]]:
    """All settings of an environment's commands."""
    return EnvSettings[env_type.config_type]  # type: ignore[name-defined]  # made at run time


def process_defaults(environment: str) -> dict[str, Any]:
    """The defaults of Atropos' `process` under `env`, which differ from those of `serve`."""
    path = f"data/{environment}.jsonl"
    return {
        "ensure_scores_are_not_same": False,
        "include_messages": True,
        "data_path_to_save_groups": path,
        "total_steps": 100,  # of serve it is a number of training steps
    }
