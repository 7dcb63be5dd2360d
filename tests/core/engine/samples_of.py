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

# Everything that UTF-8 can say; lone surrogates never come this far.
TEXTS = st.text(st.characters(codec="utf-8"))
OPTIONAL = st.none() | TEXTS
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
COUNTS = st.integers(min_value=0, max_value=2**53)
RUNS = st.builds(CallRun, NUMBERS, COUNTS, st.booleans(), st.builds(Usage, COUNTS, COUNTS, NUMBERS))
SAMPLE_RUNS = st.builds(
    SampleRun,
    NUMBERS,
    st.tuples(RUNS, RUNS),
    st.none() | st.dictionaries(TEXTS, RUNS, max_size=3),
    st.tuples(RUNS),
)
COMPLETIONS = st.builds(
    Completion,
    TEXTS,
    TEXTS,
    st.sampled_from([None, "no_open_tag", "empty_answer"]),
    OPTIONAL,
    st.booleans(),
)
GAMES = st.builds(
    Game,
    st.just("model_is_a"),
    st.sampled_from([None, *ARENA_LABELS]),
    TEXTS,
    st.tuples(TEXTS),
    OPTIONAL,
    OPTIONAL,
)


def judgment_of(
    status: Status, score: float, explanation: str, games: tuple[Game, ...]
) -> Judgment[ArenaDetail]:
    if status is Status.OK:
        return Judgment(score, status, "win", detail=ArenaDetail(games, (1.0, 0.5)))
    return Judgment(None, status, explanation=explanation, detail=ArenaDetail(games))


STATUSES = st.sampled_from(
    [Status.OK, Status.JUDGE_FAILED, Status.UNPARSABLE, Status.INVALID_COMPLETION]
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "category": OPTIONAL,
    "question": TEXTS,
    "run": SAMPLE_RUNS,
    "task_digest": TEXTS,
    "headline": st.none() | st.builds(HeadlineTerm, NUMBERS, NUMBERS),
    "texts": st.dictionaries(TEXTS, TEXTS, max_size=2),
    "orders": st.dictionaries(TEXTS, st.floats(0, 1), max_size=2),
}
JUDGED = st.builds(
    Sample,
    uid=TEXTS,
    completions=st.lists(COMPLETIONS, max_size=3).map(tuple),
    judgment=st.builds(judgment_of, STATUSES, NUMBERS, TEXTS, st.tuples(GAMES, GAMES)),
    score=st.none(),
    **FIELDS,
).map(lambda sample: replace(sample, score=score_of(sample.judgment)))
FAILED = st.builds(
    Sample,
    uid=TEXTS,
    completions=st.just(()),
    judgment=st.none(),
    score=st.none(),
    policy_error=OPTIONAL,
    user_error=TEXTS,
    **FIELDS,
)
SAMPLES = JUDGED | FAILED


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
        no_verdict = (
            Game("model_is_a", "A>B", "[[A>B]]"),
            Game("model_is_b", None, "", error="no verdict"),
        )
        judgment = Judgment(
            None, Status(status), explanation=f"{uid} failed", detail=ArenaDetail(no_verdict)
        )
    score = None if judgment is None else score_of(judgment)
    error = f"{uid}: no answer" if judgment is None else None
    values: dict[str, Any] = {
        "category": "math",
        "question": f"Question of {uid}",
        "completions": completions,
    }
    values |= {"judgment": judgment, "score": score, "run": SampleRun(0.1), "policy_error": error}
    return Sample(uid, **(values | fields))
