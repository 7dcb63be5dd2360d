"""A run whose files are damaged, resumed: it is the undisturbed run, and asks for what is lost alone.

Damage is what crashes and disks leave: blocks of zeros or of other bytes, lines that are torn or
glued together, a file that is cut. A byte that turns one readable text into another one cannot be
known in a plain file.
"""

from __future__ import annotations

import gzip
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from judgegym.cli.commands import main
from judgegym.engine.runs import recorded_calls
from judgegym.engine.runs.directory import DirectoryLock, locate_run_directory
from tests.batching import BatchEndpoint
from tests.command import Ended, as_process, called, clean_environment, serving, write_lines
from tests.conformance.subjects import Verb
from tests.core.datasets.scoring import rated, score
from tests.faults.bench import Bench, Loop
from tests.faults.conftest import LEAN, ROWS
from tests.forking import ROOT

Lines = list[bytes]
SCRIPT = ROOT / "judgegym" / "__main__.py"


def half(line: bytes) -> bytes:
    return line[: len(line) // 2]


def longest(lines: Lines) -> int:
    """The number of a line that is neither the first nor the last."""
    return max(range(1, len(lines) - 1), key=lambda number: len(lines[number]))


def replaced(lines: Lines, befalls: Callable[[bytes], bytes]) -> Lines:
    return [
        befalls(line) if number == longest(lines) else line for number, line in enumerate(lines)
    ]


def joined(lines: Lines, befalls: Callable[[bytes], bytes]) -> Lines:
    number = longest(lines)
    return [*lines[:number], befalls(lines[number]) + lines[number + 1], *lines[number + 2 :]]


DAMAGES: Mapping[str, Callable[[Lines], Lines]] = {
    "torn tail": lambda lines: [*lines[:-1], half(lines[-1])],
    "zeros in the middle": lambda lines: replaced(
        lines, lambda line: line[:9] + bytes(40) + line[49:]
    ),
    "binary garbage": lambda lines: replaced(lines, lambda line: b"\xff\xfe\x00\x80" * 9 + b"\n"),
    "truncated": lambda lines: [*lines[: longest(lines)], half(lines[longest(lines)])],
    "empty line": lambda lines: replaced(lines, lambda line: line + b"\n"),
    "glued to a torn line": lambda lines: joined(lines, half),
    "no newline between": lambda lines: joined(lines, bytes.rstrip),
    "no object": lambda lines: replaced(lines, lambda line: b"[1]\n"),
    "other fields": lambda lines: replaced(lines, lambda line: b'{"uid":"row-1","call":{}}\n'),
}
"""What befalls the lines of a file."""


def split(data: bytes) -> Lines:
    return data.splitlines(keepends=True)


@dataclass(frozen=True)
class Damaged:
    """A file that was damaged.

    Attributes:
        data: its bytes now.
        lost: the lines that are no longer whole in it.
    """

    path: Path
    data: bytes
    lost: Lines

    def check_kept(self, ended: Ended) -> None:
        """Check that it is kept as it was, and that one line says so."""
        kept = self.path.with_name(f"{self.path.name}.damaged")
        assert kept.read_bytes() == self.data
        said = [line for line in ended.err.splitlines() if "damaged line" in line]
        assert len(said) == 1, ended.err
        assert f"{self.path}: 1 damaged line skipped (kept in {kept.name}); " in said[0]


def damage(path: Path, name: str) -> Damaged:
    """Damage a file."""
    lines = split(path.read_bytes())
    data = b"".join(DAMAGES[name](lines))
    path.write_bytes(data)
    return Damaged(path, data, [line for line in lines if line.rstrip() not in data])


def unpack(run: Path) -> Path:
    """Make a run one that was stopped when it had all answers."""
    (run / "metrics.json").unlink(missing_ok=True)
    ledger = run / "calls.jsonl"
    ledger.write_bytes(gzip.decompress((run / "calls.jsonl.gz").read_bytes()))
    (run / "calls.jsonl.gz").unlink()
    return ledger


def of_calls(lines: Lines) -> int:
    return sum(line.startswith(b'{"call"') for line in lines)


def results(bench: Bench, verb: Verb, run: str) -> Sequence[bytes]:
    """What a run has made, without timings."""
    if verb == "process":
        return (bench.path / f"{run}.jsonl").read_bytes().splitlines()
    lines = (bench.path / run / "samples.jsonl").read_bytes().splitlines()
    return [line.partition(b',"run":')[0] for line in lines]


Whole = Callable[[Verb], "tuple[Bench, Sequence[bytes]]"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, loop: Loop) -> Whole:
    """An undisturbed run of each verb, and what it made."""

    @cache
    def made(verb: Verb) -> tuple[Bench, Sequence[bytes]]:
        bench = Bench(LEAN, ROWS, tmp_path_factory.mktemp(verb), loop)
        ended = bench.run(verb, run="whole").ended
        assert ended.code == 0, ended.said
        return bench, results(bench, verb, "whole")

    return made


def copied(bench: Bench, verb: Verb) -> tuple[Path, Path]:
    """A copy of the whole run: its directory, and the file of its results."""
    run = bench.path / ("run" if verb == "evaluate" else "run.run")
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(bench.path / run.name.replace("run", "whole", 1), run)
    config = run / "config.yaml"
    config.write_text(config.read_text().replace("whole", "run"))
    if verb == "evaluate":
        return run, run / "samples.jsonl"
    for stray in bench.path.glob("run.jsonl.damaged*"):
        stray.unlink()
    return run, Path(shutil.copy(bench.path / "whole.jsonl", bench.path / "run.jsonl"))


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.parametrize("verb", ["evaluate", "process"])
def test_damaged_results_are_made_again_from_the_ledger(
    whole: Whole, verb: Verb, name: str
) -> None:
    bench, expected = whole(verb)
    _, made = copied(bench, verb)
    damaged = damage(made, name)
    again = bench.run(verb, "--resume")
    assert again.ended.code == 0, again.ended.said
    assert results(bench, verb, "run") == expected
    assert again.asked.total() == 0
    damaged.check_kept(again.ended)
    if name == "no object":
        what = "1 row .*judged again" if verb == "evaluate" else "1 group .*made again"
        assert re.search(rf"\b{what}", again.ended.err)


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.parametrize("verb", ["evaluate", "process"])
def test_answers_that_a_damaged_ledger_has_lost_are_asked_for_and_no_others(
    whole: Whole, verb: Verb, name: str
) -> None:
    bench, expected = whole(verb)
    run, made = copied(bench, verb)
    made.write_bytes(b"")
    damaged = damage(unpack(run), name)
    again = bench.run(verb, "--resume")
    assert again.ended.code == 0, again.ended.said
    assert results(bench, verb, "run") == expected
    assert again.asked.total() == of_calls(damaged.lost)
    damaged.check_kept(again.ended)


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.parametrize("file", ["samples.jsonl", "calls.jsonl"])
def test_scored_data_set_is_resumed(tmp_path: Path, file: str, name: str) -> None:
    rows = [{"prompt": f"Question {n}", "response": f"Response {n}"} for n in range(9)]
    data, out = write_lines(tmp_path / "data.jsonl", rows), tmp_path / "scored.jsonl"
    run = locate_run_directory(out)
    with serving(rated(lambda response: int(response.split()[1]) % 5 + 1)) as judge:
        words = (data, "--out", out, f"--judge_base_url={judge.base_url}")
        assert score(*words).code == 0
        expected, asked = out.read_bytes(), len(judge.requests)
        out.unlink()
        if file == "calls.jsonl":
            (run / "samples.jsonl").write_bytes(b"")
            unpack(run)
        damaged = damage(run / file, name)
        again = score(*words, "--resume")
        assert again.code == 0, again.said
        assert out.read_bytes() == expected
        assert len(judge.requests) - asked == of_calls(damaged.lost)
        damaged.check_kept(again)


@pytest.mark.parametrize("name", DAMAGES)
def test_responses_of_a_batch_that_a_damaged_file_still_names_are_not_asked_for_again(
    tmp_path: Path, name: str
) -> None:
    rows = [{"prompt": f"Question {n}", "response": f"Response {n}"} for n in range(6)]
    data, out = write_lines(tmp_path / "data.jsonl", rows), tmp_path / "scored.jsonl"
    run = locate_run_directory(out)
    with serving(BatchEndpoint("[FEEDBACK] Because. [SCORE] 4")) as judge:
        assert isinstance(judge, BatchEndpoint)
        batched = ("--judge_batch=openai", "--judge_batch_poll=0.005", "--judge_batch_lines=2")
        words = (data, "--out", out, f"--judge_base_url={judge.base_url}", *batched)
        assert score(*words).code == 0
        expected, asked = out.read_bytes(), judge.asked.total()
        out.unlink()
        (run / "samples.jsonl").write_bytes(b"")
        ledger = unpack(run)
        ledger.write_bytes(
            split(ledger.read_bytes())[0]
        )  # all answers are lost, but they are in batches
        damaged = damage(run / "batches.jsonl", name)
        again = score(*words, "--resume")
        assert again.code == 0, again.said
        assert out.read_bytes() == expected
        assert judge.asked.total() - asked == 2 * sum(
            b'"requests"' in line for line in damaged.lost
        )
        damaged.check_kept(again)


@pytest.mark.slow
@pytest.mark.parametrize("name", DAMAGES)
def test_serve_goes_on_with_a_damaged_ledger(bench: Bench, name: str) -> None:
    assert bench.run("serve", "--keep_calls").ended.code == 0
    damaged = damage(unpack(bench.path / "run.run"), name)
    again = bench.run("serve", "--keep_calls", "--resume")
    assert again.ended.code == 0, again.ended.said
    assert len(again.result) >= bench.rows
    damaged.check_kept(again.ended)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["flipped", "cut"])
