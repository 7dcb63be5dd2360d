"""Which cohort a response belongs to, and which place in it: the rules, without waiting and without judging.

The rules, for responses with one key (`cohort_key`):

* A repeated response has the place that it had, whether its cohort is open, being judged or judged:
  it has the same id and the same text. Without an id it has the same text, and everyone who asked
  for that place has left, or the cohort is judged; otherwise it is another member that says the
  same. (An empty one without an id is always another member.)
* A response is late if a cohort was closed short, less than `late_s` ago, and this may be one of
  those that it lacks: it has an id that nobody in the cohort has, or none; and there are not yet as
  many late ones as members missing.
* Otherwise it joins the oldest cohort that is open, and in which nobody has its id. An id that is
  taken by another text is the next epoch's: its response is in another cohort.
* Otherwise a new cohort is opened for it.

Judged cohorts are kept for `kept_s` seconds, the last ones of them with at most `most_kept` places
together. One in
which nobody has a score is not kept: those who ask again make a new one.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from judgegym.judges.core.tasks import (
    JudgeTask,
    ResponseJudgment,
    ScoresInProgress,
)

_LONGEST_ID = 256


class Signature(NamedTuple):
    """How a response is known again.

    Attributes:
        member: its id in its group, if it has one.
        text: a digest of its text.
        is_empty: whether there is nothing to judge.
    """

    member: str | None
    text: bytes
    is_empty: bool = False


def make_signature(member: str | None, text: str, *, is_empty: bool = False) -> Signature:
    """Return the sign of a response; it is short, whatever the id, since it is kept with the results."""
    if member is not None and len(member) > _LONGEST_ID:
        member = f"sha256:{_digest(member).hex()}"
    return Signature(member, _digest(text), is_empty)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


@dataclass(eq=False, slots=True)
class MemberSlot:
    """A place in a cohort.

    Attributes:
        signature: of the response that took it.
        number: among the responses that are judged, from 0; `None` for one that is not.
        waiting: how many callers wait for its result.
        answered: whether a caller has had the judgment.
        is_faulty: whether it has no score, though nobody is asked for one.
        was_late: whether one was told that it is late.
    """

    signature: Signature
    number: int | None = None
    waiting: int = 0
    answered: bool = False
    is_faulty: bool = False
    was_late: bool = False


@dataclass(eq=False)
class Cohort:
    """A cohort, with its judgment in progress.

    Attributes:
        key: what its members have in common.
        size: how many there should be.
        slots: of the members that came.
        late: the signs of those that came too late.
        ids: of those that came, in time or too late, if they have one.
        closed_at: when it was closed; `None` while it is open.
        judged_at: when its results were known; `None` before.
        mount: the judge's name.
        task: what all members have in common; `None` when they are judged, as the two below, so
            that no texts are kept.
        scores: the judgment in progress.
        responses: those that are judged.
        results: of the members that are judged; done when the cohort is.
        opened_at: when its first member came, on the clock of the event loop.
        closes_at: when it closes at the latest.
        timer: closes it then.
        was_overdue: whether a caller was answered before the judgment.
    """

    key: str
    size: int
    slots: list[MemberSlot] = field(default_factory=list)
    late: list[Signature] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    closed_at: float | None = None
    judged_at: float | None = None
    mount: str = ""
    task: JudgeTask | None = None
    scores: ScoresInProgress | None = None
    responses: list[str] = field(default_factory=list)
    results: asyncio.Future[list[ResponseJudgment]] = field(init=False, repr=False)
    opened_at: float = 0.0
    closes_at: float = 0.0
    timer: asyncio.TimerHandle | None = None
    was_overdue: bool = False

    @property
    def is_full(self) -> bool:
        """Whether all members are there."""
        return len(self.slots) >= self.size

    @property
    def empty_count(self) -> int:
        """How many members have nothing to judge, and are worth what an empty response is."""
        return sum(slot.number is None and not slot.is_faulty for slot in self.slots)

    def has_member(self, member: str | None) -> bool:
        """Return whether somebody in the cohort, or too late for it, has this id."""
        return member in self.ids

    def add_late(self, signature: Signature) -> None:
        """A member came too late."""
        self.late.append(signature)
        if signature.member is not None:
            self.ids.add(signature.member)

    def find_member(self, signature: Signature) -> MemberSlot | None:
        """Return the place that the response had when it came before."""
        candidates = (slot for slot in self.slots if slot.signature == signature)
        if signature.member is not None:
            return next(candidates, None)
        if signature.is_empty:
            return None
        return next(
            (slot for slot in candidates if self.judged_at is not None or slot.waiting == 0), None
        )

    def lacks(self, signature: Signature, since: float) -> bool:
        """Return whether it was closed short, after `since`, and the response may be one of those that it lacks."""
        if (
            self.closed_at is None
            or self.closed_at < since
            or len(self.slots) + len(self.late) >= self.size
        ):
            return False
        return not self.has_member(signature.member)


@dataclass(slots=True)
class _KeyCohorts:
    """The cohorts of a key, the oldest first.

    Attributes:
        open: those that members can join.
        short: those that were closed without all members.
        seated: those in which a response has a place.
    """

    open: dict[Cohort, None] = field(default_factory=dict)
    short: dict[Cohort, None] = field(default_factory=dict)
    seated: dict[Signature, list[Cohort]] = field(default_factory=dict)


class Register:
    """All cohorts of a judge: those that are open, being judged, and judged not long ago.

    A response is looked up by its sign, and looks at no cohorts of its key but those that are open
    or short.
    """

    def __init__(self, *, late_s: float, kept_s: float, most_kept: int) -> None:
        """Start without any.

        Args:
            late_s: seconds after its end in which a short cohort is missed by late members.
            kept_s: seconds for which the results of a cohort are kept.
            most_kept: most places of cohorts whose results are kept.
        """
        self._late_s, self._kept_s, self._most_kept = late_s, kept_s, most_kept
        self._by_key: dict[str, _KeyCohorts] = {}
        self._judged: deque[Cohort] = deque()
        self._kept = 0

    def find_repeated(self, key: str, signature: Signature) -> tuple[Cohort, MemberSlot] | None:
        """Return the place that a response had when it came before, if it did."""
        for cohort in reversed(self._find_cohorts(key).seated.get(signature, ())):
            slot = cohort.find_member(signature)
            if slot is not None:
                return cohort, slot
        return None

    def find_missed(self, key: str, signature: Signature, now: float) -> Cohort | None:
        """Return the cohort for which a response is late, if it is; if it came before, its sign is in `late`."""
        for cohort in reversed(self._find_cohorts(key).short):
            if signature in cohort.late or cohort.lacks(signature, now - self._late_s):
                return cohort
        return None

    def find_joinable(self, key: str, signature: Signature) -> Cohort | None:
        """Return the open cohort that a response joins, if there is one."""
        return next(
            (
                cohort
                for cohort in self._find_cohorts(key).open
                if not cohort.has_member(signature.member)
            ),
            None,
        )

    def add(self, cohort: Cohort) -> None:
        """A cohort was opened."""
        self._by_key.setdefault(cohort.key, _KeyCohorts()).open[cohort] = None

    def add_member(self, cohort: Cohort, slot: MemberSlot) -> None:
        """A member has a place in a cohort."""
        cohort.slots.append(slot)
        if slot.signature.member is not None:
            cohort.ids.add(slot.signature.member)
        seated = self._find_cohorts(cohort.key).seated.setdefault(slot.signature, [])
        if cohort not in seated:
            seated.append(cohort)

    def close(self, cohort: Cohort, now: float) -> None:
        """A cohort takes no more members."""
        cohort.closed_at = now
        key_cohorts = self._find_cohorts(cohort.key)
        del key_cohorts.open[cohort]
        if not cohort.is_full:
            key_cohorts.short[cohort] = None

    def record_judged(self, cohort: Cohort, now: float) -> None:
        """A cohort was judged: keep its results."""
        cohort.judged_at = now
        self._judged.append(cohort)
        self._kept += len(cohort.slots)
        self.expire(now)

    def expire(self, now: float) -> None:
        """Forget the cohorts whose time is over, and the oldest of too many."""
        while self._judged and (
            self._kept > self._most_kept or self._is_over(self._judged[0], now)
        ):
            oldest = self._judged.popleft()
            self._kept -= len(oldest.slots)
            self.forget(oldest)

    def forget(self, cohort: Cohort) -> None:
        """Forget a cohort that is not kept."""
        key_cohorts = self._by_key[cohort.key]
        for cohorts in (key_cohorts.open, key_cohorts.short):
            cohorts.pop(cohort, None)
        for signature in {slot.signature for slot in cohort.slots}:
            key_cohorts.seated[signature].remove(cohort)
            if not key_cohorts.seated[signature]:
                del key_cohorts.seated[signature]
        if not key_cohorts.seated and not key_cohorts.open:
            del self._by_key[cohort.key]

    def _is_over(self, cohort: Cohort, now: float) -> bool:
        return cohort.judged_at is not None and cohort.judged_at + self._kept_s < now

    def _find_cohorts(self, key: str) -> _KeyCohorts:
        """Return the cohorts of a key."""
        return self._by_key.get(key) or _KeyCohorts()
