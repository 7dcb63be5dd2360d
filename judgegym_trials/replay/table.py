"""Table of several recorded judges on the same rows: scores, costs, confidences, labels.

Rows are those that all runs have judged, with the same texts; a row of a run of `score` is a
response. A verdict is the side of ½ on which a score lies, or ½ itself; with a tolerance, for
graded scores, two scores agree if they differ by at most that much.

Confidences are recomputed from the recorded responses by the judges themselves, so a cascade in use
decides as the table says. For a run of `evaluate`, and a judge that compares responses, they come
from its scores and orders, and random numbers of the table break ties.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from judgegym.engine.records import Sample
from judgegym.judges.core import event_loop
from judgegym.judges.core.judgment import Status
from judgegym.judges.core.seeding import derive_seed
from judgegym.judges.core.tasks import split_task
from judgegym.judges.parts.cascade import (
    CONFIDENCE_DIGITS,
    CascadeJudge,
    CascadeSettings,
    row_number,
)
from judgegym.judges.scorers.registry import built_in_kind
from judgegym.llm.errors import DataError, SettingsError
from judgegym.llm.wire import JSON
from judgegym.reports.labels.file import read_labels, row_digest
from judgegym.statistics.agreement import sides
from judgegym_trials.replay.members import (
    RecordedJudge,
    judge_settings,
    open_scoring,
    replay_settings,
)
from judgegym_trials.replay.recordings import ROW

NEVER = -1.0
"""Confidence of a judge without a score: it decides at no threshold."""


class RowConfidence(NamedTuple):
    """A judge's confidence in a row.

    Attributes:
        by_rule: confidences from 0 to 1, by the rules that the judge knows; empty without a score.
        unit: the unit; rows that a cascade decides together have the same.
        number: a number from 0 to 1 that decides the row at the threshold itself.
    """

    by_rule: Mapping[str, float]
    unit: str
    number: float


@dataclass(frozen=True)
class JudgedTable:
    """Numbers by row, and by the members' names; NaN where a judge has no score.

    Attributes:
        names: the members' names.
        uids: the rows' ids.
        scores: scores from 0 to 1.
        costs: costs in US dollars; in calls if a cost is unknown.
        cost_unit: `US dollars` or `calls`.
        confidences: by member and rule, each row's confidence: the lowest of its unit, `NEVER`
            without a score.
        units: the number of each row's unit.
        numbers: each row's number that breaks ties at a threshold.
        labels: each row's label from 0 to 1; `None` without labels.
        tolerance: maximum difference of graded scores that agree; `None` compares verdicts.
        left_out: number of rows that are not in all runs, have no label, or have other texts.
    """

    names: tuple[str, ...]
    uids: tuple[str, ...]
    scores: Mapping[str, NDArray[np.float64]]
    costs: Mapping[str, NDArray[np.float64]]
    cost_unit: str
    confidences: Mapping[str, Mapping[str, NDArray[np.float64]]]
    units: NDArray[np.int64]
    numbers: NDArray[np.float64]
    labels: NDArray[np.float64] | None
    tolerance: float | None
    left_out: int

    def agreement(
        self, first: NDArray[np.float64], second: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return by row how far two scores agree: 1, ½ if one is no verdict, or 0.

        With a tolerance it is 1 or 0.
        """
        if self.tolerance is not None:
            return (np.abs(first - second) <= self.tolerance + 1e-9).astype(float)
        return 1.0 - np.abs(np.nan_to_num(sides(first)) - np.nan_to_num(sides(second))) / 2.0

    def confidence(self, name: str, rule: str) -> NDArray[np.float64]:
        """Return a member's confidence in each row's unit by a rule.

        Raises:
            SettingsError: the member does not know the rule.
        """
        by_rule = self.confidences[name]
        if rule not in by_rule:
            rules = ", ".join(by_rule)
            raise SettingsError(f"{name} knows {rules}, and not {rule}")
        return by_rule[rule]


