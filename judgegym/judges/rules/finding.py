"""What a rule finds: a score, or the reason why it cannot say.

The workers import this module, so it imports nothing of the package.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

_SHOWN = 200
"""Characters of a text in a finding; a worker's answer with three of them is one atomic write to a pipe."""


class RuleFinding(NamedTuple):
    """What a rule has found in one response.

    Attributes:
        score: from 0 to 1; `None` if the rule cannot say.
        actual: what was compared, cut after 200 characters; `None` if there is nothing to compare.
        expected: what it was compared with, cut likewise.
        why: why the rule cannot say, or more about the score.
        is_unusable: the rule cannot say of any text, because of the expected value.
    """

    score: float | None
    actual: str | None = None
    expected: str | None = None
    why: str = ""
    is_unusable: bool = False

    @classmethod
    def from_outcome(
        cls, *, holds: bool, actual: str | None, expected: str | None, why: str = ""
    ) -> RuleFinding:
        """Return the finding of a rule that holds or does not: 1.0 or 0.0."""
        return cls(float(holds), actual, expected, why).shortened()

    def shortened(self) -> RuleFinding:
        """Return the finding with its texts cut."""
        actual, expected = (
            None if text is None else shorten(text) for text in (self.actual, self.expected)
        )
        return self._replace(actual=actual, expected=expected, why=shorten(self.why))


Comparison: TypeAlias = Callable[[str, str], RuleFinding]
"""Compares a text with the expected value."""


def shorten(text: str) -> str:
    """Return a text with at most 200 characters, without half of a surrogate pair."""
    shown = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
    return shown.encode("utf-8", "replace").decode()


def cannot_say(why: str, *, expected: str | None = None, is_unusable: bool = False) -> RuleFinding:
    """Return the finding of a rule that cannot say."""
    return RuleFinding(None, None, expected, why, is_unusable).shortened()
