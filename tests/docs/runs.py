"""Runs without a network of each environment, in each of its roles, which together write every file and metric."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judgegym.engine.settings import SAMPLES
from judgegym.environments.aspect_critique_environment import AspectCritiqueEnv
from judgegym.environments.base import JudgedEnv
from judgegym.environments.prompts_environment import PromptsEnv
from judgegym.environments.rubric_absolute_environment import RubricAbsoluteEnv
from judgegym.environments.rubric_checklist_environment import RubricChecklistEnv
from judgegym.eval_environments.arena_hard_environment import ArenaHardEnv
from judgegym.eval_environments.mt_bench_environment import MTBenchEnv
from judgegym.eval_environments.pairwise_judgement_environment import PairwiseJudgementEnv
from judgegym.eval_environments.self_critique_environment import SelfCritiqueEnv
from tests.command import RunFiles, in_process, write_lines


@dataclass(frozen=True)
class Configured:
    """A run: the page of its environment, its verb and its flags."""

    page: str
    env_type: type[JudgedEnv[Any, Any, Any]]
    verb: str
    flags: Sequence[str]


def _evaluate(
    page: str, env_type: type[JudgedEnv[Any, Any, Any]], *flags: str, limit: int = 4
) -> Configured:
    return Configured(
        page, env_type, "evaluate", (*([f"--limit={limit}"] if limit else []), *flags)
    )


def _process(
    page: str, env_type: type[JudgedEnv[Any, Any, Any]], *flags: str, groups: int = 3
) -> Configured:
    kept = "--env.ensure_scores_are_not_same=False", "--env.include_messages=True"
    return Configured(page, env_type, "process", (f"--env.total_steps={groups}", *kept, *flags))


ARENA, CANDIDATES, PAIRWISE = (
    f"environments/{name}.md" for name in ("arena_hard", "candidates", "pairwise_judgement")
)  # fmt: skip
ASPECTS, RUBRIC, PEERS = (
    f"environments/{name}.md" for name in ("aspect_critique", "rubric_absolute", "self_critique")
)  # fmt: skip
CHECKLIST, PROMPTS = "environments/rubric_checklist.md", "environments/prompts.md"
MT_BENCH = "environments/mt_bench.md"
_CRITIQUE = "--env.judge_critique_rounds=1"

CONFIGURED = {
    "arena": _evaluate(
        ARENA,
        ArenaHardEnv,
        _CRITIQUE,
        "--env.style_control=True",
        "--env.cluster_winrates=True",
        "--env.thinking_mode=True",
        "--env.judge_cache={folder}/judgments.sqlite",
    ),
    "candidates": _evaluate(
        CANDIDATES, ArenaHardEnv, "--env.candidates_play=tournament", "--env.style_control=True"
    ),
    "pairwise": _evaluate(PAIRWISE, PairwiseJudgementEnv, limit=0),
    "pairwise-swapped": _evaluate(
        PAIRWISE, PairwiseJudgementEnv, "--env.swap_evaluate=True", "--env.num_choices=auto"
    ),
    "aspects": _evaluate(ASPECTS, AspectCritiqueEnv, "--env.strictness=3", _CRITIQUE),
    "aspects-judge": _evaluate(ASPECTS, AspectCritiqueEnv, "--env.role=judge", limit=10),
    "rubric": _evaluate(RUBRIC, RubricAbsoluteEnv, "--env.samples_per_item=2", _CRITIQUE),
    "rubric-gold": _evaluate(RUBRIC, RubricAbsoluteEnv, "--env.score_responses=True", _CRITIQUE),
    "rubric-judge": _evaluate(RUBRIC, RubricAbsoluteEnv, "--env.role=judge"),
    "rubric-long": _evaluate(
        RUBRIC, RubricAbsoluteEnv, "--env.score_responses=True", "--env.scale_max=12"
    ),
    "checklist": _evaluate(CHECKLIST, RubricChecklistEnv, "--env.strictness=3", limit=0),
    "checklist-judge": _evaluate(CHECKLIST, RubricChecklistEnv, "--env.role=judge", limit=0),
    "mt-bench": _evaluate(MT_BENCH, MTBenchEnv),
    "mt-bench-compared": _evaluate(
        MT_BENCH, MTBenchEnv, f"--env.baseline_dataset={SAMPLES / 'mt_bench_baseline.jsonl'}"
    ),
    "peers": _evaluate(PEERS, SelfCritiqueEnv, "--env.include_self=True"),
    "conversations": _evaluate(
        PROMPTS, PromptsEnv, "--env.user_max_turns=2", "--env.judged=turns", limit=6
    ),
    "conversations-groups": _process(
        PROMPTS, PromptsEnv, "--env.user_max_turns=1", "--env.judged=turns"
    ),
    "arena-jury": _evaluate(ARENA, ArenaHardEnv, "--env.judges=a,b"),
    "rubric-jury": _evaluate(RUBRIC, RubricAbsoluteEnv, "--env.judges=a,b"),
    "aspects-jury": _evaluate(ASPECTS, AspectCritiqueEnv, "--env.judges=a,b"),
    "aspects-jury-groups": _process(ASPECTS, AspectCritiqueEnv, "--env.judges=a,b"),
    "checklist-jury": _evaluate(CHECKLIST, RubricChecklistEnv, "--env.judges=a,b"),
    "arena-failing": _evaluate(ARENA, ArenaHardEnv, '--faults={"400": 0.2}', limit=12),
    "arena-again": _evaluate(
        ARENA, ArenaHardEnv, "--env.model_answers={folder}/arena", "--labels={folder}/labels.jsonl"
    ),
    "arena-groups": _process(ARENA, ArenaHardEnv, _CRITIQUE, "--env.thinking_mode=True"),
    "arena-together": _process(
        ARENA, ArenaHardEnv, "--env.group_judge=listwise", "--env.listwise_orders=2"
    ),
    "pairwise-groups": _process(
        PAIRWISE, PairwiseJudgementEnv, "--env.swap_consistency=True", groups=24
    ),
    "arena-failing-groups": _process(ARENA, ArenaHardEnv, '--faults={"400": 0.2}'),
    "pairwise-dropped": _process(PAIRWISE, PairwiseJudgementEnv, "--env.min_pass_rate=1.0"),
    "aspects-groups": _process(ASPECTS, AspectCritiqueEnv, "--env.strictness=3"),
    "aspects-judge-groups": _process(ASPECTS, AspectCritiqueEnv, "--env.role=judge"),
    "rubric-groups": _process(RUBRIC, RubricAbsoluteEnv, "--env.samples_per_item=2"),
    "rubric-signal": _process(RUBRIC, RubricAbsoluteEnv, "--env.signal_groups=32", groups=32),
    "checklist-groups": _process(
        CHECKLIST, RubricChecklistEnv, "--env.rubric_dropout=0.3", groups=8
    ),
    "mt-bench-groups": _process(MT_BENCH, MTBenchEnv),
    "peers-groups": _process(PEERS, SelfCritiqueEnv),
}
"""By name. A flag may name the `{folder}` of the runs."""

NEEDS = {"arena-again": "arena"}
"""Runs that read the files of another one."""

FAILING = ("arena-failing", "pairwise-dropped")
"""The runs that end with exit code 1."""

WITH_PAGE = ("arena", "arena-together")
"""The runs that write a page."""


@dataclass(frozen=True)
class Finished:
    """A run that has ended: its directory and, of `process`, its file of groups."""

    files: RunFiles
    groups: Path | None

    @property
    def metrics(self) -> dict[str, float | None]:
        """All metrics by full name, `None` for one that is not known."""
        if self.groups is not None:
            found: dict[str, float | None] = json.loads(
                (self.files.path / "train_metrics.json").read_bytes()
            )
            return found
        values: dict[str, float | None] = self.files.report["results"]["all"]
        return values

    @property
    def left_out(self) -> set[str]:
        """The full names of metrics without a value."""
        return (
            set()
            if self.groups is not None
            else set(self.files.report["config_general"]["left_out"])
        )


Runs = Callable[[str], Finished]


def finished(name: str, folder: Path) -> Finished:
    """Make a run."""
    run = CONFIGURED[name]
    groups = folder / f"{name}.jsonl" if run.verb == "process" else None
    place = f"--env.data_dir_to_save_evals={folder / name}"
    if groups is not None:
        place = f"--env.data_path_to_save_groups={groups}"
    flags = (flag.format(folder=folder) if "{folder}" in flag else flag for flag in run.flags)
    if name in NEEDS:
        rows = RunFiles(folder / NEEDS[name]).samples
        labels = [
            {"uid": row["uid"], "labeller": "ann", "label": place % 2}
            for place, row in enumerate(rows)
        ]
        write_lines(
            folder / "labels.jsonl",
            [{"drawn": {"how": "random", "seed": 0, "rows": 4, "run": ""}}, *labels[:3]],
        )
    env = {"JUDGEGYM_ENV__WRITE_REPORT": str(name in WITH_PAGE)}
    ended = in_process(run.verb, "--offline", *flags, place, env_type=run.env_type, env=env)
    assert ended.code == (1 if name in FAILING else 0), ended.said
    return Finished(
        RunFiles(folder / name if groups is None else groups.with_suffix(".run")), groups
    )
