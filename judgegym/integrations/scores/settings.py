"""Secrets among settings that a trainer writes into its logs, whatever our own messages leave out.

Settings in an environment variable, for trainers that pass a function none.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from judgegym.llm import wire
from judgegym.llm.errors import SettingsError
from judgegym.llm.urls import without_credentials
from judgegym.llm.wire import JSON

_NO_KEY = ("", "none")
"""Values that say that there is no key."""


def secret_in(settings: Mapping[str, object], within: str = "") -> str | None:
    """What is wrong with the first secret among settings: a key, a token, or a URL with a user, password or token."""
    for name, value in settings.items():
        place = f"{within}.{name}" if within else name
        if name.endswith("extra_headers") and value:
            return f"{place}: headers are secrets, and trainers log settings; expected them at a reward server"
        found = next((found for each in _mappings(value) if (found := secret_in(each, place)) is not None), None)
        if found is not None:
            return found
        if not isinstance(value, str):
            continue
        if (name == "token" or name.endswith("api_key")) and value not in _NO_KEY:
            return f"{place}: expected the name of an environment variable in {place}_env"
        if name.endswith("url") and (without_credentials(value) != value or "/token/" in value):
            return f"{place}: expected a URL without user, password and token"
    return None


def token_of(token: str | None, variable: str | None) -> str | None:
    """The token that is set, or that of an environment variable.

    Raises:
        SettingsError: both are set, or there is no such variable.
    """
    if not variable:
        return token
    if token:
        raise SettingsError("token_env: expected either token or token_env")
    if not os.environ.get(variable):
        raise SettingsError(f"token_env: the environment variable {variable} is not set")
    return os.environ[variable]


def _mappings(value: object) -> Sequence[Mapping[str, object]]:
    """The settings in a setting: a section, or a list of them."""
    if isinstance(value, Mapping):
        return [value]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [item for item in value if isinstance(item, Mapping)]
    return []


def settings_in(variable: str, *, missing: str = "") -> dict[str, JSON]:
    """The settings in a variable, a JSON object by their names.

    Args:
        variable: its name.
        missing: what is read if it is not set.

    Raises:
        SettingsError: it is no JSON object.
    """
    try:
        given = wire.loads(os.environ.get(variable) or missing)
    except ValueError:
        given = None
    if not isinstance(given, Mapping):
        raise SettingsError(
            f'{variable}: expected a JSON object of settings, such as {{"url": "http://127.0.0.1:8400"}}'
        )
    return dict(given)
