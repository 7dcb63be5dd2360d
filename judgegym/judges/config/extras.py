"""The extras of the installation: the packages of each, and the command that installs it.

No package index has this package under its name, so the command names the source of the
installation (PEP 610).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, distribution, version
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from judgegym.llm.errors import SettingsError
from judgegym.llm.urls import redact_credentials

_NAME = "judgegym"
_CHECKOUT = Path(__file__).parents[3]


def build_requirement(extra: str) -> str:
    """Return the requirement that installs this JudgeGym with an extra (PEP 508).

    It also works in another environment.
    """
    name = f"{_NAME}[{extra}]"
    if (_CHECKOUT / "pyproject.toml").is_file():
        checkout_url = _CHECKOUT.as_uri()
        return f"{name} @ {checkout_url}"
    try:
        installed = distribution(_NAME)
    except PackageNotFoundError:  # the modules were copied without metadata
        return name
    origin = json.loads(installed.read_text("direct_url.json") or "{}")
    url = redact_credentials(str(origin.get("url", "")))
    vcs = origin.get("vcs_info", {})
    if vcs:
        vcs_name = vcs.get("vcs", "git")
        revision = vcs.get("requested_revision") or vcs.get("commit_id", "")
        return f"{name} @ {vcs_name}+{url}@{revision}"
    if url:
        return f"{name} @ {url}"
    return f"{name}=={installed.version}"


def install_command(extra: str) -> str:
    """Return the command that adds an extra to this installation, or to this checkout."""
    target = build_requirement(extra)
    _, _, url = target.partition(" @ ")
    parts = urlsplit(url)
    folder = Path(url2pathname(parts.path)) if parts.scheme == "file" else None
    if folder is None or not folder.is_dir():
        requirement = shlex.quote(target)
        return f"pip install {requirement}"
    option = "-e " if folder == _CHECKOUT else ""
    return f"pip install {option}{shlex.quote(f'{folder}[{extra}]')}"


EXTRAS: Mapping[str, tuple[str, ...]] = {
    "environments": ("jinja2", "matplotlib", "rich", "numpy", "scipy", "sklearn"),
    "data": ("datasets",),
    "training": ("atroposlib", "transformers"),
    "audit": ("statsmodels",),
    "litellm": ("litellm",),
    "wandb": ("wandb",),
    "server": ("prometheus_client",),
    "otel": ("opentelemetry",),
    "ray": ("ray", "pyarrow"),
    "images": ("PIL",),
    "profile": ("pyinstrument",),
    "rules": ("math_verify", "jsonschema", "py3langid"),
    "completion": ("argcomplete",),
    "statistics": ("numpy", "scipy", "sklearn"),
    "art": ("art", "openai"),
    "inspect": ("inspect_ai", "openai"),
    "nemo-gym": ("nemo_gym",),
    "openenv": ("openenv",),
    "openrlhf": ("openrlhf",),
    "skyrl-gym": ("skyrl_gym",),
    "tinker": ("tinker", "tinker_cookbook", "chz"),
    "trl": ("trl",),
    "verifiers": ("verifiers",),
    "verl": ("verl",),
}
"""Modules by the extra that installs them. Judges and reward functions need only the core, which is
not listed.

For the trainers' extras these are the trainers' own modules."""
TRAINERS = (
    *(
        "art",
        "inspect",
        "nemo-gym",
        "openenv",
        "openrlhf",
        "ray",
        "skyrl-gym",
        "tinker",
        "trl",
        "verifiers",
        "verl",
    ),
)
"""The extras of trainers and evaluation frameworks."""


class MissingExtraError(SettingsError, ImportError):
    """A needed package is not installed; the message names the extra that installs it."""

    def __init__(self, extra: str, module: str) -> None:
        """Name the module and its extra in the message."""
        command = install_command(extra)
        super().__init__(f"{module} is not installed: {command}")
        self.name = module
        self._extra = extra

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str]]:
        """Pickle the error for another process."""
        return MissingExtraError, (self._extra, self.name or "")


def require(extra: str) -> None:
    """Check that an extra is installed, before anything starts that needs it.

    Raises:
        MissingExtraError: one of its modules is not installed.
    """
    for module in EXTRAS[extra]:
        if find_spec(module) is None:
            raise MissingExtraError(extra, module)


@contextmanager
def report_missing_extra(extra: str) -> Iterator[None]:
    """Turn a failed import into a `MissingExtraError`, for modules that need the extra.

    Raises:
        MissingExtraError: one of its modules is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in EXTRAS[extra]:
            raise MissingExtraError(extra, error.name or "") from None
        raise


def find_missing_extra(error: ModuleNotFoundError) -> MissingExtraError | None:
    """Return the error for a missing module of an extra.

    `None` for any other module, which is a bug.
    """
    module = (error.name or "").partition(".")[0]
    extra = next((extra for extra, modules in EXTRAS.items() if module in modules), None)
    if extra is None:
        return None
    return MissingExtraError(extra, module)


def package_version() -> str:
    """Return this package's version; `unknown` in a folder that is not installed."""
    try:
        return version("judgegym")
    except PackageNotFoundError:
        return "unknown"
