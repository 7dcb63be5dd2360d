"""Finds the judge to which a prompt belongs, and parses the prompt with that judge's format."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from judgegym.judges import prompts
from judgegym.judges.core.delimiters import Delimiters
from judgegym.judges.core.prompt_format import PREVIOUS_EVALUATION, PromptFormat
from judgegym.judges.core.sections import marker_lines, read_sections
from judgegym.offline.protocol.request import RequestMessage, system_text

_CRITIQUE_REQUEST = "\n\n" + prompts.load("critique")
_EVALUATION_END = re.compile(rf"\nEND OF {PREVIOUS_EVALUATION}(?P<tag> [0-9a-f]+)?:\Z")

_RULE = re.compile(r"\n+---(?: [0-9a-f]+)?\n+\Z")


@dataclass(frozen=True, slots=True)
class ParsedPrompt:
    """A judge's prompt: its format, the text before its sections, the sections, and whether it asks for a critique."""

    prompt_format: PromptFormat
    instructions: str
    sections: Mapping[str, str]
    is_critique: bool


def read_prompt(messages: Sequence[RequestMessage], formats: Sequence[PromptFormat]) -> ParsedPrompt | None:
    """Parse the last user message that is a judge's prompt; `None` without one.

    Later messages may only ask for the verdict again. If a section quotes another prompt, the format whose sections
    begin first counts.
    """
    for message in reversed([message for message in messages if message.role == "user"]):
        content, is_critique = _without_critique_request(message.content)
        titles = {title for known in formats for title in (*known.sections, *known.optional)}
        lines = list(marker_lines(content, titles, {title for known in formats for title in known.with_id}))
        parsed = [
            (read_sections(content, lines, known.sections, known.optional, known.with_id), known) for known in formats
        ]
        shown = [(sections, prompt_format) for sections, prompt_format in parsed if sections is not None]
        if shown:
            (start, sections), prompt_format = min(shown, key=lambda pair: pair[0].start)
            *_, last = sections
            texts = {**sections, last: _without_ending(sections[last], prompt_format.ending)}
            instructions = f"{system_text(messages)}\n{content[:start]}"
            return ParsedPrompt(prompt_format, instructions, texts, is_critique or PREVIOUS_EVALUATION in texts)
    return None


def _without_ending(text: str, ending: str) -> str:
    """The last section without the prompt's ending, and without the line that parts the two."""
    return _RULE.sub("", text.removesuffix(ending)) if ending and text.endswith(ending) else text


def _without_critique_request(content: str) -> tuple[str, bool]:
    """The judge's first prompt, and whether this message asks for a critique of its evaluation."""
    before = content.removesuffix(_CRITIQUE_REQUEST)
    end = _EVALUATION_END.search(before) if before != content else None
    if end is None:
        return content, False
    shown, _, _ = before.partition(f"\n\n{PREVIOUS_EVALUATION}{end['tag'] or ''}:\n")
    notices = (Delimiters((end["tag"] or "").strip(), broken).notice.strip() for broken in (False, True))
    return next((shown.removesuffix(f"\n\n{said}") for said in notices if said and shown.endswith(said)), shown), True
