"""Arguments of a command: its settings from all sources, and the command that resumes a run.

A setting of another verb is refused on the command line and in environment variables. In a preset,
and in a file, which may hold the settings of several verbs, it is ignored. A setting that others
make useless, such as the schedule of a tournament that is not played, is ignored there, too. No
printed command holds a secret.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import BaseModel

from judgegym.engine.settings import EnvSettings
from judgegym.engine.settings.env import secrets
from judgegym.engine.settings.training import drop_ignored, refuse_ignored
from judgegym.engine.settings.verbs import Verb
from judgegym.environments.command_line.offline import apply_offline, expand_replicas
from judgegym.environments.command_line.program import CommandLine
from judgegym.judges.config.composed import expand_choices
from judgegym.judges.config.fields import OTHER_GROUP, declared_settings
from judgegym.judges.config.reading.choices import select_settings
from judgegym.judges.config.sources import LoadedSettings, SettingsSource, SourcedSettings, load
from judgegym.llm import wire
from judgegym.llm.cost.budget import Expense
from judgegym.llm.errors import SettingsError
from judgegym.llm.urls import redact_credentials, redact_secret_fields
from judgegym.llm.wire import JSON

if TYPE_CHECKING:
    from judgegym.environments.base import JudgedEnv

EnvType: TypeAlias = "type[JudgedEnv[Any, Any, Any]]"
LoadedEnv: TypeAlias = "LoadedSettings[EnvSettings[Any]]"
"""Settings of an environment's command, from all sources."""
_STRICT_SOURCES = ("command line", "environment variable")


def select_verb_settings(
    sources: Sequence[SettingsSource], settings_type: type[SourcedSettings], verb: Verb
) -> list[SettingsSource]:
    """Return the sources with only the verb's settings; unknown settings stay, to be refused later.

    Raises:
        SettingsError: a flag or an environment variable sets a setting of another verb; the message
            names all.
    """
    other_verbs = {
        setting.name: " and ".join(setting.verbs)
        for setting in declared_settings(expand_choices(settings_type))
        if not setting.is_used_by(verb)
    }
    refused: list[str] = []
    selected: list[SettingsSource] = []
    for source in sources:
        unused = [name for name in source.values if name in other_verbs]
        if source.kind in _STRICT_SOURCES:
            for name in unused:
                origin = source.origin(name)
                owner = other_verbs[name]
                refused.append(f"--{name} ({origin}): a setting of {owner}, not of {verb}")
        selected.append(source.drop_settings(*unused))
    if refused:
        hint = f"A --config file that {verb} shares with other verbs may hold such settings."
        raise SettingsError("\n".join([*refused, hint]))
    return selected


GROUPS = {
    "policy": "policy (the model that is trained or evaluated)",
    "judge": "judge (the model that scores it)",
    "user": "user (the model that plays the user of a conversation)",
    "data": "data",
    "run": "run",
    OTHER_GROUP: "this environment",
    "rollouts": "rollouts (how groups are sampled, and which are kept)",
    "trainer": "trainer (the rollout API and the trainer behind it)",
    "monitor": "monitors (a gold judge beside training, alarms)",
}


def list_common_settings(settings_class: type[EnvSettings[Any]], verb: Verb) -> list[str]:
    """Return the settings that help lists.

    Of two alternatives, the one that the verb reads first.
    """
    declared = [*declared_settings(settings_class)]
    used_data = [setting for setting in declared if setting.group == "data"]
    preferred = {
        setting.fallback(verb): setting.name for setting in used_data if setting.is_used_by(verb)
    }
    common = [setting.name for setting in declared if setting.is_common]
    return list(dict.fromkeys(preferred.get(name, name) for name in common))


def load_settings(env_type: EnvType, argv: Sequence[str], *, verb: Verb) -> LoadedEnv:
    """Load the settings of a command.

    Raises:
        SettingsError: a setting is wrong, or not one of the verb's.
    """
    settings_class = make_settings_type(env_type)
    notes: list[str] = []

    def reshape(sources: list[SettingsSource]) -> list[SettingsSource]:
        sources = expand_replicas([drop_ignored(source) for source in sources])
        sources, messages = apply_offline(sources, chosen_type, env_type.spec.offline_samples)
        notes.extend(messages)
        if verb == "process":
            defaults = list_process_defaults(env_type.spec.name)
            sources.append(
                SettingsSource(
                    "process", {f"env.{name}": value for name, value in defaults.items()}
                )
            )
        return select_verb_settings(sources, settings_class, verb)

    refuse_ignored(argv)
    chosen_type = select_settings(settings_class, argv)
    loaded = load(settings_class, argv, prog=verb, verb=verb, reshape=reshape)
    return replace(
        loaded, settings=loaded.settings.select_verb(verb), notes=(*notes, *loaded.notes)
    )


