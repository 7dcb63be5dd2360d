"""What the list says of a run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from judgegym.reports.__main__ import main as report_main
from judgegym.reports.results.folder import list_runs
from judgegym.reports.view.entries import make_entry, make_relative_name, make_run_id
from tests.core.engine.samples_of import sample
from tests.core.reports.objects import objects
from tests.core.reports.results.test_folder import groups
from tests.core.reports.results.test_run import written
from tests.core.reports.view.made import DATASET, run_of, with_metrics


def only(folder: Path) -> Any:
    (run,) = list_runs(folder)
    return objects(make_entry(run, folder))


def test_a_finished_run_says_result_judge_data_cost_and_rows(tmp_path: Path) -> None:
    data = [DATASET, {**DATASET, "name": "owner/arena-hard.v2"}, {**DATASET, "name": "owner/set"}]
    path = run_of(tmp_path / "nested" / "run", datasets=data)
    with_metrics(path, **{"eval/judge_cost_usd": 1.25, "eval/policy_cost_usd": 0.5})
    entry = only(tmp_path)
    assert (entry.name, entry.environment, entry.policy, entry.judge) == (
        "nested/run",
        "arena_hard",
        "a-policy",
        "a-judge",
    )
    assert (entry.result.text, entry.result.number) == ("0.6250", 0.625)
    assert (entry.interval, entry.metric) == ("0.2500 to 0.7500", "win rate")
    assert (entry.rows.number, entry.failed.number) == (4, 2)
    assert (entry.cost.text, entry.cost.number) == ("$1.75", 1.75)
    assert entry.data == "arena_hard.jsonl, owner/arena-hard.v2, owner/set"
    assert (entry.state, entry.is_open, entry.is_comparable) == ("", True, True)


def test_a_cost_that_is_not_known_is_no_zero(tmp_path: Path) -> None:
    judge, policy = "eval/judge_cost_usd", "eval/policy_cost_usd"
    run = run_of(tmp_path / "run")
    for metrics, text, number in (
        ({}, "", None),
        ({judge: 0.00123}, "$0.0012", 0.00123),
        ({judge: 0, policy: 0}, "$0.00", 0),
        ({judge: None, policy: None}, "not known", None),
        ({judge: 2.5, policy: None}, "judge $2.50", None),
    ):
        with_metrics(run, **metrics)
        assert (only(tmp_path).cost.text, only(tmp_path).cost.number) == (text, number)


def test_an_unfinished_run_says_so_and_how_far_it_is(tmp_path: Path) -> None:
    written(tmp_path / "run", [sample("a"), sample("b")], [sample("c", "judge_failed")])
    entry = only(tmp_path)
    assert (entry.state, entry.rows.number, entry.failed.number) == ("not finished", 2, 1)
    assert (entry.policy, entry.judge, entry.result.number) == ("b-policy", "b-judge", None)
    assert entry.is_open and not entry.is_comparable


def test_a_run_whose_rows_are_gone_says_so_in_the_list_and_on_its_page(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run")
    for name in ("samples.jsonl", "failures.jsonl"):
        (run / name).unlink(missing_ok=True)
    assert "are gone: samples.jsonl" in only(tmp_path).state
    page = tmp_path / "page.html"
    assert report_main([str(run), f"--output={page}"], prog="judgegym report") == 0
    assert "failures.jsonl hold 0" in page.read_text("utf-8")


def test_an_unreadable_run_says_why(tmp_path: Path) -> None:
    (run_of(tmp_path / "run") / "metrics.json").write_text("{")
    entry = only(tmp_path)
    assert entry.state.startswith("cannot be read: ") and "metrics.json" in entry.state
    assert not entry.is_open and not entry.is_comparable


def test_a_file_of_groups_is_named_with_its_number_of_groups(tmp_path: Path) -> None:
    groups(tmp_path)
    entry = only(tmp_path)
    assert (entry.name, entry.rows.text, entry.policy) == ("groups.jsonl", "2 groups", "a-policy")
    assert entry.is_open and not entry.is_comparable


def test_names_of_any_bytes_are_shown_and_have_an_address_each(tmp_path: Path) -> None:
    odd = [
        b"caf\xe9",
        "caf\ufffd".encode(),
        b"a\nb",
        b"%2e%2e",
        b"#?&",
        "\u202egpj".encode(),
        b"<b>",
    ]
    paths = [tmp_path / os.fsdecode(name) for name in odd]
    ids = {make_run_id(path, tmp_path) for path in paths}
    assert len(ids) == len(odd) and all(each.isalnum() for each in ids)
    for path in paths:
        make_relative_name(path, tmp_path).encode()
    assert make_relative_name(tmp_path, tmp_path) == tmp_path.name
