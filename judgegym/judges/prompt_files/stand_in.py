"""What the offline stand-in replies to the prompt of a prompt file: made of the file itself."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from pydantic import BaseModel

from judgegym.judges.config.explaining import is_prompt_file
from judgegym.judges.core.prompt_format import PromptFormat, ShownPrompt
from judgegym.judges.prompt_files.file import PromptFile, load_prompt_file
from judgegym.judges.prompt_files.settings import path_of
from judgegym.judges.prompt_files.template import TemplateSection
from judgegym.judges.prompt_files.verdicts import ordered
from judgegym.llm.wire import JSON

_REASONS = "By the words that the response shares with the rest of the prompt."


def references(settings: object) -> list[str]:
    """The prompt files that settings hold, as references for the stand-in: of judges, parts, mounts and gold judges.

    Args:
        settings: a settings model, or what a file holds.

    Raises:
        ValueError: a prompt file cannot be read, or is wrong.
    """
    values = settings.model_dump(mode="json") if isinstance(settings, BaseModel) else settings
    return [*dict.fromkeys(prompt_file.model_dump_json() for prompt_file in _prompt_files(values))]


def _prompt_files(values: object) -> Iterator[PromptFile]:
    if isinstance(values, Mapping):
        for name in ("judge", "judge_prompt"):
            value = values.get(name)
            if is_prompt_file(value):
                yield load_prompt_file(path_of(value))
            elif name == "judge_prompt" and isinstance(value, Mapping):
                yield PromptFile.model_validate(value)
    inner = values.values() if isinstance(values, Mapping) else values if isinstance(values, list) else ()
    for value in inner:
        yield from _prompt_files(value)


def prompt_format(prompt_file: PromptFile) -> PromptFormat:
    """The sections of its prompt, and a plausible reply in its own form."""
    sections = {section.name: section for section in prompt_file.template.sections}
    optional = [sections[name] for name in prompt_file.optional]
    required = [section for section in sections.values() if section not in optional]
    labels, rule = ordered(prompt_file.labels.scores), prompt_file.verdict
    is_number = prompt_file.labels.scale is not None

    def label(shown: ShownPrompt) -> str:
        return labels[min(len(labels) - 1, int(len(labels) * shown.merit))]

    def reply(shown: ShownPrompt) -> str:
        written = rule.written(label(shown), is_number=is_number)
        return f"{_REASONS}\n\n{written}"

    def fields(said: str) -> Mapping[str, JSON]:
        end = said.rpartition("\n\n")[2]
        by_reply = {rule.written(each, is_number=is_number): each for each in labels}
        found = by_reply[end]
        return {"explanation": _REASONS, rule.field_name: json.loads(found) if is_number else found}

    return PromptFormat(
        sections=tuple(title for section in required for title in _titles(section)),
        judged=(sections["response"].title,),
        reply=reply,
        optional=(
            *(section.title for section in optional),
            *(section.ending for section in sections.values() if section in optional or not section.has_ending),
        ),
        question=sections["prompt"].title if "prompt" in sections else "",
        references=(sections["reference"].title,) if "reference" in sections else (),
        fields=fields,
    )


def _titles(section: TemplateSection) -> list[str]:
    """The titles of the markers that a section always has."""
    return [section.title, section.ending] if section.has_ending else [section.title]
