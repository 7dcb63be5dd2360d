"""Settings in an environment variable, for trainers that pass a function none."""

from __future__ import annotations

import os
from collections.abc import Mapping

from judgegym.llm import wire
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON


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
