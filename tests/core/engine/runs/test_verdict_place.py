"""The ledger says where in an answer the judge's parser has read the verdict, of every judge and every kind of call."""

from __future__ import annotations

import gzip
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from judgegym.engine.runs.directory import RunDirectory
from judgegym.engine.runs.ledger import CallLedger
from judgegym.engine.runs.recorded_calls import PACKED_CALLS, RecordedCall, pack, read_calls
from judgegym.judges.arena import ArenaJudgeSettings, ArenaTaskJudge
from judgegym.judges.aspects.judge import AspectPanel
from judgegym.judges.aspects.prompt import AspectJudgeSettings
from judgegym.judges.config.judge import JudgeSettings
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.pairwise import ChoiceJudgeSettings, ChoiceTaskJudge
from judgegym.judges.rubrics.judge import RubricTaskJudge
from judgegym.judges.rubrics.prompt import Rubric, RubricJudgeSettings
from judgegym.llm.cache import JudgmentCache
from judgegym.llm.client import ChatClient
from judgegym.llm.ledger import record_calls
from tests.rubrics import rubric_task
from tests.scripted import Reply, Script, ScriptedEndpoint, completion, in_turn

Judging = Callable[[ChatClient, Any], Awaitable[Any]]

ARENA = JudgeTask("Why?", ("So.",), baseline="Not so.")


async def choose(client: ChatClient, own: ChoiceJudgeSettings) -> None:
    await ChoiceTaskJudge(own, client).judge(JudgeTask("Why?", ("So.", "Thus.")))


async def rate(client: ChatClient, own: RubricJudgeSettings) -> None:
    await RubricTaskJudge(own, client).judge(rubric_task("Why?", "So.", Rubric("Good?")))


async def recorded(
    path: Path,
    settings: JudgeSettings,
    script: Script | Reply | str,
    judging: Judging,
    cache: JudgmentCache | None = None,
) -> list[RecordedCall]:
    """Judge once with a ledger, and read that back."""
    run = RunDirectory(path, config={}, matters={}, resume=True)
    ledger = CallLedger(run, finished=(), keep_texts=True)
    async with ScriptedEndpoint(script) as endpoint:
        settings = settings.model_copy(
            update={"judge_base_url": endpoint.base_url, "judge_model_name": "judge"}
        )
        async with ChatClient(settings.chat_settings(), cache=cache) as client:
            with record_calls(ledger.row("row-1")):
                await judging(client, settings)
    ledger.close()
    run.close()
    return list(read_calls(path))


def marked(calls: list[RecordedCall]) -> dict[str, str | None]:
    """What stands in the place of each call's verdict."""
    return {
        call.component: None
        if call.verdict_at is None
        else call.answer.first.text[slice(*call.verdict_at)]
        for call in sorted(calls, key=lambda call: call.component)
    }


async def test_games_reasks_and_critiques_are_marked(tmp_path: Path) -> None:
    texts = {"game_1": "<think>[[B>A]]</think>\nI say: [[A>B]].", "game_2": "Hard to say."}

    def script(request: Any, number: int) -> str:
        said = str(request["messages"])
        if "YOUR PREVIOUS EVALUATION" in said:
            return "It was too kind.\n\n[[A=B]]<|im_end|>"
        return (
            "All right: [B>A]"
            if "Hard to say" in said
            else texts["game_1" if number == 1 else "game_2"]
        )

    settings = ArenaJudgeSettings(judge_reask=1, judge_critique_rounds=1, judge_max_concurrency=1)
    calls = await recorded(
        tmp_path,
        settings,
        script,
        lambda client, settings: ArenaTaskJudge(settings, client).judge(ARENA),
    )
    assert marked(calls) == {
        "critique_1_game_1": "[[A=B]]",
        "critique_1_game_2": "[[A=B]]",
        "game_1": "[[A>B]]",
        "game_2": None,
        "game_2_reask_1": "[B>A]",
    }
    assert [call.component for call in calls if not call.has_verdict] == ["game_2"]


