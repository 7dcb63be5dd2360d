"""Where a test repeats the wording of a message, which `messages.txt` alone should have.

    python -m tests.house.wording [FOLDER]

A test names the facts of a message (the file, the row, the setting, the value, what was expected)
and at most three of its words in a row, so that an editor may reword any sentence and has only
`messages.txt` to write again. Prompts are no messages: the judges and the protocols define them.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Set
from dataclasses import dataclass
from pathlib import Path

from tests.command import ROOT
from tests.house.counting import python_files
from tests.house.messages import FILE

Words = tuple[str, ...]

WORDS_IN_A_ROW = 4
"""So many words of one message in a row are its wording."""
_MOST_LINES = 5
"""A text of more lines is a file or a script."""
_WORD = re.compile(r"--?[\w.=-]+|[A-Za-z][\w'./-]*")
_FILLED_IN = re.compile(r"\{…\}|%(?:\.\d+)?[sdrf]")
_PROMPTS = re.compile(r"## judgegym/(judges|eval_environments|environments|data/conversations)/.*")
"""Modules whose texts are prompts or parts of them, unless they are raised, logged or help."""
_TEXTS_OF_OTHERS = re.compile(
    r"""
    CREATE\ TABLE | UPDATE\ answers | FROM\ answers              # SQL
    | ^source\ <                                                # a shell
    | ^x\ =\ a\ and | %\(levelname\)s                            # Python
    | not\ supported | Billing\ hard\ limit | credit\ balance  # providers' answers
    | en\ charge\ par | I'm\ sorry,\ I\ cannot
    | Raw\ response\ \(critique | explanation\ of\ the\ judge  # the original's, and a page's, labels
    | ^Your\ scores\ cannot\ be\ used | ^a\ whole\ number\ from  # prompts
    """,
    re.VERBOSE,
)
"""Texts of tests that are no messages of ours, though they share some words."""
_NO_MESSAGES = (
    "tests/house/",
    "tests/conformance/specification/",
    "tests/faults/further_faults.py",
)
"""Tests of the rules themselves, the commissioned texts, and faults, which describe themselves."""


@dataclass(frozen=True)
class Repetition:
    """A text of a test with the wording of a message.

    Attributes:
        path: the test's file.
        line: the text's line, from 1.
        text: the text.
    """

    path: str
    line: int
    text: str


def split_words(text: str) -> list[str]:
    """Split a text into words in lower case; a flag, a path and the name of a setting are one."""
    return [word.lower() for word in _WORD.findall(text)]


def runs_of_words(text: str) -> Iterator[Words]:
    """Yield each run of `WORDS_IN_A_ROW` words of a text."""
    words = split_words(text)
    for start in range(len(words) - WORDS_IN_A_ROW + 1):
        yield tuple(words[start : start + WORDS_IN_A_ROW])


def read_wording(messages: str) -> set[Words]:
    """Return the runs of words of all messages of `messages.txt` that are no prompts."""
    wording: set[Words] = set()
    has_prompts = False
    for line in messages.splitlines():
        kind, _, text = line.partition(": ")
        if line.startswith("## "):
            has_prompts = _PROMPTS.fullmatch(line) is not None
        elif kind != "text" or not has_prompts:
            for part in _FILLED_IN.split(text):
                wording.update(runs_of_words(part))
    return wording


def find_repetitions(source: str, wording: Set[Words], path: str) -> Iterator[Repetition]:
    """Find the texts of a test that have the wording of a message."""
    tree = ast.parse(source)
    comments = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    comments.update(id(node.msg) for node in ast.walk(tree) if isinstance(node, ast.Assert))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in comments:
            continue
        text = node.value
        if not isinstance(text, str) or text.count("\n") >= _MOST_LINES:
            continue
        pattern = text.replace("\\", "")
        is_others = _TEXTS_OF_OTHERS.search(text) is not None
        if not is_others and any(run in wording for run in runs_of_words(pattern)):
            yield Repetition(path, node.lineno, text)


def list_repetitions(folder: Path) -> Iterator[Repetition]:
    """Find the repetitions of all tests of a folder below the checkout."""
    wording = read_wording(FILE.read_text(encoding="utf-8"))
    for file in sorted(python_files(folder)):
        path = file.relative_to(ROOT).as_posix()
        if not path.startswith(_NO_MESSAGES):
            yield from find_repetitions(file.read_text(encoding="utf-8"), wording, path)


if __name__ == "__main__":
    for repetition in list_repetitions(ROOT.joinpath(*sys.argv[1:2] or ["tests"])):
        sys.stdout.write(f"{repetition.path}:{repetition.line}: {repetition.text!r}\n")
