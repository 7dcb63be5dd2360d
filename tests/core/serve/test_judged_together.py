"""`serve` of groups that are judged together, into the real rollout API.

What it costs and what its rewards are, for each environment and judge:
    `tests/conformance/test_judged_together.py`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from judgegym.environments.aspect_critique_environment import AspectCritiqueEnv
from judgegym.environments.base import JudgedEnv
from judgegym.environments.evaluate.evaluation import Evaluation, evaluate_during_training
from judgegym.environments.rubric_absolute_environment import RubricAbsoluteEnv
from judgegym.eval_environments.arena_hard_environment import ArenaHardEnv
from tests.arena import Arena
from tests.aspects import answered
from tests.command import write_lines
from tests.rubrics import task
from tests.scripted import Json, Reply, refusing
from tests.serving import sampling, serve
from tests.together import compared, comparing
from tests.trainer import training

GROUP = 4
QUALITY = (0.2, 0.9, 0.5, 0.7)
"""Of each completion of a group, by its place; the anchor has 0.4."""
OF_THE_ANCHOR = 0.4
EXPECTED = [0.5 + (each - OF_THE_ANCHOR) / 2 for each in QUALITY]


def quality(text: str) -> float:
    """The quality of a text of `attempt`, or of an anchor."""
    found = re.search(r"Attempt (\d)", text)
    return OF_THE_ANCHOR if found is None else QUALITY[int(found.group(1))]


def attempt(request: Json, number: int, index: int) -> str:
    return f"Attempt {index} at question {number}."


@pytest.mark.slow
@pytest.mark.parametrize(
    "reply", [Reply(status=400), "I cannot say."], ids=["fails", "says nothing"]
)
async def test_group_whose_judge_fails_is_judged_once_more_and_then_dropped(
    tmp_path: Path, reply: Reply | str
) -> None:
    """A failed judge is never a score: the groups of the other policy requests arrive, this one does not."""
    right = comparing(quality)

    def judge(request: Json, number: int) -> str | Reply:
        return reply if "question 1." in "\n".join(compared(request)) else right(request, number)

    flags = "--env.group_judge=listwise", "--env.judge_reask=0", "--env.judge_max_retries=0"
    one_by_one = "--env.max_num_workers=1", "--env.include_messages=True"
    async with (
        training(2 * GROUP) as trainer,
        serve(
            Arena(tmp_path).rows(4),
            trainer.url,
            *one_by_one,
            *flags,
            policy=sampling(attempt),
            judge=judge,
        ) as served,
    ):
        (batch,) = await trainer.take()
    assert len(batch) == 2
    for group in batch:
        assert group["scores"] == pytest.approx(EXPECTED)
        assert group["overrides"] is None
        assert "question 1." not in group["messages"][0][-1]["content"]
    assert sum("question 1." in "\n".join(compared(body)) for body in served.judge.bodies) == 2
    assert served.counted("judge_failed") == 1


async def test_group_of_one_is_compared_with_the_baseline(tmp_path: Path) -> None:
    arena = Arena(tmp_path).rows(2)
    flags = (
        "--env.group_judge=listwise",
        "--env.group_size=1",
        "--env.ensure_scores_are_not_same=False",
    )
    async with (
        training(1) as trainer,
        serve(arena, trainer.url, *flags, policy=sampling(attempt), judge=comparing(quality)),
    ):
        (batch,) = await trainer.take()
    assert [group["scores"] for group in batch] == [pytest.approx(EXPECTED[:1])]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env_type", "rows", "alone"),
    [
        (ArenaHardEnv, None, "[[A=B]]"),
        (
            AspectCritiqueEnv,
            [answered(number) for number in range(4)],
            '{"reason": "So it is.", "verdict": 1}',
        ),
        (
            RubricAbsoluteEnv,
            [task(number) for number in range(4)],
            "[FEEDBACK] So it is.\n[SCORE] 4",
        ),
    ],
    ids=["arena_hard", "aspect_critique", "rubric_absolute"],
)
async def test_evaluation_beside_training_judges_single_answers(
    tmp_path: Path, env_type: type[JudgedEnv[Any, Any, Any]], rows: list[Json] | None, alone: str
) -> None:
    """A number of the same kind as that of `evaluate`; the judge of groups is not asked."""
    arena = Arena(tmp_path)
    if rows is None:
        arena.rows(4)
    else:
        data = write_lines(tmp_path / "train.jsonl", rows)
        arena.flags += [f"--env.train_dataset={data}", f"--env.eval_dataset={data}"]
    flags = "--env.group_judge=listwise", f"--env.data_dir_to_save_evals={tmp_path / 'run'}"
    with refusing() as nobody:
        async with serve(
            arena,
            nobody,
            *flags,
            policy=sampling(attempt),
            judge=lambda *_: alone,
            env_type=env_type,
        ) as served:
            metrics = await evaluate_during_training(Evaluation(served.env), 1)
    assert metrics.values["eval/judge_error_rate"] == 0
    assert metrics.values["eval/total_samples"] == 4
    assert not any(
        "Start of answer" in body["messages"][-1]["content"] for body in served.judge.bodies
    )
