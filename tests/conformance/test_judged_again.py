"""The completions of a run are judged again: no policy is asked, and they are byte for byte what they were."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import Ended, RunFiles
from tests.conformance.lab import DOWN, Lab, row_of_sample, slow_with_several_models
from tests.conformance.subjects import POLICY, SUBJECTS, Subject, uids

ONCE = [subject for subject in SUBJECTS if subject.title != "prompts-conversations"]
"""Subjects whose completions can be judged again; what the policy said in several turns is refused."""


@pytest.fixture(params=ONCE, ids=lambda subject: subject.title)
def subject(request: pytest.FixtureRequest) -> Subject:
    """Each environment in each of its roles."""
    found: Subject = request.param
    return found


def again(lab: Lab, *flags: str, of: Path, run: str = "again") -> Ended:
    """Evaluate the completions of a run, by the same judge; of several candidates, those of each."""
    argv = lab.argv(*flags, run=run)
    if not lab.subject.compares:
        return lab.command(*argv, f"--env.model_answers={of}")
    candidates = [{"name": f"{POLICY}-{number}", "answers": str(of)} for number in (1, 2, 3)]
    others = [word for word in argv if not word.startswith("--env.candidates=")]
    return lab.command(*others, f"--env.candidates={json.dumps(candidates)}")


def completions(files: RunFiles) -> dict[str, bytes]:
    """What the policy said of each row, as its line has it."""
    found = {}
    for name in ("samples.jsonl", "failures.jsonl"):
        for line in (files.path / name).read_bytes().splitlines():
            sample = json.loads(line)
            _, _, behind = line.partition(b'"task_digest":')
            detail = sample.get("detail") or {}
            several = json.dumps(detail["answers"]).encode() if "answers" in detail else b""
            found[sample["uid"]] = behind.partition(b",")[2].partition(b',"score":')[0] + several
    return found


def unnamed(files: RunFiles) -> list[dict[str, object]]:
    """The samples without what names the answers they are of, or may differ between two runs."""
    return [{**sample, "run": None, "task_digest": None} for sample in files.samples]


def contents(path: Path) -> Iterator[tuple[str, bytes]]:
    return ((entry.name, entry.read_bytes()) for entry in sorted(path.iterdir()) if entry.is_file())


@slow_with_several_models
@pytest.mark.parametrize("named", [".", "samples.jsonl", "calls.jsonl.gz"])
def test_completions_are_those_of_the_run_and_no_policy_is_asked(lab: Lab, named: str) -> None:
    first = lab.finished()
    before = dict(contents(first.path))
    judged = lab.judge.answered
    lab.restore()
    again(lab, of=first.path / named).successful()
    assert lab.policy.endpoint.requests == []
    assert lab.judge.answered == judged
    second = lab.files("again")
    assert completions(second) == completions(first)
    assert unnamed(second) == unnamed(first)
    assert dict(contents(first.path)) == before, "the run is left as it is"


@slow_with_several_models
def test_new_run_names_the_run_whose_completions_it_judges(lab: Lab) -> None:
    first = lab.finished()
    ended = again(lab, of=first.path)
    general, former = lab.files("again").report["config_general"], first.report["config_general"]
    named = general["answers_of"]
    if lab.subject.compares:
        assert set(named) == {f"{POLICY}-{number}" for number in (1, 2, 3)}
        named = named[f"{POLICY}-1"]
    assert named["path"] == str(first.path)
    assert (named["environment"], named["policy"]) == (former["environment"], former["model_name"])
    assert (named["judge"], named["date"]) == (former["judge_model_name"], former["date"])
    assert named["rows"] == len(first.samples)
    assert general["model_name"] == former["model_name"]
    assert f"those of {first.path} " in ended.err
    assert str(first.path) in json.dumps(lab.config("again"))


@slow_with_several_models
def test_rows_that_failed_have_what_there_is_of_them(lab: Lab) -> None:
    """A row that its policy never answered is one again; a row that no judge judged is judged."""
    lab.policy.disturb(lambda uid: DOWN if uid == "row-1" else None)
    lab.judge.disturb(lambda uid: DOWN if uid == "row-3" else None)
    assert lab.evaluate().code == 1
    first = lab.files()
    unanswered = [failure for failure in first.failures if row_of_sample(failure) == "row-1"]
    lab.restore()
    ended = again(lab, of=first.path)
    assert ended.code == 1, "as many rows lack an answer as before"
    second = lab.files("again")
    assert lab.policy.endpoint.requests == []
    assert completions(second) == completions(first)
    kept = ("uid", "question", "status", "error")
    assert [[row[name] for name in kept] for row in second.failures] == [
        [row[name] for name in kept] for row in unanswered
    ]


@slow_with_several_models
@pytest.mark.parametrize("rows", [("row-4",), tuple(uids())], ids=["some", "all"])
def test_answers_of_an_interrupted_run_are_in_its_ledger(lab: Lab, rows: tuple[str, ...]) -> None:
    first = lab.finished()
    whole = completions(first), unnamed(first)
    first.interrupt(*rows)
    before = dict(contents(first.path))
    lab.restore()
    ended = again(lab, of=first.path).successful()
    assert lab.policy.endpoint.requests == []
    assert f"those of {first.path} (" in ended.err and "(:" not in ended.err
    assert (completions(lab.files("again")), unnamed(lab.files("again"))) == whole
    assert dict(contents(first.path)) == before


def test_rows_that_the_run_lacks_are_one_error_before_the_first_call(lab: Lab) -> None:
    first = lab.finished("--limit=2")
    lab.restore()
    ended = again(lab, of=first.path)
    assert ended.code == 2
    assert f"{first.path}: no answer for " in ended.err and "row-" in ended.err
    assert lab.requests == 0


@pytest.mark.parametrize(
    ("interrupted", "words"), [([], "another question"), (uids(), "asked something else")]
)
def test_run_of_other_questions_is_refused_before_the_first_call(
    lab: Lab, interrupted: list[str], words: str
) -> None:
    first = lab.finished()
    if interrupted:
        first.interrupt(*interrupted)
    for path in lab.path.glob("*.jsonl"):
        path.write_bytes(path.read_bytes().replace(b"child", b"adult"))
    lab.restore()
    ended = again(lab, of=first.path)
    assert ended.code == 2
    assert words in ended.err
    assert interrupted or ("child" in ended.err and "adult" in ended.err)
    assert lab.requests == 0


@slow_with_several_models
def test_resumed_run_judges_rows_again_whose_completions_have_changed(lab: Lab) -> None:
    first = lab.finished()
    assert again(lab, of=first.path).code == 0
    lines = (first.path / "samples.jsonl").read_bytes().splitlines(keepends=True)
    changed = [line.replace(b'"model_answer":"', b'"model_answer":"Well. ') for line in lines[:1]]
    changed = [line.replace(b'"answer":"', b'"answer":"Well. ') for line in changed]
    assert changed != lines[:1]
    (first.path / "samples.jsonl").write_bytes(b"".join([*changed, *lines[1:]]))
    lab.restore()
    ended = again(lab, "--resume", of=first.path).successful()
    assert "judged again: 1\n" in ended.err
    assert lab.judge.asked == (
        {row_of_sample(json.loads(lines[0]))} if lab.subject.has_judge else set()
    )
