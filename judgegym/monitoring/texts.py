"""Text measures of the monitors: repetition, refusals, near-duplicates and language.

A text is represented by the runs of three words in its first 128 words, each a hash. Its sketch is
the 32 smallest hashes (min-hash with one permutation). Of the 32 smallest hashes of two texts
together, the share that both have estimates how many runs the texts share.

Guarantees: the same texts give the same numbers in every process; memory is bounded by the last
8,192 hashes; the language is detected for one completion of a group, since that is slow.

Source: Broder, On the resemblance and containment of documents (1997).
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple
from zlib import crc32

from judgegym.judges.config.extras import install_command
from judgegym.judges.rules.finding import Comparison
from judgegym.judges.rules.measure import language

_CHARACTERS, _WORDS = 2_000, 128
_SKETCH = 32
_INDEXED_HASHES = 4
"""Number of a sketch's hashes by which it is indexed.

With a probability above 0.99, one of two near-duplicates has one of the other's 4 smallest hashes.
"""
_MOST_HASHES, _MOST_ALIKE = 8_192, 8
"""Maximum number of remembered hashes, and of sketches per hash."""
NEAR = 0.8
"""Resemblance from which two texts are near-duplicates."""
_REFUSAL = re.compile(
    r"\W*(?:(?:i['’]m|i am|we['’]re|we are) (?:very |so )?(?:sorry|unable|not able)\b|sorry,|i "
    r"apologi[sz]e\b|"
    r"as an ai\b|(?:i|we) (?:can['’]?t|cannot|can not|won['’]?t|will not) (?:\w+ "
    r"){0,2}?(?:help|assist|provide|do|"
    r"answer|comply|fulfill?|create|write|generate|discuss|engage|support|share)\b)",
    re.IGNORECASE,
)
_MAX_CHARACTERS = 1_000
LEAST_GROUPS_FOR_LANGUAGE = 256
"""No language is detected before this many groups: the model takes seconds to load, and 100 MB."""


class TextFacts(NamedTuple):
    """Measures of a text.

    Attributes:
        sketch: its smallest hashes, ascending; empty for an empty text.
        repetition: the share of its runs of three words that occurred before; 0 with fewer words.
    """

    sketch: tuple[int, ...]
    repetition: float


def measure_text(text: str) -> TextFacts:
    """Measure a text."""
    words = text[:_CHARACTERS].lower().encode("utf-8", "replace").split(None, _WORDS)[:_WORDS]
    if not words:
        return TextFacts((), 0.0)
    data = b" ".join(words)
    starts = [0, *accumulate(len(word) + 1 for word in words)]
    ends = starts[3:] or starts[-1:]
    runs = [crc32(data[start : end - 1]) for start, end in zip(starts, ends, strict=False)]
    distinct = sorted({*runs})
    return TextFacts(tuple(distinct[:_SKETCH]), 1.0 - len(distinct) / len(runs))


def is_refusal(text: str) -> bool:
    """Return whether a text begins like a refusal, in English."""
    return _REFUSAL.match(text) is not None


def estimate_resemblance(first: Sequence[int], second: Sequence[int]) -> float:
    """Estimate which share of their runs of words two texts have in common, from their sketches.

    It is 0 if a sketch is empty.
    """
    if not first or not second:
        return 0.0
    smallest = sorted({*first, *second})[: max(len(first), len(second))]
    both = {*first} & {*second}
    return sum(value in both for value in smallest) / len(smallest)


@dataclass(slots=True)
class NearDuplicates:
    """Sketches of completions by their smallest hashes; the oldest hashes are forgotten."""

    _index: OrderedDict[int, deque[tuple[int, str, tuple[int, ...]]]] = field(
        default_factory=OrderedDict
    )
    """Number of the group, its row and the sketch."""

    def add(self, group: int, uid: str, sketch: tuple[int, ...]) -> tuple[bool, bool]:
        """Add a completion.

        Returns:
            Whether an earlier completion of its group, and whether one of another row, is a
            near-duplicate.
        """
        in_group = across = False
        for hashed in sketch[: 2 * _INDEXED_HASHES]:
            for other_group, other_uid, other_sketch in self._index.get(hashed, ()):
                is_own = other_group == group
                is_settled = in_group if is_own else across or other_uid == uid
                if is_settled or estimate_resemblance(sketch, other_sketch) < NEAR:
                    continue  # known already, the same row again, or another text
                if is_own:
                    in_group = True
                else:
                    across = True
        for hashed in sketch[:_INDEXED_HASHES]:
            # If a policy writes the same for all rows, the latest sketches are enough.
            self._index.setdefault(hashed, deque(maxlen=_MOST_ALIKE)).append((group, uid, sketch))
            self._index.move_to_end(hashed)
        while len(self._index) > _MOST_HASHES:
            self._index.popitem(last=False)
        return in_group, across


@dataclass(slots=True)
class LanguageWatch:
    """Detector of completions in another language than their prompts; its model loads in a thread.

    Attributes:
        left_out: why it detects nothing; `None` once it does.
    """

    left_out: str | None = f"it is told from {LEAST_GROUPS_FOR_LANGUAGE} groups on"
    _compare: Comparison | None = None
    _is_loading: bool = False
    _groups: int = 0

    def differs(self, prompt: str, completion: str) -> bool | None:
        """Return whether the languages differ.

        `None` if unknown or the model is not loaded (yet).
        """
        self._groups += 1
        if self._groups < LEAST_GROUPS_FOR_LANGUAGE:
            return None
        if not self._is_loading:
            self._is_loading, self.left_out = True, "its model is being loaded"
            threading.Thread(
                target=self._load, name="language", daemon=True
            ).start()  # a daemon: the process does not wait for it
        if self._compare is None:
            return None
        comparison = self._compare(completion[:_MAX_CHARACTERS], f"={prompt[:_MAX_CHARACTERS]}")
        if comparison.score is None:
            return None
        return comparison.score == 0.0

    def _load(self) -> None:
        try:
            self._compare = language()
        except ImportError:
            command = install_command("rules")
            self.left_out = f"py3langid is not installed: {command}"
        except Exception as error:  # noqa: BLE001  # a damaged installation must not stop training
            self.left_out = f"py3langid cannot be used: {error}"
        else:
            self.left_out = None
