"""Thinking in the text of a completion or a judge: its markers, and what judges see of it.

`ThinkingSettings.hide_thinking` is the one place where thinking is removed from what judges, rules
and reward models see.
"""

from __future__ import annotations

import logging
from typing import Annotated, ClassVar, Literal, NamedTuple, TypeAlias

from pydantic import AfterValidator, BaseModel, PrivateAttr

from judgegym.judges.config.fields import setting
from judgegym.judges.parsing.thinking import AddedMarkers, split_thinking

logger = logging.getLogger(__name__)


def _check_markers(markers: dict[str, str]) -> dict[str, str]:
    for begin, end in markers.items():
        if not begin.strip() or not end.strip():
            raise ValueError(
                f'{begin!r}: {end!r} begins or ends thinking with a blank; expected {{"BEGIN": '
                f'"END"}}'
            )
    return markers


MarkerPairs: TypeAlias = Annotated[dict[str, str], AfterValidator(_check_markers)]
"""The begin and end markers of thinking."""


class VisibleText(NamedTuple):
    """The visible part of a policy's text.

    Attributes:
        text: the answer; empty if the thinking never ends.
        thinking: the removed thinking, without its markers.
        written: the text as the policy wrote it; empty if nothing was removed.
    """

    text: str
    thinking: str = ""
    written: str = ""


class ThinkingSettings(BaseModel, use_attribute_docstrings=True):
    """The markers of thinking, and whether judges see it."""

    help_group: ClassVar[str] = "judge"

    judged_thinking: Literal["removed", "kept"] = setting("removed")
    """Choose what judges, rules and reward models see of a completion that begins with thinking.
    removed: only the answer after it; if the thinking never ends, there is none. kept: the whole
    text. The rule thinking_format and thinking_mode treat thinking in their own way."""
    thinking_markers: MarkerPairs = setting({})
    """Recognise these further markers of thinking in a text: {"BEGIN": "END"}. The markers of
    vLLM's and SGLang's reasoning parsers and the usual tags are known."""

    _is_logged: bool = PrivateAttr(False)

    @property
    def added_markers(self) -> AddedMarkers:
        """The markers beside the known ones."""
        return tuple(self.thinking_markers.items())

    @property
    def judges_whole_text(self) -> bool:
        """Whether judges see the thinking of a completion."""
        return self.judged_thinking == "kept"

    def hide_thinking(self, text: str) -> VisibleText:
        """Return the visible part of a completion; the first removal of thinking is logged."""
        if self.judges_whole_text:
            return VisibleText(text)
        parts = split_thinking(text, self.added_markers)
        if not parts.is_found:
            return VisibleText(text)
        if not self._is_logged:
            self._is_logged = True
            logger.warning(
                "a completion begins with its thinking: judges, rules and reward models are shown "
                "the answer behind it "
                "(judged_thinking=kept shows all)"
            )
        return VisibleText(text[parts.start : parts.end].strip(), parts.thinking, text)
