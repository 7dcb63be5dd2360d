"""The judged responses of a run on disk, by their places in the data set.

A judged response as a line of the run: in the form of an evaluation's samples, so that every tool reads it.

The gold labels in a column of a data set (`--gold_column`), beside what the judge says of a response.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from judgegym.data.lazy_sequence import LazySequence
from judgegym.data.rows import Row
from judgegym.datasets.rows.task import ScoreTask
from judgegym.datasets.rows.tasks import ScoreTasks
from judgegym.datasets.sample import JudgedResponse
from judgegym.engine.loop import RowEnd
from judgegym.engine.metrics import GoldLabel, HeadlineTerm
from judgegym.engine.records import FINISHED, Sample, SampleReader, SampleRun
from judgegym.engine.runs.directory import FAILURES, SAMPLES, EarlierLines, RunDirectory, response_of_uid, uid_of_row
from judgegym.engine.runs.lines import RawLine, whole_lines
from judgegym.environments.evaluate.saved import SavedRows
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.core.tasks import ResponseJudgment, shared_judgment
from judgegym.judges.parsing.labels import yes_or_no
from judgegym.llm import wire
from judgegym.llm.errors import DataError, RunDirectoryError
from judgegym.llm.usage import Usage
from judgegym.llm.wire import JSON

_RAW = "raw"
_EXPECTED = (
    "a gold label: a number on the judge's scale, a text such as yes, no or the judge's label, or an object of "
    "aspects' names and 1 or 0; a list of them for several responses"
)


class GoldColumn:
    """Reads the gold labels of rows."""

    def __init__(
        self, rows: Sequence[Row], numbers: Sequence[int], column: str, count: Callable[[int], int], *, of_aspects: bool
    ) -> None:
        """Check the labels of all rows that are judged.

        Args:
            rows: the data set.
            numbers: the rows that are judged.
            column: the column.
            count: how many responses a row has.
            of_aspects: the judge gives verdicts on aspects.

        Raises:
            DataError: a label cannot be read, a row has not as many as responses, or no row has one.
        """
        self._rows, self._column, self._of_aspects = rows, column, of_aspects
        has_labels = False
        for number in numbers:
            found = self._values(number)
            has_labels |= any(found)
            if any(found) and len(found) != count(number):
                raise rows[number].lacks(f"in {column} a gold label for each of {count(number)} responses")
        if not has_labels:
            raise DataError(f"{rows[0].place}: no row has a gold label in a column {column} (--gold_column)")

    def labels(self, row: int, number: int, result: ResponseJudgment) -> tuple[GoldLabel, ...]:
        """The gold labels of a response of a row, beside its result.

        Args:
            row: the number of the row.
            number: which of its responses.
            result: what the judge says; one without a score has no verdict.
        """
        values = self._values(row)
        if not any(values):
            return ()
        return tuple(self._compared(name, gold, result) for name, gold in values[number].items())

    def _values(self, number: int) -> list[Mapping[str, str | float]]:
        """The labels of each response of a row, by name."""
        row = self._rows[number]
        found = _from_text(row.values.get(self._column))
        return [dict(self._read(row, value)) for value in (found if isinstance(found, list) else [found])]

    def _read(self, row: Row, value: JSON) -> Iterator[tuple[str, str | float]]:
        value = _from_text(value)
        if isinstance(value, Mapping):
            for name, verdict in value.items():
                said = yes_or_no(verdict)
                if verdict is not None and said is None:
                    raise row.lacks(f"in {self._column} 1 or 0 for {name}, not {verdict!r}")
                if said is not None:
                    yield name, "yes" if said else "no"
        elif isinstance(value, bool) or (self._of_aspects and yes_or_no(value) is not None):
            yield "", "yes" if yes_or_no(value) else "no"
        elif isinstance(value, int | float) and math.isfinite(value):
            yield "", float(value)
        elif isinstance(value, str):
            if value.strip():
                yield "", value.strip()
        elif value is not None:
            raise row.lacks(f"in {self._column} {_EXPECTED}, not {value!r}")

    def _compared(self, name: str, gold: str | float, result: ResponseJudgment) -> GoldLabel:
        judged = result.components
        if isinstance(gold, float):
            judge = judged.get(_RAW, result.score) if result.score is not None else None
            if judge is None:
                return GoldLabel(name, gold, None, None)
            same = _level(judge) == _level(gold) if _RAW in judged else math.isclose(judge, gold, abs_tol=1e-9)
            return GoldLabel(name, gold, judge, same)
        if result.score is None:
            return GoldLabel.of(gold, None, name)
        if self._of_aspects:
            verdict = judged.get(name) if name or len(judged) != 1 else next(iter(judged.values()))
            return GoldLabel.of(gold, None if verdict is None else "yes" if verdict else "no", name)
        label = result.label
        return GoldLabel.of(gold, gold if label is not None and label.casefold() == gold.casefold() else label, name)


def _from_text(value: JSON) -> JSON:
    """A value as JSON says it, for files that have texts alone: numbers, objects and lists."""
    if not isinstance(value, str):
        return value
    try:
        found = wire.loads(value.encode("utf-8", "replace"))
    except ValueError:
        return value
    return found if isinstance(found, Mapping | list | int | float) and not isinstance(found, bool) else value


def _level(score: float) -> int:
    """The whole number nearest to a score; one halfway is rounded up, as on the judges' scales."""
    return math.floor(score + 0.5)


