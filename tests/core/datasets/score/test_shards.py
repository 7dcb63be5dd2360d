"""`--shard` and `--merge`: parts of a data set, judged apart and joined, against one run over all of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from judgegym.datasets.files.shards import list_shards
from judgegym.engine.runs.directory import locate_run_directory
from judgegym.engine.runs.recorded_calls import read_calls
from judgegym.llm.wire import JSON
from judgegym.reports.results.run import SavedRun
from tests.command import serving, write_lines
from tests.core.datasets.scoring import Scoring, rated, read_rows, samples_of, score
from tests.scripted import Reply, ScriptedEndpoint

ROWS = [
    {"prompt": f"Question {n // 2}", "response": f"{n % 5 + 1} points", "kind": n // 3}
    for n in range(17)
]
COUNT = 3


def by_points(response: str) -> int | Reply:
    points = int(response.split()[0])
    return Reply(status=400, body={"error": "too long"}) if points == 5 else points


@pytest.fixture
def judge() -> Iterator[ScriptedEndpoint]:
    with serving(rated(by_points)) as endpoint:
        yield endpoint


def of_rows(path: Path) -> list[Mapping[str, JSON]]:
    """The lines of a run, without what may differ between two runs."""
    return [
        {name: value for name, value in row.items() if name != "run"} for row in read_rows(path)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_merged_shards_are_the_file_and_the_run_of_one_run(
    tmp_path: Path, judge: ScriptedEndpoint, ending: str
) -> None:
    data = write_lines(tmp_path / "data.jsonl", ROWS)
    flags = (
        f"--judge_base_url={judge.base_url}",
        "--max_judge_error_rate=1",
        "--category_column=kind",
    )
    whole, out = tmp_path / f"whole.{ending}", tmp_path / f"scored.{ending}"
    assert score(data, "--out", whole, *flags).code == 0
    for shard in list_shards(COUNT):
        part = score(data, "--out", out, f"--shard={shard}", *flags)
        assert part.code == 0
        assert f"judgegym score {data} --out {out} --merge {COUNT} " in part.out
    asked = len(judge.requests)

    ended = score(data, "--out", out, f"--merge={COUNT}")
    assert ended.code == 1, ended.said  # more failures than are allowed here
    assert "3 of 17 responses" in ended.said
    assert (
        score(data, "--out", out, f"--merge={COUNT}", "--resume", "--max_judge_error_rate=1").code
        == 0
    )
    assert len(judge.requests) == asked
    assert out.read_bytes() == whole.read_bytes()
    merged, one = locate_run_directory(out), locate_run_directory(whole)
    for name in ("samples.jsonl", "failures.jsonl"):
        assert of_rows(merged / name) == of_rows(one / name)
    results = [SavedRun.open(path) for path in (merged, one)]
    assert results[0].headline == results[1].headline and results[0].headline is not None
    assert results[0].general["rows"] == results[1].general["rows"]
    calls = [(call.row, call.answer.choices[0].text) for call in read_calls(merged)]
    assert sorted(calls) == sorted(
        (call.row, call.answer.choices[0].text) for call in read_calls(one)
    )
    assert (
        score(data, "--out", out, "--resume", *flags).code == 0
    )  # which asks again for what has failed
    assert len(judge.requests) == asked + 3
    assert out.read_bytes() == whole.read_bytes()


@pytest.mark.slow
def test_groups_are_not_divided(tmp_path: Path, judge: ScriptedEndpoint) -> None:
    data = write_lines(tmp_path / "data.jsonl", ROWS)
    flags = (f"--judge_base_url={judge.base_url}", "--max_judge_error_rate=1", "--group_by=prompt")
    out = tmp_path / "scored.jsonl"
    for shard in list_shards(4):
        score(data, "--out", out, f"--shard={shard}", *flags)
    assert [len(read_rows(shard.path(out))) for shard in list_shards(4)] == [4, 4, 4, 5]
    score(data, "--out", out, "--merge=4")
    assert [row["uid"] for row in samples_of(out)] == [
        f"row-{n + 1}" for n in range(17) if n % 5 != 4
    ]


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_there_may_be_more_shards_than_rows(
    tmp_path: Path, judge: ScriptedEndpoint, ending: str
) -> None:
    data, out = write_lines(tmp_path / "data.jsonl", ROWS[:2]), tmp_path / f"scored.{ending}"
    whole = tmp_path / f"whole.{ending}"
    for words in [
        ("--out", whole),
        *(("--out", out, f"--shard={shard}") for shard in list_shards(5)),
    ]:
        ended = score(data, *words, f"--judge_base_url={judge.base_url}")
        assert ended.code == 0, ended.said
    empty = SavedRun.open(locate_run_directory(list_shards(5)[0].path(out)))
    assert (empty.headline, len(samples_of(list_shards(5)[0].path(out)))) == (None, 0)
    assert score(data, "--out", out, "--merge=5").code == 0
    assert out.read_bytes() == whole.read_bytes()


@pytest.mark.slow
def test_a_shard_whose_run_was_stopped_is_not_merged(
    tmp_path: Path, judge: ScriptedEndpoint
) -> None:
    """Its lines may say more than its file, which an earlier command has written."""
    command = Scoring(tmp_path, judge)
    for shard in list_shards(2):
        command(f"--shard={shard}", "--max_judge_error_rate=1", rows=ROWS)
    # Of 17 calls, which its ledger has: it stops at once.
    assert (
        command("--shard=2/2", "--max_judge_error_rate=1", "--resume", "--budget_calls=1").code == 3
    )
    ended = score(command.data, "--out", command.out, "--merge=2")
    assert ended.code == 2, ended.said
    assert re.search(r"scored-00002-of-00002\.run: .*not ended", ended.err)
    assert not command.out.exists()


@pytest.mark.slow
def test_shards_of_different_settings_are_not_merged(
    tmp_path: Path, judge: ScriptedEndpoint
) -> None:
    command = Scoring(tmp_path, judge)
    for shard, rubric in zip(list_shards(2), ("Is it right?", "Is it short?"), strict=True):
        command(f"--shard={shard}", f"--rubric={rubric}", rows=ROWS[:4])
    ended = command("--merge=2")
    assert (ended.code, command.out.exists()) == (2, False)
    assert "rubric: 'Is it right?' there, 'Is it short?' here" in ended.said


def test_what_is_wrong_with_a_shard_is_said_in_one_line(tmp_path: Path) -> None:
    data, out = write_lines(tmp_path / "data.jsonl", ROWS), tmp_path / "scored.jsonl"
    ended = score(data, "--out", out, "--shard=4/3")
    assert "--shard (command line): " in ended.said and "1 ≤ I ≤ N" in ended.said
    ended = score(data, "--out", out, "--shard=1/3", "--merge=3")
    assert "--merge joins" in ended.said and "--shard judges" in ended.said
    ended = score(data, "--out", out, "--merge=3")
    assert (ended.code, "3 of 3 shards" in ended.said) == (2, True)
    assert not locate_run_directory(out).exists()
    assert json.loads(data.read_text().splitlines()[0]) == ROWS[0]
