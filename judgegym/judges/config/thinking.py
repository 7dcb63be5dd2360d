"""Thinking that stands in the text of a completion or of a judge: its markers, and what is shown of a completion.

`ThinkingSettings.shown` is the boundary at which a text becomes what judges, rules and reward
models are shown.
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
"""What begins thinking, with what ends it."""


class VisibleText(NamedTuple):
    """What is shown of a text of a policy.

    Attributes:
        text: the answer; empty if the thinking never ends.
        thinking: the thinking that was taken out, without its markers.
        written: the text as the policy wrote it; empty if nothing was taken out.
    """

    text: str
    thinking: str = ""
    written: str = ""


class ThinkingSettings(BaseModel, use_attribute_docstrings=True):
    """What marks thinking in a text, and what becomes of it."""

    help_group: ClassVar[str] = "judge"

    judged_thinking: Literal["removed", "kept"] = setting("removed")
    """Choose what judges, rules and reward models are shown of a completion that begins with its thinking. removed: the
    answer behind it; thinking that never ends has none. kept: all of the text. The rule
    thinking_format and
    thinking_mode have rules of their own."""
    thinking_markers: MarkerPairs = setting({})
    """Take these markers, too, for those of thinking in a text: {"BEGIN": "END"}. The markers of the reasoning parsers
    of vLLM and SGLang and the usual tags are known."""

    _is_logged: bool = PrivateAttr(False)

    @property
    def added_markers(self) -> AddedMarkers:
        """The markers beside the known ones."""
        return tuple(self.thinking_markers.items())

    @property
    def judges_whole_text(self) -> bool:
        """Whether the thinking of a completion is shown."""
        return self.judged_thinking == "kept"

    def hide_thinking(self, text: str) -> VisibleText:
        """What is shown of a completion; that thinking was taken out is logged once."""
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
