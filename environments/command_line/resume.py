"""The command that resumes an interrupted run."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from environments.settings import EnvSettings
from environments.settings.verbs import Verb
from judges.config.sources import LoadedSettings
from judges.config.structure import secrets
from judges.llm.urls import without_credentials

_LONG_ENOUGH_TO_BE_A_KEY = 8
_PLACES: Mapping[Verb, str] = {
    "evaluate": "--env.data_dir_to_save_evals",
    "process": "--env.data_path_to_save_groups",
}


def resume_command(loaded: LoadedSettings[EnvSettings[Any]], arguments: Sequence[str]) -> str:
    """The command that was given, with the interpreter that ran it, the run's place and `--resume`.

    Secrets are replaced by `***`, because the command is printed and may be logged.
    """
    keys = list(secrets(loaded.settings))
    words = [without_credentials(_without(keys, word)) for word in arguments]
    flag = _PLACES[loaded.settings.verb]
    place = str(getattr(loaded.settings.env, flag.removeprefix("--env.")))
    if any(word == flag or word.startswith(f"{flag}=") for word in words):
        # A file of groups may have got another name than the given one, which was taken.
        words = [_renamed(flag, place, before, word) for before, word in zip(["", *words], words, strict=False)]
    else:
        words.append(f"{flag}={place}")
    if "--resume" not in words:
        words.append("--resume")
    return shlex.join([sys.executable, sys.argv[0], *words])


def _renamed(flag: str, place: str, before: str, word: str) -> str:
    """A word of the command line, with the run's place in the word that gives it: `--flag=place` or `--flag place`."""
    if before == flag:
        return place
    return f"{flag}={place}" if word.startswith(f"{flag}=") else word


def _without(keys: Sequence[str], word: str) -> str:
    """A word of the command line without the secrets; a short secret is replaced only if it is the whole value."""
    for secret in keys:
        flag, equals, value = word.partition("=")
        if secret in (word, value):
            word = f"{flag}{equals}***" if equals else "***"
        elif len(secret) >= _LONG_ENOUGH_TO_BE_A_KEY:
            word = word.replace(secret, "***")
    return word
