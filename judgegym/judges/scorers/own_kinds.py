"""Kinds of judges that are not built in: of an installed package, or of a user's Python file.

A distribution adds one by an entry point, whose object is a `JudgeDefinition`:

    [project.entry-points."judgegym.judges"]
    haiku = "haiku_plugin.judge:JUDGE"

Guarantee: a file runs only if the user named it on the command line or in a settings file, never
    because of a request. It runs once in a process: a server that reloads its settings keeps the
    loaded code, and loads no file that it did not load at its start.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

from pydantic import AfterValidator, create_model

from judgegym.judges.config.entry_points import (
    JUDGES,
    explain_import_errors,
    index_by_name,
    read_entry_points,
)
from judgegym.judges.config.explaining import prompt_digest
from judgegym.judges.config.fields import setting
from judgegym.judges.config.judge import JudgeSettings
from judgegym.judges.core.judge import JudgeDefinition
from judgegym.llm.errors import SettingsError

DIGEST, PACKAGE = "judge_digest", "judge_package"
"""The settings with the digest of a judge's Python file, and with the distribution of an installed
judge."""
CODE_SETTINGS = frozenset((DIGEST, PACKAGE))
"""The settings that identify the code of a judge that is not built in."""
_PYTHON_NAME = re.compile(r"(.+\.py):([A-Za-z_]\w*)", re.DOTALL)
_may_run: ContextVar[bool] = ContextVar("_may_run", default=True)


@dataclass(frozen=True, slots=True)
class _PythonFile:
    """A file that has run in this process: its module, and the digest of its text."""

    module: ModuleType
    digest: str


_files: dict[Path, _PythonFile] = {}
_refusals: dict[tuple[Path, str], str] = {}
"""The reasons why files with this digest cannot be imported, so that they are not run again."""


@contextmanager
def refuse_new_files() -> Iterator[None]:
    """Refuse Python files that were not loaded before, while the block runs."""
    token = _may_run.set(False)
    try:
        yield
    finally:
        _may_run.reset(token)


def find_changed_files() -> list[Path]:
    """Return the judges' Python files that have changed since they ran."""
    return [path for path, file in _files.items() if _has_changed(path, file)]


def has_changed(kind: str) -> bool:
    """Return whether the file of a judge `FILE.py:NAME` has changed since it ran."""
    path = Path(resolve_name(kind).rpartition(":")[0])
    return path in _files and _has_changed(path, _files[path])


def _has_changed(path: Path, file: _PythonFile) -> bool:
    try:
        return prompt_digest(path.read_text("utf-8")) != file.digest
    except (OSError, UnicodeDecodeError):
        return False


def is_python_name(kind: str) -> bool:
    """Return whether the name of a judge is `FILE.py:NAME`."""
    return _PYTHON_NAME.fullmatch(kind) is not None


def resolve_name(kind: str) -> str:
    """Return the name of a judge as a process in another directory can read it."""
    match = _PYTHON_NAME.fullmatch(kind)
    if match is None:
        return kind
    path = _resolve_path(match[1])
    return f"{path}:{match[2]}"


def _resolve_path(file: str) -> Path:
    return Path(file).expanduser().resolve()


def load_entry_point(kind: str, built_in: Collection[str]) -> JudgeDefinition | None:
    """Load the installed judge of this name; `None` if there is none.

    Raises:
        ValueError: it cannot be imported, or is no judge.
    """
    point = index_by_name(read_entry_points(JUDGES, built_in)).get(kind)
    if point is None:
        return None
    try:
        loaded = point.load()
    except SettingsError as error:
        raise ValueError(str(error)) from None
    judge = _check_definition(loaded, f"{point.target} of {point.distribution}")
    distribution = point.distribution
    about = (
        "Refuse the judge of an installed package if that has another name or version than this. "
        "If unset, any."
    )
    return _add_code_setting(
        judge, PACKAGE, distribution, about, f"{kind} is of {distribution} now"
    )


def load_python_name(kind: str) -> JudgeDefinition:
    """Load the judge `FILE.py:NAME`; its settings hold the digest of its file.

    Raises:
        ValueError: the file cannot be read or imported, or may not run now, or the name is no
            judge.
    """
    match = _PYTHON_NAME.fullmatch(kind)
    assert match is not None, kind  # `is_python_name`
    file, name = match[1], match[2]
    module = load_python_file(file)
    if not hasattr(module, name):
        raise ValueError(f"{file} has no {name}; expected the name of a JudgeDefinition")
    judge = _check_definition(getattr(module, name), kind)
    digest = _files[_resolve_path(file)].digest
    about = (
        "Refuse FILE.py:NAME if the file has another digest than this. If unset, that of the file "
        "now."
    )
    return _add_code_setting(
        judge, DIGEST, digest, about, f"{file} has another digest now, {digest}: it has changed"
    )


def load_python_file(file: str) -> ModuleType:
    """Load a Python file as a module, once in a process.

    Raises:
        ValueError: it cannot be read or imported, or no file may run now.
    """
    path = _resolve_path(file)
    if path not in _files:
        _files[path] = _run_file(path, file)
    return _files[path].module


def _add_code_setting(
    judge: JudgeDefinition, name: str, code: str, about: str, refusal: str
) -> JudgeDefinition:
    """Add the setting that identifies the code, so that no run is resumed with another judge.

    Args:
        judge: the kind.
        name: the setting's name.
        code: its only valid value.
        about: what the setting does, for `--help`.
        refusal: the message for another value.
    """

    def check_code(value: str) -> str:
        if value != code:
            raise ValueError(refusal)
        return value

    field: Any = (Annotated[str, AfterValidator(check_code)], setting(code, about))
    base = judge.settings
    settings_type: type[JudgeSettings] = create_model(
        base.__name__, __base__=base, __module__=base.__module__, **{name: field}
    )
    return replace(judge, settings=settings_type)


def _run_file(path: Path, file: str) -> _PythonFile:
    """Run a file; it can import modules of its folder.

    Raises:
        ValueError: it cannot be read or imported, or no file may run now.
    """
    if not _may_run.get():
        raise ValueError(f"{file} was not loaded when the server started; restart the server")
    try:
        digest = prompt_digest(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", None) or "it is not UTF-8"
        raise ValueError(f"{file} cannot be read: {problem}") from None
    if (path, digest) in _refusals:
        raise ValueError(_refusals[path, digest])
    # Types are looked up, and objects unpickled, by the name of their module.
    name = path.stem if path.stem not in sys.modules else f"{path.stem}_{digest}"
    spec = spec_from_file_location(name, path)
    assert spec is not None  # a file that ends in .py has a spec
    assert spec.loader is not None
    module, folder = module_from_spec(spec), str(path.parent)
    sys.modules[name] = module
    sys.path.insert(0, folder)
    try:
        with explain_import_errors(file):
            spec.loader.exec_module(module)
    except SettingsError as error:
        del sys.modules[name]
        _refusals[path, digest] = str(error)
        raise ValueError(str(error)) from None
    finally:
        sys.path.remove(folder)
    return _PythonFile(module, digest)


def _check_definition(judge: object, source: str) -> JudgeDefinition:
    if isinstance(judge, JudgeDefinition):
        return judge
    judge_type = type(judge).__name__
    raise ValueError(f"{source} is of type {judge_type}; expected a JudgeDefinition")
