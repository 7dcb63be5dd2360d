"""Signal meter of `serve` and `process`: it judges some groups twice and reports the difference.

Guarantees: no reward depends on it, and in `serve` nothing waits for it; the second judgment is
independent of the first, also in the cache; which groups it may choose is a function of the seed
and the row; it judges at most `signal_groups` groups again. A second judgment that fails is
counted. Once the budget is spent it stops, with one line.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from itertools import chain
from typing import Any, cast

from judgegym.data.rows import Task
from judgegym.engine.runs.ledger import DiskRowLedger
from judgegym.engine.settings import EnvConfig
from judgegym.environments.base import JudgedEnv
from judgegym.environments.rollouts.groups import JudgedGroup
from judgegym.environments.rollouts.judging import judge_row_completions
from judgegym.judges.core.seeding import derive_seed, use_group
from judgegym.llm.at_once import cancel_all
from judgegym.llm.cache import independent
from judgegym.llm.errors import BudgetError, SettingsError
from judgegym.llm.ledger import RowLedger, component
from judgegym.llm.usage import Usage
from judgegym.llm.wire import JSON
from judgegym.statistics.signal import MIN_GROUPS, GroupPair, Signal, measure_signal

logger = logging.getLogger(__name__)

SIGNAL, SIGNAL_PAIR = "signal", "signal_pair"
"""Kinds of lines in `monitor.jsonl`: a report, and the rewards of one group."""
_SECOND = 1
"""Number of the independent repeat."""
_LEAST_SHARE = 0.25
_MARGIN = 2.0
"""Groups that may be chosen, of a run of known length, by the number that is needed."""
_REPORTS = frozenset(MIN_GROUPS * 2**doubling for doubling in range(6))
"""Numbers of groups after which the meter reports; and at the end."""
_HASH_RANGE = float(2**64)
_CONCURRENCY = 4
"""Number of groups that are judged again at the same time; with batches there is no limit, since
each turn would wait for a batch of its own."""

Note = Callable[[str, Mapping[str, JSON]], None]
"""Writes a line of a kind to `monitor.jsonl`."""


def check_signal_settings(config: EnvConfig) -> None:
    """Check that the groups of a run can be judged twice.

    Raises:
        SettingsError: `signal_groups` is set, but a second judgment would tell nothing.
    """
    if not config.signal_groups:
        return
    problem = None
    if config.policy_is_judge or not config.asks_endpoint:
        problem = "no judge model is called, so that a second judgment is equal to the first"
    elif config.group_size < 2:
        problem = f"needs groups of two completions or more; got group_size={config.group_size}"
    elif config.reward_by == "turn":
        problem = "measures rewards of whole conversations; got reward_by=turn"
    if problem is not None:
        raise SettingsError(f"--env.signal_groups: {problem}")


async def judge_again(
    env: JudgedEnv[Any, Any, Any], task: Task, group: JudgedGroup, number: int
) -> tuple[GroupPair, Usage]:
    """Judge a group a second time; return the rewards that both judgments have, and the usage.

    Args:
        env: the environment.
        task: the row.
        group: the judged group.
        number: the number of the group in the ledger.
    """
    failures: dict[int, str] = {}
    for position, rollout in enumerate(group.rollouts):
        if rollout.failure is not None:
            failures[position] = rollout.failure
    completions = [rollout.completions for rollout in group.rollouts]
    with independent(_SECOND), component(SIGNAL), use_group(number):
        judgments, rewards, _ = await judge_row_completions(env, task, completions, failures)
    firsts: list[float] = []
    seconds: list[float] = []
    for first, second in zip(group.rewards, rewards, strict=True):
        if first is not None and second is not None:
            firsts.append(first)
            seconds.append(second)
    calls = [*chain.from_iterable(judgment.calls for judgment in judgments)]
    usage = sum((call.run.usage for call in calls), Usage())
    return GroupPair(firsts, seconds, len(calls)), usage


class SignalMeter:
    """Meter of the signal of a run's rewards.

    Attributes:
        counts: number of groups by outcome: `measured`, `failed`.
        calls: number of judge calls of the second judgments.
        signal: the last report; `None` before the first one.
    """

    def __init__(
        self,
        env: JudgedEnv[Any, Any, Any],
        note: Note,
        *,
        expected_groups: int | None = None,
        on_usage: Callable[[Usage], None] = lambda usage: None,
    ) -> None:
        """Begin without a group.

        Args:
            env: the environment.
            note: writes a line to `monitor.jsonl`.
            expected_groups: number of groups of the run; `None` if unknown.
            on_usage: called with the usage of each second judgment.
        """
        self._env, self._note, self._on_usage = env, note, on_usage
        self._wanted = env.config.signal_groups
        self._share = _LEAST_SHARE
        if expected_groups:
            self._share = max(_LEAST_SHARE, _MARGIN * self._wanted / expected_groups)
        self.counts: Counter[str] = Counter(measured=0, failed=0)
        self.calls = 0
        self.signal: Signal | None = None
        self._pairs: list[GroupPair] = []
        self._measured: set[int] = set()
        """Numbers of the groups in `_pairs`."""
        self._reported = -1
        """Number of groups of the last report."""
        self._step = 0
        self._is_spent = False
        self._in_progress: dict[int, asyncio.Task[None]] = {}
        concurrency = _CONCURRENCY
        if env.config.judge_batch is not None:
            concurrency = max(_CONCURRENCY, self._wanted)
        self._semaphore = asyncio.Semaphore(concurrency)

    def restore(self, lines: Iterable[Mapping[str, JSON]]) -> None:
        """Continue from the lines of an earlier process."""
        if not self._wanted:
            return
        for line in lines:
            fields = line.get(SIGNAL_PAIR)
            if not isinstance(fields, Mapping):
                continue
            try:
                values = cast("Mapping[str, Any]", fields)
                first, second = [*map(float, values["first"])], [*map(float, values["second"])]
                number, pair = int(values["group"]), GroupPair(first, second, int(values["calls"]))
            except (LookupError, TypeError, ValueError) as error:  # edited by hand
                logger.warning("a line of the signal meter is skipped: %r", error)
                continue
            if len(first) == len(second) >= 2:
                self._add(number, pair)
                self.calls += pair.calls
        self._reported = len(self._pairs)
        self._measure()

    def offer(
        self, task: Task, group: JudgedGroup, calls: RowLedger | None, *, number: int, step: int
    ) -> None:
        """Judge a group again, if it is chosen.

        The calls are recorded in the current ledger, if there is one.

        Args:
            task: the row.
            group: the judged group.
            calls: the ledger of the group; its number is the same after a restart.
            number: the number of the group without a ledger.
            step: the trainer's step.
        """
        if isinstance(calls, DiskRowLedger) and calls.key[1] is not None:
            number = calls.key[1]
        if group.scores is not None and self._chooses(task.uid, number):
            self._in_progress[number] = asyncio.ensure_future(
                self._judge(task, group, number, step)
            )

    async def finish_group(self, number: int) -> None:
        """Wait until a group is judged again, if it is in progress."""
        if number in self._in_progress:
            await asyncio.wait([self._in_progress[number]])

    async def close(self, within_s: float | None) -> None:
        """Let the groups in progress finish for at most `within_s` (`None`: no limit), and report."""
        if self._in_progress:
            await asyncio.wait([*self._in_progress.values()], timeout=within_s)
        await cancel_all([*self._in_progress.values()])
        if self._wanted:
            self._report()

    @property
    def values(self) -> Mapping[str, float]:
        """The numbers of the last report for the metrics; empty if the meter is off."""
        if not self._wanted:
            return {}
        values = {
            "signal_groups": float(self.counts["measured"]),
            "signal_groups_failed": float(self.counts["failed"]),
            "signal_calls": float(self.calls),
        }
        signal = self.signal
        if signal is not None:
            values |= {
                "signal_reliability": signal.reliability.value,
                "signal_unrepeated": signal.unrepeated.value,
                "signal_unrepeated_low": signal.unrepeated.interval.low,
                "signal_unrepeated_high": signal.unrepeated.interval.high,
                "signal_no_difference": signal.no_difference,
                "signal_no_difference_weight": signal.no_difference_weight,
            }
        return values

    def _chooses(self, uid: str, number: int) -> bool:
        if self._is_spent or len(self._pairs) + len(self._in_progress) >= self._wanted:
            return False
        if number in self._measured or number in self._in_progress:
            return False
        chosen = derive_seed(self._env.config.seed, f"{uid}\x1f{number}", SIGNAL)
        return chosen / _HASH_RANGE < self._share

    async def _judge(self, task: Task, group: JudgedGroup, number: int, step: int) -> None:
        """Judge a group again, and add it to the measured ones; then it is not in progress."""
        try:
            async with self._semaphore:
                if self._is_spent:
                    return
                pair, usage = await judge_again(self._env, task, group, number)
        except BudgetError as error:
            if not self._is_spent:
                logger.warning("the signal meter stops: %s", error)
            self._is_spent = True
            return
        except Exception as error:  # noqa: BLE001  # no error of the meter may end training
            self._count_failure(task.uid, error)
            return
        finally:
            del self._in_progress[number]
        self._on_usage(usage)
        self.calls += pair.calls
        if len(pair.first) < 2:
            self._count_failure(task.uid, "fewer than two completions have two rewards")
            return
        self._step = max(self._step, step)
        self._add(number, pair)
        line: dict[str, JSON] = {"group": number, "step": step, "uid": task.uid}
        line |= {"first": [*pair.first], "second": [*pair.second], "calls": pair.calls}
        self._note(SIGNAL_PAIR, line)
        if len(self._pairs) in _REPORTS:
            self._report()

    def _add(self, number: int, pair: GroupPair) -> None:
        self._pairs.append(pair)
        self._measured.add(number)
        self.counts["measured"] += 1

    def _count_failure(self, uid: str, reason: object) -> None:
        """Count a failure; log the first one."""
        if not self.counts["failed"]:
            logger.warning(
                "the second judgment of row %r failed, further failures are counted: %s",
                uid,
                reason,
            )
        self.counts["failed"] += 1

    def _measure(self) -> str:
        """Measure the signal of all groups so far; return why there is none, or nothing."""
        result = measure_signal(self._pairs, self._env.config.signal_advantage)
        if isinstance(result, str):
            return result
        self.signal = result
        return ""

    def _report(self) -> None:
        """Log the signal, and write a line; without new groups, nothing."""
        if self._reported == len(self._pairs):
            return
        self._reported = len(self._pairs)
        problem = self._measure()
        signal = self.signal
        if problem or signal is None:
            logger.info("the signal of the rewards is not known: %s", problem)
            self._note(SIGNAL, {"step": self._step, "left_out": problem, **self.counts})
            return
        line = cast("dict[str, JSON]", asdict(signal))
        line |= {"step": self._step, "calls": self.calls, "texts": [*signal.texts]}
        line["advantage"] = self._env.config.signal_advantage
        self._note(SIGNAL, line)
        logger.info("%s", "; ".join(describe_signal(signal)))


def describe_signal(signal: Signal) -> list[str]:
    """Return the signal in sentences, the advice last."""
    unrepeated, interval = signal.unrepeated.value, signal.unrepeated.interval
    return [
        f"{unrepeated:.0%} of the squared advantages do not repeat when the judge is called again "
        f"({interval.low:.0%} to {interval.high:.0%}, from {signal.groups} groups)",
        f"reliability of rewards within groups {signal.reliability.value:.2f}",
        f"{signal.no_difference:.0%} of the groups show no difference that repeats; they have "
        f"{signal.no_difference_weight:.0%} of the squared advantages",
        *signal.texts,
    ]
