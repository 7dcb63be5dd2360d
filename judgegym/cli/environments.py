"""Environments by the word that a user gives: a built-in name, a file of one's own, or a class of a module.

The built-in ones are the files `<name>_environment.py` of the packages `eval_environments` and `environments`; there is
no other list of them.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import sys
import traceback
from collections.abc import Mapping
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeGuard, get_origin

from judgegym.judges.config.extras import missing_extra
from judgegym.judges.core.naming import did_you_mean
from judgegym.llm.errors import SettingsError, UserError

if TYPE_CHECKING:
    from judgegym.environments.base import JudgedEnv

FORMS = "path/to/file.py, path/to/file.py:Class or package.module:Class"
_PACKAGES = ("judgegym.eval_environments", "judgegym.environments")
_ENDING = "_environment"


def built_in() -> Mapping[str, str]:
    """The module of each built-in environment, by name."""
    found = {}
    for package in _PACKAGES:
        spec = find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            for path in sorted(Path(folder).glob(f"*{_ENDING}.py")):
                found[path.stem.removesuffix(_ENDING)] = f"{package}.{path.stem}"
    return found


def load_environment(word: str) -> type[JudgedEnv[Any, Any, Any]]:
    """The environment that a word names.

    Raises:
        SettingsError: there is none, there are several, or its code cannot be loaded.
    """
    place, _, name = word.partition(":")
    if place.endswith(".py") or "/" in place:
        return _environment_in(_loaded(word, Path(place)), word, name)
    if name or "." in place:
        sys.path.insert(0, str(Path.cwd()))  # where the user's modules are, as with `python -m`
        return _environment_in(_loaded(word, place), word, name)
    names = built_in()
    known = place.replace("-", "_")
    if known not in names:
        here = f" (a file of that name is here: {word}.py)" if Path(f"{word}.py").is_file() else ""
        raise SettingsError(
            f"no environment {word!r}{did_you_mean(known, names)}{here}\n"
            f"expected one of {', '.join(names)}\nor one of your own: {FORMS}"
        )
    return _environment_in(importlib.import_module(names[known]), word, "")


def _module_of(path: Path) -> ModuleType:
    """The module of a file, run as `python file.py` runs it but under another name than `__main__`."""
    spec = spec_from_file_location(f"__{path.stem}__", path)  # no name that another module has
    assert spec is not None and spec.loader is not None  # it ends with .py
    module = module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def _loaded(word: str, place: Path | str) -> ModuleType:
    """The user's module: a file, or one by its name.

    Raises:
        SettingsError: it is not there, or raises an error while it is imported.
    """
    if isinstance(place, Path) and not place.is_file():
        raise SettingsError(f"{word}: {'a folder' if place.is_dir() else 'no such file'}; expected {FORMS}")
    if isinstance(place, Path) and place.suffix != ".py":
        raise SettingsError(f"{word}: not a Python file; expected {FORMS}")
    try:
        return _module_of(place) if isinstance(place, Path) else importlib.import_module(place)
    except UserError:
        raise
    except (Exception, SystemExit) as error:  # whatever a user's module raises is why it cannot be loaded
        if isinstance(error, ModuleNotFoundError) and (missing := missing_extra(error)) is not None:
            raise missing from None
        raise SettingsError(f"{word}: cannot be imported: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """What was raised, and where: the last line outside the import system and the contract's own checks."""
    from judgegym import environments  # late: the names of environments need it not

    if isinstance(error, SystemExit):
        what = 'it ends the process; is its cli() below `if __name__ == "__main__":`?'
    else:
        what = f"{type(error).__name__}: {' '.join(str(error).split())}"
    if isinstance(error, SyntaxError):
        return what  # the message names its line
    # The command, the contract's own checks, and the import system.
    left_out = {Path(file).parent for file in (__file__, str(environments.__file__), importlib.__file__)}
    frames = [each for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith("<")]
    outside = [each for each in frames if Path(each.filename).parent not in left_out]
    return f"{Path(outside[-1].filename).name}, line {outside[-1].lineno}: {what}" if outside else what


def _environment_in(module: ModuleType, word: str, name: str) -> type[JudgedEnv[Any, Any, Any]]:
    """The class of this name, or without a name the only environment that the module defines.

    Raises:
        SettingsError: it has no such class, or not one environment alone.
    """
    from judgegym.environments.base import JudgedEnv  # late: the names alone need it not

    found: dict[str, type[JudgedEnv[Any, Any, Any]]] = {
        key: value
        for key, value in vars(module).items()
        if is_class(value) and issubclass(value, JudgedEnv) and not inspect.isabstract(value)
    }
    if name:
        if name not in found:
            there = f"environments in it: {', '.join(found)}" if found else "it has no environment"
            raise SettingsError(f"{word}: no environment {name}{did_you_mean(name, found)}; {there}")
        return found[name]
    own = [key for key, value in found.items() if value.__module__ == module.__name__]
    if not own:
        begun = [value for value in vars(module).values() if is_class(value) and value.__module__ == module.__name__]
        lacking = [_lacking(value) for value in begun if issubclass(value, JudgedEnv)]
        said = (
            "; ".join(lacking)
            or "no environment in it; expected a class MyEnv(JudgedEnv[…]) (judgegym.environments.base)"
        )
        raise SettingsError(f"{word}: {said}")
    if len(own) > 1:
        choices = " or ".join(f"{word}:{key}" for key in own)
        raise SettingsError(f"{word}: {len(own)} environments in it; name one: {choices}")
    return found[own[0]]


def _lacking(abstract: type[Any]) -> str:
    """Which methods a class lacks, and which of its own may be misspelt."""
    own = [name for name in vars(abstract) if not name.startswith("_")]
    lacking = sorted(getattr(abstract, "__abstractmethods__", ()))
    near = [name for each in lacking for name in difflib.get_close_matches(each, own, n=1)]
    has = f" (it has {' and '.join(near)})" if near else ""
    return f"{abstract.__name__} is no environment yet: it lacks the method {' and '.join(lacking)}{has}"


def is_class(value: object) -> TypeGuard[type[Any]]:
    """Whether a name of a module is a class; to Python 3.10, `list[int]` is one, too."""
    return inspect.isclass(value) and get_origin(value) is None
