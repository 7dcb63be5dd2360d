"""References to judges that are not built in, for the offline stand-in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import BaseModel

from judgegym.judges.config.explaining import is_prompt_file
from judgegym.judges.prompt_files.card import load_card
from judgegym.judges.prompt_files.file import PromptFile
from judgegym.judges.prompt_files.settings import parse_path
from judgegym.judges.scorers.own_kinds import resolve_name
from judgegym.judges.scorers.registry import JUDGES, find_definition, is_kind, kind_name


def list_references(settings: object) -> list[str]:
    """List the prompt files and kinds of judges in settings, to any depth.

    The stand-in loads them by these references.

    Args:
        settings: a settings model, or the content of a file: of judges, parts, mounts and gold
            judges.

    Raises:
        ValueError: a prompt file cannot be read, or is invalid.
    """
    if isinstance(settings, BaseModel):
        settings = settings.model_dump(mode="json")
    return [*dict.fromkeys(_walk_references(settings))]


def _walk_references(values: object) -> Iterator[str]:
    if isinstance(values, Mapping):
        yield from _iter_references(values)
        for value in values.values():
            yield from _walk_references(value)
    elif isinstance(values, list):
        for value in values:
            yield from _walk_references(value)


def _card_references(path: Path) -> Iterator[str]:
    """Yield the references in a card, or a prompt file."""
    card = load_card(path)
    if card.prompt_file is not None:
        yield card.prompt_file.model_dump_json()
    yield from _walk_references(card.section)


def _iter_references(values: Mapping[str, object]) -> Iterator[str]:
    """Yield the references in one judge's settings."""
    prompt = values.get("judge_prompt")
    if isinstance(prompt, Mapping):
        yield PromptFile.model_validate(prompt).model_dump_json()
    for value in (prompt, kind_name(values.get("judge")), kind_name(values.get("kind"))):
        if is_prompt_file(value):
            yield from _card_references(parse_path(value))
        elif (
            isinstance(value, str)
            and value not in JUDGES
            and is_kind(value)
            and find_definition(value).prompts
        ):
            yield resolve_name(value)
