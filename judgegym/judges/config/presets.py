"""Presets, YAML files of settings, and `--profile[=FILE]`.

`--config NAME` finds the presets in the package, also without a checkout; a checkout's folder
`configs/` links to them.

Guarantees for YAML: any text gives plain data or a one-line `ValueError`, within about a second. A
text that is not UTF-8, is nested too deeply, refers to itself, or grows beyond a limit by its
aliases is refused before it is built. A name that occurs twice in a mapping is an error, too: YAML
readers would let the last one win.

A profile shows where a command spends its time, as a page for a browser. It is written however the
command ends, Ctrl-C included. The event loop's thread is sampled every 2 ms of wall time, so that
waiting shows as time of the loop itself. Samples stay in memory until the end, about 10 MB per
minute: a profile is for minutes, not for days.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from judgegym.judges.config.extras import require
from judgegym.judges.config.fields import MAX_DEPTH
from judgegym.llm.errors import SettingsError

_FOLDER = Path(__file__).parents[2] / "presets"
_ENDING = ".yaml"


def list_presets(prefix: str = "") -> Sequence[str]:
    """List the names of the presets with this prefix, in order."""
    return sorted(path.stem for path in _FOLDER.glob(f"{prefix}*{_ENDING}"))


def find_config_file(value: str | os.PathLike[str]) -> Path:
    """Find the file of `--config`: a path, or a preset if there is no file of that name.

    A value with a folder or an ending is always a path, so that a preset never replaces a user's
    missing file.

    Raises:
        SettingsError: neither a file nor a preset has that name.
    """
    path = Path(value)
    if path.name != str(value) or path.exists():
        return path
    if path.suffix:
        if path.stem in list_presets() and path.suffix == _ENDING:
            raise SettingsError(
                f"--config: {path}: no such file; --config {path.stem} takes the preset of that "
                "name"
            )
        return path
    if path.name not in list_presets():
        close = difflib.get_close_matches(path.name, list_presets(), n=1, cutoff=0.6)
        if close:
            guess = f"did you mean {close[0]}?"
        else:
            guess = f"presets: {', '.join(list_presets())}"
        raise SettingsError(f"--config: {path.name!r} is neither a file nor a preset; {guess}")
    return _FOLDER / f"{path.name}{_ENDING}"


_MAX_DEPTH = MAX_DEPTH + 10  # a settings file has further levels around a value
_MAX_NODES = 200_000

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C loader is ten times as fast


class _UniqueNamesLoader(_Loader):  # type: ignore[misc]  # either of two classes
    """Builds plain data; refuses a mapping with the same name twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: dict[tuple[str, str], yaml.Node] = {}
        for name, _ in node.value:  # before merge keys (<<) add names that may be overridden
            if isinstance(name, yaml.ScalarNode) and name.tag != "tag:yaml.org,2002:merge":
                if (name.tag, name.value) in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the name {name.value!r} occurs twice", name.start_mark
                    )
                seen[name.tag, name.value] = name
        values: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return values


