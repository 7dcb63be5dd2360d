"""Cohorts: single responses to one prompt that arrive in separate requests and are judged together.

Guarantees: no caller waits longer than its deadline. A cohort is judged when it is full, or after
`group_wait` with the members that came; the judge then has the rest of the deadline, `deadline -
group_wait`, before the first caller needs its response. A caller that disconnects keeps its slot,
and a judgment outlives its callers: a repeated response finds its result by the rules of
`cohort_register.py`. A judge that compares responses incrementally starts with the second one.
Memory is bounded: each slot counts as a pending judgment, no cohort is opened beyond their limit,
and judged cohorts are kept without texts, limited by number and time. An open cohort accepts its
members even at the limit: refusing them would keep the others waiting, and the limit reached.

A cohort lives in one process, which all its members must reach:
`RewardServerSettings.check_processes` refuses several.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import orjson

from judgegym.judges.core.tasks import (
    ComparingJudge,
    JudgeTask,
    ResponseJudgment,
    fail_responses,
    make_failure,
    remove_task_thinking,
    result_without_judge,
    set_other_scores,
)
from judgegym.llm import tracing
from judgegym.llm.at_once import cancel_all
from judgegym.llm.errors import UserError
from judgegym.server.answers import OverloadError
from judgegym.server.cohort_register import Cohort, MemberSlot, Register, Signature, make_signature
from judgegym.server.judges import trace_judgment
from judgegym.server.operation import Record

logger = logging.getLogger(__name__)


def cohort_key(mount: str, task: JudgeTask) -> str:
    """Return the digest of a group's members: judge, client, group id, and task without response.

    Two epochs of a prompt without a group id have the same key; `Cohorts` tells them apart.
    """
    shared = task.replace_responses(()).key(mount)
    return hashlib.sha256(orjson.dumps([shared, task.client, task.group])).hexdigest()


@dataclass(frozen=True, slots=True)
class Gatherer:
    """How a judge's single responses are gathered.

    Attributes:
        scorer: judges the cohorts.
        size: number of members of a full cohort.
        wait_s: seconds after the first member at which a cohort is closed.
        kind: the judge's kind, for spans.
    """

    scorer: ComparingJudge
    size: int
    wait_s: float
    kind: str = ""


MOST_KEPT = 32_768
"""Limit of kept results for each judge; they are kept for one deadline after they were given."""


class Cohorts:
    """Gathers single responses into cohorts and judges these.

    Attributes:
        pending: slots of cohorts that are not judged yet.
    """

    def __init__(
        self,
        gatherers: Mapping[str, Gatherer],
        *,
        deadline_s: float,
        record: Record,
        is_full: Callable[[], bool],
    ) -> None:
        """Start without cohorts.

        Args:
            gatherers: how single responses are gathered, by judge name.
            deadline_s: seconds within which a caller must have its result.
            record: records all results and events.
            is_full: tells whether no further cohort may be opened.
        """
        self._gatherers = gatherers
        self._deadline_s = deadline_s
        self._record = record
        self._is_full = is_full
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
        """Add a task's response to its cohort, and return its result before the caller's deadline.

        A cancelled caller leaves its response in the cohort, since it may ask again. A response
        that cannot be judged (an empty one) takes a slot, so that the others do not wait for it,
        and gets its result at once.

        Args:
            mount: the judge's name.
            task: a task with one response.
            spent_s: seconds of the deadline that are used already.

        Raises:
            OverloadError: too many judgments are pending, and no open cohort has a slot for the
                response.
        """
        immediate = result_without_judge(
            remove_task_thinking(task, self._gatherers[mount].scorer.settings)
        )
        if immediate is not None:
            self._record.record_result(mount, task.prompt, task.response, immediate)
            with contextlib.suppress(OverloadError):
                slot = self._assign_slot(mount, task, spent_s, is_empty=True)
                if (
                    task.fault is not None
                    and task.awaits_others
                    and not isinstance(slot, ResponseJudgment)
                ):
                    return await self._wait_for_group(
                        immediate, *slot, max(0.0, self._deadline_s - spent_s)
                    )
            return immediate
        slot = self._assign_slot(mount, task, spent_s, is_empty=False)
        if isinstance(slot, ResponseJudgment):
            return slot
        return await self._wait_for_result(*slot, max(0.0, self._deadline_s - spent_s))

    def stop(self) -> None:
        """Close and judge all open cohorts; no more members will come."""
        self._is_stopping = True
        for cohort in tuple(self._open):
            self._close(cohort)

    async def aclose(self) -> None:
        """Give up all cohorts that are not judged."""
        gathered = tuple(self._open)
        judging = dict(self._judging)
        await cancel_all(judging.values())
        for cohort in gathered:
            self._remove_open(cohort)
        for cohort in (*gathered, *judging):
            if not cohort.results.done():
                self._give_up(cohort)

    def _assign_slot(
        self, mount: str, task: JudgeTask, spent_s: float, *, is_empty: bool
    ) -> tuple[Cohort, MemberSlot] | ResponseJudgment:
        """Return the slot of a response, or the result that it gets without one.

        Raises:
            OverloadError: no further cohort may be opened.
        """
        key = cohort_key(mount, task)
        signature = make_signature(task.member, task.response, is_empty=is_empty)
        register = self._registers[mount]
        now = asyncio.get_running_loop().time()
        register.expire(now)
        repeated = register.find_repeated(key, signature)
        if repeated is not None:
            self._close_for(repeated[0], now, spent_s)
            return repeated
        missed = register.find_missed(key, signature, now)
        if missed is not None:
            return self._late_result(missed, task, signature)
        joinable = register.find_joinable(key, signature)
        if joinable is None and self._is_full():
            raise OverloadError
        cohort = joinable or self._open_cohort(mount, task, key, now)
        slot = self._add_member(cohort, task, signature)
        self._close_for(cohort, now, spent_s)
        return cohort, slot

    def _late_result(
        self, missed: Cohort, task: JudgeTask, signature: Signature
    ) -> ResponseJudgment:
        came = len(missed.slots)
        wait = self._format_wait(missed)
        result = make_failure(
            f"late: the cohort was closed with {came} of {missed.size} members {wait} s after the "
            "first one came (--group_wait, or less for one with less time)"
        )
        if missed.results.done() and not missed.results.cancelled():
            judged = missed.results.result()
            result = set_other_scores([*judged, result], empty=missed.empty_count)[-1]
        if signature in missed.late:
            return self._record.record_shared(missed.mount, result)
        missed.add_late(signature)
        if not signature.is_empty:
            self._record.telemetry.count_cohort(missed.mount, "late")
            self._record.record_result(missed.mount, task.prompt, task.response, result)
        return result

    def _open_cohort(self, mount: str, task: JudgeTask, key: str, now: float) -> Cohort:
        gatherer = self._gatherers[mount]
        loop = asyncio.get_running_loop()
        cohort = Cohort(
            key, gatherer.size, mount=mount, opened_at=now, closes_at=now + gatherer.wait_s
        )
        cohort.task = task
        cohort.results = loop.create_future()
        cohort.scores = gatherer.scorer.begin(
            remove_task_thinking(task, gatherer.scorer.settings), gatherer.size
        )
        cohort.timer = loop.call_at(cohort.closes_at, self._close, cohort)
        self._registers[mount].add(cohort)
        self._open.add(cohort)
        self._record.telemetry.count_cohort(mount, "opened")
        return cohort

    def _add_member(self, cohort: Cohort, task: JudgeTask, signature: Signature) -> MemberSlot:
        """Give a response a slot; the last member closes the cohort."""
        slot = MemberSlot(signature)
        if not signature.is_empty and cohort.scores is not None:
            slot.number = len(cohort.responses)
            response = remove_task_thinking(
                task, self._gatherers[cohort.mount].scorer.settings
            ).response
            cohort.scores.add(response)
            cohort.responses.append(response)
        self._registers[cohort.mount].add_member(cohort, slot)
        self.pending += 1
        if cohort.is_full or self._is_stopping:
            self._close(cohort)
        return slot

    def _close_for(self, cohort: Cohort, now: float, spent_s: float) -> None:
        """Close a cohort earlier for a caller with less time, so that the judge has its share.

        A caller without time left has its response already, and takes no time from the others.
        """
        if spent_s >= self._deadline_s:
            return
        share = self._gatherers[cohort.mount].wait_s / self._deadline_s
        closes_at = now + share * (self._deadline_s - spent_s)
        if cohort.timer is not None and closes_at < cohort.closes_at:
            cohort.timer.cancel()
            cohort.closes_at = closes_at
            cohort.timer = asyncio.get_running_loop().call_at(closes_at, self._close, cohort)

    def _remove_open(self, cohort: Cohort) -> None:
        self._open.remove(cohort)
        if cohort.timer is not None:
            cohort.timer.cancel()
            cohort.timer = None

    def _close(self, cohort: Cohort) -> None:
        """Close a cohort for new members, and judge it."""
        self._remove_open(cohort)
        self._registers[cohort.mount].close(cohort, asyncio.get_running_loop().time())
        self._record.telemetry.count_cohort(cohort.mount, "full" if cohort.is_full else "short")
        task = self._judging[cohort] = asyncio.create_task(self._judge(cohort))
        task.add_done_callback(lambda _: self._judging.pop(cohort))

    async def _judge(self, cohort: Cohort) -> None:
        mount = cohort.mount
        task = cohort.task
        loop = asyncio.get_running_loop()
        scores = cohort.scores
        responses = cohort.responses
        if scores is None or task is None:
            return
        if len(responses) < self._gatherers[mount].scorer.min_responses(task):
            scores.cancel()
            too_few = make_failure(self._explain_too_few(cohort), is_final=cohort.is_full)
            results = [too_few] * len(responses)
            if results and mount not in self._warned:
                self._warned.add(mount)
                fields = {"judge": mount, "reason": too_few.explanation}
                logger.warning(
                    "a cohort cannot be judged; further ones are not logged",
                    extra={"fields": fields},
                )
            for response, result in zip(responses, results, strict=True):
                self._record.record_result(mount, task.prompt, response, result)
        else:
            closed_at = loop.time()
            try:
                results = await trace_judgment(
                    tracing.active, self._gatherers[mount].kind, mount, scores.close()
                )
            except (
                UserError
            ) as error:  # an outage, which the judge's client logs, or a wrong setting
                results = fail_responses(error, len(responses))
            except Exception as error:  # boundary: any judge error fails this cohort alone
                logger.exception("a judgment failed")
                results = fail_responses(error, len(responses))
            seconds = loop.time() - closed_at
            is_late = cohort.was_overdue
            self._record.record_judgment(
                mount, task.prompt, responses, results, seconds, is_late=is_late
            )
        results = set_other_scores(results, empty=cohort.empty_count)
        cohort.results.set_result(results)
        self._finish(cohort)
        register = self._registers[mount]
        if any(result.score is not None for result in results):
            register.record_judged(cohort, loop.time())
        else:
            register.forget(cohort)

    def _give_up(self, cohort: Cohort) -> None:
        if cohort.scores is not None:
            cohort.scores.cancel()
        cohort.results.cancel()
        self._finish(cohort)
        self._registers[cohort.mount].forget(cohort)

    def _finish(self, cohort: Cohort) -> None:
        """Release the slots of a cohort, and drop its texts."""
        self.pending -= len(cohort.slots)
        cohort.task = None
        cohort.scores = None
        cohort.responses = []

    def _explain_too_few(self, cohort: Cohort) -> str:
        """Return the reason why a cohort cannot be judged."""
        came = len(cohort.slots)
        period = "before the server stopped"
        if not self._is_stopping:
            wait = self._format_wait(cohort)
            period = f"within {wait} s"
        empty = came - len(cohort.responses)
        empty_clause = ""
        if empty:
            empty_clause = f", {empty} of them with nothing to judge"
        return (
            f"{came} of {cohort.size} members came {period}{empty_clause}: there is nothing to "
            "compare with"
        )

    def _format_wait(self, cohort: Cohort) -> str:
        """Return for how many seconds a short cohort was meant to be open."""
        seconds = round(cohort.closes_at - cohort.opened_at, 2)
        return f"{seconds:g}"

    async def _wait_for_group(
        self, result: ResponseJudgment, cohort: Cohort, slot: MemberSlot, timeout_s: float
    ) -> ResponseJudgment:
        """Return the failure of a faulty response, with the others' scores if they come in time."""
        slot.is_faulty = True
        await asyncio.wait([cohort.results], timeout=timeout_s)
        if not cohort.results.done() or cohort.results.cancelled():
            return result
        results = [*cohort.results.result(), result]
        return set_other_scores(results, empty=cohort.empty_count)[-1]

    async def _wait_for_result(
        self, cohort: Cohort, slot: MemberSlot, timeout_s: float
    ) -> ResponseJudgment:
        """Return the result of a slot; a failure if it is not ready in time."""
        mount = cohort.mount
        results = cohort.results
        slot.waiting += 1
        try:
            await asyncio.wait([results], timeout=timeout_s)
        finally:
            slot.waiting -= 1
        if not results.done() or results.cancelled():
            if not cohort.was_overdue:
                cohort.was_overdue = True
                self._record.health[mount].note_late()
            is_counted = slot.was_late
            slot.was_late = True
            return self._record.record_overdue(
                mount, self._record.health[mount], is_counted=is_counted
            )
        assert slot.number is not None  # only responses that are judged wait
        result = results.result()[slot.number]
        if not slot.answered:
            slot.answered = True
            return result
        return self._record.record_shared(mount, result)
