"""The documents as the tests read them: pages, their blocks of code, and the commands in those for the shell.

Generated blocks are left out: `test_generated.py` compares them with the code.

A block without a language is what the commands of the block before it print; `…` stands for left
out lines. Another output, of a run that no test makes, is a block of `text`.
A block with a title (```` ```python title="my_trainer.py" ````) is a file that a reader saves; the
commands after it find it. A comment `# exit code 1` says how a command ends that does not end well.
"""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from docs.tools.generated import blank_generated
from tests.forking import ROOT

_FOLDERS = ("docs", "judgegym", "examples")
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *(path for folder in _FOLDERS for path in sorted((ROOT / folder).rglob("*.md"))),
]
_BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)(?P<rest>[^\n]*)\n(?P<text>.*?)^ *```",
    re.MULTILINE | re.DOTALL,
)
_TITLE = re.compile(r'title="([^"]+)"')
_EXIT_CODE = re.compile(r"# exit code (\d+)")


@dataclass(frozen=True)
class Block:
    """A block of code.

    Attributes:
        line: of the page, where it begins.
        title: the file that a reader saves it as; empty for one that is shown or typed.
    """

    language: str
    title: str
    text: str
    line: int

    def commands(self) -> Iterator[Command]:
        """The commands of a block for the shell; a quoted value may have several lines."""
        line, begins = "", 0
        for number, part in enumerate(
            re.sub(r"\\\n", "\\\n ", self.text).splitlines(), self.line + 1
        ):
            line, begins = (line, begins) if line else ("", number)
            if part.endswith("\\"):
                line += part[:-1]
                continue
            line += part + "\n"
            try:
                words = shlex.split(line, comments=True)
            except ValueError:  # a quotation is still open
                continue
            if words:
                ends = _EXIT_CODE.search(line)
                yield Command.of(words, int(ends[1]) if ends else 0, begins)
            line = ""
        assert not line, f"line {begins}: a command without its end"


@dataclass(frozen=True)
class Command:
    """A command that a reader types.

    Attributes:
        variables: the assignments before it.
        program: its first word: `judgegym`, `python`, `run-api` or another one.
        words: what follows it.
        code: the exit code that the page gives for it.
        line: of the page.
    """

    variables: tuple[tuple[str, str], ...]
    program: str
    words: tuple[str, ...]
    code: int
    line: int

    @classmethod
    def of(cls, words: list[str], code: int, line: int) -> Command:
        assignments = []
        while len(words) > 1 and re.match(r"[A-Z_]+=", words[0]):
            name, _, value = words.pop(0).partition("=")
            assignments.append((name, value))
        if words[-1] == "&":
            words.pop()
        program, *rest = words
        program = program.removeprefix(".venv/bin/")
        return cls(tuple(assignments), program, tuple(rest), code, line)

    def __str__(self) -> str:
        return shlex.join(
            [*(f"{name}={value}" for name, value in self.variables), self.program, *self.words]
        )


def blocks(page: Path) -> list[Block]:
    """The blocks of a page, in order; those without a language are what a command has printed."""
    text = blank_generated(page.read_text(encoding="utf-8"))
    handwritten = []
    for match in _BLOCK.finditer(text):
        title = _TITLE.search(match["rest"])
        line = text.count("\n", 0, match.start()) + 1
        handwritten.append(
            Block(
                match["language"], title[1] if title else "", textwrap.dedent(match["text"]), line
            )
        )
    return handwritten


def name_of(page: Path) -> str:
    """A page's name in messages."""
    return str(page.relative_to(ROOT))
