"""The comparison of the runs of two checkouts: it finds what differs, and nothing that every two runs differ in."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from judgegym.judges.scorers.registry import JUDGES
from tests.conformance.equal_runs.comparing import compare
from tests.conformance.equal_runs.making import MADE
from tests.conformance.equal_runs.runs import RUNS
from tests.conformance.subjects import OF_THE_HUB

CALL = {
    "row": "a",
    "key": "1f",
    "messages": [{"role": "user", "content": "Why?"}],
    "answer": {"choices": ["4"]},
}
FILES: Mapping[str, Any] = {
    "samples.jsonl": [
        {"uid": "a", "score": 1.0, "texts": {"x": "y"}, "run": {"seconds": 1.5}},
        {"uid": "b", "score": 0},
    ],
    "failures.jsonl": [{"uid": "c", "error": "no verdict"}],
    "metrics.json": {
        "config_general": {"date": "today", "datasets": [{"name": "/one/rows.jsonl"}], "seed": 7},
        "results": {"eval/score": 0.5, "eval/judge_latency_mean_s": 0.25},
    },
    "ratings.csv": "rank,name\n1,a\n",
}


def _write(folder: Path, checkout: str, seconds: float, calls: list[Any]) -> Path:
    run = folder / "run" / "scored.run"
    run.mkdir(parents=True)
    (folder / MADE).write_text(json.dumps({"checkout": checkout, "folder": str(folder)}))
    for name, content in FILES.items():
        if name.endswith(".jsonl"):
            text = "".join(f"{json.dumps(line)}\n" for line in content)
        else:
            text = content if isinstance(content, str) else json.dumps(content, indent=2)
        text = (
            text.replace("/one", checkout)
            .replace("1.5", str(seconds))
            .replace("0.25", str(seconds))
        )
        (run / name).write_text(text.replace("today", f"day {seconds}"))
    first, *others = calls
    first = {
        **first,
        "messages": [*first["messages"], {"role": "user", "text": "9a", "content": "a long text"}],
    }
    others = [
        {**call, "messages": [*call["messages"], {"role": "user", "text": "9a"}]} for call in others
    ]
    lines = [
        {"sent": 1},
        *({"call": {"id": number, **call}} for number, call in enumerate([first, *others])),
    ]
    with gzip.open(run / "calls.jsonl.gz", "wt") as file:
        file.writelines(f"{json.dumps(line)}\n" for line in lines)
    return folder


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A run of two checkouts, alike but for times, paths, and the order in which calls were answered."""
    other = {**CALL, "key": "2e"}
    return _write(tmp_path / "a", "/one", 1.5, [CALL, other]), _write(
        tmp_path / "b", "/two", 2.5, [other, CALL]
    )


def test_times_paths_and_the_order_of_calls_are_no_difference(folders: tuple[Path, Path]) -> None:
    found = compare(*folders)
    assert (found.runs, found.files, found.differences) == (1, 5, [])


@pytest.mark.parametrize(
    ("file", "before", "after", "where"),
    [
        ("samples.jsonl", '"score": 0}', '"score": 0.1}', "samples.jsonl:2: score: 0 → 0.1"),
        ("samples.jsonl", '"score": 0}', '"score": 0.0}', "samples.jsonl:2: score: 0 → 0.0"),
        ("samples.jsonl", '{"uid": "b", "score": 0}\n', "", "samples.jsonl:2: the whole: "),
        ("samples.jsonl", '{"x": "y"}', "{}", 'samples.jsonl:1: texts.x: "y" → (absent)'),
        (
            "samples.jsonl",
            '{"uid": "b", "score": 0}',
            '{"score": 0, "uid": "b"}',
            "samples.jsonl:2: the order of fields",
        ),
        ("failures.jsonl", "no verdict", "none", 'failures.jsonl:1: error: "no verdict" → "none"'),
        ("metrics.json", '"seed": 7', '"seed": 8', "metrics.json:1: config_general.seed: 7 → 8"),
        (
            "metrics.json",
            "/two/rows",
            "/two/other",
            "metrics.json:1: config_general.datasets[0].name: ",
        ),
        ("ratings.csv", "1,a", "1,b", "ratings.csv:2: the whole: 1,a → 1,b"),
    ],
)
def test_a_difference_is_named_with_run_file_line_and_field(
    folders: tuple[Path, Path], file: str, before: str, after: str, where: str
) -> None:
    path = folders[1] / "run" / "scored.run" / file
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    (difference,) = compare(*folders).differences
    assert str(difference).startswith(f"run/scored.run/{where}")


def test_another_request_is_a_difference(folders: tuple[Path, Path]) -> None:
    shutil.rmtree(folders[1])
    _write(
        folders[1],
        "/two",
        2.5,
        [CALL, {**CALL, "key": "2e", "messages": [{"role": "user", "content": "How?"}]}],
    )
    (difference,) = compare(*folders).differences
    assert str(difference).endswith('messages[0].content: "Why?" → "How?"')


@pytest.mark.parametrize("name", ["run/scored.run/metrics.json", "run"])
def test_a_missing_file_or_run_is_a_difference(folders: tuple[Path, Path], name: str) -> None:
    path = folders[0] / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    (difference,) = compare(*folders).differences
    assert difference.values[0] == "(absent)"


def test_a_field_that_a_change_removes_can_be_left_out(folders: tuple[Path, Path]) -> None:
    path = folders[1] / "run" / "scored.run" / "metrics.json"
    path.write_text(path.read_text().replace('"seed": 7', '"seed": 8'))
    assert compare(*folders, without=["seed"]).differences == []


def test_every_environment_and_kind_of_judge_has_its_runs() -> None:
    names = {run.name for run in RUNS}
    assert len(names) == len(RUNS)
    used = [word for run in RUNS for command in run.commands for word in command.words]
    for environment in {subject.env_type.spec.name for subject in OF_THE_HUB}:
        for verb in ("evaluate", "process"):
            assert any(run.commands[0].words[:2] == (verb, environment) for run in RUNS), (
                verb,
                environment,
            )
    for judge in JUDGES:
        assert f"score-{judge}" in names
    for setting in (
        "group_judge=listwise",
        "group_judge=tournament",
        "strictness=3",
        "judge_output=json_schema",
    ):
        assert any(setting in word for word in used), setting
