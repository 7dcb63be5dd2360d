"""Scored groups in a JSONL file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgegym.engine.runs.disk import Disk
from judgegym.environments.training.group_file import GroupFile, resolve_groups_path
from judgegym.llm import wire
from judgegym.llm.errors import SettingsError


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@given(numbers=st.permutations(range(6)), text=st.text(st.characters(codec="utf-8")))
def test_any_text_stays_on_its_line(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[int], text: str
) -> None:
    file = GroupFile(tmp_path_factory.mktemp("groups") / "groups.jsonl", Disk())
    for number in numbers:
        file.write(number, wire.dumps({"number": number, "text": text + "\u2028\x0b\r"}))
    file.close()
    assert lines(file.path) == [
        {"number": number, "text": text + "\u2028\x0b\r"} for number in range(6)
    ]


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ([], "groups.jsonl"),
        (["groups.jsonl"], "groups_1.jsonl"),
        (["groups.jsonl", "groups_1.jsonl"], "groups_2.jsonl"),
        (["groups_1.jsonl"], "groups.jsonl"),
        (["groups.run"], "groups_1.jsonl"),
    ],
)
def test_a_file_that_is_there_is_not_touched(
    tmp_path: Path, there: list[str], expected: str
) -> None:
    for name in there:
        (tmp_path / name).write_text("mine")
    assert resolve_groups_path(str(tmp_path / "groups.jsonl"), resume=False).name == expected
    if "groups.jsonl" in there:
        with pytest.raises(SettingsError, match=r"groups\.jsonl"):
            GroupFile(tmp_path / "groups.jsonl", Disk())
    assert all((tmp_path / name).read_text() == "mine" for name in there)


def test_a_file_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match=r"--env\.data_path_to_save_groups") as caught:
        GroupFile(tmp_path / "file" / "groups.jsonl", Disk())
    assert str(tmp_path / "file" / "groups.jsonl") in str(caught.value)
