"""Commands whose settings are resolved: presets, the commands of the documents, and hosts of judges that inherit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.conformance.equal_settings.case import Case
from tests.conformance.equal_settings.inheriting import inheriting
from tests.docs.blocks import Command, blocks

VERBS = ("evaluate", "process", "serve")
_ASKING = (*VERBS, "score", "audit", "attack", "judge-server")
_LEFT_OUT = {"--offline", "--plan", "--resume"}
"""Words without which a command is run: with them it would ask a stand-in, nobody, or go on with an earlier run."""


def cases_of(checkout: Path) -> list[Case]:
    """All cases; presets and documents are the checkout's."""
    return [*_presets(checkout), *_documented(checkout), *inheriting()]


def _presets(checkout: Path) -> Iterator[Case]:
    for path in sorted((checkout / "judgegym" / "presets").glob("*.yaml")):
        name, _, purpose = path.stem.rpartition("_")
        if purpose in ("evaluate", "train"):
            for verb in ("evaluate",) if purpose == "evaluate" else ("process", "serve"):
                yield Case(f"preset {path.stem} {verb}", (verb, name, f"--config={path.stem}"))
        else:
            yield Case(f"preset {path.stem}", ("judge-server", f"--config={path.stem}"))


def _documented(checkout: Path) -> Iterator[Case]:
    folders = [checkout / name for name in ("docs", "judgegym", "examples")]
    for page in sorted(
        [*checkout.glob("*.md"), *(page for folder in folders for page in folder.rglob("*.md"))]
    ):
        files = dict[str, str]()
        number = 0
        for block in blocks(page):
            if block.title:
                files[block.title] = block.text
            for command in block.commands() if block.language == "bash" else ():
                words = _words_of(command)
                if words:
                    number += 1
                    name = f"{page.relative_to(checkout)} {number} {' '.join(words[:2])}"
                    yield Case(name, words, {**files})


def _words_of(command: Command) -> list[str]:
    """The words of a command that asks models, so that it does."""
    if command.program != "judgegym" or not command.words or command.words[0] not in _ASKING:
        return []
    words = [word for word in command.words if word not in _LEFT_OUT]
    return [] if {"--help", "--help_all", "--show_config", "--merge"} & {*words} else words
