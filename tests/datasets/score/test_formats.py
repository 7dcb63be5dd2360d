"""The forms in which data come, each through the real command: what is judged, and what the output has."""

from __future__ import annotations

import gzip
import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from judgegym.data import opening
from judgegym.llm.wire import JSON
from tests.command import serving
from tests.datasets.scoring import rated, read_rows, response_in, score
from tests.scripted import Json, ScriptedEndpoint

ROWS: list[Json] = [{"prompt": f"p{n}", "response": str(n + 1)} for n in range(4)]
TEXT = "".join(json.dumps(row) + "\n" for row in ROWS)
TABLE = "prompt,response\n" + "".join(f"{row['prompt']},{row['response']}\n" for row in ROWS)


@pytest.fixture
def judge() -> Iterator[ScriptedEndpoint]:
    with serving(rated(lambda response: int(response))) as endpoint:
        yield endpoint


def jsonl_gz(folder: Path) -> str:
    (folder / "rows.jsonl.gz").write_bytes(gzip.compress(TEXT.encode()))
    return str(folder / "rows.jsonl.gz")


def csv_gz(folder: Path) -> str:
    (folder / "rows.csv.gz").write_bytes(gzip.compress(TABLE.encode()))
    return str(folder / "rows.csv.gz")


def tsv(folder: Path) -> str:
    (folder / "rows.tsv").write_text(TABLE.replace(",", "\t"))
    return str(folder / "rows.tsv")


def several_jsonl(folder: Path) -> str:
    first, second = TEXT.splitlines()[:1], TEXT.splitlines()[1:]
    (folder / "b.jsonl").write_text("\n".join(second))
    (folder / "a.jsonl").write_text("\n".join(first))
    (folder / "empty.jsonl").write_text("")
    return str(folder / "*.jsonl")


def several_json(folder: Path) -> str:
    (folder / "a.json").write_text(json.dumps(ROWS[:3], indent=2))
    (folder / "b.json").write_text(json.dumps(ROWS[3:]))
    return str(folder / "[ab].json")


def several_csv(folder: Path) -> str:
    lines = TABLE.splitlines(keepends=True)
    (folder / "1.csv").write_text("".join(lines[:3]))
    (folder / "2.csv").write_text("".join([lines[0], *lines[3:]]))
    return str(folder / "?.csv")


def several_parquet(folder: Path) -> str:
    import pyarrow
    import pyarrow.parquet

    for name, part in (("a", ROWS[:1]), ("b", ROWS[1:])):
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(part), folder / f"{name}.parquet")
    return str(folder / "*.parquet")


def saved(folder: Path) -> str:
    import datasets

    datasets.Dataset.from_list(ROWS).save_to_disk(str(folder / "saved"))
    return str(folder / "saved")


def saved_splits(folder: Path) -> str:
    import datasets

    splits = {"train": datasets.Dataset.from_list(ROWS), "test": datasets.Dataset.from_list(ROWS[:1])}
    datasets.DatasetDict(splits).save_to_disk(str(folder / "saved"))
    return str(folder / "saved")


def parquet_with_map(folder: Path) -> str:
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.Table.from_pylist(ROWS)
    maps = pyarrow.array(
        [[("a", 1)], [], None, [("b", 2), ("c", None)]], pyarrow.map_(pyarrow.string(), pyarrow.int64())
    )
    pyarrow.parquet.write_table(table.append_column("map", maps), folder / "rows.parquet")
    return str(folder / "rows.parquet")


FORMATS: list[Callable[[Path], str]] = [
    *(jsonl_gz, csv_gz, tsv, several_jsonl, several_json, several_csv, several_parquet, saved, saved_splits),
    parquet_with_map,
]


@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
@pytest.mark.parametrize("write", FORMATS, ids=lambda write: write.__name__)
def test_all_rows_are_judged_in_their_order(
    tmp_path: Path, judge: ScriptedEndpoint, write: Callable[[Path], str], ending: str
) -> None:
    pytest.importorskip("datasets")
    folder, out = tmp_path / "data", tmp_path / f"scored{ending}"
    folder.mkdir()
    words = (write(folder), "--out", out, f"--judge_base_url={judge.base_url}")
    ended = score(*words)
    assert ended.code == 0, ended.said
    rows = read_rows(out) if ending == ".jsonl" else rows_of_parquet(out)
    assert [{name: row[name] for name in ROWS[0]} for row in rows] == ROWS
    assert [row["judge/score"] for row in rows] == [0.0, 0.25, 0.5, 0.75]
    before = out.read_bytes()
    assert score(*words, "--resume").code == 0
    assert (len(judge.requests), out.read_bytes() == before) == (4, True)


def rows_of_parquet(path: Path) -> list[Json]:
    import pyarrow.parquet

    return pyarrow.parquet.read_table(path).to_pylist()  # type: ignore[no-any-return]


