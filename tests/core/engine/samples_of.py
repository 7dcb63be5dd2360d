"""Samples of Arena-Hard: strategies for hypothesis, and a plain builder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from judgegym.engine.completions import Completion
from judgegym.engine.metrics import HeadlineTerm
from judgegym.engine.records import Sample, SampleRun
from judgegym.judges.arena import ArenaDetail, Game
from judgegym.judges.core.judgment import CallRun, Judgment, Status
from judgegym.judges.parsing.labels import ARENA_LABELS
from judgegym.llm.usage import Usage

FAULTS = ("no_open_tag", "no_close_tag", "several_open_tags", "several_close_tags", "close_before_open",
          "empty_answer")  # fmt: skip

# Everything that UTF-8 can say; lone surrogates never come this far.
TEXTS = st.text(st.characters(codec="utf-8"))
OPTIONAL = st.none() | TEXTS
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
COUNTS = st.integers(min_value=0, max_value=2**53)

RUNS = st.builds(
    CallRun, latency_s=NUMBERS, attempts=COUNTS, cached=st.booleans(), usage=st.builds(Usage, COUNTS, COUNTS, NUMBERS)
)
COMPLETIONS = st.builds(
    Completion,
    answer=TEXTS,
    thinking=TEXTS,
    thinking_fault=st.none() | st.sampled_from(FAULTS),
    finish_reason=OPTIONAL,
    short=st.booleans(),
    follow_up=TEXTS,
)
GAMES = st.builds(
    Game,
    order=st.sampled_from(["model_is_a", "model_is_b"]),
    label=st.none() | st.sampled_from(ARENA_LABELS),
    text=TEXTS,
    earlier_texts=st.lists(TEXTS, max_size=2).map(tuple),
    reasoning=OPTIONAL,
    error=OPTIONAL,
)
DETAILS = st.builds(
    ArenaDetail,
    games=st.tuples(GAMES, GAMES),
    entries=st.lists(st.sampled_from([0.0, 0.5, 1.0]), max_size=6).map(tuple),
)
JUDGMENTS = st.one_of(
    st.builds(
        Judgment,
        score=NUMBERS,
        status=st.just(Status.OK),
        label=st.sampled_from(["win", "tie", "loss"]),
        detail=DETAILS,
    ),
    st.builds(
        Judgment,
        score=st.none(),
        status=st.sampled_from([Status.JUDGE_FAILED, Status.UNPARSABLE]),
        label=st.none(),
        explanation=TEXTS,
        detail=DETAILS,
    ),
    st.builds(Judgment, score=st.none(), status=st.just(Status.INVALID_COMPLETION), explanation=TEXTS),
)
SAMPLE_RUNS = st.builds(
    SampleRun,
    seconds=NUMBERS,
    policy_calls=st.lists(RUNS, max_size=2).map(tuple),
    judge_calls=st.none() | st.dictionaries(TEXTS, RUNS, max_size=3),
    user_calls=st.lists(RUNS, max_size=2).map(tuple),
)
JUDGED = st.builds(
    Sample,
    uid=TEXTS,
    category=OPTIONAL,
    question=TEXTS,
    completions=st.lists(COMPLETIONS, max_size=3).map(tuple),
    judgment=JUDGMENTS,
    score=st.none(),
    run=SAMPLE_RUNS,
    task_digest=TEXTS,
    headline=st.none() | st.builds(HeadlineTerm, NUMBERS, NUMBERS),
    texts=st.dictionaries(TEXTS, TEXTS, max_size=2),
    orders=st.dictionaries(TEXTS, st.floats(0, 1), max_size=2),
).map(lambda sample: replace(sample, score=score_of(sample.judgment)))
POLICY_FAILED = st.builds(
    Sample,
    uid=TEXTS,
    category=OPTIONAL,
    question=TEXTS,
    completions=st.just(()),
    judgment=st.none(),
    score=st.none(),
    run=SAMPLE_RUNS,
    task_digest=TEXTS,
    policy_error=TEXTS,
)
USER_FAILED = POLICY_FAILED.map(lambda sample: replace(sample, policy_error=None, user_error=sample.policy_error))
SAMPLES = JUDGED | POLICY_FAILED | USER_FAILED


def score_of(judgment: Judgment[ArenaDetail]) -> float | None:
    """What an evaluation makes of a judgment."""
    return -1.0 if judgment.status is Status.INVALID_COMPLETION else judgment.score


def sample(uid: str = "row-0", status: str = "ok", **fields: Any) -> Sample[ArenaDetail]:
    """A sample with this status, `policy_failed` among them."""
    completions = () if status == "policy_failed" else (Completion(f"answer to {uid}"),)
    judgment: Judgment[ArenaDetail] | None = None
    if status == "ok":
        games = (Game("model_is_a", "A>B", "[[A>B]]"), Game("model_is_b", "B>A", "[[B>A]]"))
        judgment = Judgment(1.0, Status.OK, "win", detail=ArenaDetail(games, (1.0, 1.0)))
    elif status == "invalid_completion":
        judgment = Judgment(None, Status.INVALID_COMPLETION, explanation=f"{uid} failed")
    elif status != "policy_failed":
        no_verdict = (Game("model_is_a", "A>B", "[[A>B]]"), Game("model_is_b", None, "", error="no verdict"))
        judgment = Judgment(None, Status(status), explanation=f"{uid} failed", detail=ArenaDetail(no_verdict))
    score = None if judgment is None else score_of(judgment)
    error = f"{uid}: no answer" if judgment is None else None
    values: dict[str, Any] = {"category": "math", "question": f"Question of {uid}", "completions": completions}
    values |= {"judgment": judgment, "score": score, "run": SampleRun(0.1), "policy_error": error}
    return Sample(uid, **(values | fields))