def open_table(
    members: Sequence[RecordedJudge],
    flags: argparse.Namespace,
    *,
    strong: str | None = None,
    replays: bool = True,
) -> JudgedTable:
    """Read the runs, and replay their judges for their confidences.

    Args:
        members: the runs.
        flags: `labels`: the file of labels; rows without one are left out. `tolerance`: maximum
            difference of graded scores that agree; `None` compares verdicts. `data`: the rows'
            current place, if it has changed.
        strong: the member that must have a score of each row.
        replays: whether to replay the judges; if not, confidences come from scores.

    Raises:
        DataError: no row is in all runs, or has a label; a label is of another response; a score is
            not from 0 to 1; a call is not recorded.
        RunDirectoryError: a file of a run is damaged.
    """
    runs = {
        member.name: {sample.uid: sample for sample in member.run.samples()} for member in members
    }
    labels, gold = None, None
    if flags.labels is not None:
        labels = read_labels(flags.labels)
        gold = labels.means()
    for uid, label in (gold or {}).items():
        if not 0 <= label <= 1:
            raise DataError(
                f"{flags.labels}: the label of {uid} is {label:g}; expected one from 0 to 1"
            )
    everything = list(dict.fromkeys(chain.from_iterable(runs.values())))
    uids = [
        uid for uid in everything if _belong_to_one_row([run.get(uid) for run in runs.values()])
    ]
    scores = {
        judge.name: {uid: _row_score(runs[judge.name][uid], judge) for uid in uids}
        for judge in members
    }
    if strong is not None:
        uids = [uid for uid in uids if not math.isnan(scores[strong][uid])]
    if not uids:
        paths = ", ".join(str(member.run.path) for member in members)
        raise DataError(f"no row with the same texts is in all runs: {paths}")
    if labels is not None and gold is not None:
        uids = [uid for uid in uids if uid in gold]
        first_run = members[0].run.path
        shown = {uid: row_digest(runs[members[0].name][uid]) for uid in uids}
        for human_label in labels.by_row_and_labeller.values():
            uid, digest = human_label.uid, human_label.row
            if digest and digest != shown.get(uid, digest):
                raise DataError(f"{flags.labels}: row {uid!r} has another response in {first_run}")
    if not uids:
        raise DataError(f"{flags.labels}: no row of the runs has a label")
    calls = {name: [_call_costs(run[uid]) for uid in uids] for name, run in runs.items()}
    costs = {name: np.array([*map(sum, of_judge)]) for name, of_judge in calls.items()}
    is_known = not any(np.isnan(of_judge).any() for of_judge in costs.values())
    if not is_known:
        costs = {
            name: np.array([*map(len, of_judge)], dtype=float) for name, of_judge in calls.items()
        }
    confidences = {
        recorded.name: _measure_confidences(
            recorded, runs[recorded.name], flags.data, replays=replays
        )
        for recorded in members
    }
    first = next(
        (confidences[replayed.name] for replayed in members if replayed.is_judge),
        confidences[members[0].name],
    )
    _, units = np.unique([first[uid].unit for uid in uids], return_inverse=True)
    return JudgedTable(
        names=tuple(runs),
        uids=tuple(uids),
        scores={
            name: np.array([of_judge[uid] for uid in uids]) for name, of_judge in scores.items()
        },
        costs=costs,
        cost_unit="US dollars" if is_known else "calls",
        confidences={
            name: _group_by_rule([of_run[uid].by_rule for uid in uids], units)
            for name, of_run in confidences.items()
        },
        units=units,
        numbers=np.array([first[uid].number for uid in uids]),
        labels=None if gold is None else np.array([gold[uid] for uid in uids]),
        tolerance=flags.tolerance,
        left_out=len(everything) - len(uids),
    )


