"""A peer evaluation that is taken up again: what is paid for is not bought twice, and what is finished is kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.command import write_lines
from tests.peers import REFUSED, Asked, Bench, Minds, Said, answer_of, bench
from tests.scripted import Json, Reply

RESUME = "--resume"


class Moody:
    """Models whose mind may be changed between two runs."""

    def __init__(self, **minds: Callable[[Asked], Said]) -> None:
        self.minds = Minds(**minds)

    def __call__(self, request: Json, number: int) -> str | Reply:
        return self.minds(request, number)


def forget(models: Bench) -> None:
    """Begin to count anew."""
    for endpoint in models.endpoints.values():
        endpoint.requests.clear()


@pytest.mark.slow
def test_a_candidate_that_failed_is_asked_again_with_its_query(tmp_path: Path) -> None:
    """The others' answers are paid for: only what is missing is asked."""
    mind = Moody(
        answer=lambda it: REFUSED if it.model == "bob" else answer_of(it.model, it.query),
        judgment=lambda it: REFUSED,
    )
    with bench(tmp_path, mind) as models:
        assert models.evaluate().code == 1
        forget(models)
        mind.minds = Minds()
        again = models.evaluate(RESUME)
    assert again.code == 0, again.said
    assert [it.model for it in models.asked() if it.kind == "answer"] == ["bob"]
    assert models.counts() == {"answer": 1, "judgment": 6, "critique": 6}


@pytest.mark.slow
def test_answers_of_a_candidates_file_that_changed_are_judged_and_no_others(tmp_path: Path) -> None:
    with bench(tmp_path) as models:
        path = tmp_path / "dan.jsonl"
        candidates = json.dumps(
            [models.model("ann"), models.model("bob"), {"name": "dan", "answers": str(path)}]
        )
        write_lines(path, [{"uid": "q0", "answer": answer_of("dan", "Question 0?")}])
        assert models.evaluate("--env.critique_rounds=0", candidates=candidates).code == 0
        forget(models)
        write_lines(path, [{"uid": "q0", "answer": answer_of("dan", "another question")}])
        again = models.evaluate("--env.critique_rounds=0", RESUME, candidates=candidates)
    assert again.code == 0, again.said
    assert models.counts() == {"judgment": 2}, (
        "ann and bob judge dan again; what they said of each other is paid for"
    )
    assert answer_of("dan", "another question") in {it.response for it in models.asked()}


@pytest.mark.slow
def test_how_a_model_is_called_may_change(tmp_path: Path) -> None:
    """As for policy and judge: a limit, a price or where a server stands shape no result."""
    with bench(tmp_path, Minds(judgment=lambda it: REFUSED)) as models:
        assert models.evaluate().code == 1
    with bench(tmp_path) as models:  # on other ports
        named = [
            models.model(name, max_concurrency=2, price_input=1.0) for name in models.endpoints
        ]
        again = models.evaluate(RESUME, candidates=json.dumps(named))
    assert again.code == 0, again.said
