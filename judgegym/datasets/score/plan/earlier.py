"""What is there of a run that a plan is to resume. Only read: neither the run's lock nor its files are touched."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from pathlib import Path

from judgegym.datasets.rows.units import ScoreTasks
from judgegym.datasets.score.plan.numbers import Earlier
from judgegym.datasets.score.saved import judged_places, missing_units
from judgegym.engine.runs.directory import SAMPLES
from judgegym.engine.runs.lines import LinesOfFile
from judgegym.engine.runs.recorded_calls import read_calls


@dataclass(frozen=True, slots=True)
class RemainingTasks:
    """The units that are left to judge, and what the ledger holds."""

    units: array[int]
    earlier: Earlier


def units_left(units: ScoreTasks, run: Path | None) -> RemainingTasks:
    """What is left of a run; all of it without one.

    Args:
        units: all units of the data.
        run: the run's directory, which may not exist.

    Raises:
        RunDirectoryError: a line of it cannot be read.
    """
    done = bytearray(units.places.count)
    if run is not None:
        for _, place, _ in judged_places(LinesOfFile(run / SAMPLES), units):
            if place is not None:
                done[place] = 1
    numbers = missing_units(units, (place for place, is_done in enumerate(done) if not is_done))
    return RemainingTasks(numbers, Earlier() if run is None else _answers(units, run, numbers, sum(done)))


def _answers(units: ScoreTasks, run: Path, left: array[int], judged: int) -> Earlier:
    rows = frozenset(units.uid(number) for number in left)
    held = held_responses = answers = tokens = 0
    seconds = 0.0
    for call in read_calls(run):
        if call.is_of_policy:
            held_responses += call.row in rows
            continue
        held += call.has_verdict and call.row in rows
        if call.answer.attempts:
            answers += 1
            tokens += call.answer.usage.completion_tokens
            seconds += call.answer.latency_s
    return Earlier(judged, held, held_responses, answers, tokens, seconds)
