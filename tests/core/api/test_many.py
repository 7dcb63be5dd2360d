"""Many rows from Python: what comes back of a run that cannot end, what a rerun pays, and the columns of the table."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from judgegym import AspectJudge, ChecklistJudge, PeerJudge, RubricJudge
from judgegym.llm.errors import EndpointOutage
from tests.aspects import saying
from tests.checklists import saying as checking
from tests.command import PATIENCE_S, ROOT, clean_environment, serving
from tests.scripted import Json, Reply, ScriptedEndpoint

VERDICT = "[FEEDBACK] fine [SCORE] 4"
REFUSED = Reply(status=401, body={"error": {"message": "the key is no longer valid"}})
ROWS = [
    {"question": f"What is {number} + 1?", "answer": f"It is {number + 1}.", "id": f"r{number}"}
    for number in range(30)
]
SETTINGS: dict[str, Any] = {"judge_max_concurrency": 1, "endpoint_rejected_deadline": 0.2}


def refusing_after(answered: int) -> Any:
    """A judge whose endpoint refuses the account after so many answers."""
    return lambda request, number: VERDICT if number <= answered else REFUSED


def test_an_endpoint_that_fails_for_good_raises_with_what_was_judged(tmp_path: Path) -> None:
    cache = tmp_path / "cache.sqlite"
    with serving(refusing_after(12)) as endpoint, pytest.raises(EndpointOutage) as error:
        judge = RubricJudge("?", judge_base_url=endpoint.base_url, judge_cache=cache, **SETTINGS)
        with judge:
            judge.many_sync(ROWS, progress=False)
    table = error.value.table
    assert isinstance(table, type(judge.last_table))
    scores = [score for score in table.scores if score is not None]
    assert (len(table), scores) == (30, [4.0] * 12)
    assert {table[place].status.value for place in table.failures} == {"judge_failed"}
    said = str(error.value)
    assert "the key is no longer valid" in said
    assert "12 of 30 rows are judged" in said
    assert "--" not in said  # of Python's arguments
    frame = table.to_pandas()
    assert list(frame["id"]) == [row["id"] for row in ROWS]
    with serving(VERDICT) as endpoint:
        judge = RubricJudge("?", judge_base_url=endpoint.base_url, judge_cache=cache, **SETTINGS)
        with judge:
            rest = judge.many_sync([ROWS[place] for place in table.failures], progress=False)
        assert (rest.scores, len(endpoint.requests)) == ([4.0] * 18, 18)


async def test_a_call_that_is_cancelled_leaves_what_was_judged() -> None:
    async def script(request: Json, number: int) -> str:
        if number > 5:
            await asyncio.Event().wait()
        return VERDICT

    async with ScriptedEndpoint(script) as endpoint:
        with RubricJudge("?", judge_base_url=endpoint.base_url, **SETTINGS) as judge:
            asked = asyncio.ensure_future(judge.many(ROWS, progress=False))
            await endpoint.arrived(6)
            asked.cancel()
            await asyncio.wait([asked])
            table = judge.last_table
    assert table is not None
    assert [score for score in table.scores if score is not None] == [4.0] * 5
    assert sum(judgment.explanation.startswith("not judged") for judgment in table) == len(ROWS) - 5


INTERRUPTED = """
import sys
from judgegym import RubricJudge
rows = [{"question": "Q", "answer": str(number)} for number in range(20)]
judge = RubricJudge("?", judge_base_url=sys.argv[1], judge_max_concurrency=1)
try:
    judge.many_sync(rows, progress=False)
except KeyboardInterrupt as error:
    print(sum(score is not None for score in error.table.scores), len(judge.last_table))
"""


@pytest.mark.slow
def test_ctrl_c_leaves_what_was_judged() -> None:
    async def script(request: Json, number: int) -> str:
        if number == 4:
            process.send_signal(signal.SIGINT)
            await asyncio.Event().wait()
        return VERDICT

    with serving(script) as endpoint:
        process = subprocess.Popen(
            [sys.executable, "-c", INTERRUPTED, endpoint.base_url],
            cwd=ROOT,
            env=clean_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        out, err = process.communicate(timeout=PATIENCE_S)
    assert out.split() == ["3", "20"], err
    assert "interrupted: 3 of 20 rows are judged" in err


def test_columns_that_are_not_read_come_back_and_are_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with serving('{"reasoning": "fine", "score": 80}') as endpoint:
        prices = {"judge_price_input": 1e6, "judge_price_output": 0}
        judge = PeerJudge(judge_base_url=endpoint.base_url, **prices)
        with judge:
            table = judge.many_sync([{**row, "source": "sums"} for row in ROWS[:2]], progress=False)
    first, _ = table.records()
    assert {name: first[name] for name in ("question", "answer", "id", "source")} == {
        **ROWS[0],
        "source": "sums",
    }
    assert (first["cost"], first["prompt_tokens"], first["completion_tokens"]) == (10.0, 10, 5)
    assert "these columns; " in caplog.text and "keeps them: id, source" in caplog.text
    assert list(table.to_pandas()["question"]) == [row["question"] for row in ROWS[:2]]


def test_verdicts_by_aspect_are_columns_where_one_vote_failed_too() -> None:
    def says(aspect: str, submission: str) -> bool | str:
        return (
            "I cannot say."
            if (aspect, submission) == ("harmfulness", "It is 1.")
            else aspect == "correctness"
        )

    with serving(saying(says)) as endpoint:
        judge = AspectJudge(
            aspects=["correctness", "harmfulness"], judge_base_url=endpoint.base_url
        )
        with judge:
            frame = judge.many_sync(ROWS[:2], progress=False).to_pandas()
    assert list(frame["aspect/correctness"]) == [1.0, 1.0]
    assert frame["aspect/harmfulness"].isna().tolist() == [True, False]
    assert list(frame["status"]) == ["unparsable", "ok"]


def test_criteria_are_columns_if_all_rows_have_the_same_and_else_a_list() -> None:
    shared = [{"name": "It is", "text": "It"}, {"name": "zebra", "text": "Zebras"}]
    with serving(
        checking(lambda text, submission: "met" if text in submission else "unmet")
    ) as endpoint:
        judge = ChecklistJudge(criteria=shared, judge_base_url=endpoint.base_url)
        with judge:
            first, _ = judge.many_sync(ROWS[:2], progress=False).records()
            own, other = judge.many_sync(
                [{**ROWS[0], "criteria": ["It"]}, {**ROWS[1], "criteria": ["Zebras"]}],
                progress=False,
            ).records()
    assert (first["criterion/it_is"], first["criterion/zebra"]) == (1.0, 0.0)
    assert own["verdicts"] == [{"name": "criterion_1", "value": 1.0}]
    assert other["verdicts"] == [{"name": "criterion_1", "value": 0.0}]
