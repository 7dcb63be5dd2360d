"""What `process` prints: the short table; all metrics are in a file, and printed if asked."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from judgegym.eval_environments.pairwise_judgement_environment import PairwiseJudgementEnv
from tests.command import in_process

TIMES = ("latency", "per_second")


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--all_metrics",)])
def test_process_prints_a_short_table_and_writes_all_metrics(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    ended = in_process(
        "process",
        "--offline",
        "--env.total_steps=4",
        f"--env.data_path_to_save_groups={tmp_path / 'g'}",
        *flags,
    )
    assert ended.code == 0, ended.said
    metrics = json.loads((tmp_path / "g.run" / "train_metrics.json").read_bytes())
    assert metrics["train/groups_judged"] == 4 and metrics["train/judge_cost_usd"] is None
    lines = [re.split(r"\s{2,}", line.strip()) for line in ended.out.splitlines()]
    by_label = {line[0]: line[1:] for line in lines}
    assert by_label["win rate"] == [f"{metrics['train/winrate']:.4f}", "4 groups, train/winrate"]
    assert {"groups", "outcomes", "cost", "time"} <= by_label.keys()
    assert "went wrong" not in by_label
    printed = [name for name in metrics if f" {name} " in ended.out]
    assert printed == (list(metrics) if flags else [])
    assert (
        f"{len(metrics) - 2} metrics are in {tmp_path / 'g.run' / 'train_metrics.json'}"
        in ended.out
    )
    assert "4 of 4 groups, in " in ended.err
    assert f"writing 4 groups (env.total_steps) of 12 rows to {tmp_path / 'g'}" in ended.err
    assert re.search(r"16 completions .*\(4 groups of 4\)", ended.err)


def test_process_where_the_policy_judges_names_no_cost_of_a_judge(tmp_path: Path) -> None:
    groups = f"--env.data_path_to_save_groups={tmp_path / 'g'}"
    ended = in_process(
        "process", "--offline", "--env.total_steps=2", groups, env_type=PairwiseJudgementEnv
    )
    assert ended.code == 0, ended.said
    costs = ended.out[ended.out.index("\ncost") : ended.out.index("\ntime")].split()
    assert costs[:3] == ["cost", "policy", "unknown"]
    assert re.fullmatch(r"2 requests, \d+ tokens in, [\d,]+ out", " ".join(costs[3:]))
    assert "judge $" not in ended.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "source", "code", "said"),
    [
        ("content_filter", "auto", 0, r"refused answers +100\.0 %"),
        ("refusal", "auto", 1, r"dropped: policy_failed +6  groups"),
    ],
    ids=["cut with its tokens", "without the tokens that the endpoint gives"],
)
def test_process_says_what_went_wrong(
    tmp_path: Path, fault: str, source: str, code: int, said: str
) -> None:
    faults, groups = f'--faults={{"{fault}": 1}}', tmp_path / "g"
    flags = (
        f"--env.token_source={source}",
        "--env.total_steps=2",
        f"--env.data_path_to_save_groups={groups}",
    )
    ended = in_process("process", "--offline", faults, *flags)
    assert "Traceback" not in ended.said
    assert ended.code == code, ended.said
    assert re.search(rf"^  {said}$", ended.out, re.MULTILINE), ended.said
    scores = (
        [json.loads(line)["scores"] for line in groups.read_text().splitlines()]
        if groups.exists()
        else []
    )
    assert scores == ([] if code else [[0.0] * 4] * 2), "invalid_thinking_reward"
