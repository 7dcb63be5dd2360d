"""The page on the files of a run: its fields are those of the files, with their types, and no others."""

from __future__ import annotations

import csv
import gzip
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from judgegym.engine.runs.directory import RunDirectory
from judgegym.engine.settings import EnvConfig
from judgegym.environments.training.group_ledger import GroupLedger
from judgegym.eval_environments.arena_hard_environment import ArenaHardEnv
from judgegym.llm.cost.budget import Budget
from judgegym.llm.wire import JSON
from tests.command import RunFiles, in_process, write_lines
from tests.core.datasets.scoring import score
from tests.core.environments.rollouts_of import group, two_turns
from tests.core.reports.training.made import MadeTraining
from tests.docs.runs import CONFIGURED, Runs
from tests.docs.tables import DOCS, Check, generated_fields, names_in, tables
from tests.pictures import png

PAGE = DOCS / "run_files.md"
DETAILS = {
    "Arena-Hard": ("arena", "arena-failing", "arena-jury"),
    "MT-Bench": ("mt-bench", "mt-bench-compared"),
    "several candidates": ("candidates",),
    "pairwise judgement": ("pairwise", "pairwise-swapped"),
    "aspect critique": ("aspects", "aspects-judge", "aspects-jury"),
    "rubric checklist": ("checklist", "checklist-judge", "checklist-jury"),
    "rubric-absolute": ("rubric", "rubric-judge", "rubric-jury"),
    "prompts": ("conversations",),
    "self-critique": ("peers",),
}
"""The runs that write the detail of each environment."""
GROUPS = ("arena-groups", "arena-together", "arena-failing-groups")


def rows_of(run: RunFiles) -> list[dict[str, Any]]:
    return [*run.samples, *run.failures]


def lines_of(path: Path) -> list[dict[str, Any]]:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in data.splitlines()]


def test_fields_of_a_sample(runs: Runs, tmp_path: Path) -> None:
    check = Check(generated_fields(PAGE, "sample"))
    for name in sorted({name for names in DETAILS.values() for name in names}):
        for row in rows_of(runs(name).files):
            check.add({**row, **({"detail": None} if row.get("detail") else {})})
    traces = DOCS.parent / "examples" / "agent_traces" / "trips.jsonl"
    assert score(traces, "--offline", "--out", tmp_path / "scored.jsonl").code == 0
    thought = write_lines(
        tmp_path / "thought.jsonl", [{"prompt": "Why?", "response": "<think>Hm.</think>So."}]
    )
    assert score(thought, "--offline", "--out", tmp_path / "thought_scored.jsonl").code == 0
    for scored in ("scored", "thought_scored"):
        for row in lines_of(tmp_path / f"{scored}.run" / "samples.jsonl"):
            check.add({**row, "detail": None})
    assert check.never_seen == ["completions[].written"], (
        "no run here takes thinking out of one of several completions"
    )


@pytest.mark.parametrize("environment", DETAILS)
def test_fields_of_a_detail(environment: str, runs: Runs) -> None:
    check = Check(generated_fields(PAGE, environment))
    for name in DETAILS[environment]:
        for row in rows_of(runs(name).files):
            if row.get("detail") is not None:
                check.add(row["detail"])
    assert check.never_seen == []


def test_fields_of_the_metrics_file(runs: Runs) -> None:
    written = generated_fields(PAGE, "metrics")
    check = Check({path.format(environment="arena_hard"): field for path, field in written.items()})
    for name in ("arena", "candidates", "arena-again", "arena-jury"):
        check.add(runs(name).files.report)
    assert check.never_seen == []


def test_lines_of_a_ledger(runs: Runs, tmp_path: Path) -> None:
    check = Check(generated_fields(PAGE, "calls"))
    failed = runs("arena-failing").files
    shutil.copytree(failed.path, tmp_path / "resumed")
    resumed = [
        "--offline",
        "--limit=12",
        "--resume",
        f"--env.data_dir_to_save_evals={tmp_path / 'resumed'}",
    ]
    assert in_process("evaluate", *resumed, env_type=ArenaHardEnv).code == 0
    run = RunDirectory(tmp_path / "served", config={}, matters={}, resume=False)
    ledger = GroupLedger(run, keep=False)
    ledger.budget = Budget(calls=9)
    row = ledger.begin("row-1", step=3, epoch=0, position=1)
    ledger.note_step(4)
    ledger.done(1)
    request = row.sent()
    row.not_sent(request)
    row.sent(request)
    run.close()
    (tmp_path / "red.png").write_bytes(png())
    write_lines(tmp_path / "data.jsonl", [{"prompt": "Q", "image": "red.png", "response": "A"}])
    assert (
        score(tmp_path / "data.jsonl", "--offline", "--out", tmp_path / "pictures.jsonl").code == 0
    )
    for path in (
        folder / "calls.jsonl.gz"
        for folder in (failed.path, tmp_path / "resumed", tmp_path / "pictures.run")
    ):
        for line in lines_of(path):
            check.add(line)
    for line in lines_of(tmp_path / "served" / "calls.jsonl"):
        check.add(line)
    assert check.never_seen == []


def test_fields_of_a_group(runs: Runs) -> None:
    check = Check(generated_fields(PAGE, "groups"))
    for name in GROUPS:
        groups = runs(name).groups
        assert groups is not None
        for line in lines_of(groups):
            check.add(line)
    judged = group([1.0, 0.0])
    of_a_turn = replace(judged, rollouts=(judged.rollouts[0], two_turns())).turns[1]
    row: dict[str, JSON] = {
        "uid": "w",
        "group": 0,
        "category": None,
        "question": "Why?",
        "texts": {},
    }
    check.add(of_a_turn.data(EnvConfig(include_messages=True), row))
    assert check.never_seen == []


def test_lines_of_the_live_file(runs: Runs, tmp_path: Path) -> None:
    check = Check(generated_fields(PAGE, "live"))
    for name in GROUPS:
        for line in lines_of(runs(name).files.path / "live.jsonl"):
            check.add(line)
    training = MadeTraining(tmp_path / "served", judge="one-of-several")
    training.step()
    training.live(in_progress=1, unsent=2)
    for line in lines_of(training.path / "live.jsonl"):
        check.add(line)
    assert check.never_seen == []


def test_fields_and_columns_of_the_files_of_an_environment(runs: Runs) -> None:
    check = Check(generated_fields(PAGE, "critiques"))
    for line in runs("peers").files.lines("critique_history.jsonl"):
        check.add(line)
    assert check.never_seen == []
    (columns,) = tables(PAGE, header="column of ratings.csv")
    with (runs("candidates").files.path / "ratings.csv").open(encoding="utf-8") as file:
        assert next(csv.reader(file)) == [name for row in columns for name in names_in(row[0])]


@pytest.mark.parametrize("name", CONFIGURED)
def test_files_of_a_run_are_on_the_page(name: str, runs: Runs) -> None:
    page = PAGE.read_text(encoding="utf-8")
    found = {re.sub(r"\d+", "<n>", entry.name) for entry in runs(name).files.path.iterdir()}
    assert {file for file in found if f"`{file}`" not in page} == set()
    groups = runs(name).groups
    expected = (
        {"train_metrics.json"}
        if groups is not None
        else {"metrics.json", "samples.jsonl", "failures.jsonl"}
    )
    assert found >= {"config.yaml", "run.log", "calls.jsonl.gz", *expected}
