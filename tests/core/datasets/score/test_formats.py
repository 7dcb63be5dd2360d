"""The forms in which data come, each through the real command: what is judged, and what the output has."""

from __future__ import annotations

import gzip
import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from judgegym.data import opening
from judgegym.llm.wire import JSON
from tests.core.datasets.scoring import Scoring, read_rows, response_in
from tests.scripted import Json

ROWS: list[Json] = [{"prompt": f"p{n}", "response": str(n + 1)} for n in range(4)]
TEXT = "".join(json.dumps(row) + "\n" for row in ROWS)
TABLE = "prompt,response\n" + "".join(f"{row['prompt']},{row['response']}\n" for row in ROWS)


def files(pattern: str, **contents: str | bytes) -> Callable[[Path], str]:
    """Write files, by their names with `_` for the dot; return the pattern that names them."""

    def write(folder: Path) -> str:
        for name, content in contents.items():
            path = folder / name.replace("_", ".")
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(folder / pattern)

    return write


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

    splits = {
        "train": datasets.Dataset.from_list(ROWS),
        "test": datasets.Dataset.from_list(ROWS[:1]),
    }
    datasets.DatasetDict(splits).save_to_disk(str(folder / "saved"))
    return str(folder / "saved")


def parquet_with_map(folder: Path) -> str:
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.Table.from_pylist(ROWS)
    maps = pyarrow.array(MAPS, pyarrow.map_(pyarrow.string(), pyarrow.int64()))
    pyarrow.parquet.write_table(table.append_column("map", maps), folder / "rows.parquet")
    return str(folder / "rows.parquet")


MAPS = [[("a", 1)], [], None, [("b", 2), ("c", None)]]
LINES, TABLE_LINES = TEXT.splitlines(), TABLE.splitlines(keepends=True)
FORMATS: dict[str, Callable[[Path], str]] = {
    "jsonl_gz": files("rows.jsonl.gz", rows_jsonl_gz=gzip.compress(TEXT.encode())),
    "csv_gz": files("rows.csv.gz", rows_csv_gz=gzip.compress(TABLE.encode())),
    "tsv": files("rows.tsv", rows_tsv=TABLE.replace(",", "\t")),
    "several_jsonl": files(
        "*.jsonl", b_jsonl="\n".join(LINES[1:]), a_jsonl=LINES[0], empty_jsonl=""
    ),
    "several_json": files(
        "[ab].json", a_json=json.dumps(ROWS[:3], indent=2), b_json=json.dumps(ROWS[3:])
    ),
    "several_csv": files(
        "?.csv", a_csv="".join(TABLE_LINES[:3]), b_csv="".join([TABLE_LINES[0], *TABLE_LINES[3:]])
    ),
    **{each.__name__: each for each in (several_parquet, saved, saved_splits, parquet_with_map)},
}


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
@pytest.mark.parametrize("write", FORMATS)
def test_all_rows_are_judged_in_their_order(
    tmp_path: Path, command: Scoring, write: str, ending: str
) -> None:
    pytest.importorskip("datasets")
    folder, command.out = tmp_path / "data", tmp_path / f"scored{ending}"
    folder.mkdir()
    data = FORMATS[write](folder)
    command.data = Path(data)
    ended = command()
    assert ended.code == 0, ended.said
    rows = read_rows(command.out) if ending == ".jsonl" else rows_of_parquet(command.out)
    assert [{name: row[name] for name in ROWS[0]} for row in rows] == ROWS
    assert [row["judge/score"] for row in rows] == [0.0, 0.25, 0.5, 0.75]
    before = command.out.read_bytes()
    assert command("--resume").code == 0
    assert (len(command.judge.requests), command.out.read_bytes() == before) == (4, True)
    if (write, ending) == ("parquet_with_map", ".parquet"):
        import pyarrow

        assert [row["map"] for row in rows] == MAPS
        assert pyarrow.types.is_map(pyarrow.parquet.read_schema(command.out).field("map").type)


@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_a_time_after_the_year_9999_is_a_text_and_refuses_no_file(
    tmp_path: Path, command: Scoring, ending: str
) -> None:
    import pyarrow
    import pyarrow.parquet

    times = [253_402_300_800 * 10**6, 0, None, 1]
    column = pyarrow.array(times, pyarrow.timestamp("us"))
    command.data, command.out = tmp_path / "rows.parquet", tmp_path / f"scored{ending}"
    pyarrow.parquet.write_table(
        pyarrow.Table.from_pylist(ROWS).append_column("time", column), command.data
    )
    ended = command()
    assert ended.code == 0, ended.said
    if ending == ".jsonl":
        assert next(row["time"] for row in read_rows(command.out)) == "10000-01-01 00:00:00.000000"
    else:
        written = pyarrow.parquet.read_table(command.out).column("time")
        assert written.cast(pyarrow.int64()).to_pylist() == times


