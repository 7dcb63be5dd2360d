"""The answers of a run: from its samples, from its ledger, and what is refused."""

from __future__ import annotations

import gc
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from judgegym.engine.completions import Completion
from judgegym.engine.records import Sample
from judgegym.llm.errors import DataError, RunDirectoryError
from judgegym.reports.results.answers import EarlierAnswers, find_run, name_subject
from tests.core.engine.samples_of import sample
from tests.core.reports.results.test_run import GENERAL, written

COUNT, LENGTH, MOST = 300, 10_000, 800
"""Rows, characters of each, and the bytes that memory may hold of one."""


def answers(path: Path, *uids: str) -> EarlierAnswers:
    return EarlierAnswers(path, uids)


def call(row: str, text: str, number: int = 0, **choice: Any) -> bytes:
    """A line of a ledger: an answer of the policy."""
    choices = [{"text": text, "finish_reason": "stop", **choice}]
    line = {
        "id": 1,
        "row": row,
        "group": None,
        "key": "k",
        "part": 0,
        "has_verdict": True,
        "component": f"conversation_{number}/policy",
        "vote": 0,
        "model": "m",
        "messages": [{"role": "user", "content": f"Question of {row}"}],
        "parameters": {},
        "answer": {
            "choices": [{**dict.fromkeys(("reasoning", "refusal", "tokens")), **choices[0]}]
        },
    }
    answer = line["answer"]
    assert isinstance(answer, dict)
    answer |= {
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "cost": None, "cached_tokens": 0}
    }
    answer |= {"latency_s": 0.1, "attempts": 1, "cached": False}
    return json.dumps({"call": line}).encode() + b"\n"


def test_row_that_the_policy_never_answered_is_there_with_its_reason(tmp_path: Path) -> None:
    path = written(
        tmp_path / "run", [sample("a")], [sample("b", "policy_failed"), sample("c", "judge_failed")]
    )
    found = answers(path, "a", "b", "c")
    assert (found["b"].completions, found["b"].policy_error) == ((), "b: no answer")
    assert found["c"].completions == (Completion("answer to c"),)


def test_last_line_of_a_row_counts_and_a_finished_one_before_a_failed_one(tmp_path: Path) -> None:
    lines = [sample("a", completions=(Completion(text),)) for text in ("at first", "at last")]
    path = written(
        tmp_path / "run", lines, [sample("a", "policy_failed"), sample("b", "judge_failed")]
    )
    with (path / "samples.jsonl").open("ab") as file:
        file.write(sample("b", completions=(Completion("torn"),)).to_line()[:-9])
    found = answers(path, "a", "b")
    assert found["a"].completions == (Completion("at last"),)
    assert found["b"].completions == (Completion("answer to b"),), "a line that was cut off is none"


def test_file_that_changed_is_an_error_and_never_another_answer(tmp_path: Path) -> None:
    path = written(tmp_path / "run", [sample("a"), sample("b")])
    found = answers(path, "a", "b")
    data = (path / "samples.jsonl").read_bytes()
    (path / "samples.jsonl").write_bytes(data.replace(b"answer to a", b"ANSWER to a"))
    with pytest.raises(DataError, match="has changed"):
        _ = found["a"]
    assert found["b"].completions == (Completion("answer to b"),)


def test_file_that_is_replaced_is_read_to_the_end_as_it_was(tmp_path: Path) -> None:
    """As a resumed run does at its end."""
    path = written(tmp_path / "run", [sample("a"), sample("b")])
    found = answers(path, "a", "b")
    (path / "new").write_bytes(b"")
    (path / "new").replace(path / "samples.jsonl")
    assert found["a"].completions == (Completion("answer to a"),)


def test_sample_without_a_completion_is_of_several_candidates(tmp_path: Path) -> None:
    path = written(tmp_path / "run", [sample("a", completions=())])
    with pytest.raises(
        RunDirectoryError, match=r"samples\.jsonl, line 1: row 'a': .*no completions"
    ):
        _ = answers(path, "a")["a"]