@dataclass(frozen=True, slots=True)
class ScoreDetail:
    """What a judge said of a response, beside its score.

    Attributes:
        explanation: the judge's reasons.
        components: numbers from which the score is computed: `raw` in the judge's own task, ….
    """

    explanation: str
    components: Mapping[str, float] = field(default_factory=dict)


def samples_of(
    task: ScoreTask,
    digest: str,
    judged: Sequence[JudgedResponse],
    seconds: float,
    gold: GoldColumn | None = None,
) -> Iterator[Sample[ScoreDetail]]:
    """The samples of a task's responses, in their order.

    Args:
        task: what was judged.
        digest: its key, in hexadecimal digits.
        judged: its responses, with the result of each.
        seconds: how long it took; the first response has them.
        gold: reads the gold labels of the rows; `None` without any.
    """
    shown = task.judge_task
    found = {
        "reference": shown.reference,
        "rubric": shown.rubric,
        "baseline": shown.baseline,
        "context": shown.context,
    }
    if shown.levels:
        found["levels"] = "\n".join(f"Score {level}: {description}" for level, description in shown.levels)
    if shown.aspects is not None:
        found["aspects"] = "\n".join(f"{aspect.name}: {aspect.definition}" for aspect in shown.aspects)
    texts = {title: text for title, text in found.items() if text is not None}
    for place, (uid, response) in enumerate(zip(task.uids, judged, strict=True)):
        result, took = response.result, seconds if place == 0 else 0.0
        policy_calls = () if response.policy_call is None else (response.policy_call,)
        is_answered = response.completion is not None
        yield Sample(
            uid=uid,
            category=task.category[0 if task.several else place],
            question=shown.prompt,
            completions=() if response.completion is None else (response.completion,),
            judgment=_judgment(result) if is_answered else None,
            score=result.score,
            run=SampleRun(took, policy_calls, result.runs if is_answered else None),
            policy_error=None if is_answered else result.explanation,
            task_digest=digest,
            headline=_headline(result) if is_answered else None,
            texts=texts,
            gold=() if gold is None else gold.labels(*_row(task, place), result),
        )


def _row(task: ScoreTask, place: int) -> tuple[int, int]:
    """The row of a response of a task, and which of the row's responses it is."""
    return (task.rows[0], place) if task.several else (task.rows[place], 0)


def _headline(result: ResponseJudgment) -> HeadlineTerm | None:
    """What a response adds to the mean score: an empty one is a bad answer, one whose judge failed adds nothing."""
    return None if result.is_failed else HeadlineTerm(result.score or 0.0, 1.0)


def _judgment(result: ResponseJudgment) -> Judgment[ScoreDetail]:
    status = Status(result.status)
    return Judgment(
        result.score,
        status,
        result.label,
        "" if status is Status.OK else result.explanation,
        detail=ScoreDetail(result.explanation, result.components),
        suspects=result.injection_suspects,
    )


def task_end(task: ScoreTask, judged: Sequence[JudgedResponse]) -> RowEnd:
    """How a task ended. That a policy never gave a response in an earlier run says nothing of this one's endpoints."""
    failed = [response.result.is_failed for response in judged]
    was_asked = not task.earlier or any(response.status is None for response in task.earlier)
    return RowEnd(not any(failed), judged[0].result.explanation if all(failed) else None, was_asked)


