"""A run whose files are damaged, repaired and resumed: the results are those of the undisturbed run.

Damage is what crashes and disks leave: blocks of zeros or of other bytes, a line that is torn in mid-file and glued to
the next one, a compressed file that is cut. A byte that turns one readable text into another one cannot be known.
"""

from __future__ import annotations

import gzip
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from judgegym.cli.repair import main
from judgegym.engine.runs.directory import DirectoryLock, run_directory_of
from judgegym.engine.runs.disk import write_atomic
from judgegym.engine.runs.recorded_calls import pack, read_calls
from judgegym.engine.runs.repair import CALL_BEGINS, DroppedLines, LedgerCheck, readable_lines, unpacked_lines
from tests.command import Ended, called, clean_environment, serving, write_lines
from tests.conformance.subjects import Subject, Verb
from tests.core.datasets.scoring import rated, score
from tests.faults.bench import Bench, Loop

QUICK = settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
ZEROS, ONES = b"\0", b"\xff"


def repaired(run: Path) -> Ended:
    return called(lambda: main([str(run)], prog="judgegym repair"), clean_environment())


@st.composite
def damages(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    """Something that befalls a file of lines, at some place."""
    where, length = draw(st.floats(0, 1)), draw(st.integers(1, 2000))
    filling = draw(st.sampled_from([ZEROS, ONES, None]))

    def damaged(data: bytes) -> bytes:
        start = int(where * max(len(data) - 1, 0))
        if filling is not None:
            return data[:start] + filling * len(data[start : start + length]) + data[start + length :]
        end = data.find(b"\n", start)  # a line without its end is glued to the next one
        return data if end < 0 else data[:start] + data[end + 1 :]

    return damaged


def damage(path: Path, *each: Callable[[bytes], bytes]) -> int:
    """Damage a file; return how many of its recorded calls are no longer whole lines, each with a newline after it."""
    whole = path.read_bytes()
    data = whole
    for befalls in each:
        data = befalls(data)
    path.write_bytes(data)
    ended = data[: data.rfind(b"\n") + 1]
    return sum(line.startswith(b'{"call"') and line not in ended for line in whole.splitlines())


def interrupted(run: Path, finished: int) -> Path:
    """Make of a whole run one that was stopped after some rows; return its ledger."""
    samples = run / "samples.jsonl"
    if samples.exists():
        samples.write_bytes(b"".join(samples.read_bytes().splitlines(keepends=True)[:finished]))
    (run / "metrics.json").unlink(missing_ok=True)
    ledger = run / "calls.jsonl"
    ledger.write_bytes(gzip.decompress((run / "calls.jsonl.gz").read_bytes()))
    (run / "calls.jsonl.gz").unlink()
    return ledger


@pytest.fixture(scope="module")
def wholes(
    tmp_path_factory: pytest.TempPathFactory, loop: Loop
) -> Iterator[Callable[[Subject, Verb], tuple[Bench, bytes]]]:
    """An undisturbed run of each verb, and what it made."""
    made: dict[Verb, tuple[Bench, bytes]] = {}

    def whole(subject: Subject, verb: Verb) -> tuple[Bench, bytes]:
        if verb not in made:
            bench = Bench(subject, 6, tmp_path_factory.mktemp(verb), loop)
            assert bench.run(verb, run="whole").ended.code == 0
            made[verb] = bench, b"".join(line for line in results(bench, verb, "whole"))
        return made[verb]

    yield whole


def results(bench: Bench, verb: Verb, run: str) -> list[bytes]:
    """What a run has made, without timings."""
    if verb == "process":
        return (bench.path / f"{run}.jsonl").read_bytes().splitlines()
    lines = (bench.path / run / "samples.jsonl").read_bytes().splitlines()
    return [line.partition(b',"run":')[0] for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["evaluate", "process"])
@QUICK
@given(of_results=st.lists(damages(), max_size=2), of_ledger=st.lists(damages(), max_size=2))
def test_repaired_run_resumes_to_the_undisturbed_results_and_asks_for_what_is_lost_alone(
    subject: Subject,
    wholes: Callable[[Subject, Verb], tuple[Bench, bytes]],
    verb: Verb,
    of_results: list[Callable[[bytes], bytes]],
    of_ledger: list[Callable[[bytes], bytes]],
) -> None:
    bench, expected = wholes(subject, verb)
    run = bench.path / ("run" if verb == "evaluate" else "run.run")
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(bench.path / run.name.replace("run", "whole", 1), run)
    made = run / "samples.jsonl" if verb == "evaluate" else bench.path / "run.jsonl"
    config = run / "config.yaml"
    config.write_text(config.read_text().replace("whole", "run"))
    if verb == "process":
        shutil.copy(bench.path / "whole.jsonl", made)
    ledger = interrupted(run, finished=3)
    damage(made, *of_results)
    lost = damage(ledger, *of_ledger)
    ended = repaired(run if verb == "evaluate" else made)
    assert ended.code == 0, ended.said
    again = bench.run(verb, "--resume")
    assert again.ended.code == 0, again.ended.said
    assert b"".join(results(bench, verb, "run")) == expected
    assert again.asked.total() <= lost


@pytest.mark.slow
@QUICK
@given(of_results=damages(), of_ledger=damages(), compressed=st.booleans())
def test_scored_data_set_is_repaired_and_resumed(
    tmp_path_factory: pytest.TempPathFactory,
    of_results: Callable[[bytes], bytes],
    of_ledger: Callable[[bytes], bytes],
    compressed: bool,
) -> None:
    folder = tmp_path_factory.mktemp("score")
    rows = [{"prompt": f"Question {n}", "response": f"Response {n}"} for n in range(20)]
    data, out = write_lines(folder / "data.jsonl", rows), folder / "scored.jsonl"
    run = run_directory_of(out)
    with serving(rated(lambda response: int(response.split()[1]) % 5 + 1)) as judge:
        words = (data, "--out", out, f"--judge_base_url={judge.base_url}")
        assert score(*words).code == 0
        expected, asked = out.read_bytes(), len(judge.requests)
        out.unlink()
        ledger = interrupted(run, finished=12)
        damage(run / "samples.jsonl", of_results)
        lost = damage(ledger, of_ledger)
        if compressed:
            pack(run, keep=True)
        ended = repaired(out.with_suffix(".run"))
        assert ended.code == 0, ended.said
        again = score(*words, "--resume")
        assert again.code == 0, again.said
        assert out.read_bytes() == expected
        assert len(judge.requests) - asked <= lost


@settings(max_examples=60, deadline=None)
@example(parts=[lambda data: data[:10] + b"\0" * 5 + data[15:]])  # a whole line, zeros, and the end of another line
@given(parts=st.lists(damages(), min_size=1, max_size=3))
def test_every_line_that_is_whole_is_kept_and_nothing_else(parts: list[Callable[[bytes], bytes]]) -> None:
    lines = [b'{"sent":%d}\n{"failed":%d}\n' % (n, n) for n in range(1, 60)]
    data = b"".join(lines)
    whole = data.splitlines(keepends=True)
    for befalls in parts:
        data = befalls(data)
    kept = list(readable_lines(data.splitlines(keepends=True), CALL_BEGINS, LedgerCheck().check, DroppedLines()))
    ended = data[: data.rfind(b"\n") + 1]
    intact = [line for line in whole if line.rstrip() in ended]
    assert [line for line in kept if line not in whole] == []
    assert [line for line in intact if line not in kept] == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["flipped", "cut"])
