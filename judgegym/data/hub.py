"""Connection to the Hugging Face hub, tested once before a library tries for minutes.

Guarantee: without the hub its libraries use their caches at once, and what is missing there is one
error.
"""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request
from functools import cache

_PATIENCE_S = 5.0
_SWITCH = "HF_HUB_OFFLINE"
_OFF = ("", "0", "off", "false", "no")
_MODULES = ("huggingface_hub.constants", "datasets.config")
"""Modules that have read the switch when they were imported."""


def find_unreachable_reason() -> str | None:
    """Return why the hub cannot be reached, or `None`.

    If it cannot be reached, its libraries are switched to offline mode.

    Call this before one of them loads something. A library that is already imported is switched,
    too.
    """
    if os.environ.get(_SWITCH, "").lower() not in _OFF:
        return f"{_SWITCH} is set"
    reason = _find_connection_error(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")
    if reason is not None:
        os.environ[_SWITCH] = "1"
        for module in filter(None, map(sys.modules.get, _MODULES)):
            setattr(module, _SWITCH, True)
    return reason


@cache
def _find_connection_error(url: str) -> str | None:
    """Return why no HTTP server answers at a URL, or `None`."""
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, method="HEAD"), timeout=_PATIENCE_S
        ):
            return None
    except urllib.error.HTTPError:
        return None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        return f"{url}: {reason}"