class ResponseLines:
    """Writes a line for each response of the tasks of a run; tasks that are equal share one judgment."""

    def __init__(
        self,
        tasks: ScoreTasks,
        saved: SavedRows[Any, ScoreDetail],
        arrived: Callable[[Sample[ScoreDetail]], None],
        gold: GoldColumn | None = None,
    ) -> None:
        """Prepare.

        Args:
            tasks: all tasks of the run.
            saved: takes the lines.
            arrived: called with each sample once its line is written.
            gold: reads the gold labels of the rows; `None` without any.
        """
        self._tasks, self._saved, self._arrived, self._gold = tasks, saved, arrived, gold
        self._next_equal = _next_equal(tasks.first_equal)

    def record(self, number: int, task: ScoreTask, judged: Sequence[JudgedResponse], seconds: float) -> None:
        """Write the lines of a task, and of the tasks that are equal to it."""
        self._save(number, task, judged, seconds)
        if self._next_equal[number] >= 0:
            shared = [replace(response, result=shared_judgment(response.result)) for response in judged]
            while (number := self._next_equal[number]) >= 0:
                self._save(number, self._tasks[number], shared, 0.0)

    def _save(self, number: int, task: ScoreTask, judged: Sequence[JudgedResponse], seconds: float) -> None:
        samples = samples_of(task, self._tasks.key(number).hex(), judged, seconds, self._gold)
        for place, sample in zip(self._tasks.places.of_task(number), samples, strict=True):
            self._saved.append(place, sample, is_complete=sample.finished)
            self._arrived(sample)


def _next_equal(first_equal: Sequence[int]) -> array[int]:
    """For each task the next one that is equal to it; −1 without one."""
    following, last = array("q", [-1]) * len(first_equal), array("q", range(len(first_equal)))
    for number, first in enumerate(first_equal):
        if first != number:
            following[last[first]] = number
            last[first] = number
    return following


@dataclass(frozen=True, slots=True)
class ResponseTask:
    """A response of the data set, as a row of the run."""

    uid: str
    category: str | None
    question: str


class ResponseTasks(LazySequence[ResponseTask]):
    """All responses, each made when it is asked for."""

    def __init__(self, tasks: ScoreTasks) -> None:
        """Take the responses of `tasks`, whose rows are single ones or have several responses each."""
        self._tasks = tasks

    def __len__(self) -> int:
        """How many there are."""
        return self._tasks.places.count

    def read(self, place: int) -> ResponseTask:
        """Read a response's row."""
        row, number = self._tasks.places.row(place)
        task = self._tasks.reader.task(row)
        return ResponseTask(task.uids[number], task.category[0], task.judge_task.prompt)


SavedResponses: TypeAlias = "SavedRows[ResponseTask, ScoreDetail]"


def open_saved(tasks: ScoreTasks, run: RunDirectory) -> SavedResponses:
    """The responses of a run, without a line yet."""
    return SavedRows(ResponseTasks(tasks), run, SampleReader(ScoreDetail))


@dataclass(frozen=True, slots=True)
class EarlierResponses:
    """What an earlier run has judged.

    Attributes:
        changed: how many of its lines are of rows that have changed, or are gone.
        share: what the others add to the mean score.
        usage: what their judge cost.
        policy_usage: what the policy cost that was asked for them.
    """

    changed: int
    share: HeadlineTerm
    usage: Usage = Usage()
    policy_usage: Usage = Usage()


def added(share: HeadlineTerm, other: HeadlineTerm | None) -> HeadlineTerm:
    """Two shares of the mean score together; the second adds nothing if there is none."""
    return share if other is None else HeadlineTerm(share.total + other.total, share.weight + other.weight)


def read_earlier(
    before: EarlierLines, tasks: ScoreTasks, saved: SavedResponses, *, limit: int | None = None
) -> EarlierResponses:
    """Note which responses an earlier run has judged.

    A response counts only if all that its judge sees of its task is as it was, and its category. Those that failed are
    judged again.

    Args:
        before: the lines of the earlier run.
        tasks: of this run.
        saved: takes the lines that count.
        limit: this run leaves rows of the data out on purpose, and must not lose any that are judged.

    Raises:
        RunDirectoryError: a line cannot be read, or is of a row that is left out on purpose.
    """
    changed, share, usage, policy_usage = 0, HeadlineTerm(0.0, 0.0), Usage(), Usage()
    for line in before.failures:
        saved.begin_after(FAILURES, line.offset + len(line.data))
    for line, place, status in judged_places(before.samples, tasks):
        saved.begin_after(SAMPLES, line.offset + len(line.data))
        if place is not None:
            saved.note(place, line.offset, len(line.data), status, is_complete=True)
            fields = line.fields()
            share = added(share, _share(fields))
            usage = _with_costs(usage, wire.lookup(fields, "run.judge_calls"))
            policy_usage = _with_costs(policy_usage, wire.lookup(fields, "run.policy_calls"))
            continue
        row, _ = _response(line, line.fields().get("uid"))
        if limit is not None and row in range(len(tasks.numbers), len(tasks.reader.rows)):
            raise RunDirectoryError(
                f"{line.path}: {uid_of_row(row)} is judged, and --limit {limit} leaves it out; --resume would lose it: "
                "expected no --limit, or as many rows as before"
            )
        changed += 1
    return EarlierResponses(changed, share, usage, policy_usage)