@pytest.mark.parametrize(
    ("settings", "text", "judging", "part"),
    [
        pytest.param(
            AspectJudgeSettings(strictness=3),
            '😀 {"verdict": 0} no:\n{"reason": "R", "verdict": "Yes"}',
            lambda client, own: AspectPanel(own, client).judge(JudgeTask("Why?", ("So.",))),
            '{"reason": "R", "verdict": "Yes"}',
            id="votes",
        ),
        pytest.param(
            ChoiceJudgeSettings(judge_critique_rounds=1),
            "Not [[A]] but [[B]]",
            choose,
            "[[B]]",
            id="choice",
        ),
        pytest.param(
            RubricJudgeSettings(samples_per_item=2, judge_critique_rounds=1),
            "[FEEDBACK] Fine. [SCORE] 4",
            rate,
            "[SCORE] 4",
            id="rubric",
        ),
    ],
)
async def test_calls_of_all_judges_are_marked(
    tmp_path: Path, settings: JudgeSettings, text: str, judging: Judging, part: str
) -> None:
    calls = await recorded(tmp_path, settings, text, judging)
    assert calls
    assert set(marked(calls).values()) == {part}


async def test_an_expected_score_is_of_no_place(tmp_path: Path) -> None:
    body: Any = completion("[FEEDBACK] Fine. [SCORE] 4")
    tokens = [
        {"token": token, "logprob": -0.1, "top_logprobs": []}
        for token in ("[FEEDBACK] Fine. ", "[SCORE]", " ")
    ]
    tokens.append(
        {"token": "4", "logprob": -0.1, "top_logprobs": [{"token": "4", "logprob": -0.1}]}
    )
    body["choices"][0]["logprobs"] = {"content": tokens}
    settings = RubricJudgeSettings(weighting="logprobs")
    calls = await recorded(
        tmp_path,
        settings,
        Reply(body=body),
        rate,
    )
    assert [(call.has_verdict, call.verdict_at) for call in calls] == [(True, None)]


async def test_an_answer_that_was_cut_off_has_no_verdict_to_mark(tmp_path: Path) -> None:
    calls = await recorded(
        tmp_path,
        ChoiceJudgeSettings(),
        Reply(body=completion("[[A]] is", finish_reason="length")),
        choose,
    )
    assert [(call.has_verdict, call.verdict_at) for call in calls] == [(False, None)]


async def test_an_answer_of_the_cache_is_marked_too(tmp_path: Path) -> None:
    async def twice(client: ChatClient, own: ChoiceJudgeSettings) -> None:
        for _ in range(2):
            await choose(client, own)

    cache = JudgmentCache(tmp_path / "cache.sqlite")
    calls = await recorded(
        tmp_path / "run", ChoiceJudgeSettings(), in_turn("so: [[B]]", "[[A]]"), twice, cache
    )
    cache.close()
    assert [(call.answer.cached, call.verdict_at) for call in calls] == [
        (False, (4, 9)),
        (True, (4, 9)),
    ]


def changed(path: Path, **fields: Any) -> None:
    """Rewrite the calls of a finished ledger."""
    pack(path, keep=True)
    lines = [
        json.loads(line)
        for line in gzip.decompress((path / PACKED_CALLS).read_bytes()).splitlines()
    ]
    for line in lines:
        if "call" in line:
            del line["call"]["verdict_at"]
            line["call"] |= fields
    (path / PACKED_CALLS).write_bytes(
        gzip.compress(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    )


async def test_a_ledger_of_before_has_no_places_and_a_damaged_one_is_skipped(
    tmp_path: Path,
) -> None:
    calls = await recorded(
        tmp_path,
        ChoiceJudgeSettings(),
        "[[A]]",
        choose,
    )
    assert [call.verdict_at for call in calls] == [(0, 5)]
    changed(tmp_path, verdict_at="everywhere")
    assert list(read_calls(tmp_path)) == []
    changed(tmp_path)
    assert [(call.has_verdict, call.verdict_at) for call in read_calls(tmp_path)] == [(True, None)]
