"""Gold labels of a judge that is measured: in the samples, on the page, and where runs are compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from judgegym.environments.aspect_critique_environment import AspectCritiqueEnv
from judgegym.environments.base import JudgedEnv
from judgegym.environments.rubric_absolute_environment import RubricAbsoluteEnv
from judgegym.eval_environments.pairwise_judgement_environment import PairwiseJudgementEnv
from judgegym.reports.run_page.page import write_report
from tests.command import RunFiles, in_process
from tests.core.reports.run_page.written import Written

Env = type[JudgedEnv[Any, Any, Any]]
MEASURED: list[tuple[Env, tuple[str, ...], str]] = [
    (
        PairwiseJudgementEnv,
        ("--env.swap_evaluate=True", '--env.eval_categories=["Factuality","Focus","Math"]'),
        "",
    ),
    (AspectCritiqueEnv, ("--env.role=judge",), "eval/accuracy"),
    (AspectCritiqueEnv, (), "eval/accuracy"),
    (RubricAbsoluteEnv, ("--env.role=judge", "--env.reward=exact"), "eval/mean_reward"),
    (RubricAbsoluteEnv, ("--env.score_responses=True",), ""),
]


@pytest.mark.slow
@pytest.mark.parametrize(("env_type", "flags", "accuracy"), MEASURED)
def test_samples_have_gold_labels_beside_the_judges_and_the_page_shows_where_they_differ(
    tmp_path: Path, env_type: Env, flags: tuple[str, ...], accuracy: str
) -> None:
    run = tmp_path / "run"
    ended = in_process(
        "evaluate", "--offline", f"--env.data_dir_to_save_evals={run}", *flags, env_type=env_type
    )
    assert ended.code == 0, ended.said
    labels = [label for sample in RunFiles(run).samples for label in sample["gold"]]
    assert labels
    assert {label["agrees"] for label in labels} == {True, False}, "the rows show both"
    if accuracy:
        share = sum(label["agrees"] for label in labels) / len(labels)
        assert RunFiles(run).report["results"]["all"][accuracy] == pytest.approx(share)
    page = Written.read(write_report(run))
    for sample in RunFiles(run).samples:
        known = [label["agrees"] for label in sample["gold"]]
        assert page.summaries[sample["uid"]]["gold_differs"] == (not all(known) if known else None)
        words = " ".join(page.details[sample["uid"]]["verdict"])
        said = [
            f"{gold:g}" if isinstance(gold := label["gold"], float) else gold
            for label in sample["gold"]
        ]
        assert all(
            label["agrees"] or f"gold says {gold}" in words
            for label, gold in zip(sample["gold"], said, strict=True)
        )
