"""The command that resumes an interrupted run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from judgegym.engine.settings import EnvSettings
from judgegym.environments.command_line.program import CommandLine
from judgegym.judges.config.help import secrets
from judgegym.judges.config.sources import LoadedSettings
from judgegym.llm import wire
from judgegym.llm.urls import without_credentials, without_secret_fields

_LONG_ENOUGH_TO_BE_A_KEY = 8
_SECRET_FLAGS = ("api_key", "extra_headers")
_RETRY = "--retry_failed"
_KEY_IN_JSON = re.compile(r'(?P<before>,\s*)?"\w*api_key"\s*:\s*"(?:[^"\\]|\\.)*"(?P<after>\s*,\s*)?')


def resume_command(loaded: LoadedSettings[EnvSettings[Any]], typed: CommandLine) -> str:
    """The command that was given, with what runs it, the run's place and `--resume`.

    It is printed and may be logged, so it holds no secrets: the flags of keys are left out, and a second line says that
    they must be given again. Without them it asks for a key; it never sends a placeholder as one.
    """
    words, hint = without_secrets(loaded.settings, typed.settings)
    flag = _place(loaded.settings)
    place = str(getattr(loaded.settings.env, flag.removeprefix("--env.")))
    if any(word == flag or word.startswith(f"{flag}=") for word in words):
        # A file of groups may have got another name than the given one, which was taken.
        words = [_renamed(flag, place, before, word) for before, word in zip(["", *words], words, strict=False)]
    else:
        words.append(f"{flag}={place}")
    if "--resume" not in words:
        words.append("--resume")
    return typed.again(words) + hint


def without_secrets(settings: BaseModel, words: Sequence[str]) -> tuple[list[str], str]:
    """The words of a command line without keys, and a line to stand below it that says which flags are left out.

    Args:
        settings: what the words are; their secrets may also be elsewhere than in flags of keys.
        words: as the user gave them.
    """
    keys = list(secrets(settings))
    shown, left_out = _without_keys(words)
    hint = f"\n  (with {' and '.join(left_out)} as before: keys are not shown)" if left_out else ""
    return [without_credentials(_without(keys, _without_fields(word))) for word in shown], hint


def without_retry_failed(typed: CommandLine) -> CommandLine:
    """The command line that continues the whole run; the last word counts if a file says --retry_failed."""
    words = [word for word in typed.settings if word.partition("=")[0] != _RETRY]
    return replace(typed, settings=words if len(words) < len(typed.settings) else [*words, f"{_RETRY}=False"])


def _place(settings: EnvSettings[Any]) -> str:
    """The flag that names the place of a run."""
    is_beside_groups = settings.verb != "evaluate" and settings.env.data_path_to_save_groups is not None
    return "--env.data_path_to_save_groups" if is_beside_groups else "--env.data_dir_to_save_evals"


def _without_keys(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words without the flags of keys and their values, and keys within JSON; and the flags that held one."""
    shown: list[str] = []
    left_out: list[str] = []
    words = iter(arguments)
    for word in words:
        flag, equals, _ = word.partition("=")
        if flag.startswith("--") and flag.endswith(_SECRET_FLAGS):
            left_out.append(flag)
            if not equals:
                next(words, None)
        elif _KEY_IN_JSON.search(word):
            flag_of_value = flag if flag.startswith("--") else "".join(shown[-1:])  # `--flag value`
            left_out.append(f"the keys of {flag_of_value}")
            shown.append(_KEY_IN_JSON.sub(_comma, word))
        else:
            shown.append(word)
    return shown, left_out


def _without_fields(word: str) -> str:
    """A word of the command line of whose JSON object the secret fields are blank."""
    flag, equals, value = word.partition("=") if word.startswith("-") else ("", "", word)
    if not value.startswith("{"):
        return word
    try:
        fields = wire.loads(value)
    except ValueError:
        return word
    blank = without_secret_fields(fields)
    return word if blank == fields else f"{flag}{equals}{wire.dumps(blank).decode()}"


def _comma(match: re.Match[str]) -> str:
    """What is left of a key and its value in a JSON object: a comma if there are fields on both sides."""
    return "," if match["before"] and match["after"] else ""


def _renamed(flag: str, place: str, before: str, word: str) -> str:
    """A word of the command line, with the run's place in the word that gives it: `--flag=place` or `--flag place`."""
    if before == flag:
        return place
    return f"{flag}={place}" if word.startswith(f"{flag}=") else word


def _without(keys: Sequence[str], word: str) -> str:
    """A word of the command line without secrets, which may also be elsewhere than in the flags of keys.

    A short secret is replaced only if it is the whole value.
    """
    for secret in keys:
        flag, equals, value = word.partition("=")
        if secret in (word, value):
            word = f"{flag}{equals}***" if equals else "***"
        elif len(secret) >= _LONG_ENOUGH_TO_BE_A_KEY:
            word = word.replace(secret, "***")
    return word
