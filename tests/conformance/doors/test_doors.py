"""A judge of one's own behind every door: it judges, offline too, and a mistake in it is told before the first call."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from judgegym.judges.core.prompt_format import PREVIOUS_EVALUATION
from tests.command import serving
from tests.conformance.doors.commands import COMMANDS
from tests.conformance.doors.door import Door, RefusedError, Visit
from tests.conformance.doors.in_python import IN_PYTHON
from tests.conformance.doors.judges import FORMS, JUDGES, DoorJudge
from tests.conformance.doors.served import SERVED
from tests.scripted import Json, ScriptedEndpoint

DOORS = (*COMMANDS, *SERVED, *IN_PYTHON)
Endpoints = Callable[[DoorJudge], ScriptedEndpoint]
_IN_FORM: Mapping[str, Callable[[Json], bool]] = {
    "votes": lambda body: True,
    "critique": lambda body: PREVIOUS_EVALUATION in json.dumps(body),
    "structured": lambda body: "response_format" in body,
    "logprobs": lambda body: bool(body.get("logprobs")),
}
"""Whether a request asks in a form; votes are requests, or choices of one."""


def _cell(judge: DoorJudge, door: Door, *names: str) -> Any:
    is_dear = door.is_dear or (judge.in_gate and door.name not in judge.in_gate)
    marks = [pytest.mark.slow] if is_dear else []
    return pytest.param(
        judge, door, *names, id="-".join((judge.name, door.name, *names)), marks=marks
    )


def _judges_of(door: Door, *forms: str) -> list[DoorJudge]:
    """The judges that the door takes, and that have these forms."""
    return [
        judge for judge in JUDGES if door.name not in judge.refused and {*forms} <= {*judge.forms}
    ]


CELLS = [_cell(judge, door) for door in DOORS for judge in _judges_of(door)]
CELLS_OFFLINE = [
    _cell(judge, door) for door in DOORS for judge in _judges_of(door) if door.has_stand_in
]


def _by_one_judge(*forms: str) -> list[Any]:
    """Each door, with each of these forms, by one of the judges that have it."""
    cells = list[Any]()
    for place, door in enumerate(DOORS):
        for form in forms:
            judges = _judges_of(door, form)
            cells.append(_cell(judges[place % len(judges)], door, form))
    return cells


@pytest.fixture
def endpoint_of() -> Iterator[Endpoints]:
    """Opens the endpoint of all models."""
    with ExitStack() as stack:
        yield lambda judge: stack.enter_context(serving(judge.script()))


def settings_of(
    judge: DoorJudge,
    folder: Path,
    form: Mapping[str, Any] = MappingProxyType({}),
    *,
    is_broken: bool = False,
) -> Mapping[str, Any]:
    return {"judge": judge.written(folder / "judge", is_broken=is_broken), **form}


def asked(endpoint: ScriptedEndpoint, judge: DoorJudge) -> list[Json]:
    """The requests with the judge's own prompt."""
    return [body for body in endpoint.bodies if judge.marker in json.dumps(body)]


@pytest.mark.parametrize(("judge", "door"), CELLS)
def test_it_judges(judge: DoorJudge, door: Door, tmp_path: Path, endpoint_of: Endpoints) -> None:
    endpoint = endpoint_of(judge)
    scores = door.judge(Visit(tmp_path, endpoint, settings_of(judge, tmp_path)))
    assert [*scores] == [1.0, 0.0]
    requests = asked(endpoint, judge)
    assert requests
    assert all(judge.sent.items() <= body.items() for body in requests)


@pytest.mark.slow
@pytest.mark.parametrize(("judge", "door", "form"), _by_one_judge(*FORMS))
def test_it_judges_in_every_form(
    judge: DoorJudge, door: Door, form: str, tmp_path: Path, endpoint_of: Endpoints
) -> None:
    endpoint = endpoint_of(judge)
    scores = door.judge(Visit(tmp_path, endpoint, settings_of(judge, tmp_path, FORMS[form])))
    assert [*scores] == [1.0, 0.0]
    assert any(_IN_FORM[form](body) for body in asked(endpoint, judge))


@pytest.mark.slow
@pytest.mark.parametrize(("judge", "door"), CELLS_OFFLINE)
def test_offline_the_stand_in_knows_its_prompts(
    judge: DoorJudge, door: Door, tmp_path: Path
) -> None:
    scores = door.judge(Visit(tmp_path, None, settings_of(judge, tmp_path)))
    assert scores and all(score is not None and 0 <= score <= 1 for score in scores)


@pytest.mark.parametrize(("judge", "door"), CELLS)
def test_a_mistake_in_it_is_one_line_before_the_first_call(
    judge: DoorJudge, door: Door, tmp_path: Path, endpoint_of: Endpoints
) -> None:
    endpoint = endpoint_of(judge)
    with pytest.raises(RefusedError) as refused:
        door.judge(Visit(tmp_path, endpoint, settings_of(judge, tmp_path, is_broken=True)))
    said, place = refused.value.said.strip(), "" if judge.is_installed else f"{tmp_path / 'judge'}/"
    where, *facts = judge.broken[1]
    assert refused.value.code == 2 and f"{place}{where}" in said
    assert all(fact in said for fact in facts), said
    assert len(said.splitlines()) == 1
    assert not endpoint.requests