def test_parts_of_a_compressed_ledger_that_miss_their_checksum_are_lost_and_the_others_are_not(
    whole: Whole, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(recorded_calls, "_PART", 4096)
    bench, expected = whole("evaluate")
    run, made = copied(bench, "evaluate")
    ledger = unpack(run)
    calls = of_calls(split(ledger.read_bytes()))
    made.write_bytes(b"")
    recorded_calls.pack(run, keep=True)
    packed = run / "calls.jsonl.gz"
    data = bytearray(packed.read_bytes())
    if kind == "flipped":
        data[len(data) // 2] ^= 4
    else:
        del data[-len(data) // 10 :]
    packed.write_bytes(data)
    again = bench.run("evaluate", "--resume")
    assert again.ended.code == 0, again.ended.said
    assert results(bench, "evaluate", "run") == expected
    assert 0 < again.asked.total() < calls // 2
    assert (run / "calls.jsonl.gz.damaged").read_bytes() == data
    assert f"{packed}: 1 damaged part skipped (kept in calls.jsonl.gz.damaged); " in again.ended.err


@st.composite
def damages(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    """Something that befalls a file, at some place."""
    where, length = draw(st.floats(0, 1)), draw(st.integers(1, 2000))
    filling = draw(st.sampled_from([b"\0", b"\xff", None]))

    def befalls(data: bytes) -> bytes:
        start = int(where * max(len(data) - 1, 0))
        if filling is not None:
            return (
                data[:start] + filling * len(data[start : start + length]) + data[start + length :]
            )
        end = data.find(b"\n", start)  # a line without its end is glued to the next one
        return data if end < 0 else data[:start] + data[end + 1 :]

    return befalls


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["evaluate", "process"])
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(of_results=st.lists(damages(), max_size=2), of_ledger=st.lists(damages(), max_size=2))
def test_whatever_befalls_the_files_the_results_are_the_same(
    whole: Whole, verb: Verb, of_results: Sequence[Any], of_ledger: Sequence[Any]
) -> None:
    bench, expected = whole(verb)
    run, made = copied(bench, verb)
    made.write_bytes(b"".join(split(made.read_bytes())[:3]))
    ledger = unpack(run)
    lines = split(ledger.read_bytes())
    for path, each in ((made, of_results), (ledger, of_ledger)):
        data = path.read_bytes()
        for befalls in each:
            data = befalls(data)
        path.write_bytes(data)
    lost = [line for line in lines if line.rstrip() not in ledger.read_bytes()]
    again = bench.run(verb, "--resume")
    assert again.ended.code == 0, again.ended.said
    assert results(bench, verb, "run") == expected
    assert again.asked.total() <= of_calls(lost)


def judgegym(*words: object) -> Ended:
    return called(lambda: main([str(word) for word in words]), clean_environment())


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two scored data sets."""
    folder = tmp_path_factory.mktemp("scored")
    rows = [
        {"prompt": f"Question {n}", "response": f"Response {n}", "gold": n % 5 + 1}
        for n in range(9)
    ]
    data = write_lines(folder / "data.jsonl", rows)
    for name, more in (("a", 0), ("b", 1)):
        with serving(
            rated(lambda response, more=more: (int(response.split()[1]) + more) % 5 + 1)
        ) as judge:
            words = (
                data,
                "--out",
                folder / f"{name}.jsonl",
                f"--judge_base_url={judge.base_url}",
                "--gold_column=gold",
            )
            ended = score(*words)
            assert ended.code == 0, ended.said
    labels = [{"uid": f"row-{n + 1}", "labeller": "ada", "label": n % 2} for n in range(9)]
    write_lines(folder / "labels.jsonl", labels)
    return folder


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.parametrize(
    ("file", "words"),
    [
        pytest.param(
            "a.run/samples.jsonl", "report a.jsonl --output page.html", marks=pytest.mark.slow
        ),
        pytest.param(
            "a.run/calls.jsonl", "report a.jsonl --output page.html", marks=pytest.mark.slow
        ),
        ("a.run/samples.jsonl", "compare a.jsonl b.jsonl"),
        ("a.run/samples.jsonl", "replay a.jsonl b.jsonl --jury mean"),
        ("a.run/samples.jsonl", "audit a.jsonl"),
        ("labels.jsonl", "compare a.jsonl b.jsonl --labels labels.jsonl"),
    ],
)
def test_commands_that_read_skip_what_is_damaged_say_so_and_write_nothing(
    scored: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    file: str,
    words: str,
    name: str,
) -> None:
    if file == "labels.jsonl" and name == "other fields":
        pytest.skip("people write labels, too: an object that is none is a mistake of theirs")
    folder = tmp_path / "folder"
    shutil.copytree(scored, folder)
    monkeypatch.chdir(folder)
    if file.endswith("calls.jsonl"):
        ledger = folder / file
        ledger.write_bytes(gzip.decompress(ledger.with_suffix(".jsonl.gz").read_bytes()))
        ledger.with_suffix(".jsonl.gz").unlink()
    damage(folder / file, name)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    ended = judgegym(*words.split())
    assert ended.code in (0, 4), ended.said
    assert caplog.messages == [f"{file}: 1 damaged line skipped"]
    assert {path: path.read_bytes() for path in before} == before
    assert not [*folder.rglob("*.damaged")]


def test_commands_that_read_say_on_standard_error_what_is_damaged(
    scored: Path, tmp_path: Path
) -> None:
    shutil.copytree(scored, tmp_path, dirs_exist_ok=True)
    damage(tmp_path / "a.run" / "samples.jsonl", "no object")
    ended = as_process("compare", "a.jsonl", "b.jsonl", script=str(SCRIPT), cwd=tmp_path)
    assert (ended.code, ended.err) == (0, "a.run/samples.jsonl: 1 damaged line skipped\n")


def test_last_line_of_a_file_that_is_being_written_is_not_damaged(
    scored: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(scored, tmp_path, dirs_exist_ok=True)
    samples = tmp_path / "a.run" / "samples.jsonl"
    samples.write_bytes(samples.read_bytes() + b'{"uid":"row-')
    lock = DirectoryLock(samples.parent)
    assert judgegym("compare", tmp_path / "a.jsonl", tmp_path / "b.jsonl").code == 0
    assert caplog.messages == []
    lock.release()
    assert judgegym("compare", tmp_path / "a.jsonl", tmp_path / "b.jsonl").code == 0
    assert caplog.messages == [f"{samples}: 1 damaged line skipped"]


def test_file_of_which_no_line_can_be_read_is_another_kind_of_file(bench: Bench) -> None:
    assert bench.run("evaluate").ended.code == 0
    run = bench.path / "run"
    other = b'{"doc_id":1,"run":0}\n{"doc_id":2,"run":0}\n'
    (run / "samples.jsonl").write_bytes(other)
    again = bench.run("evaluate", "--resume")
    for code in (again.ended.code, judgegym("compare", run, run).code):
        assert code == 2
    refusal = rf"{re.escape(str(run / 'samples.jsonl'))}: none .*, line 1: uid: Field required"
    assert re.search(refusal, again.ended.err)
    assert (run / "samples.jsonl").read_bytes() == other and not [*run.glob("*.damaged")]


def test_each_damage_is_kept_under_a_name_of_its_own(bench: Bench) -> None:
    assert bench.run("evaluate").ended.code == 0
    samples = bench.path / "run" / "samples.jsonl"
    damaged = [damage(samples, "no object")]
    assert bench.run("evaluate", "--resume").ended.code == 0
    damaged.append(damage(samples, "torn tail"))
    assert bench.run("evaluate", "--resume").ended.code == 0
    kept = [samples.with_name(f"samples.jsonl.damaged{end}").read_bytes() for end in ("", "_2")]
    assert kept == [each.data for each in damaged]
