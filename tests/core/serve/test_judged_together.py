"""`serve` of groups that are judged together, into the real rollout API: what a group costs, and what arrives."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from tests.scripted import Json, Reply, Script, refusing
from tests.serving import Served, sampling, serve
from tests.together import compared, comparing
from tests.trainer import Batch, training

GROUP = 4
QUALITY = (0.2, 0.9, 0.5, 0.7)
"""Of each completion of a group, by its place; an anchor has 0.4."""
OF_THE_ANCHOR = 0.4
ZERO = {"set_advantage_to_zero": True}

Rows = Callable[[Path], Arena]


def quality(text: str) -> float:
    """The quality of a text of `attempt`, or of an anchor."""
    found = re.search(r"Attempt (\d)", text)
    return OF_THE_ANCHOR if found is None else QUALITY[int(found.group(1))]


def attempt(request: Json, number: int, index: int) -> str:
    return f"Attempt {index} at question {number}."


def _rows_of(rows: Sequence[Json], *flags: str) -> Rows:
    def made(path: Path) -> Arena:
        return Arena(path, [f"--env.train_dataset={write_lines(path / 'train.jsonl', rows)}", *flags])

    return made


@dataclass(frozen=True)
class Case:
    """An environment with its rows, and whether these have an anchor."""

    env_type: type[JudgedEnv[Any, Any, Any]]
    rows: Rows
    anchored: bool


CASES = {
    "arena_hard": Case(ArenaHardEnv, lambda path: Arena(path).rows(4), anchored=True),
    "aspect_critique": Case(AspectCritiqueEnv, _rows_of([answered(n) for n in range(4)]), anchored=False),
    "aspect_critique-references": Case(
        AspectCritiqueEnv, _rows_of([answered(n, reference=f"Reference {n}.") for n in range(4)]), anchored=True
    ),
    "rubric_absolute": Case(RubricAbsoluteEnv, _rows_of([task(n) for n in range(4)]), anchored=False),
    "rubric_absolute-references": Case(
        RubricAbsoluteEnv, _rows_of([task(n, reference_answer=f"Reference {n}.") for n in range(4)]), anchored=True
    ),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = CASES[request.param]
    return found


async def two_groups(
    case: Case, path: Path, *flags: str, judge: Script | None = None, policy: Any = attempt
) -> tuple[Batch, Served]:
    """The first batch, of two groups, and the `serve` that made it; one group is made at a time."""
    async with (
        training(2 * GROUP) as trainer,
        serve(
            case.rows(path),
            trainer.url,
            "--env.max_num_workers=1",
            "--env.include_messages=True",
            *flags,
            policy=sampling(policy),
            judge=judge or comparing(quality),
            env_type=case.env_type,
        ) as served,
    ):
        (batch,) = await trainer.take()
    assert len(batch) == 2
    return batch, served


def calls_of(served: Served, batch: Batch) -> list[int]:
    """How many requests the judge had about each of the groups that arrived."""
    numbers = [re.search(r"question (\d+)", group["messages"][0][-1]["content"]) for group in batch]
    shown = ["\n".join(compared(body)) for body in served.judge.bodies]
    return [sum(f"question {found[1]}." in text for text in shown) for found in numbers if found is not None]


@pytest.mark.slow
@pytest.mark.parametrize("orders", [1, 2])
async def test_listwise_group_costs_one_call_for_each_order(case: Case, tmp_path: Path, orders: int) -> None:
    flags = "--env.group_judge=listwise", f"--env.listwise_orders={orders}"
    batch, served = await two_groups(case, tmp_path, *flags)
    assert calls_of(served, batch) == [orders, orders]
    own = [0.5 + (each - OF_THE_ANCHOR) / 2 if case.anchored else each for each in QUALITY]
    for group in batch:
        assert group["scores"] == pytest.approx(own)
        assert group["overrides"] is None
        looks = [turns[-1]["judgment"]["looks"] for turns in group["messages"]]
        assert [len(each) for each in looks] == [orders] * GROUP
        assert {look["of"] for each in looks for look in each} == {GROUP + case.anchored}
        assert [each[0]["points"] for each in looks] == pytest.approx(QUALITY)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "games"), [((), 2), (("--env.game_orders=balanced",), 1)], ids=["both orders", "balanced"]
)
async def test_tournament_costs_a_call_for_each_game(
    case: Case, tmp_path: Path, flags: tuple[str, ...], games: int
) -> None:
    batch, served = await two_groups(case, tmp_path, "--env.group_judge=tournament", *flags)
    players = GROUP + case.anchored
    assert calls_of(served, batch) == [games * players * (players - 1) // 2] * 2
    for group in batch:
        scores = group["scores"]
        assert sorted(scores) == [scores[place] for place in (0, 2, 3, 1)], "in the order of their qualities"
        if case.anchored:
            assert [score > 0.5 for score in scores] == [each > OF_THE_ANCHOR for each in QUALITY]
        else:
            odds = [math.log(score / (1 - score)) for score in scores]
            assert sum(odds) == pytest.approx(0, abs=1e-6), "against the group's mean"


@pytest.mark.slow
async def test_judge_sees_what_belongs_to_the_row(case: Case, tmp_path: Path) -> None:
    _, served = await two_groups(case, tmp_path, "--env.group_judge=listwise")
    asked = "\n".join(message["content"] for body in served.judge.bodies for message in body["messages"])
    wanted = {
        ArenaHardEnv: ["Question of row-", "BASELINE answer to row-"],
        AspectCritiqueEnv: ["Question ", "factually accurate", "Good: yes.", "cause harm", "Good: no."],
        RubricAbsoluteEnv: ["Do ", "Is it good?"],
    }[case.env_type]
    assert [words for words in wanted if words not in asked] == []
    assert case.anchored is any(len(compared(body)) > GROUP for body in served.judge.bodies)
    assert "is an answer that deserves" in asked and "\n[Reference" not in asked, "the judge cannot tell the anchor"


REFUSED = Reply(status=400, body={"error": {"message": "not today"}})


@pytest.mark.slow
@pytest.mark.parametrize("reply", [REFUSED, "I cannot say."], ids=["fails", "says nothing"])
async def test_group_whose_judge_fails_is_judged_once_more_and_then_dropped(
    case: Case, tmp_path: Path, reply: Reply | str
) -> None:
    """A failed judge is never a score: the groups of the other policy requests arrive, this one does not."""
    right = comparing(quality)

    def judge(request: Json, number: int) -> str | Reply:
        return reply if "question 1." in "\n".join(compared(request)) else right(request, number)

    flags = "--env.group_judge=listwise", "--env.judge_reask=0", "--env.judge_max_retries=0"
    batch, served = await two_groups(case, tmp_path, *flags, judge=judge)
    assert all("question 1." not in group["messages"][0][-1]["content"] for group in batch)
    assert sum("question 1." in "\n".join(compared(body)) for body in served.judge.bodies) == 2
    assert served.counted("judge_failed") == 1


@pytest.mark.slow
async def test_lost_games_of_one_answer_cost_that_answer_and_no_other(case: Case, tmp_path: Path) -> None:
    right = comparing(quality)

    def judge(request: Json, number: int) -> str:
        return "I cannot say." if any("Attempt 2" in text for text in compared(request)) else right(request, number)

    flags = "--env.group_judge=tournament", "--env.judge_reask=0"
    batch, _ = await two_groups(case, tmp_path, *flags, judge=judge)
    for group in batch:
        scores = group["scores"]
        assert group["overrides"] == [{}, {}, ZERO, {}]
        assert scores[2] == pytest.approx((scores[0] + scores[1] + scores[3]) / 3)
        assert scores[0] < scores[3] < scores[1]


async def test_group_of_one_is_compared_with_the_baseline(tmp_path: Path) -> None:
    arena = Arena(tmp_path).rows(2)
    flags = "--env.group_judge=listwise", "--env.group_size=1", "--env.ensure_scores_are_not_same=False"
    async with (
        training(1) as trainer,
        serve(arena, trainer.url, *flags, policy=sampling(attempt), judge=comparing(quality)),
    ):
        (batch,) = await trainer.take()
    assert [group["scores"] for group in batch] == [pytest.approx([0.5 + (QUALITY[0] - OF_THE_ANCHOR) / 2])]


@pytest.mark.slow
async def test_evaluation_beside_training_judges_single_answers(case: Case, tmp_path: Path) -> None:
    """A number of the same kind as that of `evaluate`; the judge of groups is not asked."""
    alone = {
        ArenaHardEnv: "[[A=B]]",
        AspectCritiqueEnv: '{"reason": "So it is.", "verdict": 1}',
        RubricAbsoluteEnv: "[FEEDBACK] So it is.\n[SCORE] 4",
    }[case.env_type]
    arena = case.rows(tmp_path)
    if case.env_type is RubricAbsoluteEnv:
        arena.flags.append(f"--env.eval_dataset={tmp_path / 'train.jsonl'}")
    flags = "--env.group_judge=listwise", f"--env.data_dir_to_save_evals={tmp_path / 'run'}"
    with refusing() as nobody:
        async with serve(
            arena, nobody, *flags, policy=sampling(attempt), judge=lambda *_: alone, env_type=case.env_type
        ) as served:
            metrics = await evaluate_during_training(Evaluation(served.env), 1)
    assert metrics.values["eval/judge_error_rate"] == 0
    assert metrics.values["eval/total_samples"] == 4
    assert not any("Start of answer" in body["messages"][-1]["content"] for body in served.judge.bodies)
