"""The scores of single responses that were judged by themselves, for a failed one among them.

Trainers count a failed response in the baseline of its group, whether they mask it or not; the mean of the others moves
that least (`FailureAnswers.placeholder`). The members of a group are judged at about the same time, and one that fails
has its retries first: so the others are those of the same group, or of the same prompt where no group is named, of the
last seconds. Texts are not kept. Each process knows its own.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from dataclasses import replace

from judgegym.judges.scorers.items import Item, ResponseScore
from judgegym.server.cohorts.register import cohort_key

_MOST_GROUPS = 8192
_MOST_MEMBERS = 64


class RecentScores:
    """The scores of the last groups of a process, with the time of each."""

    def __init__(self, kept_s: float) -> None:
        """Start without any; a score is forgotten after so many seconds."""
        self._kept_s = kept_s
        self._groups: OrderedDict[str, deque[tuple[float, float | None]]] = OrderedDict()

    def completed(self, mount: str, item: Item, result: ResponseScore) -> ResponseScore:
        """The result of the only response of an item: remembered, or if it failed with the others' scores."""
        now, key = time.monotonic(), cohort_key(mount, item)
        if not result.is_failed:
            self._groups.setdefault(key, deque(maxlen=_MOST_MEMBERS)).append((now, result.score))
            self._groups.move_to_end(key)
            if len(self._groups) > _MOST_GROUPS:
                self._groups.popitem(last=False)
            return result
        others = tuple(score for at, score in self._groups.get(key, ()) if now - at <= self._kept_s)
        return result if result.others else replace(result, others=others)
