"""Kinds of judges that are not built in: of an installed package, or of a Python file of the user.

A distribution brings one by an entry point, whose object is a `JudgeDefinition`:

    [project.entry-points."judgegym.judges"]
    haiku = "haiku_plugin.judge:JUDGE"

Guarantee: a file runs where its user has named it, on the command line or in a file of settings, and never because of a
request. A server that reads its settings again takes no file that it did not have at its start.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, create_model

from judgegym.judges.config.entry_points import JUDGES, by_name, importing, read_entry_points
from judgegym.judges.config.explaining import prompt_digest
from judgegym.judges.config.fields import setting
from judgegym.judges.config.judge import JudgeSettings
from judgegym.judges.core.judge import JudgeDefinition
from judgegym.llm.errors import SettingsError

_PYTHON_NAME = re.compile(r"(.+\.py):([A-Za-z_]\w*)", re.DOTALL)
_may_run: ContextVar[bool] = ContextVar("_may_run", default=True)


@contextmanager
def no_new_files() -> Iterator[None]:
    """Refuse Python files that were not loaded before, while the block runs."""
    token = _may_run.set(False)
    try:
        yield
    finally:
        _may_run.reset(token)


def is_python_name(kind: str) -> bool:
    """Whether the name of a judge is `FILE.py:NAME`."""
    return _PYTHON_NAME.fullmatch(kind) is not None


def load_entry_point(kind: str, built_in: Collection[str]) -> JudgeDefinition | None:
    """Load the judge that an installed distribution has under this name; `None` if there is none.

    Raises:
        ValueError: it cannot be imported, or is no judge.
    """
    point = by_name(read_entry_points(JUDGES, built_in)).get(kind)
    if point is None:
        return None
    try:
        loaded = point.load()
    except SettingsError as error:
        raise ValueError(str(error)) from None
    return _checked(loaded, f"{point.target} of {point.distribution}")


def load_python_name(kind: str) -> JudgeDefinition:
    """Load the judge `FILE.py:NAME`, whose settings have the digest of its file.

    Raises:
        ValueError: the file cannot be read or imported, or the name is no judge; or no file may run now.
    """
    match = _PYTHON_NAME.fullmatch(kind)
    assert match is not None, kind  # `is_python_name`
    path, name = Path(match[1]).expanduser(), match[2]
    if not _may_run.get():
        raise ValueError(f"{path} was not loaded when the server started; start it anew")
    try:
        source = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8'}") from None
    judge = _checked(_attribute(path, name), kind)
    return replace(judge, settings=_with_digest(judge.settings, path, prompt_digest(source)))


def _with_digest(settings: type[JudgeSettings], path: Path, digest: str) -> type[JudgeSettings]:
    """The settings with the digest of the judge's file, so that no run is resumed with another judge."""

    def is_same(value: str) -> str:
        if value != digest:
            raise ValueError(f"{path} has another digest now, {digest}: it has changed")
        return value

    about = "Refuse FILE.py:NAME if the file has another digest than this. If unset, that of the file now."
    field: Any = (Annotated[str, AfterValidator(is_same)], setting(digest, about))
    made: type[JudgeSettings] = create_model(settings.__name__, __base__=settings, judge_digest=field)
    return made


def _attribute(path: Path, name: str) -> object:
    """An attribute of a file's module; what is beside the file can be imported by it."""
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None  # of a file that ends in .py there is one
    assert spec.loader is not None
    module, folder = module_from_spec(spec), str(path.resolve().parent)
    sys.modules.setdefault(path.stem, module)  # dataclasses look their module up
    sys.path.insert(0, folder)
    try:
        with importing(str(path)):
            spec.loader.exec_module(module)
    except SettingsError as error:
        raise ValueError(str(error)) from None
    finally:
        sys.path.remove(folder)
    if not hasattr(module, name):
        raise ValueError(f"{path} has no {name}; expected the name of a JudgeDefinition")
    return getattr(module, name)


def _checked(judge: object, source: str) -> JudgeDefinition:
    if isinstance(judge, JudgeDefinition):
        return judge
    raise ValueError(f"{source} is a {type(judge).__name__}; expected a JudgeDefinition")