class _LiteralNamesLoader(_UniqueNamesLoader):
    """Builds the same, but keeps names as written: `yes` and `1.0` are words."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        for name, _ in node.value:
            if isinstance(name, yaml.ScalarNode) and name.tag != "tag:yaml.org,2002:merge":
                name.tag = "tag:yaml.org,2002:str"
        return super().construct_mapping(node, deep)


class YamlError(ValueError):
    """A text that is not YAML, or not of the kind that is built; its message is one line.

    Attributes:
        problem: what is wrong, without the line.
        line: the number of the line, from 1, where it is known.
    """

    def __init__(self, message: str, problem: str, line: int | None = None) -> None:
        """Set message, problem and line."""
        super().__init__(message)
        self.problem, self.line = problem, line


def load_yaml(data: bytes | str, *, names_as_written: bool = False) -> object:
    """Parse a YAML text.

    Args:
        data: the text.
        names_as_written: keep the names in all mappings as written, and not as numbers or dates.

    Raises:
        YamlError: it is not YAML, or not of the kind that is built (see the module).
    """
    text = ""
    try:
        text = data.decode("utf-8") if isinstance(data, bytes) else data
        _check_size(text)
        return yaml.load(
            text, _LiteralNamesLoader if names_as_written else _UniqueNamesLoader
        )  # subclasses of the safe loader
    except YamlError:
        raise
    except UnicodeDecodeError as error:
        problem = f"not UTF-8: {error.reason} at byte {error.start}"
        raise YamlError(problem, problem, error.object.count(b"\n", 0, error.start) + 1) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        raise YamlError(
            " ".join(str(error).split()), str(error.problem or error.context), line
        ) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise YamlError(" ".join(str(error).split()), error.reason, line) from None
    except Exception as error:  # noqa: BLE001  # constructors raise other errors for invalid dates or tags
        problem = " ".join(str(error).split()) or type(error).__name__
        raise YamlError(problem, problem) from None


def parse_nodes(data: bytes) -> yaml.Node | None:
    """Parse a YAML text that `load_yaml` accepts into nodes with their positions."""
    node: yaml.Node | None = yaml.compose(data.decode("utf-8"), _Loader)
    return node


def read_yaml(path: Path, prefix: str = "") -> Any:
    """Read a YAML file.

    Raises:
        SettingsError: it cannot be read, or is not YAML; the message begins with `prefix`, such as
            `--config: `.
    """
    try:
        return load_yaml(path.read_bytes())
    except OSError as error:
        raise SettingsError(f"{prefix}{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise SettingsError(f"{prefix}{path} is not a YAML file: {error}") from None


def _check_size(text: str) -> None:
    """Count the nodes that the text grows to, without building it.

    Raises:
        YamlError: it is too deep or too large, or an alias is part of itself.
    """
    sizes: dict[str, int] = {}  # the size of each anchor's node, with its aliases
    open_nodes: list[tuple[str | None, int]] = []  # the anchor, and the number of nodes before it
    count = 0
    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.AliasEvent):
            if any(anchor == event.anchor for anchor, _ in open_nodes):
                raise _make_error(event, f"*{event.anchor} is a part of itself")
            count += sizes.get(str(event.anchor), 1)
        elif isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((event.anchor, count))
            count += 1
            if len(open_nodes) > _MAX_DEPTH:
                raise _make_error(event, f"nested more than {_MAX_DEPTH} deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_nodes.pop()
            if anchor is not None:
                sizes[anchor] = count - before
        elif isinstance(event, yaml.ScalarEvent):
            count += 1
        if count > _MAX_NODES:
            raise _make_error(event, f"more than {_MAX_NODES} values, aliases counted")


def _make_error(event: yaml.Event, problem: str) -> YamlError:
    line = None if event.start_mark is None else event.start_mark.line + 1
    return YamlError(f"{'text' if line is None else f'line {line}'}: {problem}", problem, line)


_INTERVAL_S = 0.002

PROFILE_ABOUT = (
    "Write a profile to this HTML file (without a name: profile-<time>.html); workers of a server "
    "write a file each. "
    "Needs the extra profile."
)


def default_profile_name() -> str:
    """Return the file name for a flag without one."""
    now = datetime.now()
    return f"profile-{now:%Y%m%d-%H%M%S}.html"


def check_profile(path: Path | None) -> None:
    """Check, before anything starts, that a profile can be taken and written.

    Raises:
        MissingExtraError: pyinstrument is not installed.
        SettingsError: the file cannot be written.
    """
    if path is None:
        return
    require("profile")
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise SettingsError(
            f"--profile: {path} cannot be written; expected a file in an existing folder"
        )


@contextmanager
def write_profile(path: Path | None) -> Iterator[None]:
    """Profile this thread during the block, and write it to `path`; without a path do nothing.

    Raises:
        MissingExtraError, SettingsError: as in `check`.
    """
    check_profile(path)
    if path is None:
        yield
        return
    from pyinstrument import Profiler

    # Profile all tasks of the loop: by default only the task that starts it is followed.
    profiler = Profiler(interval=_INTERVAL_S, async_mode="disabled")
    profiler.start()
    try:
        yield
    finally:
        profiler.stop()
        path.write_text(profiler.output_html(), encoding="utf-8")
        sys.stderr.write(f"The profile is in {path}: open it in a browser\n")
