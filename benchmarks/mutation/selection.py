"""Which test files a mutant of a module has to pass.

First the files that mirror the module in `tests/`, then those that import it (themselves, or
through a helper or a `conftest.py`), then those about the modules that import it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from pathlib import Path

PACKAGES = ("judgegym", "judgegym_trainers", "judgegym_trials")
MIRRORS = {
    "judgegym": "tests/core",
    "judgegym_trainers": "tests/trainers/plugins",
    "judgegym_trials": "tests/trials",
}
"""The folder with the tests of each package."""


class TestSelection:
    """Chooses test files by name and by what they import."""

    def __init__(self, root: Path, fallback: Sequence[str], limit: int) -> None:
        """Read the imports of all modules and tests.

        Args:
            root: the checkout.
            fallback: what is run after the chosen files, inside the checkout.
            limit: the most files that are chosen besides a module's mirror.
        """
        self.fallback = tuple(fallback)
        self._limit = limit
        self._modules = {path: imports_of(root / path) for path in python_files(root, PACKAGES)}
        files = {path: imports_of(root / path) for path in python_files(root, ("tests",))}
        self._direct = {
            path: names for path, names in files.items() if path.name.startswith("test_")
        }
        helpers = {path: names for path, names in files.items() if path not in self._direct}
        # A helper may be imported as `tests.x` or, from its own folder, as `x`.
        by_name = {
            name: names for path, names in helpers.items() for name in (path.stem, module_of(path))
        }
        self._through_helpers: dict[Path, set[str]] = {}
        for path, names in self._direct.items():
            used = [by_name[name] for name in names if name in by_name]
            used += [
                helpers[folder / "conftest.py"]
                for folder in path.parents
                if folder / "conftest.py" in helpers
            ]
            self._through_helpers[path] = set[str]().union(*used)

    def files_for(self, file: str) -> tuple[str, ...]:
        """The test files of a module, in the order in which they are run."""
        path = Path(file)
        mirror = self._mirror(path)
        others = self._importing(path)
        near, seen = [path], {path}
        while near and len({*mirror, *others}) < self._limit:
            names = {module_of(module) for module in near}
            near = [
                module
                for module, imported in self._modules.items()
                if module not in seen and names & imported
            ]
            seen.update(near)
            for module in near:
                others += [*self._mirror(module), *(self._importing(module) if not mirror else [])]
        others = [test for test in dict.fromkeys(others) if test not in mirror]
        return tuple(str(test) for test in [*mirror, *others[: self._limit]])

    def _mirror(self, path: Path) -> list[Path]:
        """The files in the same place of the package's tests that begin with the module's name."""
        stems = [path.stem.strip("_").removesuffix("_environment")]
        stems += [path.parent.name] if path.stem == "__init__" else []
        package, *rooms = path.parent.parts
        folder = Path(MIRRORS[package], *rooms)
        here = [test for test in self._direct if test.parent == folder]
        return [test for test in here if any(is_named_after(test.stem, stem) for stem in stems)]

    def _importing(self, path: Path) -> list[Path]:
        """The files that import a module themselves, then those that do so through a helper."""
        module = module_of(path)
        direct = [test for test, names in self._direct.items() if module in names]
        direct.sort(
            key=lambda test: len(self._direct[test])
        )  # the more a test imports, the less it is about this one
        return direct + [test for test, names in self._through_helpers.items() if module in names]


def python_files(root: Path, folders: Iterable[str]) -> list[Path]:
    """The Python files below some folders, as paths inside the checkout."""
    found = (path.relative_to(root) for folder in folders for path in (root / folder).rglob("*.py"))
    return sorted(path for path in found if "__pycache__" not in path.parts)


def is_named_after(test: str, stem: str) -> bool:
    """Whether a test file's name is the module's, perhaps with more words behind it."""
    return test == f"test_{stem}" or test.startswith(f"test_{stem}_")


def module_of(path: Path) -> str:
    """The dotted name under which a file is imported."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path) -> set[str]:
    """The modules that a file imports; `from a import b` may mean the module `a` or `a.b`, so it counts as both."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names
