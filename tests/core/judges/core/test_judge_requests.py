"""The requests of every judge, as digests of their keys in the judgment cache: existing caches keep their answers."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judgegym.judges.arena import ArenaJudgeSettings, ArenaTaskJudge
from judgegym.judges.aspects.judge import AspectPanel
from judgegym.judges.aspects.prompt import AspectJudgeSettings
from judgegym.judges.config.judge import JudgeSettings
from judgegym.judges.core.judgment import Scale
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.pairwise import ChoiceJudgeSettings, ChoiceTaskJudge
from judgegym.judges.peers import PeerJudgeSettings, PeerTaskJudge
from judgegym.judges.rubrics.judge import RubricTaskJudge
from judgegym.judges.rubrics.prompt import Rubric, RubricJudgeSettings
from judgegym.llm.cache import JudgmentCache
from judgegym.llm.client import ChatClient
from tests.rubrics import rubric_task
from tests.scripted import ScriptedEndpoint

ARENA = JudgeTask(
    "Why is the sky blue?", ("Rayleigh scattering.",), baseline="The sea <| mirrors |> it."
)
ASPECT = JudgeTask("How?", ("Mix both.",))
WIDE = Rubric("Is it short?", {1: "No.", 10: "Yes."}, Scale(1, 10))
VERDICT = '{"reason": "so", "verdict": 1}'


@pytest.mark.parametrize(
    ("factory", "settings", "case", "answer", "count", "digest"),
    [
        pytest.param(
            ArenaTaskJudge,
            ArenaJudgeSettings(judge_critique_rounds=1),
            ARENA,
            "Fine. [[A>B]]",
            4,
            "c9bae4de6fc99c77bd23f8f6c581e07c395e9f919b1a93b2bc40238662f90037",
            id="arena three_way with critique",
        ),
        pytest.param(
            ArenaTaskJudge,
            ArenaJudgeSettings(judge_protocol="arena_hard_v0.1"),
            ARENA,
            "Fine. [[A>>B]]",
            2,
            "d7d36176fa5412c7e4db9d167961e7c40ba2a15a1f5e90cd702249b07fdca581",
            id="arena v0.1",
        ),
        pytest.param(
            AspectPanel,
            AspectJudgeSettings(strictness=3, seed=7, judge_critique_rounds=1),
            JudgeTask("How?", ("Mix both.",), context="[Context] none"),
            VERDICT,
            15,
            "4f4e0e9ac1b68a00cb4a3895f4475a42608ff589004a7622d09069f6e022c591",
            id="aspects by votes with critique",
        ),
        pytest.param(
            AspectPanel,
            AspectJudgeSettings(seed=7, judge_critique_rounds=1),
            ASPECT,
            VERDICT,
            10,
            "aaf852928df6b8263c0f7a3efb4c0af73920b2bb7bc657df0180457d64c458c9",
            id="aspects with critique",
        ),
        pytest.param(
            RubricTaskJudge,
            RubricJudgeSettings(
                output_format="result",
                scale_max=10,
                samples_per_item=3,
                seed=7,
                judge_critique_rounds=1,
            ),
            rubric_task("How?", "Mix.", WIDE, "Stir."),
            "Feedback: fine [RESULT] 4",
            4,
            "f976a425266886a1c87fafea92968ba5c0e77197f03203e915a8752f4fb209ba",
            id="rubric by several judgments with critique",
        ),
        pytest.param(
            RubricTaskJudge,
            RubricJudgeSettings(judge_system_prompt="Judge.\n", judge_critique_rounds=1),
            rubric_task("How?", "Mix.", Rubric("Is it short?")),
            "[FEEDBACK] fine [SCORE] 4",
            2,
            "49c23e9a510f9c6f05d6b2207764f7ea51c2e12c25e51f1161a82e6fd5fa36f5",
            id="rubric with its own prompt",
        ),
        pytest.param(
            PeerTaskJudge,
            PeerJudgeSettings(judge_critique_rounds=1),
            JudgeTask("Why?", ("RUBRIC: Because.",), rubric="Brevity"),
            '{"reasoning": "so", "score": 70}',
            2,
            "1fc4d4c3e19342161d6a4b36dc70c617d35a5e8d8b6514a3678b9fae6383e71f",
            id="peer with critique",
        ),
        pytest.param(
            ChoiceTaskJudge,
            ChoiceJudgeSettings(),
            JudgeTask("Why?", ("one", "two", "three")),
            "[[B]]",
            1,
            "4b697a5a978d2a84e161c9849779144da7e34bdb421284c5d6c09be9dcf536d0",
            id="choice",
        ),
    ],
)
async def test_the_requests_of_a_judge_have_the_keys_that_they_always_had(
    tmp_path: Path,
    factory: Callable[..., Any],
    settings: JudgeSettings,
    case: object,
    answer: str,
    count: int,
    digest: str,
) -> None:
    path = tmp_path / "cache.sqlite"
    async with ScriptedEndpoint(answer) as endpoint:
        settings.judge_base_url, settings.judge_model_name = endpoint.base_url, "the-judge"
        cache = JudgmentCache(path)
        async with ChatClient(settings.chat_settings(identity="golden"), cache=cache) as client:
            judgment = await factory(settings, client).judge(case)
        cache.close()
    assert judgment.score is not None
    keys = [key for (key,) in sqlite3.connect(path).execute("SELECT key FROM answers ORDER BY key")]
    assert (len(keys), hashlib.sha256("\n".join(keys).encode()).hexdigest()) == (count, digest)