def make_settings_type(env_type: EnvType) -> type[EnvSettings[Any]]:
    """Return the class of all settings of an environment's commands."""
    return EnvSettings[env_type.config_type]  # type: ignore[name-defined]  # made at run time


def list_process_defaults(environment: str) -> dict[str, Any]:
    """Return the defaults of Atropos' `process` under `env`, which differ from those of `serve`."""
    return {
        "ensure_scores_are_not_same": False,
        "include_messages": True,
        "data_path_to_save_groups": f"data/{environment}.jsonl",
        "total_steps": 100,  # of serve it is a number of training steps
    }


_MIN_KEY_LENGTH = 8
_SECRET_FLAGS = ("api_key", "extra_headers")
_RETRY = "--retry_failed"


def make_resume_command(loaded: LoadedEnv, typed: CommandLine, spent: Expense | None = None) -> str:
    """Return the typed command with the run's path, `--resume` and, if it was spent, more budget.

    It is printed and may be logged, so it holds no secrets: flags of keys are left out, and a
    second line says that they must be given again. Without them the command asks for a key; it
    never sends a placeholder as one.
    """
    words, hint = redact_command_line(loaded.settings, typed.settings)
    env = loaded.settings.env
    name = "data_dir_to_save_evals"
    if loaded.settings.verb != "evaluate" and env.data_path_to_save_groups is not None:
        name = "data_path_to_save_groups"
    flag, path = f"--env.{name}", str(getattr(env, name))
    if any(word == flag or word.startswith(f"{flag}=") for word in words):
        # A file of groups may have got another name than the given one, which was taken.
        words = [
            _replace_path(flag, path, before, word)
            for before, word in zip(["", *words], words, strict=False)
        ]
    else:
        words.append(f"{flag}={path}")
    if "--resume" not in words:
        words.append("--resume")
    if spent is not None:
        words = env.enlarge_command(words, spent, "env.")
    return typed.format_command(words) + hint


def redact_command_line(settings: BaseModel, words: Sequence[str]) -> tuple[list[str], str]:
    """Return the words of a command line without keys, and a line that names the flags left out.

    Args:
        settings: the settings of the words; their secrets may also be outside of flags of keys.
        words: the words as the user typed them.
    """
    keys = list(secrets(settings))
    shown: list[str] = []
    left_out: list[str] = []
    flag_before = ""
    for word in words:
        is_flag = word.startswith("--")
        flag, equals, value = word.partition("=")
        if not is_flag:
            flag, equals, value = flag_before, "", word
        flag_before = ""
        if is_flag and not equals:
            flag_before = word
        if flag.endswith(_SECRET_FLAGS):
            if is_flag:
                left_out.append(flag)
            continue
        parsed = None
        if value.startswith(("{", "[")):
            parsed = wire.loads_or_none(value)
        public = _redact(parsed)
        if public != redact_secret_fields(parsed):
            left_out.append(f"the keys of {flag}")
        if public != parsed:
            word = word.removesuffix(value) + wire.dumps(public).decode()
        shown.append(redact_credentials(_redact_keys(keys, word)))
    hint = ""
    if left_out:
        flags = " and ".join(left_out)
        hint = f"\n  (with {flags} as before: keys are not shown)"
    return shown, hint


def _redact(value: JSON) -> JSON:
    """Return JSON without API keys, and with blanks for other secrets."""
    if isinstance(value, list):
        return [_redact(item) for item in value]
    if not isinstance(value, dict):
        return value
    return redact_secret_fields(
        {name: _redact(item) for name, item in value.items() if not name.endswith("api_key")}
    )


def drop_retry_failed(typed: CommandLine) -> CommandLine:
    """Return the command line that continues the whole run.

    If a file says --retry_failed, a last word overrides it.
    """
    words = [word for word in typed.settings if word.partition("=")[0] != _RETRY]
    if len(words) == len(typed.settings):
        words.append(f"{_RETRY}=False")
    return replace(typed, settings=words)


def _replace_path(flag: str, path: str, before: str, word: str) -> str:
    """Return a word of the command line, with the run's path if it is the value of `--flag`."""
    if before == flag:
        return path
    if word.startswith(f"{flag}="):
        return f"{flag}={path}"
    return word


def _redact_keys(keys: Sequence[str], word: str) -> str:
    """Return a word of the command line without secrets, which may be outside of flags of keys.

    A short secret is replaced only if it is the whole value.
    """
    for secret in keys:
        flag, equals, value = word.partition("=")
        if secret in (word, value):
            word = f"{flag}{equals}***" if equals else "***"
        elif len(secret) >= _MIN_KEY_LENGTH:
            word = word.replace(secret, "***")
    return word