def rows_of_parquet(path: Path) -> list[Json]:
    import pyarrow.parquet

    return pyarrow.parquet.read_table(path).to_pylist()  # type: ignore[no-any-return]


def test_rows_of_several_files_are_named_by_file(tmp_path: Path, command: Scoring) -> None:
    (tmp_path / "a.jsonl").write_text(TEXT)
    (tmp_path / "b.jsonl").write_text('{"prompt": "p", "response": "1"}\n{"prompt": "q"}\n')
    command.data, command.out = tmp_path / "*.jsonl", tmp_path / "o" / "scored.jsonl"
    ended = command()
    assert ended.code == 2
    assert re.search(f"{tmp_path / 'b.jsonl'}, row 2: .*beside the prompt", ended.said)


@pytest.mark.parametrize(
    ("contents", "data", "words"),
    [
        ({}, "*.jsonl", r"^\*\.jsonl: .*\.jsonl, \.json, .*found none"),
        (
            {"a.jsonl": TEXT, "a.csv": TABLE},
            "a.*",
            r"^a\.\*: .*\.jsonl, \.json, .*found a\.csv, a\.jsonl",
        ),
        (
            {"a.csv": TABLE, "b.csv": "prompt,other\np,q\n"},
            "*.csv",
            r"^\*\.csv: .*different columns",
        ),
        ({"a.jsonl.gz": "no gzip"}, "a.jsonl.gz", r"^a\.jsonl\.gz: cannot be decompressed"),
        ({"a.txt.gz": "x"}, "a.txt.gz", r"^a\.txt\.gz: .*\.jsonl, \.json, "),
        (
            {"a.jsonl": TEXT},
            "*.jsonl --out=scored.jsonl",
            r"^--out: scored\.jsonl .*files of \*\.jsonl",
        ),
    ],
)
def test_what_cannot_be_read_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
    command: Scoring,
    contents: dict[str, str],
    data: str,
    words: str,
) -> None:
    pytest.importorskip("datasets")
    monkeypatch.chdir(command.out.parent)
    for name, text in contents.items():
        Path(name).write_text(text)
    pattern, _, out = data.partition(" --out=")
    command.data, command.out = Path(pattern), Path(out or "o.parquet")
    ended = command()
    assert (ended.code, command.judge.requests) == (2, [])
    assert re.search(words, ended.said, re.MULTILINE), ended.said


@pytest.mark.slow
@pytest.mark.parametrize("text", [TEXT, json.dumps(ROWS, indent=1)])
def test_rows_come_on_standard_input(
    monkeypatch: pytest.MonkeyPatch, command: Scoring, text: str
) -> None:
    command.data = Path("-")
    for words in ((), ("--resume",)):
        opening.save_standard_input.cache_clear()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        ended = command(*words)
        assert ended.code == 0, ended.said
    assert command.column("judge/score") == [0.0, 0.25, 0.5, 0.75]
    assert len(command.judge.requests) == 4
    opening.save_standard_input.cache_clear()


NESTED: list[tuple[Json, tuple[str, ...], list[str]]] = [
    ({"a": {"q": "p", "r": "1"}}, ("--prompt_column=a.q", "--response_column=a.r"), ["1"]),
    (
        {"prompt": "p", "turns": [{"r": "1"}, {"r": "2"}]},
        ("--response_column=turns.r",),
        ["1", "2"],
    ),
    ({"prompt": "p", "turns": [{"r": "1"}, {"r": "2"}]}, ("--response_column=turns.1.r",), ["2"]),
    ({"prompt": "p", "a.b": "3", "a": {"b": "4"}}, ("--response_column=a.b",), ["3"]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("row", "words", "responses"), NESTED)
def test_a_column_within_another_is_named_by_its_path(
    command: Scoring, row: dict[str, JSON], words: tuple[str, ...], responses: list[str]
) -> None:
    more = ("--category_column=meta.source", "--reference_column=meta.gold")
    ended = command(*words, *more, rows=[{**row, "meta": {"source": "web", "gold": "G"}}])
    assert ended.code == 0, ended.said
    assert sorted(map(response_in, command.judge.bodies)) == responses
    assert "\n\nG\n\n" in command.judge.bodies[0]["messages"][-1]["content"]
    assert "web" in ended.said


def test_a_path_that_leads_nowhere_is_an_error(command: Scoring) -> None:
    ended = command("--response_column=a.c", rows=[{"prompt": "p", "a": {"b": "1"}}])
    assert (ended.code, "in a.c, which holds nothing" in ended.said) == (2, True)
