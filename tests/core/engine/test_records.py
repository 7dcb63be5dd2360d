import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import pytest
from hypothesis import example, given

from judgegym.engine.completions import Completion
from judgegym.engine.records import Sample, SampleReader, SampleRun, digest
from judgegym.judges.arena import ArenaDetail
from judgegym.judges.core.judgment import CallRun, JudgeCall, Judgment, Status
from judgegym.llm.usage import Usage
from tests.core.engine.samples_of import SAMPLES, sample

READER = SampleReader(ArenaDetail)


def read_back(line: bytes) -> Sample[ArenaDetail]:
    return READER.read(line)


@pytest.mark.slow
@given(made=SAMPLES)
@example(made=sample())
@example(made=sample(status="policy_failed"))
@example(made=sample(status="invalid_completion"))
@example(made=sample(uid='\u2028\u0085\x00\\"', question="</think>\r\n[[A>B]]"))
def test_a_line_read_and_written_again_is_the_same_byte_for_byte(made: Sample[ArenaDetail]) -> None:
    line = made.to_line()
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1, "one line, whatever the texts contain"
    again = read_back(line)
    assert again.to_line() == line
    assert (again.uid, again.category, again.question) == (made.uid, made.category, made.question)
    assert (again.completions, again.score, again.run) == (made.completions, made.score, made.run)
    assert (again.headline, again.texts, again.orders) == (made.headline, made.texts, made.orders)
    assert (again.status, again.finished, again.error or None) == (
        made.status,
        made.finished,
        made.error or None,
    )
    if made.judgment is not None and again.judgment is not None:
        assert again.judgment.score == made.judgment.score
        assert again.judgment.label == made.judgment.label
        assert again.judgment.detail == made.judgment.detail


def test_a_line_of_before_cached_tokens_were_counted_is_read() -> None:
    made = sample(run=SampleRun(1.0, (CallRun(2.0, 1, False, Usage(10, 5, 0.25)),)))
    line = made.to_line()
    former = line.replace(b',"cached_prompt_tokens":0', b"")
    assert former != line and read_back(former).run == made.run


def test_several_conversations_stand_in_a_list() -> None:
    both = sample(completions=(Completion("one"), Completion("two", thinking_fault="no_open_tag")))
    line = json.loads(both.to_line())
    assert "model_answer" not in line
    assert [each["model_answer"] for each in line["completions"]] == ["one", "two"]
    assert [each["thinking_valid"] for each in line["completions"]] == [True, False]


def test_the_calls_of_a_judgment_are_not_repeated() -> None:
    call = JudgeCall("game_1", "text", None, "A>B", None, CallRun())
    made = sample()
    assert made.judgment is not None
    with_calls = Judgment(1.0, Status.OK, "win", "because", (call,), made.judgment.detail)
    assert sample(judgment=with_calls).to_line() == made.to_line()


@dataclass(frozen=True)
class Other:
    verdict: int


@dataclass(frozen=True)
class Namesakes:
    """A detail with fields of the names that all samples have."""

    score: str
    status: int
    label: float
    uid: bool


def test_a_detail_with_fields_of_the_samples_own_names_overwrites_nothing() -> None:
    detail = Namesakes("three", 7, 0.5, True)
    made = Sample(
        "a", None, "q", (), Judgment(1.0, Status.OK, "win", detail=detail), 1.0, SampleRun(0.0)
    )
    again = SampleReader(Namesakes).read(made.to_line())
    assert (again.uid, again.score, again.status) == ("a", 1.0, "ok")
    assert again.judgment is not None
    assert (again.judgment.label, again.judgment.detail) == ("win", detail)


@dataclass(frozen=True)
class Levels:
    levels: Mapping[int, str]


def test_digest_tells_values_apart_whatever_the_order_of_their_keys() -> None:
    assert digest(Levels({1: "bad", 2: "good"})) == digest(
        Levels(MappingProxyType({2: "good", 1: "bad"}))
    )
    assert (
        len(
            {
                digest(),
                digest(None),
                digest("a"),
                digest("a", None),
                digest(["a"]),
                digest(Other(1)),
            }
        )
        == 6
    )
    assert digest("a", Other(1)) == "a14302c0894944bf"


@pytest.mark.parametrize(
    "missing",
    [
        "uid",
        "status",
        "score",
        "question",
        "category",
        "run",
        "label",
        "thinking",
        "task_digest",
        "detail",
    ],
)
def test_a_line_that_lacks_something_is_refused(missing: str) -> None:
    line = json.loads(sample().to_line())
    del line[missing]
    with pytest.raises(ValueError, match=missing):
        READER.read(json.dumps(line).encode())


@pytest.mark.parametrize(
    "change",
    [
        {"status": "fine"},
        {"score": None},
        {"run": 3},
        {"run": {"seconds": "long"}},
        {"detail": {"games": [], "entries": []}},
        {"detail": "all"},
        {"thinking_fault": "odd"},
        {"uid": ["a"]},
        {"uid": None},
        {"score": "NaN"},
        {"score": math.nan},
        {"score": math.inf},
        {"score": "0.5"},
        {"score": True},
        {"category": 3},
        {"question": None},
        {"error": 5},
        {"label": ["win"]},
        {"run": {"seconds": "1.5"}},
        {"model_answer": 5},
        {"short_response": "yes"},
        {"task_digest": None},
    ],
)
def test_a_line_of_something_else_is_refused(change: dict[str, object]) -> None:
    line = json.loads(sample().to_line())
    with pytest.raises(ValueError, match=r".+"):
        READER.read(json.dumps({**line, **change}).encode())


def test_message_about_a_line_names_the_fields() -> None:
    line = {**json.loads(sample().to_line()), "uid": ["a"], "score": "NaN"}
    with pytest.raises(ValueError, match=r"^uid: Input should be a valid string; score: .*number$"):
        READER.read(json.dumps(line).encode())


def test_another_environments_lines_are_refused() -> None:
    """Their detail has other fields; taking them up would lose these."""
    line = Sample(
        "a", None, "q", (), Judgment(1.0, Status.OK, "win", detail=Other(1)), 1.0, SampleRun(0.0)
    ).to_line()
    with pytest.raises(ValueError, match=r".+"):
        READER.read(line)
