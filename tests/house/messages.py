"""The messages of the packages to their users, in one file: errors, warnings, log lines, help.

    python -m tests.house.messages --write    # writes tests/house/messages.txt

A message is a text of several words in a `raise`, in a call that logs or warns, or in the help of a
flag, a command or a setting. The parts that are filled in stand in braces. `test_messages.py`
compares, so that a changed message shows in the file, where an editor reads them in one go.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.command import ROOT
from tests.house.counting import PACKAGES, python_files

FILE = Path(__file__).with_name("messages.txt")
FEWEST_WORDS = 3
_LOG_METHODS = {"debug", "info", "warning", "error", "exception", "critical", "log", "warn"}
_HELP_CALLS = {"setting", "Field", "add_argument", "add_parser", "ArgumentParser", "Command"}

Kind = Literal["error", "log", "help", "text"]


@dataclass(frozen=True)
class Message:
    """A text for users.

    Attributes:
        line: where it stands in its module, from 1.
        kind: how it reaches the user.
        text: the text, on one line, with `{…}` for what is filled in.
    """

    line: int
    kind: Kind
    text: str


def find_messages(source: str) -> Iterator[Message]:
    """Yield the messages of a module, in the order of its lines."""
    tree = ast.parse(source)
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    yield from _find(tree, "text", documentation)


def _find(node: ast.AST, kind: Kind, documentation: set[int]) -> Iterator[Message]:
    if id(node) in documentation and isinstance(node, ast.Constant):
        return
    text = _template(node)
    if text is not None:
        if len(text.split()) >= FEWEST_WORDS:
            yield Message(node.lineno, kind, " ".join(text.split()))
        return
    for child in ast.iter_child_nodes(node):
        yield from _find(child, _kind(node, kind), documentation)


def _kind(node: ast.AST, kind: Kind) -> Kind:
    if isinstance(node, ast.Raise):
        return "error"
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func).rpartition(".")[2]
        if name in _HELP_CALLS:
            return "help"
        if name in _LOG_METHODS:
            return "log"
        if name.endswith("Error"):
            return "error"
    return kind


def _template(node: ast.AST) -> str | None:
    """Return the text of a string or an f-string; `None` for any other node."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(_template(part) or "{…}" for part in node.values)
    return None


def list_messages() -> str:
    """Return the content of the file: each module with its messages."""
    lines: list[str] = []
    for path in (path for package in PACKAGES for path in sorted(python_files(ROOT / package))):
        messages = list(find_messages(path.read_text(encoding="utf-8")))
        if messages:
            lines.append(f"\n## {path.relative_to(ROOT).as_posix()}")
            lines.extend(f"{message.kind}: {message.text}" for message in messages)
    return "\n".join(lines).lstrip("\n") + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        FILE.write_text(list_messages(), encoding="utf-8")
    else:
        sys.stdout.write(list_messages())
