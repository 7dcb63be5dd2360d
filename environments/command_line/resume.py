"""The command that resumes an interrupted run."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import Any

from environments.settings import EnvSettings
from judges.config.sources import LoadedSettings
from judges.config.structure import secrets
from judges.llm.urls import without_credentials

_LONG_ENOUGH_TO_BE_A_KEY = 8


def resume_command(loaded: LoadedSettings[EnvSettings[Any]], arguments: Sequence[str]) -> str:
    """The command that was given, with the interpreter that ran it, the run's directory and `--resume`.

    Secrets are replaced by `***`, because the command is printed and may be logged.
    """
    keys = list(secrets(loaded.settings))
    words = [without_credentials(_without(keys, word)) for word in arguments]
    if not loaded.given("env.data_dir_to_save_evals"):
        words.append(f"--env.data_dir_to_save_evals={loaded.settings.env.data_dir_to_save_evals}")
    if "--resume" not in words:
        words.append("--resume")
    return shlex.join([sys.executable, sys.argv[0], *words])


def _without(keys: Sequence[str], word: str) -> str:
    """A word of the command line without the secrets; a short secret is replaced only if it is the whole value."""
    for secret in keys:
        flag, equals, value = word.partition("=")
        if secret in (word, value):
            word = f"{flag}{equals}***" if equals else "***"
        elif len(secret) >= _LONG_ENOUGH_TO_BE_A_KEY:
            word = word.replace(secret, "***")
    return word
