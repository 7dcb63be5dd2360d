"""Entry points of installed distributions: commands, environments and judges.

A distribution declares one in its `pyproject.toml`:

    [project.entry-points."judgegym.environments"]
    haiku = "my_plugin.haiku:HaikuEnv"

Finding them reads the metadata of every installed distribution, so lookups try the built-in names
first. A name that cannot be used is reported with its reason, and does not affect the others.
"""

from __future__ import annotations

import importlib
import re
import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from judgegym.judges.config.extras import find_missing_extra
from judgegym.llm.errors import SettingsError, UserError

COMMANDS = "judgegym.commands"
ENVIRONMENTS = "judgegym.environments"
JUDGES = "judgegym.judges"

CORE_DISTRIBUTION = "judgegym"
_NAME = re.compile(r"[A-Za-z0-9][\w-]*")
_PACKAGE = Path(__file__).parents[2]


@dataclass(frozen=True)
class EntryPoint:
    """A name that one or several distributions provide.

    Attributes:
        name: the name.
        target: the object, as `module:attribute` or `module`.
        distribution: the distribution that provides it, with the version.
        refusal: the reason why the name cannot be used; empty if it can.
        is_of_core: whether JudgeGym itself provides it.
    """

    name: str
    target: str
    distribution: str
    refusal: str = ""
    is_of_core: bool = False

    def load(self) -> object:
        """Import the object.

        Raises:
            SettingsError: the name is refused, or the object cannot be imported.
        """
        if self.refusal:
            raise SettingsError(f"{self.name}: {self.refusal}")
        with explain_import_errors(f"{self.name} of {self.distribution}"):
            loaded: object = metadata.EntryPoint(self.name, self.target, group="").load()
            return loaded


def read_entry_points(group: str, built_in: Collection[str]) -> Sequence[EntryPoint]:
    """Read the names of a group: usable ones first, then refused ones.

    Args:
        group: such as `COMMANDS`.
        built_in: names that no distribution can take.
    """
    owners: dict[str, dict[str, EntryPoint]] = {}
    unreadable: list[EntryPoint] = []
    seen: set[str] = set()
    for distribution in metadata.distributions():
        if f"[{group}]" not in (distribution.read_text("entry_points.txt") or ""):
            continue
        project = distribution.metadata["Name"]
        if project in seen:  # a later entry of `sys.path`, which is not imported
            continue
        seen.add(project)
        owner = f"{project} {distribution.version}"
        try:
            entries = distribution.entry_points
        except (TypeError, ValueError) as error:  # a line that is not `name = value`
            reason = f"the entry_points.txt of {owner} cannot be read: {error}"
            unreadable.append(EntryPoint(project, "", owner, reason))
            continue
        for entry in entries:
            if entry.group == group:
                point = EntryPoint(
                    entry.name, entry.value, owner, is_of_core=project == CORE_DISTRIBUTION
                )
                owners.setdefault(_normalize(entry.name), {})[project] = point
    taken = set(map(_normalize, built_in))
    points: list[EntryPoint] = []
    for name in sorted(owners):
        points += _resolve_owner(owners[name], name in taken)
    return [*sorted(points, key=lambda point: bool(point.refusal)), *unreadable]


def index_by_name(points: Sequence[EntryPoint]) -> Mapping[str, EntryPoint]:
    """Index entry points by name; a usable one comes before a refused one."""
    points_by_name: dict[str, EntryPoint] = {}
    for point in points:
        points_by_name.setdefault(point.name, point)
    return points_by_name


def _normalize(name: str) -> str:
    """Normalize a name for comparison: `my-name` equals `my_name`."""
    return name.replace("-", "_")


def _resolve_owner(owners: Mapping[str, EntryPoint], is_built_in: bool) -> Iterator[EntryPoint]:
    """Decide which of several distributions gets a name; they are keyed by project."""
    is_of_core = CORE_DISTRIBUTION in owners and not is_built_in
    if is_of_core:
        yield owners[CORE_DISTRIBUTION]
    plugins = [point for project, point in owners.items() if project != CORE_DISTRIBUTION]
    if not plugins:
        return
    name = plugins[0].name
    brought_by = " and ".join(point.distribution for point in plugins)
    refusal = ""
    if _NAME.fullmatch(name) is None:
        refusal = f"{brought_by} brings this name; expected letters, digits, - and _"
    elif is_built_in or is_of_core:
        refusal = (
            f"{CORE_DISTRIBUTION} and {brought_by} bring this name; that of {CORE_DISTRIBUTION} is "
            "used"
        )
    elif len(plugins) > 1:
        refusal = f"{brought_by} bring this name; uninstall one of them"
    yield EntryPoint(name, plugins[0].target, brought_by, refusal)


@contextmanager
def explain_import_errors(subject: str) -> Iterator[None]:
    """Raise one-line errors for code of a user or plugin that cannot be imported.

    Args:
        subject: what is imported, for the beginning of the message.

    Raises:
        SettingsError: for any error of the code, except those that are one line already.
    """
    try:
        yield
    except UserError:
        raise
    except (
        Exception,
        SystemExit,
    ) as error:  # any error of a user's module is the reason why it cannot be loaded
        if (
            isinstance(error, ModuleNotFoundError)
            and (missing := find_missing_extra(error)) is not None
        ):
            raise missing from None
        description = _describe_error(error)
        raise SettingsError(f"{subject}: cannot be imported: {description}") from error


def _describe_error(error: BaseException) -> str:
    """Describe an error and its last line outside this package and the import system."""
    if isinstance(error, SystemExit):
        description = 'it ends the process; is its cli() below `if __name__ == "__main__":`?'
    else:
        error_type = type(error).__name__
        message = " ".join(str(error).split())
        description = f"{error_type}: {message}"
    if isinstance(error, SyntaxError):
        return description  # the message names its line
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<")
    ]
    importers = (_PACKAGE, Path(importlib.__file__).parent)
    outside = [
        frame for frame in frames if not any(map(Path(frame.filename).is_relative_to, importers))
    ]
    if outside:
        file_name = Path(outside[-1].filename).name
        return f"{file_name}, line {outside[-1].lineno}: {description}"
    return description
