"""The optional parts of the installation: which extra of `judgegym` brings which package."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from judges.llm.errors import SettingsError

EXTRAS: Mapping[str, tuple[str, ...]] = {
    "environments": ("jinja2", "matplotlib", "rich", "numpy", "scipy", "sklearn", "krippendorff"),
    "data": ("datasets",),
    "training": ("atroposlib", "transformers"),
    "wandb": ("wandb",),
    "server": ("prometheus_client",),
    "ray": ("ray",),
    "profile": ("pyinstrument",),
    "completion": ("argcomplete",),
    "statistics": ("numpy", "scipy", "sklearn", "krippendorff"),
}
"""Modules by the extra that installs them. The judges and the shims need only the core, which is not listed."""


class MissingExtraError(SettingsError):
    """A command needs a package that is not installed; the message names the extra that installs it."""

    def __init__(self, extra: str, module: str) -> None:
        """Name the module and its extra in the message."""
        super().__init__(f"{module} is not installed: pip install 'judgegym[{extra}]'")


def require(extra: str) -> None:
    """Check that an extra is installed, before starting anything that needs it.

    Raises:
        MissingExtraError: one of its modules is not installed.
    """
    for module in EXTRAS[extra]:
        if find_spec(module) is None:
            raise MissingExtraError(extra, module)


def missing_extra(error: ModuleNotFoundError) -> MissingExtraError | None:
    """The error to show if the missing module belongs to an extra; `None` for any other module, which is a bug."""
    module = (error.name or "").partition(".")[0]
    extra = next((extra for extra, modules in EXTRAS.items() if module in modules), None)
    return None if extra is None else MissingExtraError(extra, module)
