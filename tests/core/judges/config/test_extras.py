"""What the core of the installation is enough for, and how a missing extra is named."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from judgegym.judges.config import extras
from judgegym.judges.config.extras import (
    EXTRAS,
    TRAINERS,
    MissingExtraError,
    find_missing_extra,
    install_command,
    report_missing_extra,
    require,
)
from tests.core.server.running import running

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[4]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CORE = {
    "aiohttp",
    "aiolimiter",
    "httptools",
    "orjson",
    "pydantic",
    "pydantic-settings",
    "pyyaml",
    "uvicorn",
}


def names(requirements: list[str]) -> set[str]:
    """The packages of a list of requirements, with those of the extras that it names."""
    found: set[str] = set()
    for requirement in map(Requirement, requirements):
        if requirement.name != "judgegym":
            found.add(canonicalize_name(requirement.name))
        for extra in requirement.extras if requirement.name == "judgegym" else ():
            found |= names(PROJECT["optional-dependencies"][extra])
    return found


def test_core_is_seven_small_packages() -> None:
    assert names(PROJECT["dependencies"]) == CORE


PACKAGES = {
    "art": "openpipe-art",
    "sklearn": "scikit-learn",
    "opentelemetry": "opentelemetry-sdk",
    "PIL": "pillow",
}


def packages(modules: Iterable[str]) -> set[str]:
    return {canonicalize_name(PACKAGES.get(module, module)) for module in modules}


@pytest.mark.parametrize("extra", EXTRAS)
def test_modules_of_an_extra_are_those_of_packages_that_it_installs(extra: str) -> None:
    assert packages(EXTRAS[extra]) <= names(PROJECT["optional-dependencies"][extra])


def test_all_and_dev_hold_every_extra_that_a_command_checks_for() -> None:
    everything, development = (
        names(PROJECT["optional-dependencies"][extra]) for extra in ("all", "dev")
    )
    apart = (*TRAINERS, "litellm")  # 85 MB, which few need; its tests say so where it is missing
    assert (
        packages(module for extra in EXTRAS if extra not in apart for module in EXTRAS[extra])
        <= everything
    )
    assert everything <= development


@pytest.fixture(scope="module")
def imported_with_the_core_alone() -> subprocess.CompletedProcess[str]:
    """Half a second of CPU, which is no test's own: also the gate tells that a module needs an extra.

    `spans` is written on the classes of OpenTelemetry: `--trace` alone imports it, once it has
    asked for the extra.
    """
    refused = [module for modules in EXTRAS.values() for module in modules] + ["tiktoken", "uvloop"]
    code = f"""
import importlib, pkgutil, sys
sys.modules |= dict.fromkeys({refused!r})
import judgegym
for room in ("judges", "llm", "offline", "server", "statistics"):
    package = importlib.import_module(f"judgegym.{{room}}")
    for module in pkgutil.walk_packages(package.__path__, f"judgegym.{{room}}."):
        if not module.name.endswith(("__main__", "judges.config.spans")):
            importlib.import_module(module.name)
for name in judgegym.__all__:
    getattr(judgegym, name)
"""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)


@pytest.mark.slow
def test_judges_server_shims_and_public_names_are_imported_with_the_core_alone(
    imported_with_the_core_alone: subprocess.CompletedProcess[str],
) -> None:
    assert imported_with_the_core_alone.returncode == 0, imported_with_the_core_alone.stderr


def test_require_names_the_extra_of_the_first_module_that_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require("environments")
    monkeypatch.setitem(EXTRAS, "data", ("json", "no_such_module"))  # type: ignore[arg-type]  # a dict at run time
    with pytest.raises(
        MissingExtraError,
        match=re.escape(f"no_such_module is not installed: {install_command('data')}"),
    ):
        require("data")


@pytest.mark.parametrize(
    ("module", "extra"),
    [("wandb", "wandb"), ("wandb.sdk", "wandb"), ("datasets", "data"), ("judgegym.nothing", None)],
)
def test_module_that_was_not_found_is_explained_if_an_extra_brings_it(
    module: str, extra: str | None
) -> None:
    explained = find_missing_extra(ModuleNotFoundError(f"No module named {module!r}", name=module))
    assert (None if explained is None else str(explained).rpartition("[")[2].rstrip("'")) == (
        extra and f"{extra}]"
    )


async def test_server_without_prometheus_client_scores_and_refuses_its_metrics(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(extras.EXTRAS, "server", ("no_such_module",))  # type: ignore[arg-type]
    async with running() as server:
        scored = await server.post("/v1/score", {"prompt": "Q", "response": "A"})
        metrics = await server.get("/metrics")
    assert (scored.status, scored.json["score"]) == (200, 0.75)
    assert (metrics.status, metrics.json["error"]["type"]) == (501, "not_installed")
    assert "[server]" in metrics.text and "[server]" in caplog.text


def test_an_import_that_needs_an_extra_names_it_and_any_other_error_stays() -> None:
    said = f"^verifiers\\.v1 is not installed: {re.escape(install_command('verifiers'))}$"
    with pytest.raises(MissingExtraError, match=said), report_missing_extra("verifiers"):
        raise ModuleNotFoundError("No module named 'verifiers.v1'", name="verifiers.v1")
    with (
        pytest.raises(ModuleNotFoundError, match=r"^No module named 'nobody'$"),
        report_missing_extra("verifiers"),
    ):
        raise ModuleNotFoundError("No module named 'nobody'", name="nobody")
    with pytest.raises(ImportError):  # so that code which tries an import goes on without it
        raise MissingExtraError("verifiers", "verifiers")


def test_the_error_travels_to_another_process() -> None:
    error = pickle.loads(pickle.dumps(MissingExtraError("art", "openai")))
    assert (
        str(error) == f"openai is not installed: {install_command('art')}"
        and error.name == "openai"
    )
