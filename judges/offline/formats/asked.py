"""A request for a critique: the prompt that a judge was shown at first, and its evaluation, taken apart again."""

import re
from dataclasses import replace
from typing import NamedTuple

from judges import prompts
from judges.core.delimiters import Delimiters
from judges.offline.formats import peer

_PEER = peer.Form("peer_critique", "{score}")
_REQUEST = "\n\n" + prompts.load("critique")
_CLOSING = re.compile(r"\nEND OF YOUR PREVIOUS EVALUATION(?P<tag> [0-9a-f]+)?:\Z")


class Asked(NamedTuple):
    """A user message that asks for a critique: the one that the judge was shown at first, and its evaluation."""

    shown: str
    evaluation: str


def parse_asked(content: str) -> Asked | None:
    """Read a user message; None when it does not end with a request for a critique."""
    return _peers(content) or _any_judges(content)


def _peers(content: str) -> Asked | None:
    """That of a peer, whose request is a prompt of its own."""
    sheet = _PEER.read(content)
    if sheet is None:
        return None
    sections, found, evaluation = sheet.sections.partition(f"\n\nYOUR PREVIOUS EVALUATION{sheet.tag}:\n")
    title = f"\n\nCANDIDATE RESPONSE (that you evaluated){sheet.tag}:\n"
    shown = replace(sheet, sections=sections.replace(title, f"\n\nCANDIDATE RESPONSE{sheet.tag}:\n", 1))
    return Asked(peer.FORM.write(shown), evaluation) if found else None


def _any_judges(content: str) -> Asked | None:
    """That of any other judge: what it was shown, and then its evaluation between two titles."""
    before = content.removesuffix(_REQUEST)
    closing = _CLOSING.search(before) if before != content else None
    if closing is None:
        return None
    tag = closing["tag"] or ""
    notice = Delimiters(tag.strip()).notice
    shown, found, evaluation = before[: closing.start()].partition(f"\n\nYOUR PREVIOUS EVALUATION{tag}:\n")
    return Asked(shown.removeprefix(notice), evaluation) if found and shown.startswith(notice) else None
