"""Evidence is added to the file of a card, whose other text stays as it is written."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import yaml

from judgegym.judges.config.presets import parse_nodes
from judgegym.judges.prompt_files.card import JudgeCard, load_card
from judgegym.judges.prompt_files.card_yaml import write_yaml
from judgegym.judges.prompt_files.evidence import Evidence


def add_evidence(path: Path, evidence: Evidence) -> None:
    """Add evidence to a card's file; its other text stays as it is written.

    Only a file whose form takes no further section, such as one in braces, is written anew.

    Raises:
        ValueError: the file is no card, or cannot be written.
    """
    path = path.resolve()  # the file behind a link
    card = load_card(path)
    expected = card.model_copy(update={"evidence": (*card.evidence, evidence)})
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        for text in _list_texts(path, expected):
            temporary.write_bytes(text.encode())
            if _is_card(temporary, expected):
                break
        else:
            raise ValueError(f"{path}: the evidence cannot be added to a file of this form")
        shutil.copymode(path, temporary)
        temporary.replace(path)
    except OSError as error:
        raise ValueError(f"{path}: the evidence cannot be written: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)


def _list_texts(path: Path, card: JudgeCard) -> Iterator[str]:
    """Yield texts of a card's file with its evidence: at the end, at the beginning, or anew."""
    data = path.read_bytes()
    lines = data.decode("utf-8").splitlines(keepends=True)
    node = parse_nodes(data)
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    for key, value in pairs:
        if key.value == "evidence":
            del lines[key.start_mark.line : _end_line(value, lines)]
    line_break = "\r\n" if b"\r\n" in data else "\n"
    section = write_yaml({"evidence": card.to_values()["evidence"]}).replace("\n", line_break)
    text = "".join(lines)
    if text and not text.endswith("\n"):
        yield f"{section}{text}"  # a line break would belong to a text in the last field
        text += line_break
    yield f"{text}{section}"
    yield card.to_yaml()


def _is_card(path: Path, card: JudgeCard) -> bool:
    """Return whether a file is this card."""
    try:
        return load_card(path) == card
    except ValueError:
        return False


def _end_line(value: yaml.Node, lines: list[str]) -> int:
    """Return the line behind a section; comments before the next field are not of the section."""
    is_within_line = value.end_mark.column > 0
    end = min(len(lines), value.end_mark.line + int(is_within_line))
    while end > value.start_mark.line + 1 and lines[end - 1].lstrip()[:1] in ("", "#"):
        end -= 1
    return end
