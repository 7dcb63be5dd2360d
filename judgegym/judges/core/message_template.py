"""A judge's prompt as a template with markers and placeholders for delimited texts.

Guarantees: no text is read as a template, and no text can end its own section: every block that
    shows a text has a marker with `{tag}`, which is filled if a text could be mistaken for a marker
    (`judgegym.judges.core.delimiters`). Otherwise the prompt is the template with the texts in it,
    byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from judgegym.judges import prompts
from judgegym.judges.core.delimiters import Lookalikes, Prompt, delimit


@dataclass(frozen=True, slots=True)
class MessageTemplate:
    r"""The user message of a judge's prompt.

    >>> template = MessageTemplate(
    ...     ("[Question{tag}]\n{prompt}", "[Answer{tag}]\n{response}"), Lookalikes("[answer")
    ... )
    >>> print(template.fill({"prompt": "Why?"}, {"response": "So."}).messages[0]["content"])
    [Question]
    Why?
    <BLANKLINE>
    [Answer]
    So.

    Attributes:
        blocks: the paragraphs of the prompt. A block is left out if one of its placeholders has no
            text. A block with `{id}` is repeated for each id, which is also the placeholder of its
            text: `[Answer {id}{tag}]` above `{{id}}`.
        lookalikes: the patterns of texts that look like one of the markers.
    """

    blocks: tuple[str, ...]
    lookalikes: Lookalikes

    def fill(
        self,
        shared: Mapping[str, str | None],
        texts: Mapping[str, str | None],
        *,
        ids: Sequence[str] = (),
        wording: Mapping[str, str] = {},
        system: str | None = None,
    ) -> Prompt:
        """Make the prompt.

        Args:
            shared: the texts that all prompts of one row share, by placeholder; the tag is made
                from them. `None` for a text that the row does not have.
            texts: the other texts.
            ids: the ids of the repeated blocks, in order.
            wording: words of ours, by placeholder.
            system: the system message.

        Raises:
            ValueError: a block shows a text but has no marker with `{tag}`.
        """
        present_texts = {
            name: text for name, text in (*shared.items(), *texts.items()) if text is not None
        }
        count = sum(text is not None for text in shared.values())
        delimited = delimit([*present_texts.values()], self.lookalikes, shared=count)
        values = {
            **wording,
            "tag": delimited.markers.suffix,
            **dict(zip(present_texts, delimited.texts, strict=True)),
        }
        parts: list[str] = []
        for block in self._expand_blocks(ids):
            names = prompts.find_placeholders(block)
            if names & present_texts.keys() and "tag" not in names:
                raise ValueError(f"no marker with {{tag}} beside a text: {block!r}")
            if names <= values.keys():
                parts.append(prompts.fill(block, values))
        user = delimited.markers.notice + "\n\n".join(parts)
        return Prompt.from_texts(system, user, delimited.suspects)

    def _expand_blocks(self, ids: Sequence[str]) -> Iterator[str]:
        for block in self.blocks:
            if "{id}" in block:
                yield from (block.replace("{id}", name) for name in ids)
            else:
                yield block


def join_instructions(*parts: str) -> str:
    """Join the parts of a system prompt, without the empty ones."""
    return "\n\n".join(filter(None, parts))
