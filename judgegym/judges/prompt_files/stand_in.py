"""The offline stand-in's reply to the prompt of a prompt file, made from the file itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import chain

from judgegym.judges.core.prompt_format import PromptFormat, StandInPrompt
from judgegym.judges.prompt_files.file import PromptFile
from judgegym.judges.prompt_files.template import TemplateSection
from judgegym.judges.prompt_files.verdicts import sort_labels
from judgegym.llm.wire import JSON

_REASONS = "By the words that the response shares with the rest of the prompt."


def make_prompt_format(prompt_file: PromptFile) -> PromptFormat:
    """Return the sections of its prompt, and a plausible reply in its form."""
    sections = {section.name: section for section in prompt_file.template.sections}
    optional = [sections[name] for name in prompt_file.optional]
    required = [section for section in sections.values() if section not in optional]
    labels = sort_labels(prompt_file.labels.scores)
    rule = prompt_file.verdict
    is_number = prompt_file.labels.scale is not None

    def label(prompt: StandInPrompt) -> str:
        return labels[min(len(labels) - 1, int(len(labels) * prompt.merit))]

    def reply(shown: StandInPrompt) -> str:
        written = rule.format_verdict(label(shown), is_number=is_number)
        return f"{_REASONS}\n\n{written}"

    def fields(text: str) -> Mapping[str, JSON]:
        end = text.rpartition("\n\n")[2]
        by_reply = {rule.format_verdict(name, is_number=is_number): name for name in labels}
        chosen = by_reply[end]
        return {
            "explanation": _REASONS,
            rule.field_name: json.loads(chosen) if is_number else chosen,
        }

    endings = [
        section.ending
        for section in sections.values()
        if section in optional or not section.has_ending
    ]
    return PromptFormat(
        sections=tuple(chain.from_iterable(map(_titles, required))),
        judged=(sections["response"].title,),
        reply=reply,
        optional=(*(section.title for section in optional), *endings),
        question=sections["prompt"].title if "prompt" in sections else "",
        references=(sections["reference"].title,) if "reference" in sections else (),
        fields=fields,
    )


def _titles(section: TemplateSection) -> list[str]:
    """Return the titles of the markers that a section always has."""
    if section.has_ending:
        return [section.title, section.ending]
    return [section.title]
