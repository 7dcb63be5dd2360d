"""What `report`, `view` and `compare` make of scored data sets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from judgegym.engine.runs.directory import locate_run_directory
from judgegym.engine.runs.recorded_calls import read_calls
from judgegym.llm.wire import JSON
from judgegym.reports import __main__ as report_command
from judgegym.reports.compare import __main__ as compare_command
from judgegym.reports.results.folder import list_runs
from judgegym.reports.results.run import SavedRun
from judgegym.reports.run_page.rows import read_run_page
from judgegym.reports.view.entries import make_entry
from judgegym.statistics.intervals import mean_interval
from tests.command import Ended, called, clean_environment, serving, write_lines
from tests.core.datasets.scoring import by_points, rated, score
from tests.core.reports.objects import objects
from tests.listwise import judging
from tests.scripted import ScriptedEndpoint

PAIRS: Sequence[Mapping[str, JSON]] = [
    {
        "prompt": f"Question {n}",
        "responses": [f"{n % 5 + 1} points", f"{(2 * n) % 5 + 1} points more"],
        "kind": "ab"[n % 2],
    }
    for n in range(12)
]
SINGLE: Sequence[Mapping[str, JSON]] = [
    {
        "prompt": f"Question {n % 3}",
        "response": f"{n % 4 + 1} points of {n % 4}",
        "kind": "ab"[n % 2],
    }
    for n in range(12)
]


def backwards(response: str) -> int:
    return 6 - by_points(response)


@pytest.fixture
def judge() -> Iterator[ScriptedEndpoint]:
    with serving(rated(by_points)) as endpoint:
        yield endpoint


def scored(
    out: Path, judge: ScriptedEndpoint, rows: Sequence[Mapping[str, JSON]], *words: str
) -> Path:
    data = out.parent / "data.jsonl"
    if not data.exists():
        write_lines(data, rows)
    ended = score(
        data, "--out", out, f"--judge_base_url={judge.base_url}", "--category_column=kind", *words
    )
    assert ended.code == 0, ended.said
    return out


def report(*words: object) -> Ended:
    return called(
        lambda: report_command.main([str(word) for word in words], prog="report"),
        clean_environment(),
    )


def compare(*words: object) -> Ended:
    return called(
        lambda: compare_command.main([str(word) for word in words], prog="compare"),
        clean_environment(),
    )


def details(out: Path) -> Mapping[str, Any]:
    _, items = read_run_page(locate_run_directory(out))
    return {summary["id"]: objects(detail) for summary, detail in items()}


def asked_about(detail: Any) -> str:
    return "\n".join(message.text for call in detail.calls for message in call.messages or ())


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("--judge=listwise",)])
def test_the_page_shows_each_response_with_the_calls_that_judged_it(
    tmp_path: Path, words: Sequence[str]
) -> None:
    reply = judging(lambda text, place: len(text) / 100) if words else rated(by_points)
    with serving(reply) as judge:
        out = scored(tmp_path / "scored.jsonl", judge, [*PAIRS, *PAIRS], *words)
    found = details(out)
    assert len(found) == 48
    for uid, detail in found.items():
        (completion,) = detail.completions
        assert completion.title == "response"
        (said,) = detail.said
        assert said.title.startswith("explanation") and said.text
        assert len(detail.calls) == 1, uid
        assert completion.text in asked_about(detail), (
            "also of a row that an equal one was judged for"
        )
    ledger = list(read_calls(locate_run_directory(out)))
    assert len(ledger) == (12 if words else 24)


@pytest.mark.slow
def test_the_page_finds_the_calls_of_rows_that_were_judged_together(tmp_path: Path) -> None:
    with serving(judging(lambda text, place: len(text) / 100)) as judge:
        out = scored(
            tmp_path / "scored.jsonl", judge, SINGLE, "--judge=listwise", "--group_by=prompt"
        )
    for detail in details(out).values():
        assert len(detail.calls) == 1 and detail.completions[0].text in asked_about(detail)
        assert detail.conversation[0].text in asked_about(detail)


@pytest.mark.slow
def test_the_worst_come_first_and_a_file_names_its_run(
    tmp_path: Path, judge: ScriptedEndpoint
) -> None:
    out = scored(tmp_path / "scored.jsonl", judge, PAIRS)
    head, items = read_run_page(locate_run_directory(out))
    values = [summary["value"] for summary, _ in items()]
    assert None not in values and values == sorted(value for value in values if value is not None)
    assert head["kind"] == "responses" and head["total"] == 24
    assert {chart["title"] for chart in head["charts"]} >= {
        "Mean score by category",
        "Distribution of scores",
    }

    page = locate_run_directory(out) / "report.html"
    assert report(out).code == 0 and page.is_file()
    page.unlink()
    out.unlink()  # as of a run that was stopped
    assert report(out).code == 0 and page.is_file()


@pytest.mark.slow
@pytest.mark.parametrize("prompts", [8, 4])
def test_categories_have_intervals_over_prompts(
    tmp_path: Path, judge: ScriptedEndpoint, prompts: int
) -> None:
    rows = [
        {
            "prompt": f"Q{place % prompts}",
            "response": f"{place % 5 + 1} points {place}",
            "source": "a",
        }
        for place in range(8)
    ]
    out = scored(tmp_path / "scored.jsonl", judge, rows, "--category_column=source")
    charts = {
        chart["title"]: chart["description"]
        for chart in read_run_page(locate_run_directory(out))[0]["charts"]
    }
    found = charts["Mean score by category"].partition("; a: ")[2]
    scores = [(place % 5) / 4 for place in range(8)]
    expected = mean_interval(scores, clusters=np.arange(8) % prompts)
    assert expected is not None
    assert f" ({expected.low:.3f} to {expected.high:.3f})" in found, (
        "those of one prompt are not independent"
    )


def test_the_list_of_runs_has_a_scored_data_set_once(
    tmp_path: Path, judge: ScriptedEndpoint
) -> None:
    out = scored(tmp_path / "scored.jsonl", judge, PAIRS)
    (run,) = list_runs(tmp_path)
    entry = objects(make_entry(run, tmp_path))
    assert (entry.environment, entry.policy, entry.metric, entry.rows.number) == (
        "score",
        "data",
        "mean score",
        24,
    )
    assert entry.is_comparable and entry.data == "data.jsonl"
    (locate_run_directory(out) / "metrics.json").unlink()
    (run,) = list_runs(tmp_path)
    unfinished = objects(make_entry(run, tmp_path))
    assert (unfinished.environment, unfinished.policy, unfinished.judge) == (
        "score",
        "data",
        entry.judge,
    )


def two_judges(
    tmp_path: Path, rows: Sequence[Mapping[str, JSON]], judge: ScriptedEndpoint
) -> tuple[Path, Path]:
    first = scored(tmp_path / "first.jsonl", judge, rows)
    with serving(rated(backwards)) as other:
        return first, scored(tmp_path / "second.jsonl", other, rows, "--judge_model_name=other")


@pytest.mark.slow
def test_two_judges_of_the_same_responses(tmp_path: Path, judge: ScriptedEndpoint) -> None:
    first, second = two_judges(tmp_path, PAIRS, judge)
    ended = compare(
        first, second, "--json", tmp_path / "c.json", "--html", tmp_path / "c.html", "--rows=2"
    )
    assert ended.code == 0, ended.said
    found = json.loads((tmp_path / "c.json").read_text("utf-8"))
    runs = [SavedRun.open(locate_run_directory(path)) for path in (first, second)]
    headlines = [run.headline.value for run in runs if run.headline is not None]
    (difference,) = found["differences"]
    assert (found["rows"], found["item"], found["unit"]) == (24, "response", "prompt")
    assert difference["difference"]["value"] == pytest.approx(headlines[1] - headlines[0])
    assert difference["difference"]["interval"]["low"] <= difference["difference"]["value"]
    agreement = difference["agreement"]
    assert agreement["correlation"] == pytest.approx(-1)
    ties = sum(n % 5 == (2 * n) % 5 for n in range(12))
    assert agreement["best"] == {"prompts": 12, "same": ties / 12, "overlapping": ties / 12}
    assert (
        agreement["labels"]["labels"] == ["1", "2", "3", "4", "5"]
        and agreement["labels"]["kappa"] < 0.1
    )
    assert len(difference["changed"]) == 2
    assert (
        sum(test["test"]["higher"] + test["test"]["lower"] for test in difference["tests"][:1])
        <= 12
    ), "of prompts"
    assert [each["condition"] for each in found["differing"]] == ["judge"]
    page = (tmp_path / "c.html").read_text("utf-8")
    for said in ("24 responses", "12 prompts with several responses", "mid-P over prompts"):
        assert said in " ".join(ended.out.replace("\u00a0", " ").split()) and said in page


@pytest.mark.slow
def test_of_judges_of_two_kinds_the_settings_that_both_read_are_told(
    tmp_path: Path, judge: ScriptedEndpoint
) -> None:
    first = scored(tmp_path / "first.jsonl", judge, PAIRS)
    with serving(judging(lambda text, place: len(text) / 100)) as other:
        second = scored(
            tmp_path / "second.jsonl", other, PAIRS, "--judge=listwise", "--judge_temperature=0.5"
        )
    ended = compare(first, second)
    assert ended.code == 0
    differing = [
        line.split(":")[1].strip()
        for line in ended.out.splitlines()
        if line.startswith("The judge differs")
    ]
    assert sorted(differing) == ["judge", "judge_system_prompt", "judge_temperature"]


@pytest.mark.slow
def test_rows_that_share_a_judgment_are_one_observation(
    tmp_path: Path, judge: ScriptedEndpoint
) -> None:
    once, twice = tmp_path / "once", tmp_path / "twice"
    once.mkdir()
    twice.mkdir()
    rows = SINGLE[:4]
    found = []
    for folder, own in ((once, rows), (twice, [*rows, *rows])):
        assert compare(*two_judges(folder, own, judge), "--json", folder / "c.json").code == 0
        found.append(json.loads((folder / "c.json").read_text("utf-8")))
    assert [each["rows"] for each in found] == [4, 8]
    assert found[0]["differences"][0]["difference"] == found[1]["differences"][0]["difference"]
    assert [each["differences"][0]["agreement"]["best"] for each in found] == [None, None]


@pytest.mark.slow
def test_another_data_set_is_refused(tmp_path: Path, judge: ScriptedEndpoint) -> None:
    first = scored(tmp_path / "scored.jsonl", judge, PAIRS)
    other = tmp_path / "other"
    other.mkdir()
    second = scored(
        other / "scored.jsonl", judge, [*PAIRS[:-1], {**PAIRS[-1], "prompt": "Another question"}]
    )
    ended = compare(first, second)
    assert ended.code == 2 and "differ in data" in ended.err and "--across_data" in ended.err
    assert compare(first, second, "--across_data").code == 0