def test_a_map_column_stays_a_map(tmp_path: Path, judge: ScriptedEndpoint) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    out = tmp_path / "scored.parquet"
    assert score(parquet_with_map(tmp_path), "--out", out, f"--judge_base_url={judge.base_url}").code == 0
    table = rows_of_parquet(out)
    assert [row["map"] for row in table] == [[("a", 1)], [], None, [("b", 2), ("c", None)]]
    assert pyarrow.types.is_map(pyarrow.parquet.read_schema(out).field("map").type)


def test_rows_of_several_files_are_named_by_file(tmp_path: Path, judge: ScriptedEndpoint) -> None:
    (tmp_path / "a.jsonl").write_text(TEXT)
    (tmp_path / "b.jsonl").write_text('{"prompt": "p", "response": "1"}\n{"prompt": "q"}\n')
    ended = score(tmp_path / "*.jsonl", "--out", tmp_path / "o" / "scored.jsonl", f"--judge_base_url={judge.base_url}")
    assert ended.code == 2
    assert f"{tmp_path / 'b.jsonl'}, row 2: expected beside the prompt" in ended.said


@pytest.mark.parametrize(
    ("files", "data", "words"),
    [
        ({}, "*.jsonl", "expected files of one of the kinds"),
        ({"a.jsonl": TEXT, "a.csv": TABLE}, "a.*", "expected files of one of the kinds"),
        ({"a.csv": TABLE, "b.csv": "prompt,other\np,q\n"}, "*.csv", "expected files with the same columns"),
        ({"a.jsonl.gz": "no gzip"}, "a.jsonl.gz", "a.jsonl.gz: cannot be decompressed"),
        ({"a.txt.gz": "x"}, "a.txt.gz", "expected a file with one of the endings"),
        ({"a.jsonl": TEXT}, "*.jsonl --out=scored.jsonl", "--out: scored.jsonl would be one of the files of"),
    ],
)
def test_what_cannot_be_read_is_an_error(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    judge: ScriptedEndpoint,
    files: dict[str, str],
    data: str,
    words: str,
) -> None:
    pytest.importorskip("datasets")
    monkeypatch.chdir(tmp_path)
    for name, text in files.items():
        Path(name).write_text(text)
    ended = score(
        *data.split(), *([] if "--out" in data else ["--out=o.parquet"]), f"--judge_base_url={judge.base_url}"
    )
    assert (ended.code, judge.requests) == (2, [])
    assert words in ended.said


@pytest.mark.parametrize("text", [TEXT, json.dumps(ROWS, indent=1)])
def test_rows_come_on_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judge: ScriptedEndpoint, text: str
) -> None:
    out = tmp_path / "scored.jsonl"
    for words in ((), ("--resume",)):
        opening.standard_input.cache_clear()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        ended = score("-", "--out", out, f"--judge_base_url={judge.base_url}", *words)
        assert ended.code == 0, ended.said
    assert [row["judge/score"] for row in read_rows(out)] == [0.0, 0.25, 0.5, 0.75]
    assert len(judge.requests) == 4
    opening.standard_input.cache_clear()


NESTED: list[tuple[Json, tuple[str, ...], list[str]]] = [
    ({"a": {"q": "p", "r": "1"}}, ("--prompt_column=a.q", "--response_column=a.r"), ["1"]),
    ({"prompt": "p", "turns": [{"r": "1"}, {"r": "2"}]}, ("--response_column=turns.r",), ["1", "2"]),
    ({"prompt": "p", "turns": [{"r": "1"}, {"r": "2"}]}, ("--response_column=turns.1.r",), ["2"]),
    ({"prompt": "p", "a.b": "3", "a": {"b": "4"}}, ("--response_column=a.b",), ["3"]),
]


@pytest.mark.parametrize(("row", "words", "responses"), NESTED)
def test_a_column_within_another_is_named_by_its_path(
    tmp_path: Path, judge: ScriptedEndpoint, row: dict[str, JSON], words: tuple[str, ...], responses: list[str]
) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text(json.dumps({**row, "meta": {"source": "web", "gold": "G"}}) + "\n")
    more = ("--category_column=meta.source", "--reference_column=meta.gold", f"--judge_base_url={judge.base_url}")
    ended = score(data, "--out", tmp_path / "scored.jsonl", *words, *more)
    assert ended.code == 0, ended.said
    assert sorted(map(response_in, judge.bodies)) == responses
    assert "\n\nG\n\n" in judge.bodies[0]["messages"][-1]["content"]
    assert "web" in ended.said


def test_a_path_that_leads_nowhere_is_an_error(tmp_path: Path, judge: ScriptedEndpoint) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text('{"prompt": "p", "a": {"b": "1"}}\n')
    words = ("--response_column=a.c", f"--judge_base_url={judge.base_url}")
    ended = score(data, "--out", tmp_path / "scored.jsonl", *words)
    assert ended.code == 2
    assert "in a.c, which holds nothing" in ended.said
