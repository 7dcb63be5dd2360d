"""The rows on the pages of environments are read by the environments, and evaluated."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from judgegym.environments.aspect_critique_environment import AspectCritiqueEnv
from judgegym.environments.base import JudgedEnv
from judgegym.environments.rubric_absolute_environment import RubricAbsoluteEnv
from judgegym.environments.rubric_checklist_environment import RubricChecklistEnv
from judgegym.eval_environments.arena_hard_environment import ArenaHardEnv
from judgegym.eval_environments.mt_bench_environment import MTBenchEnv
from judgegym.eval_environments.pairwise_judgement_environment import PairwiseJudgementEnv
from judgegym.eval_environments.self_critique_environment import SelfCritiqueEnv
from tests.command import RunFiles, in_process, write_lines
from tests.docs.blocks import blocks
from tests.docs.runs import ARENA, ASPECTS, CANDIDATES, CHECKLIST, MT_BENCH, PAIRWISE, PEERS, RUBRIC
from tests.docs.tables import DOCS

ENVIRONMENTS: Mapping[str, type[JudgedEnv[Any, Any, Any]]] = {
    ARENA: ArenaHardEnv,
    PAIRWISE: PairwiseJudgementEnv,
    ASPECTS: AspectCritiqueEnv,
    RUBRIC: RubricAbsoluteEnv,
    CHECKLIST: RubricChecklistEnv,
    PEERS: SelfCritiqueEnv,
    MT_BENCH: MTBenchEnv,
}


def rows_on(page: str) -> list[dict[str, Any]]:
    """The blocks of JSON."""
    return [json.loads(block.text) for block in blocks(DOCS / page) if block.language == "json"]


def evaluated(page: str, path: Path, *flags: str) -> list[dict[str, Any]]:
    """The samples of a run with these flags; `{0}` in one is the file of the page's first row, and so on."""
    files = [
        write_lines(path / f"{number}.jsonl", [row]) for number, row in enumerate(rows_on(page))
    ]
    given = [flag.format(*files) for flag in flags]
    run = f"--env.data_dir_to_save_evals={path / 'run'}"
    in_process("evaluate", "--offline", *given, run, env_type=ENVIRONMENTS[page]).successful()
    return RunFiles(path / "run").samples


@pytest.mark.parametrize(
    ("page", "flags", "texts"),
    [
        (
            ARENA,
            ["--env.train_prompt_dataset={0}", "--env.train_baseline_dataset={1}"],
            {"baseline"},
        ),
        (PAIRWISE, ["--env.eval_dataset={0}"], {"answer A", "answer D"}),
        (PAIRWISE, ["--env.eval_dataset={1}"], {"answer 1 (right)", "answer 3"}),
        (PAIRWISE, ["--env.eval_dataset={2}", "--env.num_choices=2"], {"answer A"}),
        (ASPECTS, ["--env.train_dataset={0}"], {"reference"}),
        (
            ASPECTS,
            ["--env.train_dataset={0}", "--env.role=judge"],
            {"aspect", "answer", "reference"},
        ),
        (RUBRIC, ["--env.eval_dataset={0}"], {"rubric", "reference"}),
        (RUBRIC, ["--env.eval_dataset={0}", "--env.role=judge"], {"rubric", "response"}),
        (CHECKLIST, ["--env.train_dataset={0}"], {"criteria"}),
        (CHECKLIST, ["--env.train_dataset={0}", "--env.role=judge"], {"criteria", "answer"}),
        (PEERS, ["--env.dataset={0}"], {"rubric"}),
        (
            MT_BENCH,
            ["--env.question_dataset={0}", "--env.reference_dataset={1}"],
            {"reference_1", "reference_2"},
        ),
    ],
)
def test_row_of_a_page_is_evaluated(
    page: str, flags: list[str], texts: set[str], tmp_path: Path
) -> None:
    for sample in evaluated(page, tmp_path, *flags):
        assert sample["status"] == "ok"
        shown = {title.removesuffix(" (right)") for title in sample["texts"]} | {*sample["texts"]}
        assert texts <= shown


def test_answers_of_a_candidate_are_read(tmp_path: Path) -> None:
    prompt, baseline = rows_on(ARENA)
    (answer,) = rows_on(CANDIDATES)
    files = [
        write_lines(tmp_path / f"{number}.jsonl", [row])
        for number, row in enumerate((prompt, baseline, answer))
    ]
    candidates = json.dumps([{"name": name, "answers": str(files[2])} for name in ("one", "other")])
    flags = [f"--env.train_prompt_dataset={files[0]}", f"--env.train_baseline_dataset={files[1]}"]
    run = f"--env.data_dir_to_save_evals={tmp_path / 'run'}"
    in_process("evaluate", "--offline", *flags, f"--env.candidates={candidates}", run).successful()
    (sample,) = RunFiles(tmp_path / "run").samples
    assert [each["answer"] for each in sample["detail"]["answers"]] == [answer["answer"]] * 2
