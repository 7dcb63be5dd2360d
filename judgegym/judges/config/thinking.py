"""The settings of thinking that stands in the text of a completion or of a judge (`parsing.thinking`)."""

from __future__ import annotations

from typing import Annotated, ClassVar, TypeAlias

from pydantic import AfterValidator, BaseModel

from judgegym.judges.config.fields import setting
from judgegym.judges.parsing.thinking import AddedMarkers


def _not_blank(markers: dict[str, str]) -> dict[str, str]:
    for begin, end in markers.items():
        if not begin.strip() or not end.strip():
            raise ValueError(f'{begin!r}: {end!r} begins or ends thinking with a blank; expected {{"BEGIN": "END"}}')
    return markers


MarkerPairs: TypeAlias = Annotated[dict[str, str], AfterValidator(_not_blank)]
"""What begins thinking, with what ends it."""


class ThinkingSettings(BaseModel, use_attribute_docstrings=True):
    """What marks thinking in a text, and what becomes of it."""

    help_group: ClassVar[str] = "judge"

    thinking_markers: MarkerPairs = setting({})
    """Take these markers, too, for those of thinking in a text: {"BEGIN": "END"}. The markers of the reasoning parsers
    of vLLM and SGLang and the usual tags are known."""

    @property
    def added_markers(self) -> AddedMarkers:
        """The markers beside the known ones."""
        return tuple(self.thinking_markers.items())
