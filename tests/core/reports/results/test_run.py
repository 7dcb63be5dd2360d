"""A run directory as it lies on disk: finished, interrupted, of before, damaged, hostile."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from judgegym.engine.metrics import HeadlineTerm
from judgegym.engine.records import Sample
from judgegym.llm.errors import RunDirectoryError
from judgegym.reports.results.folder import UnreadableRun, list_runs
from judgegym.reports.results.run import RunHeadline, SavedRun
from judgegym.statistics.agreement import Interval
from tests.core.engine.samples_of import sample

GENERAL = {
    "environment": "arena_hard",
    "model_name": "a-policy",
    "judge_model_name": "a-judge",
    "date": "2026-11-01T10:00:00+00:00",
    "headline": "eval/overall_winrate",
    "headline_words": "win rate",
}
VALUES = {
    "eval/overall_winrate": 0.5,
    "eval/overall_winrate_ci_low": 0.25,
    "eval/overall_winrate_ci_high": 0.75,
}


def written(
    path: Path,
    samples: list[Sample[Any]],
    failures: list[Sample[Any]] | None = None,
    general: dict[str, Any] | None = None,
    **values: Any,
) -> Path:
    """A run directory; without `general` the run is not complete."""
    path.mkdir(parents=True)
    (path / "config.yaml").write_text(
        "env: {judge_model_name: b-judge}\nopenai: {model_name: b-policy}\n"
    )
    (path / "samples.jsonl").write_bytes(b"".join(each.to_line() for each in samples))
    (path / "failures.jsonl").write_bytes(b"".join(each.to_line() for each in failures or []))
    if general is not None:
        report = {"config_general": general, "results": {"all": {**VALUES, **values}}}
        (path / "metrics.json").write_text(json.dumps(report))
    return path


def test_a_complete_run_says_who_was_judged_by_whom_and_how_it_ended(tmp_path: Path) -> None:
    run = SavedRun.open(
        written(tmp_path / "run", [sample()], general=GENERAL, **{"eval/cost": None})
    )
    assert (run.environment, run.policy, run.judge) == ("arena_hard", "a-policy", "a-judge")
    assert run.date.isoformat() == "2026-11-01T10:00:00+00:00" and run.is_complete
    assert run.headline == RunHeadline(
        "eval/overall_winrate", "win rate", 0.5, Interval(0.25, 0.75)
    )
    assert run.metrics == {**VALUES, "eval/cost": None}


def test_metrics_of_before_the_headline_had_words_name_it_by_its_metric(tmp_path: Path) -> None:
    former = {name: value for name, value in GENERAL.items() if name != "headline_words"}
    run = SavedRun.open(written(tmp_path / "run", [sample()], general=former))
    assert run.headline is not None and run.headline.words == "overall winrate"


def test_a_run_without_metrics_says_what_its_settings_say(tmp_path: Path) -> None:
    run = SavedRun.open(
        written(tmp_path / "arena_hard--b-policy--b-judge--20261101-100000", [sample()])
    )
    assert (run.environment, run.policy, run.judge) == ("arena_hard", "b-policy", "b-judge")
    assert run.headline is None and run.metrics == {} and not run.is_complete
    assert SavedRun.open(written(tmp_path / "step-10", [sample()])).environment == ""


def test_rows_are_read_with_all_that_their_lines_hold(tmp_path: Path) -> None:
    fields = {
        "headline": HeadlineTerm(1.5, 2.0),
        "texts": {"baseline": "b"},
        "orders": {"model_is_a": 1.0},
    }
    made, failed = (
        sample("row-0", **fields),
        sample("row-1", "judge_failed", texts={"baseline": "c"}),
    )
    first, second = SavedRun.open(written(tmp_path / "run", [made], [failed], GENERAL)).samples()
    assert (first.uid, first.category, first.question) == (made.uid, made.category, made.question)
    assert (first.completions, first.run, first.score) == (made.completions, made.run, made.score)
    assert (first.headline, first.texts, first.orders) == (made.headline, made.texts, made.orders)
    assert (first.status, first.label, first.error, first.finished) == ("ok", "win", None, True)
    assert isinstance(first.detail, dict) and first.detail["entries"] == [1.0, 1.0]
    assert (second.status, second.score, second.error) == ("judge_failed", None, "row-1 failed")
    assert (second.headline, second.texts, second.finished) == (None, {"baseline": "c"}, False)


def test_lines_of_before_the_fields_were_kept_have_none_of_them(tmp_path: Path) -> None:
    path = written(tmp_path / "run", [sample()], general=GENERAL)
    line = json.loads((path / "samples.jsonl").read_bytes())
    for name in ("headline", "texts", "orders"):
        del line[name]
    (path / "samples.jsonl").write_text(json.dumps(line) + "\n")
    (read,) = SavedRun.open(path).samples()
    assert (read.headline, read.texts, read.orders) == (None, {}, {})


def test_a_row_of_an_interrupted_run_is_there_once_with_its_last_line(tmp_path: Path) -> None:
    again = [sample("row-0", question="before"), sample("row-1"), sample("row-0", question="after")]
    failures = [
        sample("row-1", "judge_failed"),
        sample("row-2", "unparsable"),
        sample("row-2", "policy_failed"),
    ]
    path = written(tmp_path / "run", again, failures)
    with (path / "samples.jsonl").open("ab") as file:
        file.write(b'{"uid":"row-3","torn')
    run = SavedRun.open(path)
    assert [(each.uid, each.status) for each in run.samples()] == [
        ("row-1", "ok"),
        ("row-0", "ok"),
        ("row-2", "policy_failed"),
    ]
    assert run.read_sample("row-0").question == "after"


@pytest.mark.parametrize("general", [None, GENERAL])
def test_one_row_is_read_by_its_uid(tmp_path: Path, general: dict[str, Any] | None) -> None:
    uids = ["row-0", "row/1", "\u2028", "row-9"]
    run = SavedRun.open(written(tmp_path / "run", [sample(uid) for uid in uids], general=general))
    assert [run.read_sample(uid).uid for uid in reversed(uids)] == uids[::-1]
    with pytest.raises(RunDirectoryError, match="no row 'row-4'"):
        run.read_sample("row-4")


def test_what_is_no_run_directory_is_told_in_one_line(tmp_path: Path) -> None:
    for path, why in ((tmp_path / "none", "no such"), (tmp_path, "no run directory")):
        with pytest.raises(RunDirectoryError, match=why) as error:
            SavedRun.open(path)
        assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_a_damaged_file_or_a_pipe_in_its_place_is_named_and_not_read(tmp_path: Path) -> None:
    damaged = {
        "metrics.json": [
            "{",
            "[]",
            '{"config_general": []}',
            '{"config_general": {}, "results": {"all": 7}}',
        ],
        "config.yaml": ["env: [", "- env"],
    }
    for name, texts in damaged.items():
        for number, text in enumerate(texts):
            path = written(tmp_path / f"{name}-{number}", [sample()], general=GENERAL)
            (path / name).write_text(text)
            with pytest.raises(RunDirectoryError, match=name):
                SavedRun.open(path)
    for name in ("config.yaml", "samples.jsonl", "failures.jsonl", "calls.jsonl", "calls.jsonl.gz"):
        path = written(tmp_path / name, [sample()], general=GENERAL)
        (path / name).unlink(missing_ok=True)
        os.mkfifo(path / name)
        with pytest.raises(RunDirectoryError, match=f"{name} is no file"):
            SavedRun.open(path)


@pytest.mark.parametrize(
    "said", ["0001-01-01T00:00:00+23:00", "9999-12-31T23:59:59-23:00", "2026-99-99", 7]
)
def test_a_date_that_no_clock_shows_is_that_of_the_files(tmp_path: Path, said: Any) -> None:
    run = SavedRun.open(written(tmp_path / "run", [sample()], general={**GENERAL, "date": said}))
    assert abs(run.date.timestamp() - (tmp_path / "run" / "config.yaml").stat().st_mtime) < 60
    assert run.date.astimezone()


def test_a_metric_that_is_no_finite_number_is_not_known(tmp_path: Path) -> None:
    for number, value in enumerate([float("nan"), float("inf"), 10**400, True, "0.5"]):
        path = written(
            tmp_path / str(number), [sample()], general=GENERAL, **{"eval/overall_winrate": value}
        )
        run = SavedRun.open(path)
        assert run.metrics.get("eval/overall_winrate") is None and run.headline is None


@pytest.mark.parametrize("general", [None, GENERAL])
def test_a_damaged_line_is_skipped(tmp_path: Path, general: dict[str, Any] | None) -> None:
    path = written(tmp_path / "run", [sample()], general=general)
    whole = (path / "samples.jsonl").read_bytes()
    for damaged in (b"{\n", b"[]\n", b'{"uid": 7}\n', b'{"uid": "row-1", "score": "high"}\n'):
        (path / "samples.jsonl").write_bytes(whole + damaged)
        run = SavedRun.open(path)
        assert [found.uid for found in run.samples()] == list(run.line_locations) == ["row-0"]


def test_runs_of_a_folder_come_newest_first_with_those_that_cannot_be_read(tmp_path: Path) -> None:
    dated = {
        "old": "2026-11-01T10:00:00+00:00",
        "new": "2026-11-03T10:00:00+02:00",
        "middle": "2026-11-02T10:00:00",
    }
    for name, date in dated.items():
        written(tmp_path / "serve" / name, [sample()], general={**GENERAL, "date": date})
    (written(tmp_path / "damaged", [], general=GENERAL) / "metrics.json").write_text("{")
    (tmp_path / "nothing").mkdir()
    (tmp_path / "a file").write_text("")
    runs = list_runs(tmp_path)
    assert [run.path.name for run in runs if isinstance(run, SavedRun)] == ["new", "middle", "old"]
    (damaged,) = (run for run in runs if isinstance(run, UnreadableRun))
    assert "metrics.json" in damaged.reason
    assert [run.path.name for run in list_runs(tmp_path / "serve" / "old")] == ["old"]
    with pytest.raises(RunDirectoryError, match="no such folder"):
        list_runs(tmp_path / "none")


def test_run_in_progress_that_judges_given_answers_is_named_after_them(tmp_path: Path) -> None:
    path = written(tmp_path / "run", [sample()])
    for answers, name in (
        ("files/gpt-4.1.jsonl", "gpt-4.1"),
        ("runs/arena_hard--gpt-4.1--judge--20261120", "arena_hard--gpt-4.1--judge--20261120"),
        ("runs/of-then/samples.jsonl", "of-then"),
        ("null", "b-policy"),
    ):
        (path / "config.yaml").write_text(
            f"env: {{model_answers: {answers}}}\nopenai: {{model_name: b-policy}}\n"
        )
        assert SavedRun.open(path).policy == name
