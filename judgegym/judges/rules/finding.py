"""Findings of rules: a score, or the reason why there is none.

The workers import this module, so it imports nothing of the package.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

_SHOWN = 200
"""Most characters of a text in a finding: three of them fit one atomic write to a pipe."""


class RuleFinding(NamedTuple):
    """Finding of a rule for one response.

    Attributes:
        score: from 0 to 1; `None` if the rule cannot say.
        actual: the value that was compared, cut after 200 characters; `None` if there is none.
        expected: the value it was compared with, cut in the same way.
        why: why the rule cannot say, or details of the score.
        is_unusable: the rule cannot say for any text, because of the expected value.
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
        """Return the finding of a rule that holds (1.0) or does not (0.0)."""
        return cls(float(holds), actual, expected, why).shorten_texts()

    def shorten_texts(self) -> RuleFinding:
        """Return the finding with its texts cut."""
        actual, expected = (
            None if text is None else shorten(text) for text in (self.actual, self.expected)
        )
        return self._replace(actual=actual, expected=expected, why=shorten(self.why))


Comparison: TypeAlias = Callable[[str, str], RuleFinding]
"""Compares a text with the expected value."""


def shorten(text: str) -> str:
    """Shorten a text to at most 200 characters, without half of a surrogate pair."""
    shown = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
    return shown.encode("utf-8", "replace").decode()


def cannot_say(why: str, *, expected: str | None = None, is_unusable: bool = False) -> RuleFinding:
    """Return a finding without a score, for a rule that cannot say."""
    return RuleFinding(None, None, expected, why, is_unusable).shorten_texts()
