"""The comparisons of judgments and of resolved settings: they find what differs, and the endpoint is one function."""

from __future__ import annotations

import copy
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from judgegym.judges.scorers.registry import JUDGES
from tests.conformance.equal_judgments.collecting import Collected, write_collected
from tests.conformance.equal_judgments.comparing import compare
from tests.conformance.equal_judgments.replies import Asked, HttpReply, reply_to
from tests.conformance.equal_judgments.settings import SETTINGS
from tests.conformance.equal_settings.comparing import compare as compare_settings
from tests.conformance.equal_settings.making import RESOLVED
from tests.conformance.subjects import OF_THE_HUB

NEWER = {"prompt"}
"""Kinds that the commit to compare with does not have."""
SYSTEM = "Write [FEEDBACK] and [SCORE], an integer between 1 and 5."
CALL = {
    "component": "judgment_1",
    "vote": 0,
    "part": 0,
    "choices": ["[SCORE] 4"],
    "verdict_at": [0, 9],
}
TASK = {
    "task": "row-1",
    "samples": [{"uid": "row-1", "score": 0.75, "detail": {"components": {"raw": 4.0, "b": 1.0}}}],
    "calls": [CALL],
    "requests": [
        [{"messages": [{"role": "user", "content": "Why? (case 1)"}], "temperature": 0.2}, 1]
    ],
}
WHOLE = {"code": 0, "results": {"mean": 0.75}, "said": ""}


def _request(number: int) -> dict[str, Any]:
    asked = f"### Instruction\n\nWhy {number}?\n\n### Score Rubric\n\nIs it right?"
    return {"messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": asked}]}


def _reply(number: int, repetition: int = 1, setting: str = "rubric-plain") -> HttpReply:
    return reply_to(
        Asked(setting, "v1/chat/completions", 0, _request(number), f"digest {number}", repetition)
    )


def test_an_answer_depends_on_the_request_and_its_repetition_alone() -> None:
    assert [_reply(number) for number in range(50)] == [_reply(number) for number in range(50)]
    assert any(_reply(number, 1) != _reply(number, 2) for number in range(5))


def test_a_judge_is_given_verdicts_and_every_way_to_fail() -> None:
    replies = [_reply(number) for number in range(900)]
    statuses = Counter(reply.status for reply in replies)
    assert {200, 400, 500, 503} == {*statuses} and statuses[200] > 700
    assert any(reply.is_dropped for reply in replies) and any(
        isinstance(reply.body, bytes) for reply in replies
    )
    choices = [
        reply.body["choices"][0]
        for reply in replies
        if isinstance(reply.body, dict) and reply.status == 200
    ]
    assert {choice["finish_reason"] for choice in choices} == {"stop", "length", "content_filter"}
    texts = [choice["message"]["content"] for choice in choices]
    assert "" in texts and any(text.startswith("<think>") for text in texts)
    assert sum("[SCORE]" in text for text in texts) > len(texts) / 2
    assert all(_reply(number, setting="rubric-calm").status == 200 for number in range(200))


def test_every_kind_of_judge_every_environment_and_mt_bench_have_settings() -> None:
    names = [setting.name for setting in SETTINGS]
    assert len({*names}) == len(names)
    kinds = Counter(setting.kind for setting in SETTINGS)
    for kind in {*JUDGES} - NEWER:
        assert kinds[kind] >= 3, kind
    for subject in OF_THE_HUB:
        assert sum(name.startswith(f"env-{subject.env_type.spec.name}-") for name in names) >= 2, (
            subject.env_type.spec.name
        )


def _write(folder: Path, task: dict[str, Any], whole: dict[str, Any]) -> Path:
    folder.mkdir()
    write_collected(folder / "rubric-plain.jsonl.gz", Collected(0, whole, [task]))
    return folder


@pytest.mark.parametrize(
    ("place", "value", "shown"),
    [
        (("samples", 0, "score"), 0.5, "row-1 samples.row-1.score: 0.75 → 0.5"),
        (
            ("samples", 0, "detail", "components"),
            {"b": 1.0, "raw": 4.0},
            "row-1 the order of fields",
        ),
        (
            ("calls", 0, "verdict_at"),
            [1, 9],
            "row-1 calls.judgment_1 vote 0 part 0.verdict_at[0]: 0 → 1",
        ),
        (("calls", 0, "component"), "score_1", "row-1 calls.judgment_1 vote 0 part 0: {"),
        (("requests", 0, 1), 2, "row-1 requests, how often"),
        (("requests", 0, 0, "temperature"), 0.7, "row-1 requests, from character"),
    ],
)
def test_a_difference_is_named_with_setting_task_and_path(
    tmp_path: Path, place: tuple[Any, ...], value: object, shown: str
) -> None:
    other: Any = copy.deepcopy(TASK)
    inner = other
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    sides = [
        _write(tmp_path / name, task, WHOLE)
        for name, task in (("a", TASK), ("b", other), ("c", TASK))
    ]
    assert any(
        str(each).startswith(f"rubric-plain {shown}")
        for each in compare(sides[0], sides[1]).differences
    )
    same = compare(sides[0], sides[2])
    assert same.differences == []
    assert (
        same.counts["tasks"],
        same.counts["responses"],
        same.counts["calls"],
        same.counts["requests"],
    ) == (1,) * 4
    assert compare(sides[0], sides[1], only=["aspect"]).differences == []


def test_a_whole_and_a_missing_setting_differ(tmp_path: Path) -> None:
    before = _write(tmp_path / "a", TASK, WHOLE)
    after = _write(tmp_path / "b", TASK, {**WHOLE, "code": 1})
    assert [str(each) for each in compare(before, after).differences] == [
        "rubric-plain the whole code: 0 → 1"
    ]
    (after / "rubric-plain.jsonl.gz").unlink()
    (missing,) = compare(before, after).differences
    assert missing.after == "(absent)"


def test_a_key_at_another_host_is_a_difference_of_settings_and_a_renamed_flag_none(
    tmp_path: Path,
) -> None:
    client = {
        "endpoints": [{"base_url": "https://a", "api_key": "value-of-MINE"}],
        "section": "env.",
    }
    line = {
        "case": "jury of named",
        "code": 0,
        "said": [],
        "clients": [client],
        "config": ["judge  rubric"],
    }
    folders = []
    leaked = {**client, "endpoints": [{"base_url": "https://b", "api_key": "value-of-MINE"}]}
    for name, clients in (
        ("a", [client]),
        ("b", [{**client, "section": "judge."}, client]),
        ("c", [leaked]),
    ):
        folder = tmp_path / name
        folder.mkdir()
        (folder / RESOLVED).write_text(json.dumps({**line, "clients": clients}) + "\n")
        folders.append(folder)
    assert list(compare_settings(folders[0], folders[1])) == []
    (difference,) = compare_settings(folders[0], folders[2])
    assert (
        str(difference)
        == 'jury of named: clients[0].endpoints[0].base_url: "https://a" → "https://b"'
    )