def _belong_to_one_row(samples: Sequence[Sample[JSON] | None]) -> bool:
    """Return whether all judges saw the same texts.

    An empty response costs nothing in any jury.
    """
    empty = Status.INVALID_COMPLETION.value
    judged = []
    for sample in samples:
        if sample is None or sample.judgment is None or sample.status == empty:
            return False
        judged.append(sample)
    return len({*map(row_digest, judged)}) == 1


def _row_score(sample: Sample[JSON], member: RecordedJudge) -> float:
    if sample.status != Status.OK.value or sample.headline is None or not sample.headline.weight:
        return math.nan
    score = sample.headline.value
    if not 0 <= score <= 1:
        raise DataError(
            f"{member.run.path}: the score of {sample.uid} is {score:g}; expected scores from 0 to "
            "1"
        )
    return score


def _call_costs(sample: Sample[JSON]) -> list[float]:
    """Return the cost of each call."""
    runs = list((sample.run.judge_calls or {}).values()) or list(sample.run.policy_calls)
    return [math.nan if run.usage.cost is None else run.usage.cost for run in runs]


def _group_by_rule(
    confidences: Sequence[Mapping[str, float]], units: NDArray[np.int64]
) -> Mapping[str, NDArray[np.float64]]:
    """Return the confidences of each row's unit by rule.

    A scored row without a confidence has 0, as in use.
    """
    by_rule = {}
    for rule in dict.fromkeys(chain.from_iterable(confidences)):
        lowest = np.full(units.max() + 1, np.inf)
        np.minimum.at(
            lowest,
            units,
            [
                row_confidences.get(rule, 0.0) if row_confidences else NEVER
                for row_confidences in confidences
            ],
        )
        by_rule[rule] = lowest[units].round(CONFIDENCE_DIGITS)
    return by_rule


def _measure_confidences(
    member: RecordedJudge, samples: Mapping[str, Sample[JSON]], data: str | None, *, replays: bool
) -> Mapping[str, RowConfidence]:
    """Return how sure a run's judge is of each row.

    It is read from recorded responses if the judge is replayed, else from scores.
    """
    if replays and member.is_judge:
        return event_loop.run(_replay_confidences(member, data))
    by_uid = {}
    for uid, sample in samples.items():
        score = _row_score(sample, member)
        by_rule = {}
        if not math.isnan(score):
            by_rule["margin"] = abs(2.0 * score - 1.0)
            orders = sample.orders.values()
            if len(orders) > 1:
                by_rule["orders"] = 1.0 - (max(orders) - min(orders))
        by_uid[uid] = RowConfidence(by_rule, uid, derive_seed(0, uid, "cascade") / 2**64)
    return by_uid


async def _replay_confidences(
    member: RecordedJudge, data: str | None
) -> Mapping[str, RowConfidence]:
    """Return a run's judge's confidences, recomputed from its recorded responses.

    The judge is opened as the cheap one of a cascade, whose settings and row numbers are then those
    in use.
    """
    pair = [member, replace(member, name=f"{member.name}_again")]
    settings = replay_settings(pair, judge_settings(pair, built_in_kind(CascadeSettings), {}), data)
    run = open_scoring([member], settings, Path("replay.jsonl"))
    cascade = cast(CascadeJudge, run.scorer)
    tasks = run.tasks
    by_uid: dict[str, RowConfidence] = {}
    for number, first in enumerate(tasks.first_equal):
        if not tasks.response_index.find_task_positions(number):
            continue  # the row could not be judged
        task = tasks[number]
        ROW.set(tasks.uid(first))  # identical rows share the calls of the first
        cases, places = split_task(cascade.cheap.judge, task.judge_task)
        judgments = [await cascade.judge_part(cascade.cheap, case) for case in cases]
        confidences = [
            {} if judgment.score is None else judgment.confidences for judgment in judgments
        ]
        at = row_number(settings.seed, task.judge_task, "cascade")
        for uid, place in zip(task.uids, places, strict=True):
            by_uid[uid] = RowConfidence(
                confidences[place[0]] if isinstance(place, tuple) else {}, task.uid, at
            )
    return by_uid
