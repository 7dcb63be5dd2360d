"""Candidates that give the answers of a run: of one policy's, or of a comparison."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.arena import Arena
from tests.core.reports.run_page.written import Written
from tests.peers import Asked, Bench, Minds, answer_of, bench, queries
from tests.scripted import Reply

DOWN = Reply(status=400, body={"error": {"message": "out of order"}})
ROWS = queries(3)


def first(models: Bench, **how: Any) -> None:
    models.evaluate("--env.max_judge_error_rate=1", rows=ROWS, **how)
    for endpoint in models.endpoints.values():
        endpoint.requests.clear()


def candidates(models: Bench, *more: dict[str, Any], of: str = "run") -> str:
    """The candidates of before, with their answers."""
    path = str(models.path / of)
    return json.dumps([*({"name": name, "answers": path} for name in models.endpoints), *more])


def answers(models: Bench, run: str) -> list[list[Any]]:
    lines = (models.path / run / "samples.jsonl").read_text().splitlines()
    return [json.loads(line)["detail"]["answers"] for line in lines]


def no_answer(it: Asked) -> str | Reply:
    """One of them fails at a query, and says nothing to another."""
    if it.model.startswith("a"):
        return DOWN if "1" in it.query else "" if "2" in it.query else answer_of(it.model, it.query)
    return answer_of(it.model, it.query)


@pytest.mark.slow
def test_answers_and_failures_of_a_comparison_stay(tmp_path: Path) -> None:
    with bench(tmp_path, Minds(answer=no_answer), names=("alpha", "bravo", "carol")) as models:
        first(models)
        before = answers(models, "run")
        assert [row[0]["answer"] is None for row in before] == [False, True, True]
        flags = "--env.max_judge_error_rate=1", f"--env.judges={models.models()}"
        again = models.evaluate(*flags, rows=ROWS, candidates=candidates(models), run="again")
        assert again.code == 0, again.said
        assert {each.kind for each in models.asked()} == {"judgment", "critique"}
        assert answers(models, "again") == before


@pytest.mark.slow
def test_candidate_of_a_run_and_one_with_an_endpoint(tmp_path: Path) -> None:
    """A new model joins a comparison: it alone answers."""
    with bench(tmp_path, names=("alpha", "bravo", "newcomer")) as models:
        first(models, candidates=models.models("alpha", "bravo"))
        old = [{"name": name, "answers": str(tmp_path / "run")} for name in ("alpha", "bravo")]
        flags = f"--env.judges={models.models()}", "--env.write_report=True"
        again = models.evaluate(
            *flags, rows=ROWS, candidates=json.dumps([*old, models.model("newcomer")]), run="again"
        )
        assert again.code == 0, again.said
        assert [each.model for each in models.asked() if each.kind == "answer"] == ["newcomer"] * 3
        assert set(again.files.report["config_general"]["answers_of"]) == {"alpha", "bravo"}
        head = Written.read(again.files.path / "report.html").head
        assert f"alpha: {tmp_path / 'run'}, judged by alpha, bravo, " in head


def test_candidate_that_the_run_does_not_have(tmp_path: Path) -> None:
    with bench(tmp_path, names=("alpha", "bravo")) as models:
        first(models)
        other = {"name": "charlie", "answers": str(tmp_path / "run")}
        again = models.evaluate(
            f"--env.judges={models.models()}",
            rows=ROWS,
            candidates=candidates(models, other),
            run="again",
        )
        assert again.code == 2
        assert re.search("no candidate 'charlie'; .*'alpha', 'bravo'", again.said)
        assert models.asked() == []


@pytest.mark.slow
def test_candidate_with_the_answers_of_one_policys_run(tmp_path: Path) -> None:
    arena = Arena(tmp_path).rows(3)
    before = arena.evaluate(run="arena")
    said = [sample["model_answer"] for sample in before.files.samples]
    before.files.interrupt("row-0", "row-2")
    rows = [
        {"uid": f"row-{number}", "query": f"Question of row-{number}: why?"} for number in range(3)
    ]
    with bench(tmp_path, names=("alpha", "bravo")) as models:
        candidate = {"name": "policy of then", "answers": str(tmp_path / "arena")}
        run = models.evaluate(
            f"--env.judges={models.models()}",
            rows=rows,
            candidates=json.dumps([candidate, models.model("alpha")]),
        )
        assert run.code == 0, run.said
        assert [row[0] for row in answers(models, "run")] == [
            {"candidate": "policy of then", "answer": text, "error": None} for text in said
        ]
