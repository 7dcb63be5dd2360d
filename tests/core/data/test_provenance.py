import hashlib
import json
from pathlib import Path

import datasets
import pytest

from judgegym.data.rows import DatasetRead, collect_datasets_read, load_rows


def test_file_is_recorded_once_with_the_digest_that_sha256sum_gives(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"uid": "a"}\n{"uid": "b"}\n')
    with collect_datasets_read() as read:
        load_rows(str(path), split="train")
        load_rows(str(path), split="test")
    digest = f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
    assert read == [DatasetRead(str(path), None, 2, digest)]
    load_rows(str(path), split="train")
    assert len(read) == 1, "nothing is recorded outside the block"


def test_hub_dataset_is_recorded_by_name_and_split_with_a_digest_of_its_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tables = {
        "train": [{"b": 1, "a": "x"}],
        "test": [{"a": "x", "b": 1}],
        "other": [{"a": "y", "b": 1}],
    }
    monkeypatch.setattr(
        "datasets.load_dataset", lambda source, split: datasets.Dataset.from_list(tables[split])
    )
    with collect_datasets_read() as read:
        for split in tables:
            load_rows("who/what", split=split)
    assert [(each.name, each.split, each.rows) for each in read] == [
        ("who/what", split, 1) for split in tables
    ]
    train, test, other = (each.digest for each in read)
    assert train == test != other, "the order of the columns does not matter, their values do"
    assert (
        train
        == "sha256:"
        + hashlib.sha256(
            json.dumps({"a": "x", "b": 1}, separators=(",", ":")).encode() + b"\n"
        ).hexdigest()
    )
