"""The judged responses of a run on disk, by their places in the data set."""

from __future__ import annotations

from array import array
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from judgegym.data.lazy_sequence import LazySequence
from judgegym.datasets.rows.units import ScoreTasks
from judgegym.datasets.score.lines import ScoreDetail
from judgegym.engine.metrics import HeadlineTerm
from judgegym.engine.records import FINISHED, SampleReader
from judgegym.engine.runs.directory import FAILURES, SAMPLES, EarlierLines, RunDirectory
from judgegym.engine.runs.lines import RawLine, whole_lines
from judgegym.engine.runs.response_uids import response_of_uid, uid_of_row
from judgegym.environments.evaluate.saved import SavedRows
from judgegym.llm import wire
from judgegym.llm.errors import RunDirectoryError
from judgegym.llm.usage import Usage
from judgegym.llm.wire import JSON


@dataclass(frozen=True, slots=True)
class ResponseTask:
    """A response of the data set, as a row of the run."""

    uid: str
    category: str | None
    question: str


class ResponseTasks(LazySequence[ResponseTask]):
    """All responses, each made when it is asked for."""

    def __init__(self, units: ScoreTasks) -> None:
        """Take the responses of `units`, whose rows are single ones or have several responses each."""
        self._units = units

    def __len__(self) -> int:
        """How many there are."""
        return self._units.places.count

    def read(self, place: int) -> ResponseTask:
        """Read a response's row."""
        row, number = self._units.places.row(place)
        unit = self._units.reader.unit(row)
        return ResponseTask(unit.uids[number], unit.category[0], unit.item.prompt)


SavedResponses: TypeAlias = "SavedRows[ResponseTask, ScoreDetail]"


def open_saved(units: ScoreTasks, run: RunDirectory) -> SavedResponses:
    """The responses of a run, without a line yet."""
    return SavedRows(ResponseTasks(units), run, SampleReader(ScoreDetail))


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
    before: EarlierLines, units: ScoreTasks, saved: SavedResponses, *, limit: int | None = None
) -> EarlierResponses:
    """Note which responses an earlier run has judged.

    A response counts only if all that its judge sees of its unit is as it was, and its category. Those that failed are
    judged again.

    Args:
        before: the lines of the earlier run.
        units: of this run.
        saved: takes the lines that count.
        limit: this run leaves rows of the data out on purpose, and must not lose any that are judged.

    Raises:
        RunDirectoryError: a line cannot be read, or is of a row that is left out on purpose.
    """
    changed, share, usage, policy_usage = 0, HeadlineTerm(0.0, 0.0), Usage(), Usage()
    for line in before.failures:
        saved.begin_after(FAILURES, line.offset + len(line.data))
    for line, place, status in judged_places(before.samples, units):
        saved.begin_after(SAMPLES, line.offset + len(line.data))
        if place is not None:
            saved.note(place, line.offset, len(line.data), status, is_complete=True)
            fields = line.fields()
            share = added(share, _share(fields))
            usage = _with_costs(usage, wire.lookup(fields, "run.judge_calls"))
            policy_usage = _with_costs(policy_usage, wire.lookup(fields, "run.policy_calls"))
            continue
        row, _ = _response(line, line.fields().get("uid"))
        if limit is not None and row in range(len(units.numbers), len(units.reader.rows)):
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


def judged_places(samples: Iterable[RawLine], units: ScoreTasks) -> Iterator[tuple[RawLine, int | None, str]]:
    """Each line of an earlier run, the place of its response (`None` if its row has changed), and its status.

    Raises:
        RunDirectoryError: a line cannot be read.
    """
    for line in samples:
        fields = line.fields()
        place, status = units.places.find(*_response(line, fields.get("uid"))), fields.get("status")
        if not isinstance(status, str):
            raise line.damage(f"expected the status of a judged response, found {status!r}")
        yield line, place if place is not None and _is_of(units, place, fields) else None, status


def _is_of(units: ScoreTasks, place: int, fields: Mapping[str, JSON]) -> bool:
    """Whether a line is of the response at a place, as it is now."""
    if fields.get("task_digest") != units.key(units.places.unit(place)).hex():
        return False
    row, _ = units.places.row(place)
    if units.are_groups and fields.get("model_answer") != units.reader.unit(row).item.response:
        return False  # of an equal group it was another member
    return fields.get("category") == units.reader.category(row)


def read_ended(units: ScoreTasks, run: RunDirectory) -> SavedResponses:
    """The responses of a run directory in which each has a line.

    Raises:
        RunDirectoryError: a line cannot be read, or is missing.
    """
    saved = open_saved(units, run)
    for name in (FAILURES, SAMPLES):
        for line in whole_lines(run.path / name):
            fields = line.fields()
            place, status = units.places.find(*_response(line, fields.get("uid"))), fields.get("status")
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


def missing_units(units: ScoreTasks, places: Iterable[int]) -> array[int]:
    """The units to judge: the first of those that are equal, if a response of any of them has no line.

    Args:
        units: all units.
        places: the responses without a line.
    """
    missing = bytearray(len(units))
    for place in places:
        missing[units.first_equal[units.places.unit(place)]] = 1
    return array("q", (number for number, is_missing in enumerate(missing) if is_missing))


class FinishedTasks(Container[str]):
    """The ids of the units that need no judge any more, in a byte for each unit."""

    def __init__(self, units: ScoreTasks, missing: Iterable[int]) -> None:
        """All units but `missing`."""
        self._units = units
        self._missing = bytearray(len(units))
        for number in missing:
            self._missing[number] = 1

    def has(self, number: int) -> bool:
        """Whether the unit with a number is among them."""
        return not self._missing[number]

    def __contains__(self, uid: object) -> bool:
        """Whether the unit with an id is among them."""
        found = response_of_uid(uid)
        place = None if found is None else self._units.places.first_of_row(found[0])
        return place is not None and self.has(self._units.places.unit(place))
