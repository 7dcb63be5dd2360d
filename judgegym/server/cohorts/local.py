"""The cohorts of this process.

Guarantees: no caller waits longer than its deadline; a cohort is judged when all its members are there, or when the
time to wait is over, with those that came; the judge then has the rest of the deadline, `deadline - group_wait`, before
the first caller must be answered. Who leaves keeps its place, and a judgment outlives its callers: a response that is
sent again finds its result (`register.py` has the rules, and for how long). A judge that compares responses as they
come begins with the second one. What is kept is bounded: no cohort is opened beyond the limit of pending judgments, in
which each place counts, and judged ones are kept by number and time, without the texts. A cohort that is open takes its
members also at the limit: refusing them would keep those that are there waiting, and the limit reached.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from judgegym.judges.core.tasks import (
    ComparingJudge,
    JudgeTask,
    ResponseJudgment,
    answered,
    failed_by,
    failure,
    result_without_judge,
    with_others,
)
from judgegym.llm import tracing
from judgegym.llm.at_once import cancel_all
from judgegym.llm.errors import UserError
from judgegym.server.answers import OverloadError
from judgegym.server.cohorts.register import Cohort, MemberSlot, Register, Sign, cohort_key, sign_of
from judgegym.server.judges import trace_judgment
from judgegym.server.operation import Record


@dataclass(frozen=True, slots=True)
class Gatherer:
    """How the responses of a judge are gathered.

    Attributes:
        scorer: judges them.
        size: members of a full cohort.
        wait_s: seconds after the first member at which a cohort is closed.
        kind: of the judge, for spans.
    """

    scorer: ComparingJudge
    size: int
    wait_s: float
    kind: str = ""


logger = logging.getLogger(__name__)

MOST_KEPT = 32_768
"""Results of each judge that are kept, for as long as the deadline after they were given."""


class LocalCohorts:
    """Gathers single responses to cohorts, and judges these.

    Attributes:
        pending: places in cohorts that are not judged.
    """

    def __init__(
        self,
        gatherers: Mapping[str, Gatherer],
        *,
        deadline_s: float,
        record: Record,
        is_full: Callable[[], bool],
    ) -> None:
        """Start without any.

        Args:
            gatherers: the judges that get single responses, by name.
            deadline_s: seconds within which a caller must have its result.
            record: is told of all results and events.
            is_full: whether no further cohort can be opened.
        """
        self._gatherers = gatherers
        self._deadline_s = deadline_s
        self._record, self._is_full = record, is_full
        self._registers = {
            name: Register(late_s=gatherer.wait_s, kept_s=deadline_s, most_kept=MOST_KEPT)
            for name, gatherer in gatherers.items()
        }
        self._open: set[Cohort] = set()
        self._judging: dict[Cohort, asyncio.Task[None]] = {}
        self._warned: set[str] = set()
        self._is_stopping = False
        self.pending = 0

    async def join(self, mount: str, task: JudgeTask, spent_s: float) -> ResponseJudgment:
        """See `Cohorts`."""
        known = result_without_judge(answered(task, self._gatherers[mount].scorer.settings))
        if known is not None:
            self._record.known(mount, task.prompt, task.response, known)
            with contextlib.suppress(OverloadError):
                place = self._place(mount, task, spent_s, is_empty=True)
                if task.fault is not None and task.awaits_others and not isinstance(place, ResponseJudgment):
                    return await self._fault(known, *place, max(0.0, self._deadline_s - spent_s))
            return known
        place = self._place(mount, task, spent_s, is_empty=False)
        if isinstance(place, ResponseJudgment):
            return place
        return await self._result(*place, max(0.0, self._deadline_s - spent_s))

    def stop(self) -> None:
        """Close all open cohorts, and judge those that are there: no more members come."""
        self._is_stopping = True
        for gathering in tuple(self._open):
            self._close(gathering)

    async def aclose(self) -> None:
        """Give up all that is not judged."""
        gathered, judging = tuple(self._open), dict(self._judging)
        await cancel_all(judging.values())
        for gathering in gathered:
            self._leave_open(gathering)
        for gathering in (*gathered, *judging):
            if not gathering.results.done():
                self._give_up(gathering)

    def _place(
        self, mount: str, task: JudgeTask, spent_s: float, *, is_empty: bool
    ) -> tuple[Cohort, MemberSlot] | ResponseJudgment:
        """The place of a response, or what it is told instead of a result.

        Raises:
            OverloadError: there is no room for another cohort.
        """
        key, sign = cohort_key(mount, task), sign_of(task.member, task.response, is_empty=is_empty)
        register, now = self._registers[mount], asyncio.get_running_loop().time()
        register.expire(now)
        found = register.repeated(key, sign)
        if found is not None:
            self._close_for(found[0], now, spent_s)
            return found
        missed = register.missed(key, sign, now)
        if missed is not None:
            return self._late(missed, task, sign)
        joinable = register.joinable(key, sign)
        if joinable is None and self._is_full():
            raise OverloadError
        gathering = joinable or self._opened(mount, task, key, now)
        place = self._seated(gathering, task, sign)
        self._close_for(gathering, now, spent_s)
        return gathering, place

    def _late(self, missed: Cohort, task: JudgeTask, sign: Sign) -> ResponseJudgment:
        result = failure(
            f"late: the cohort was closed with {len(missed.places)} of {missed.size} members "
            f"{self._waited(missed)} s after the first one came (--group_wait, or less for one with less time)"
        )
        if missed.results.done() and not missed.results.cancelled():
            judged = missed.results.result()
            result = with_others([*judged, result], empty=missed.empty)[-1]
        if sign in missed.late:
            return self._record.shared(missed.mount, result)
        missed.misses(sign)
        if not sign.is_empty:
            self._record.telemetry.cohort(missed.mount, "late")
            self._record.known(missed.mount, task.prompt, task.response, result)
        return result

    def _opened(self, mount: str, task: JudgeTask, key: str, now: float) -> Cohort:
        gatherer, loop = self._gatherers[mount], asyncio.get_running_loop()
        gathering = Cohort(key, gatherer.size, mount=mount, opened_at=now, closes_at=now + gatherer.wait_s)
        gathering.task, gathering.results = task, loop.create_future()
        gathering.scores = gatherer.scorer.begin(answered(task, gatherer.scorer.settings), gatherer.size)
        gathering.timer = loop.call_at(gathering.closes_at, self._close, gathering)
        self._registers[mount].add(gathering)
        self._open.add(gathering)
        self._record.telemetry.cohort(mount, "opened")
        return gathering

    def _seated(self, gathering: Cohort, task: JudgeTask, sign: Sign) -> MemberSlot:
        """Give a response a place; the last one closes the cohort."""
        place = MemberSlot(sign)
        if not sign.is_empty and gathering.scores is not None:
            place.number = len(gathering.responses)
            response = answered(task, self._gatherers[gathering.mount].scorer.settings).response
            gathering.scores.add(response)
            gathering.responses.append(response)
        self._registers[gathering.mount].seat(gathering, place)
        self.pending += 1
        if gathering.is_full or self._is_stopping:
            self._close(gathering)
        return place

    def _close_for(self, gathering: Cohort, now: float, spent_s: float) -> None:
        """Close a cohort early enough for a caller, so that the judge has its share of the time that the caller has.

        A caller with little time may be one whose cohort was lost with another worker, and comes with its fellows. One
        that has none left has its answer already, and takes no time from the others.
        """
        if spent_s >= self._deadline_s:
            return
        share = self._gatherers[gathering.mount].wait_s / self._deadline_s
        closes_at = now + share * (self._deadline_s - spent_s)
        if gathering.timer is not None and closes_at < gathering.closes_at:
            gathering.timer.cancel()
            gathering.closes_at = closes_at
            gathering.timer = asyncio.get_running_loop().call_at(closes_at, self._close, gathering)

    def _leave_open(self, gathering: Cohort) -> None:
        self._open.remove(gathering)
        if gathering.timer is not None:
            gathering.timer.cancel()
            gathering.timer = None

    def _close(self, gathering: Cohort) -> None:
        """Take no more members, and judge those that are there."""
        self._leave_open(gathering)
        self._registers[gathering.mount].closed(gathering, asyncio.get_running_loop().time())
        self._record.telemetry.cohort(gathering.mount, "full" if gathering.is_full else "short")
        task = self._judging[gathering] = asyncio.create_task(self._judge(gathering))
        task.add_done_callback(lambda _: self._judging.pop(gathering))

    async def _judge(self, gathering: Cohort) -> None:
        mount, task, loop = gathering.mount, gathering.task, asyncio.get_running_loop()
        scores, responses = gathering.scores, gathering.responses
        if scores is None or task is None:
            return
        if len(responses) < self._gatherers[mount].scorer.fewest(task):
            scores.cancel()
            too_few = failure(self._too_few(gathering), is_final=gathering.is_full)
            results = [too_few] * len(responses)
            if results and mount not in self._warned:
                self._warned.add(mount)
                fields = {"judge": mount, "reason": too_few.explanation}
                logger.warning("a cohort cannot be judged; further ones are not logged", extra={"fields": fields})
            for response, result in zip(responses, results, strict=True):
                self._record.known(mount, task.prompt, response, result)
        else:
            closed_at = loop.time()
            try:
                results = await trace_judgment(tracing.active, self._gatherers[mount].kind, mount, scores.close())
            except UserError as error:  # an outage, which the judge's client has logged, or a setting
                results = failed_by(error, len(responses))
            except Exception as error:  # boundary of a cohort: any error of a judge fails this cohort alone
                logger.exception("a judgment failed")
                results = failed_by(error, len(responses))
            seconds, is_late = loop.time() - closed_at, gathering.was_overdue
            self._record.judged(mount, task.prompt, responses, results, seconds, is_late=is_late)
        results = with_others(results, empty=gathering.empty)
        gathering.results.set_result(results)
        self._finish(gathering)
        register = self._registers[mount]
        if any(result.score is not None for result in results):
            register.judged(gathering, loop.time())
        else:
            register.forget(gathering)

    def _give_up(self, gathering: Cohort) -> None:
        if gathering.scores is not None:
            gathering.scores.cancel()
        gathering.results.cancel()
        self._finish(gathering)
        self._registers[gathering.mount].forget(gathering)

    def _finish(self, gathering: Cohort) -> None:
        """Count the places as pending no longer, and keep no texts."""
        self.pending -= len(gathering.places)
        gathering.task, gathering.scores, gathering.responses = None, None, []

    def _too_few(self, gathering: Cohort) -> str:
        """Why there is nothing to judge."""
        came = len(gathering.places)
        until = "before the server stopped" if self._is_stopping else f"within {self._waited(gathering)} s"
        empty = came - len(gathering.responses)
        without = f", {empty} of them with nothing to judge" if empty else ""
        return f"{came} of {gathering.size} members came {until}{without}: there is nothing to compare with"

    def _waited(self, gathering: Cohort) -> str:
        """Seconds for which a cohort that was closed short was to be open."""
        return f"{round(gathering.closes_at - gathering.opened_at, 2):g}"

    async def _fault(
        self, known: ResponseJudgment, gathering: Cohort, place: MemberSlot, timeout_s: float
    ) -> ResponseJudgment:
        """The failure of a response that is not judged, with the scores of the others, if they are there in time."""
        place.is_faulty = True
        await asyncio.wait([gathering.results], timeout=timeout_s)
        if not gathering.results.done() or gathering.results.cancelled():
            return known
        return with_others([*gathering.results.result(), known], empty=gathering.empty)[-1]

    async def _result(self, gathering: Cohort, place: MemberSlot, timeout_s: float) -> ResponseJudgment:
        """The result at a place; a failure if it is not there in time."""
        mount, results = gathering.mount, gathering.results
        place.waiting += 1
        try:
            await asyncio.wait([results], timeout=timeout_s)
        finally:
            place.waiting -= 1
        if not results.done() or results.cancelled():
            if not gathering.was_overdue:
                gathering.was_overdue = True
                self._record.health[mount].late()
            is_counted, place.was_late = place.was_late, True
            return self._record.overdue(mount, self._record.health[mount], is_counted=is_counted)
        assert place.number is not None  # only responses that are judged wait
        result = results.result()[place.number]
        if not place.answered:
            place.answered = True
            return result
        return self._record.shared(mount, result)