def test_part_of_a_compressed_ledger_that_misses_its_checksum_is_dropped_and_the_others_are_kept(
    tmp_path: Path, kind: str
) -> None:
    lines = [b'{"sent":%d}\n' % n for n in range(1, 160_001)]
    write_atomic(tmp_path / "calls.jsonl", b"".join(lines))
    pack(tmp_path, keep=True)
    packed = tmp_path / "calls.jsonl.gz"
    data = bytearray(packed.read_bytes())
    if kind == "flipped":
        data[len(data) // 2] ^= 4
    else:
        del data[-len(data) // 10 :]
    packed.write_bytes(data)
    dropped = DroppedLines()
    kept = list(readable_lines(unpacked_lines(packed, dropped), CALL_BEGINS, LedgerCheck().check, dropped))
    known = set(lines)
    assert set(kept) <= known
    assert len(lines) // 2 < len(kept) < len(lines)
    assert dropped.places[0].startswith("bytes ")
    if kind == "flipped":
        assert kept[0] == lines[0] and kept[-1] == lines[-1]


def test_texts_that_a_lost_line_held_are_lost_with_it_and_the_answers_are_not(bench: Bench) -> None:
    assert bench.run("evaluate").ended.code == 0
    run = bench.path / "run"
    answers = [call.answer for call in read_calls(run)]
    ledger = interrupted(run, finished=6)
    lines = ledger.read_bytes().splitlines(keepends=True)
    names = [re.findall(rb'"text":"(\w+)"', line) for line in lines]
    first = next(n for n, found in enumerate(names) if any(name in later for name in found for later in names[n + 1 :]))
    ledger.write_bytes(b"".join([*lines[:first], b"\0" * 900 + b"\n", *lines[first + 1 :]]))
    ended = repaired(run)
    assert "line " in ended.out and "Calls that no longer say what was asked" in ended.out, ended.said
    calls = list(read_calls(run))
    assert len(calls) == len(answers) - 1 and all(call.answer in answers for call in calls)
    assert any(call.messages is None for call in calls)


def test_errors_of_a_resume_name_the_command_that_names_the_resume(bench: Bench) -> None:
    assert bench.run("evaluate").ended.code == 0
    run = bench.path / "run"
    samples = run / "samples.jsonl"
    whole = samples.read_bytes()
    samples.write_bytes(whole.replace(b"\n", b"", 1))
    again = bench.run("evaluate", "--resume")
    assert again.ended.code == 2
    assert f"judgegym repair {run}" in again.ended.err
    held = DirectoryLock(run)
    busy = repaired(run)
    assert (busy.code, samples.read_bytes().count(b"\n")) == (2, 5)
    assert "in use by another process" in busy.err
    held.release()
    ended = repaired(run)
    assert ended.code == 0, ended.said
    assert "line 1 (" in ended.out and "2 whole in it are kept" in ended.out
    assert f"judgegym evaluate rubric_absolute --config={run}/config.yaml" in ended.out
    assert (run / "samples.jsonl.before_repair").read_bytes() == whole.replace(b"\n", b"", 1)
    assert not (run / "metrics.json").exists() and (run / "metrics.json.before_repair").exists()
    assert samples.read_bytes() == whole
    assert repaired(run).out == f"{run}: nothing to repair, every line can be read\n"
    nothing = repaired(bench.path)
    assert nothing.code == 2 and "is no run" in nothing.err
