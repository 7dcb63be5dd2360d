"""Batches of every kind that Ray Data and `datasets` hand over, judged by a scripted judge."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from judgegym.datasets.cluster.batches import BatchScorer
from judgegym.datasets.files.columns import JUDGED
from judgegym.llm.errors import DataError, SettingsError
from tests.command import serving, write_lines
from tests.core.datasets.scoring import by_points, rated, read_rows, response_in, score
from tests.scripted import Reply, ScriptedEndpoint

ROWS = [
    {"prompt": f"Question {n}", "response": f"{n % 5 + 1} points", "tags": ["a", "b"]}
    for n in range(12)
]
SCORES = [(n % 5) / 4 for n in range(12)]


def rating(response: str) -> int | Reply:
    return (
        Reply(status=400, body={"error": {"message": "no"}})
        if response == "9 points"
        else by_points(response)
    )


@pytest.fixture
def judge() -> Iterator[ScriptedEndpoint]:
    with serving(rated(rating)) as endpoint:
        yield endpoint


def scorer(judge: ScriptedEndpoint, *, parts: int = 1, **settings: Any) -> BatchScorer:
    return BatchScorer({"judge_base_url": judge.base_url, **settings}, parts=parts)


def lists(rows: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def arrays(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    found = {}
    for name, values in lists(rows).items():
        found[name] = np.empty(len(values), dtype=object)
        for place, value in enumerate(values):
            found[name][place] = np.array(value) if isinstance(value, list) else value
    return found


@pytest.mark.parametrize(
    ("make", "read"),
    [
        (lists, lambda batch, name: batch[name]),
        (arrays, lambda batch, name: list(batch[name])),
        (pa.Table.from_pylist, lambda batch, name: batch[name].to_pylist()),
        (pd.DataFrame, lambda batch, name: list(batch[name])),
    ],
)
def test_a_batch_of_each_kind_gets_its_columns(
    judge: ScriptedEndpoint, make: Callable[[Any], Any], read: Callable[[Any, str], list[Any]]
) -> None:
    batch = make(ROWS)
    with_scores = scorer(judge)(batch)
    assert type(with_scores) is type(batch)
    assert read(with_scores, "judge/score") == SCORES
    assert set(read(with_scores, "judge/status")) == {"ok"}
    assert list(with_scores.column_names if isinstance(batch, pa.Table) else with_scores)[
        3:
    ] == list(JUDGED)
    assert read(with_scores, "prompt") == [row["prompt"] for row in ROWS]


@pytest.mark.slow
def test_the_values_are_those_of_the_command(tmp_path: Path, judge: ScriptedEndpoint) -> None:
    rows = [*ROWS[:3], {**ROWS[0], "response": "9 points"}, {**ROWS[0], "response": ""}]
    out = tmp_path / "scored.jsonl"
    score(
        write_lines(tmp_path / "data.jsonl", rows),
        "--out",
        out,
        f"--judge_base_url={judge.base_url}",
    )
    added = scorer(judge)(lists(rows))
    for number, written in enumerate(read_rows(out)):
        text = written["judge/detail"] and json.dumps(
            written["judge/detail"], separators=(",", ":")
        )  # as in a table
        assert {name: added[name][number] for name in JUDGED} == {
            **{name: written[name] for name in JUDGED},
            "judge/detail": text,
        }
    assert added["judge/status"] == ["ok", "ok", "ok", "judge_failed", "invalid_completion"]
    assert added["judge/score"][3:] == [None, None]


def test_a_failure_in_a_table_is_a_null_of_the_columns_type(judge: ScriptedEndpoint) -> None:
    table = scorer(judge)(pa.Table.from_pylist([{"prompt": "p", "response": "9 points"}]))
    assert table["judge/score"].type == pa.float64()
    assert table["judge/label"].type == table["judge/detail"].type == pa.string()
    assert table["judge/score"].null_count == 1


def test_lists_of_responses_are_judged_each_and_empty_batches_are_none(
    judge: ScriptedEndpoint,
) -> None:
    scored = scorer(judge)(
        {"prompt": ["p", "q"], "responses": [["1 point", "5 points"], ["3 points"]]}
    )
    assert scored["judge/score"] == [[0.0, 1.0], [0.5]]
    assert scorer(judge)({"prompt": [], "response": []})["judge/score"] == []


def test_equal_rows_of_a_batch_are_judged_once(judge: ScriptedEndpoint) -> None:
    scored = scorer(judge)(lists([*ROWS, *ROWS]))
    assert scored["judge/score"] == [*SCORES, *SCORES]
    assert len(judge.requests) == len(ROWS)


def test_all_rows_of_a_batch_are_judged_at_once_up_to_the_share(judge: ScriptedEndpoint) -> None:
    with serving(lambda request, number: Reply("[FEEDBACK] x [SCORE] 3", delay_s=0.05)) as slow:
        scorer(slow, judge_max_concurrency=13, parts=3)(lists(ROWS))
        assert slow.peak == 4


def test_a_ledger_is_read_by_the_next_process(tmp_path: Path, judge: ScriptedEndpoint) -> None:
    rows = [*ROWS, {**ROWS[0], "response": "9 points"}]
    first = scorer(judge, ledger=str(tmp_path / "ledger"))
    first(lists(rows))
    (file,) = (tmp_path / "ledger").iterdir()
    file.write_bytes(file.read_bytes() + b'{"key": "cut o')
    asked = len(judge.requests)
    again = scorer(judge, ledger=str(tmp_path / "ledger"))(lists(rows))
    assert again["judge/score"] == [*SCORES, None]
    assert [response_in(body) for body in judge.bodies[asked:]] == ["9 points"]
    asked = len(judge.requests)
    scorer(judge, ledger=str(tmp_path / "ledger"), rubric="Is it short?")(lists(ROWS[:2]))
    assert len(judge.requests) == asked + 2


def test_what_a_row_lacks_is_named(judge: ScriptedEndpoint) -> None:
    with pytest.raises(
        DataError, match=r"the batch, row 2: expected a response .* columns found: prompt, response"
    ):
        scorer(judge, response_column="response")(
            {"prompt": ["p", "q"], "response": ["3 points", 7]}
        )
    with pytest.raises(DataError, match="has a column judge/score already"):
        scorer(judge)(scorer(judge)(lists(ROWS)))
    with pytest.raises(SettingsError, match=r"single value in prompt: map\(…, batched=True\)"):
        scorer(judge)({"prompt": "p", "response": "r"})
    with pytest.raises(SettingsError, match="found list"):
        scorer(judge)([1])


@pytest.mark.parametrize(
    ("settings", "parts", "said"),
    [
        ({"judge_max_concurrency": 3}, 4, "parts: judge_max_concurrency is 3 .* at most 3"),
        ({"judge_requests_per_minute": 2}, 4, "parts: judge_requests_per_minute is 2"),
        ({"group_by": "id"}, 1, "group_by: .*different batches"),
        ({"judge_api_key": "sk-1"}, 1, "judge_api_key_env"),
        ({"jugde": "peer"}, 1, "jugde: unknown setting"),
        ({}, 0, "parts: expected at least 1"),
    ],
)
def test_settings_that_cannot_be_are_one_message(
    settings: dict[str, Any], parts: int, said: str
) -> None:
    with pytest.raises(SettingsError, match=said) as raised:
        BatchScorer(settings, parts=parts)
    assert "sk-1" not in str(raised.value)


def test_a_copy_has_the_settings_alone(judge: ScriptedEndpoint, tmp_path: Path) -> None:
    rubric = tmp_path / "rubric.txt"
    rubric.write_text("Is it kind?")
    first = scorer(judge, rubric=f"@{rubric}", judge_api_key="none")
    first(lists(ROWS[:1]))
    copy = pickle.loads(pickle.dumps(first))
    rubric.unlink()
    assert copy.settings.to_values() == first.settings.to_values()
    assert json.loads(first.__getstate__())[0]["rubric"] == "Is it kind?"
    assert copy(lists(ROWS[:1]))["judge/score"] == [0.0]