def _with_costs(usage: Usage, calls: JSON) -> Usage:
    """A usage with the costs of the calls in a line added."""
    for call in calls.values() if isinstance(calls, Mapping) else calls if isinstance(calls, list) else ():
        cost = wire.lookup(call, "usage.cost")
        usage += Usage(cost=cost if isinstance(cost, int | float) else None)
    return usage


def _share(fields: Mapping[str, JSON]) -> HeadlineTerm | None:
    found = fields.get("headline")
    total, weight = (found.get("total"), found.get("weight")) if isinstance(found, Mapping) else (None, None)
    return HeadlineTerm(total, weight) if isinstance(total, float) and isinstance(weight, float) else None


def judged_places(samples: Iterable[RawLine], tasks: ScoreTasks) -> Iterator[tuple[RawLine, int | None, str]]:
    """Each line of an earlier run, the place of its response (`None` if its row has changed), and its status.

    Raises:
        RunDirectoryError: a line cannot be read.
    """
    for line in samples:
        fields = line.fields()
        place, status = tasks.places.find(*_response(line, fields.get("uid"))), fields.get("status")
        if not isinstance(status, str):
            raise line.damage(f"expected the status of a judged response, found {status!r}")
        yield line, place if place is not None and _is_of(tasks, place, fields) else None, status


def _is_of(tasks: ScoreTasks, place: int, fields: Mapping[str, JSON]) -> bool:
    """Whether a line is of the response at a place, as it is now."""
    if fields.get("task_digest") != tasks.key(tasks.places.task(place)).hex():
        return False
    row, _ = tasks.places.row(place)
    if tasks.are_groups and fields.get("model_answer") != tasks.reader.task(row).judge_task.response:
        return False  # of an equal group it was another member
    return fields.get("category") == tasks.reader.category(row)


def read_ended(tasks: ScoreTasks, run: RunDirectory) -> SavedResponses:
    """The responses of a run directory in which each has a line.

    Raises:
        RunDirectoryError: a line cannot be read, or is missing.
    """
    saved = open_saved(tasks, run)
    for name in (FAILURES, SAMPLES):
        for line in whole_lines(run.path / name):
            fields = line.fields()
            place, status = tasks.places.find(*_response(line, fields.get("uid"))), fields.get("status")
            if place is None or not isinstance(status, str):
                raise line.error("not of a response of this data set")
            saved.note(place, line.offset, len(line.data), status, is_complete=status in FINISHED)
    if saved.missing:
        lost = saved.tasks[saved.missing[0]].uid
        raise RunDirectoryError(f"{run.path}: {len(saved.missing)} responses have no line, such as {lost}")
    return saved


def _response(line: RawLine, uid: object) -> tuple[int, int | None]:
    """The row of the response of a line, and its number if the row has several."""
    found = response_of_uid(uid)
    if found is None:
        raise line.damage(f"expected a judged response of a data set, such as row-1; found the uid {uid!r}")
    return found


def missing_tasks(tasks: ScoreTasks, places: Iterable[int]) -> array[int]:
    """The tasks to judge: the first of those that are equal, if a response of any of them has no line.

    Args:
        tasks: all tasks.
        places: the responses without a line.
    """
    missing = bytearray(len(tasks))
    for place in places:
        missing[tasks.first_equal[tasks.places.task(place)]] = 1
    return array("q", (number for number, is_missing in enumerate(missing) if is_missing))


class FinishedTasks(Container[str]):
    """The ids of the tasks that need no judge any more, in a byte for each task."""

    def __init__(self, tasks: ScoreTasks, missing: Iterable[int]) -> None:
        """All tasks but `missing`."""
        self._tasks = tasks
        self._missing = bytearray(len(tasks))
        for number in missing:
            self._missing[number] = 1

    def has(self, number: int) -> bool:
        """Whether the task with a number is among them."""
        return not self._missing[number]

    def __contains__(self, uid: object) -> bool:
        """Whether the task with an id is among them."""
        found = response_of_uid(uid)
        place = None if found is None else self._tasks.places.first_of_row(found[0])
        return place is not None and self.has(self._tasks.places.task(place))
