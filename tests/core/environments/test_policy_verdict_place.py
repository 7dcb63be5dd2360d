"""Where the policy is the judge, the ledger of an evaluation says where in its answer the verdict stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from judgegym.engine.runs.recorded_calls import read_calls
from judgegym.environments.aspect_critique_environment import AspectCritiqueEnv
from judgegym.environments.base import JudgedEnv
from judgegym.environments.rubric_absolute_environment import RubricAbsoluteEnv
from judgegym.eval_environments.pairwise_judgement_environment import PairwiseJudgementEnv
from tests.aspects import gold_row
from tests.judged import Row, evaluate
from tests.pairwise import choice_row, ties_row
from tests.rubrics import labelled
from tests.scripted import Reply, completion

THOUGHT = '<think> [[A]] or {"verdict": 0} or [SCORE] 1, 3?</think>\n\n  '
TEXT = 'Well 😀. {"reason": "R", "verdict": 1}\n[FEEDBACK] Good. [SCORE] 4\nSo: [[B]],\n'
RATED = f"{TEXT} 8 \n"
ROLE, CORRECTNESS = "--env.role=judge", "--env.aspects=correctness"
Environment = type[JudgedEnv[Any, Any, Any]]


def marked(path: Path) -> set[str | None]:
    """What stands in the place of the verdict in the policy's answers."""
    calls = [call for call in read_calls(path) if call.component.endswith("/policy")]
    assert calls
    return {
        None if call.verdict_at is None else call.answer.first.text[slice(*call.verdict_at)]
        for call in calls
    }


@pytest.mark.parametrize("thinks", [True, False])
@pytest.mark.parametrize(
    ("env_type", "flags", "row", "text", "part"),
    [
        (PairwiseJudgementEnv, (), choice_row(0), TEXT, "[[B]]"),
        (PairwiseJudgementEnv, (), choice_row(0), RATED, "[[B]]"),
        (PairwiseJudgementEnv, (), ties_row("tied:1"), RATED, "8"),
        (PairwiseJudgementEnv, ("--env.parse_mode=official",), choice_row(0), TEXT, None),
        (
            AspectCritiqueEnv,
            (ROLE, CORRECTNESS),
            gold_row(0, correctness=1),
            TEXT,
            '{"reason": "R", "verdict": 1}',
        ),
        (AspectCritiqueEnv, (ROLE, CORRECTNESS), gold_row(0, correctness=1), RATED, None),
        (RubricAbsoluteEnv, (ROLE,), labelled(0, 4), TEXT, "[SCORE] 4"),
        (RubricAbsoluteEnv, (ROLE,), labelled(0, 4), RATED, None),
    ],
)
def test_the_verdict_of_a_policy_that_judges_is_marked_in_its_whole_text(
    tmp_path: Path,
    env_type: Environment,
    flags: tuple[str, ...],
    row: Row,
    text: str,
    part: str | None,
    thinks: bool,
) -> None:
    """`RATED` ends with a number on a line of its own, which leaves no verdict of an aspect or a rubric."""
    said = f"{THOUGHT}{text}" if thinks else f"  {text}"
    run = evaluate(
        env_type, tmp_path, f"--env.thinking_mode={thinks}", *flags, rows=[row], policy=said
    )
    assert run.code == 0, run.said
    assert marked(run.files.path) == {part}


@pytest.mark.parametrize(
    "said",
    [
        TEXT,
        f"{THOUGHT}{THOUGHT}{TEXT}",
        Reply(body=completion(f"{THOUGHT}{TEXT}", finish_reason="length")),
    ],
)
def test_no_verdict_is_marked_where_none_is_read(tmp_path: Path, said: str | Reply) -> None:
    run = evaluate(
        PairwiseJudgementEnv,
        tmp_path,
        "--env.thinking_mode=True",
        rows=[choice_row(0)],
        policy=said,
    )
    assert marked(run.files.path) == {None}
