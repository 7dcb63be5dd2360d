"""What the careless environments make of judgments, beside the environments as they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from examples.tiny_grpo import careless
from examples.tiny_grpo.judge import Script, serve_judge
from judgegym.judges.core.event_loop import run_blocking
from judgegym_trainers.single_turn import EnvironmentSource, close_all, get_environment


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    close_all()


def rewards(
    environment: str, script: Script, answers: Sequence[str], **settings: object
) -> list[float | None]:
    with serve_judge(script) as url:
        given = {"judge_base_url": url, "judge_model_name": "m", **settings}
        environment = get_environment(EnvironmentSource.from_settings(environment, given))
        results = run_blocking(environment.rewards(environment.uids[0], answers))
    return [result.reward for result in results]


@pytest.mark.parametrize(
    ("environment", "failed"),
    [
        ("rubric_absolute", None),
        (f"{careless.__name__}:{careless.FailuresScoredLowest.__name__}", 0.0),
    ],
)
def test_a_failed_judgment_is_no_reward_or_the_lowest_one(
    environment: str, failed: float | None, tmp_path: Path
) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text(
        '{"instruction": "write", "rubric": "More of the letter e is better."}\n', encoding="utf-8"
    )
    settings = {"train_dataset": str(rows), "scale_min": 0, "scale_max": 20}
    script = Script(failures=1.0, failures_from=4)
    assert rewards(environment, script, ["eee", "eeee", "eeeee"], **settings) == [
        1.0,
        failed,
        failed,
    ]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ("arena_hard", [1.0, 0.0, -1.0]),
        (f"{careless.__name__}:{careless.OneOrder.__name__}", [1.0, 1.0, -1.0]),
    ],
)
def test_one_order_takes_the_bias_of_a_judge_for_the_quality_of_an_answer(
    environment: str, expected: list[float], tmp_path: Path
) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text(
        '{"uid": "a", "prompt": "write", "answer": "see the tree"}\n', encoding="utf-8"
    )  # 5 of 12
    settings = {"train_prompt_dataset": str(rows), "train_baseline_dataset": str(rows)}
    assert (
        rewards(environment, Script(position_bias=0.3), ["eeee", "tree has", "stop"], **settings)
        == expected
    )
