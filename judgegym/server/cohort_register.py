"""Rules that assign responses to cohorts and slots, without waiting and without judging.

The rules, for responses with one key (`cohort_key`):

* A repeated response gets its earlier slot, whether its cohort is open, being judged or judged. It
  counts as repeated if it has the same id and the same text. Without an id it needs the same text,
  and either all callers of that slot have left or the cohort is judged; otherwise it is another
  member with the same text. (An empty response without an id is always another member.)
* A response is late if a cohort was closed short less than `late_s` ago and may lack this response:
  it has an id that no member of the cohort has, or none; and there are fewer late responses than
  missing members.
* Otherwise it joins the oldest open cohort in which no member has its id. A taken id with another
  text belongs to the next epoch, so its response joins another cohort.
* Otherwise a new cohort is opened for it.

Judged cohorts are kept for `kept_s` seconds, the latest with at most `most_kept` slots together. A
cohort in which no member has a score is not kept: repeated requests open a new one.
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
    """The identity of a response, by which it is recognized.

    Attributes:
        member: its id in its group, if it has one.
        text: digest of its text.
        is_empty: whether there is nothing to judge.
    """

    member: str | None
    text: bytes
    is_empty: bool = False


def make_signature(member: str | None, text: str, *, is_empty: bool = False) -> Signature:
    """Return the signature of a response; its length is bounded, as it is kept with the results."""
    if member is not None and len(member) > _LONGEST_ID:
        member = "sha256:" + _digest(member).hex()
    return Signature(member, _digest(text), is_empty)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


@dataclass(eq=False, slots=True)
class MemberSlot:
    """A slot of a cohort.

    Attributes:
        signature: the signature of the response in it.
        number: index among the judged responses, from 0; `None` if it is not judged.
        waiting: number of callers that wait for its result.
        answered: whether a caller has received the judgment.
        is_faulty: whether it has no score although no judge is asked for one.
        was_late: whether a caller was told that the result is late.
    """

    signature: Signature
    number: int | None = None
    waiting: int = 0
    answered: bool = False
    is_faulty: bool = False
    was_late: bool = False


@dataclass(eq=False)
class Cohort:
    """A cohort with its judgment in progress.

    Attributes:
        key: the key that its members share.
        size: expected number of members.
        slots: the slots of the members that came.
        late: signatures of the members that came too late.
        ids: ids of all members that came, in time or late.
        closed_at: when it was closed; `None` while it is open.
        judged_at: when it was judged; `None` before.
        mount: the judge's name.
        task: the task that its members share; `None` once it is judged, like the next two, so that
            no texts are kept.
        scores: the judgment in progress.
        responses: the responses to judge.
        results: the judged members' results; done when the cohort is judged.
        opened_at: when its first member came, on the clock of the event loop.
        closes_at: latest time of its closing, on the same clock.
        timer: closes it at `closes_at`.
        was_overdue: whether a caller got its response before the judgment.
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
        """Whether all members have come."""
        return len(self.slots) >= self.size

    @property
    def empty_count(self) -> int:
        """Number of members with nothing to judge, which score as empty responses."""
        return sum(slot.number is None and not slot.is_faulty for slot in self.slots)

    def has_member(self, member: str | None) -> bool:
        """Return whether a member, in time or late, has this id."""
        return member in self.ids

    def add_late(self, signature: Signature) -> None:
        """Note a member that came too late."""
        self.late.append(signature)
        if signature.member is not None:
            self.ids.add(signature.member)

    def find_member(self, signature: Signature) -> MemberSlot | None:
        """Return the slot that a repeated response had before."""
        candidates = (slot for slot in self.slots if slot.signature == signature)
        if signature.member is not None:
            return next(candidates, None)
        if signature.is_empty:
            return None
        if self.judged_at is not None:
            return next(candidates, None)
        return next((slot for slot in candidates if slot.waiting == 0), None)

    def lacks(self, signature: Signature, since: float) -> bool:
        """Return whether it was closed short after `since` and may lack this response."""
        if (
            self.closed_at is None
            or self.closed_at < since
            or len(self.slots) + len(self.late) >= self.size
        ):
            return False
        return not self.has_member(signature.member)


@dataclass(slots=True)
class _KeyCohorts:
    """The cohorts of a key, oldest first.

    Attributes:
        open: cohorts that members can join.
        short: cohorts that were closed before they were full.
        seated: cohorts by the signature of a response that has a slot there.
    """

    open: dict[Cohort, None] = field(default_factory=dict)
    short: dict[Cohort, None] = field(default_factory=dict)
    seated: dict[Signature, list[Cohort]] = field(default_factory=dict)


class Register:
    """All cohorts of a judge: open, being judged, and recently judged.

    A response is looked up by its signature; of its key's cohorts only the open and the short ones
    are searched.
    """

    def __init__(self, *, late_s: float, kept_s: float, most_kept: int) -> None:
        """Start without cohorts.

        Args:
            late_s: seconds after closing for which a response that a short cohort lacks counts as
                late.
            kept_s: seconds for which the results of a cohort are kept.
            most_kept: limit of slots in cohorts whose results are kept.
        """
        self._late_s = late_s
        self._kept_s = kept_s
        self._most_kept = most_kept
        self._by_key: dict[str, _KeyCohorts] = {}
        self._judged: deque[Cohort] = deque()
        self._kept = 0

    def find_repeated(self, key: str, signature: Signature) -> tuple[Cohort, MemberSlot] | None:
        """Return the slot that a repeated response had before, with its cohort."""
        for cohort in reversed(self._find_cohorts(key).seated.get(signature, ())):
            slot = cohort.find_member(signature)
            if slot is not None:
                return cohort, slot
        return None

    def find_missed(self, key: str, signature: Signature, now: float) -> Cohort | None:
        """Return the cohort for which a response is late, if any; its `late` has repeated ones."""
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
        """Add a cohort that was opened."""
        self._by_key.setdefault(cohort.key, _KeyCohorts()).open[cohort] = None

    def add_member(self, cohort: Cohort, slot: MemberSlot) -> None:
        """Give a member a slot in a cohort."""
        cohort.slots.append(slot)
        if slot.signature.member is not None:
            cohort.ids.add(slot.signature.member)
        seated = self._find_cohorts(cohort.key).seated.setdefault(slot.signature, [])
        if cohort not in seated:
            seated.append(cohort)

    def close(self, cohort: Cohort, now: float) -> None:
        """Note that a cohort takes no more members."""
        cohort.closed_at = now
        key_cohorts = self._find_cohorts(cohort.key)
        del key_cohorts.open[cohort]
        if not cohort.is_full:
            key_cohorts.short[cohort] = None

    def record_judged(self, cohort: Cohort, now: float) -> None:
        """Keep the results of a judged cohort."""
        cohort.judged_at = now
        self._judged.append(cohort)
        self._kept += len(cohort.slots)
        self.expire(now)

    def expire(self, now: float) -> None:
        """Forget expired cohorts, and the oldest beyond the limit."""
        while self._judged and (
            self._kept > self._most_kept or self._is_over(self._judged[0], now)
        ):
            oldest = self._judged.popleft()
            self._kept -= len(oldest.slots)
            self.forget(oldest)

    def forget(self, cohort: Cohort) -> None:
        """Forget a cohort."""
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