def test_ledger_is_read_by_the_settings_of_the_run(tmp_path: Path) -> None:
    path = written(tmp_path / "run", [])
    (path / "config.yaml").write_text(
        "env: {thinking_mode: true, min_response_length: 4, judge_model_name: j}\n"
    )
    ledger = [
        call("a", "<think>Hm.</think> No.", finish_reason="length"),
        call("b", "No thought."),
        b'{"sent": 7}\n',
        call("b", "<think>Yes.</think> A second attempt."),
        call("other", "no row of ours"),
        call("c", "", refusal="I will not.", finish_reason="content_filter"),
        b'{"row_failed": "b", "group": null}\n',
    ]
    (path / "calls.jsonl").write_bytes(b"".join(ledger))
    found = answers(path, "a", "b", "c")
    assert found["a"].completions == (Completion("No.", "Hm.", None, "length", short=True),)
    assert found["b"].completions == (Completion("A second attempt.", "Yes.", None, "stop"),), (
        "the last one counts"
    )
    assert found["c"].completions == (
        Completion("I will not.", "", "no_open_tag", "content_filter"),
    )
    assert (found["a"].question, found["a"].last_messages) == (None, ("Question of a",))
    assert [file.name for file, _ in found.files] == [
        "samples.jsonl",
        "failures.jsonl",
        "calls.jsonl",
    ]


def test_row_whose_first_conversation_is_not_answered_is_lacking(tmp_path: Path) -> None:
    path = written(tmp_path / "run", [])
    (path / "calls.jsonl").write_bytes(call("a", "the second one", number=1))
    with pytest.raises(DataError, match="no answer for 1 of 1 rows"):
        answers(path, "a")


def test_settings_of_a_ledger_that_are_wrong_are_named(tmp_path: Path) -> None:
    path = written(tmp_path / "run", [])
    (path / "config.yaml").write_text("env: {thinking_mode: perhaps}\n")
    (path / "calls.jsonl").write_bytes(call("a", "something"))
    with pytest.raises(RunDirectoryError, match=r"config.yaml: thinking_mode: "):
        answers(path, "a")


@pytest.mark.parametrize(
    "named", ["run", "run/samples.jsonl", "run/failures.jsonl", "run/calls.jsonl.gz"]
)
def test_run_is_named_by_its_directory_or_one_of_its_files(tmp_path: Path, named: str) -> None:
    path = written(tmp_path / "run", [sample()], general=GENERAL)
    assert find_run(tmp_path / named) == path
    assert name_subject(tmp_path / named) == "a-policy"


@pytest.mark.parametrize(
    "named", ["answers.jsonl", "gpt-4.1.jsonl", "run/config.yaml", "samples.jsonl", "none"]
)
def test_any_other_file_is_a_file_of_answers(tmp_path: Path, named: str) -> None:
    written(tmp_path / "run", [sample()], general=GENERAL)
    (tmp_path / "samples.jsonl").write_text("{}\n")
    assert find_run(tmp_path / named) is None
    assert name_subject(tmp_path / named) == Path(named).stem


def test_samples_without_the_settings_of_their_run_are_known_by_their_fields(
    tmp_path: Path,
) -> None:
    path = written(tmp_path / "run", [sample()])
    (path / "config.yaml").unlink(missing_ok=True)
    assert find_run(path / "samples.jsonl") == path
    (path / "samples.jsonl").write_text("no JSON\n")
    assert find_run(path / "samples.jsonl") is None


@pytest.mark.slow
@pytest.mark.parametrize("of", ["lines", "ledger"])
def test_memory_holds_places_of_lines_and_compressed_answers_of_a_ledger(
    tmp_path: Path, of: str
) -> None:
    uids = [f"row-{number:08d}" for number in range(COUNT)]
    text = "x" * LENGTH
    samples: list[Sample[Any]] = [sample(uid, completions=(Completion(text),)) for uid in uids]
    path = written(
        tmp_path / "run",
        samples if of == "lines" else [],
        general=GENERAL if of == "lines" else None,
    )
    if of == "ledger":
        (path / "calls.jsonl").write_bytes(b"".join(call(uid, text) for uid in uids))
    _ = answers(path, uids[0])[uids[0]]  # what is imported or built once
    tracemalloc.start()
    try:
        found = answers(path, *uids)
        for uid in uids:  # reading them all leaves nothing behind
            assert found[uid].completions[0].answer == text
        gc.collect()  # what is garbage already is not held
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held < MOST * COUNT, f"{held / COUNT:.0f} bytes a row"
