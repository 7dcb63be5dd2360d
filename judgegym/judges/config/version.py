"""The version of this package."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def package_version() -> str:
    """The version of this package; `unknown` if it runs from a folder that is not installed."""
    try:
        return version("judgegym")
    except PackageNotFoundError:
        return "unknown"
