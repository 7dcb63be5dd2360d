"""Environments by name: a built-in name, a Python file, or a class of a module.

The files `<name>_environment.py` of the packages `eval_environments` and `environments` define the
built-in names; there is no other list. Installed distributions add names by entry points of the
group `judgegym.environments`.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import sys
from collections.abc import Mapping
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeGuard, get_origin

from judgegym.judges.config.entry_points import (
    ENVIRONMENTS,
    EntryPoint,
    explain_import_errors,
    index_by_name,
    read_entry_points,
)
from judgegym.judges.core.naming import suggest_similar
from judgegym.llm.errors import SettingsError

if TYPE_CHECKING:
    from judgegym.environments.base import JudgedEnv

ENVIRONMENT_FORMS = "path/to/file.py, path/to/file.py:Class or package.module:Class"
_PACKAGES = ("judgegym.eval_environments", "judgegym.environments")
_ENDING = "_environment"


def built_in_modules() -> Mapping[str, str]:
    """Return the module of each built-in environment, by name."""
    modules = {}
    for package in _PACKAGES:
        spec = find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            for path in sorted(Path(folder).glob(f"*{_ENDING}.py")):
                modules[path.stem.removesuffix(_ENDING)] = f"{package}.{path.stem}"
    return modules


def read_installed_environments() -> Mapping[str, EntryPoint]:
    """Return the environments of installed distributions, by name.

    `load_environment` raises the reason if one cannot be used.
    """
    points = index_by_name(read_entry_points(ENVIRONMENTS, built_in_modules()))
    return {name.replace("-", "_"): point for name, point in points.items()}


def find_distribution(word: str) -> str:
    """Return the distribution that provides an environment.

    Empty for a built-in name, a file or a class.
    """
    name = word.replace("-", "_")
    if name in built_in_modules():
        point = None
    else:
        point = read_installed_environments().get(name)
    if point is None:
        return ""
    return point.distribution


def environment_names() -> list[str]:
    """List the usable names: built-in ones, and those of installed distributions."""
    names = built_in_modules()
    installed = read_installed_environments()
    return [*names, *(name for name, point in installed.items() if not point.refusal)]


def load_environment(word: str) -> type[JudgedEnv[Any, Any, Any]]:
    """Load the environment that a word names.

    Raises:
        SettingsError: there is no such environment, there are several, or its code cannot be
            loaded.
    """
    location, _, name = word.partition(":")
    if location.endswith(".py") or "/" in location:
        return _select_environment(_load_user_module(word, Path(location)), word, name)
    if name or "." in location:
        sys.path.insert(0, str(Path.cwd()))  # where the user's modules are, as with `python -m`
        return _select_environment(_load_user_module(word, location), word, name)
    modules = built_in_modules()
    normalized = location.replace("-", "_")
    if normalized in modules:
        return _select_environment(importlib.import_module(modules[normalized]), word, "")
    installed = read_installed_environments()
    if normalized in installed:
        return load_installed(installed[normalized])
    names = environment_names()
    file_hint = ""
    if Path(f"{word}.py").is_file():
        file_hint = f" (a file of that name is here: {word}.py)"
    suggestion = suggest_similar(normalized, names)
    name_list = ", ".join(names)
    raise SettingsError(
        f"no environment {word!r}{suggestion}{file_hint}\n"
        f"expected one of {name_list}\nor one of your own: {ENVIRONMENT_FORMS}"
    )


def load_installed(point: EntryPoint) -> type[JudgedEnv[Any, Any, Any]]:
    """Load the environment of an entry point: a class, or a module with one environment.

    Raises:
        SettingsError: it cannot be imported, or is no environment.
    """
    from judgegym.environments.base import JudgedEnv  # late: the names do not need it

    subject = f"{point.name} of {point.distribution}"
    value = point.load()
    if isinstance(value, ModuleType):
        return _select_environment(value, subject, "")
    if not is_class(value) or not issubclass(value, JudgedEnv):
        raise SettingsError(
            f"{subject}: {point.target} is no environment; expected a class MyEnv(JudgedEnv[…])"
        )
    if inspect.isabstract(value):
        reason = _describe_missing_methods(value)
        raise SettingsError(f"{subject}: {reason}")
    return value


def _load_module(path: Path) -> ModuleType:
    """Run a Python file as a module, as `python file.py` does, but not as `__main__`."""
    spec = spec_from_file_location(f"__{path.stem}__", path)  # a name that no other module has
    assert spec is not None and spec.loader is not None  # it ends with .py
    module = module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def _load_user_module(word: str, location: Path | str) -> ModuleType:
    """Import a module by its file or its name.

    Raises:
        SettingsError: it does not exist, or raises an error while it is imported.
    """
    if isinstance(location, Path) and not location.is_file():
        problem = "a folder" if location.is_dir() else "no such file"
        raise SettingsError(f"{word}: {problem}; expected {ENVIRONMENT_FORMS}")
    if isinstance(location, Path) and location.suffix != ".py":
        raise SettingsError(f"{word}: not a Python file; expected {ENVIRONMENT_FORMS}")
    with explain_import_errors(word):
        if isinstance(location, Path):
            return _load_module(location)
        return importlib.import_module(location)


def _select_environment(module: ModuleType, word: str, name: str) -> type[JudgedEnv[Any, Any, Any]]:
    """Return the class of this name; without a name, the module's only environment.

    Raises:
        SettingsError: it has no such class, or not exactly one environment.
    """
    from judgegym.environments.base import JudgedEnv  # late: the names do not need it

    classes: dict[str, type[JudgedEnv[Any, Any, Any]]] = {}
    for key, value in vars(module).items():
        if is_class(value) and issubclass(value, JudgedEnv) and not inspect.isabstract(value):
            classes[key] = value
    if name:
        if name not in classes:
            if classes:
                class_list = ", ".join(classes)
                available = f"environments in it: {class_list}"
            else:
                available = "it has no environment"
            suggestion = suggest_similar(name, classes)
            raise SettingsError(f"{word}: no environment {name}{suggestion}; {available}")
        return classes[name]
    defined_names = [key for key, value in classes.items() if value.__module__ == module.__name__]
    if not defined_names:
        module_classes = filter(is_class, vars(module).values())
        defined_classes = [value for value in module_classes if value.__module__ == module.__name__]
        descriptions = [
            _describe_missing_methods(value)
            for value in defined_classes
            if issubclass(value, JudgedEnv)
        ]
        problem = (
            "; ".join(descriptions)
            or "no environment in it; expected a class MyEnv(JudgedEnv[…]) "
            "(judgegym.environments.base)"
        )
        raise SettingsError(f"{word}: {problem}")
    if len(defined_names) > 1:
        choices = " or ".join(f"{word}:{key}" for key in defined_names)
        defined_name_count = len(defined_names)
        raise SettingsError(f"{word}: {defined_name_count} environments in it; name one: {choices}")
    return classes[defined_names[0]]


def _describe_missing_methods(abstract: type[Any]) -> str:
    """Describe the methods that a class lacks, and its methods that may be misspelt."""
    public_names = [name for name in vars(abstract) if not name.startswith("_")]
    missing = sorted(getattr(abstract, "__abstractmethods__", ()))
    similar: list[str] = []
    for method in missing:
        similar += difflib.get_close_matches(method, public_names, n=1)
    similar_hint = f" (it has {' and '.join(similar)})" if similar else ""
    missing_list = " and ".join(missing)
    return (
        f"{abstract.__name__} is no environment yet: it lacks the method "
        f"{missing_list}{similar_hint}"
    )


def is_class(value: object) -> TypeGuard[type[Any]]:
    """Return whether a value is a class; in Python 3.10 `list[int]` would pass as one."""
    return inspect.isclass(value) and get_origin(value) is None
