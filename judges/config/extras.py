"""The optional parts of the installation: which extra of `judgegym` brings which package."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from judges.llm.errors import SettingsError

EXTRAS: Mapping[str, tuple[str, ...]] = {
    "environments": ("jinja2", "rich", "numpy", "scipy", "sklearn", "krippendorff"),
    "data": ("datasets",),
    "training": ("atroposlib", "transformers"),
    "wandb": ("wandb",),
    "server": ("prometheus_client",),
    "ray": ("ray",),
}
"""Modules by the extra that brings them. The core, which is not listed, is enough for the judges and the shims."""


class MissingExtraError(SettingsError):
    """A command needs a package that is not installed; the message names the extra that brings it."""

    def __init__(self, extra: str, module: str) -> None:
        """Say which."""
        super().__init__(f"{module} is not installed: pip install 'judgegym[{extra}]'")


def require(extra: str) -> None:
    """Check that an extra is installed, before anything is started that needs it.

    Raises:
        MissingExtraError: it is not.
    """
    for module in EXTRAS[extra]:
        if find_spec(module) is None:
            raise MissingExtraError(extra, module)


def missing_extra(error: ModuleNotFoundError) -> MissingExtraError | None:
    """The error for people, if the module that was not found is an extra's; a module of ours is a defect."""
    module = (error.name or "").partition(".")[0]
    extra = next((extra for extra, modules in EXTRAS.items() if module in modules), None)
    return None if extra is None else MissingExtraError(extra, module)
