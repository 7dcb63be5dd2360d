"""A reward of several parts in `judgegym score`, its plan, `evaluate prompts` and the server: whom each part asks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from judgegym.environments.prompts_environment import PromptsEnv
from tests.command import RunFiles, in_process, serving, write_lines
from tests.core.datasets.scoring import Scoring, score
from tests.plans import read_plan
from tests.scripted import Json, ScriptedEndpoint

ROWS = [
    {"prompt": "How much is 6 * 7?", "response": "42", "reference": "42"},
    {"prompt": "How much is 6 * 7?", "response": "41", "reference": "42"},
    {"prompt": "Why?", "response": "Because.", "reference": "It is so."},
]
RULE_FIRST = (
    "--judge=composite",
    "--reward=rule,rubric",
    "--rule=number",
    "--combine=first_that_says",
)


@pytest.fixture
def scoring(tmp_path: Path) -> Iterator[Scoring]:
    with serving("[FEEDBACK] fine [SCORE] 4") as judge:
        yield Scoring(tmp_path, judge)


def test_judge_calls_are_the_rows_that_the_rule_could_not_settle(scoring: Scoring) -> None:
    assert scoring(*RULE_FIRST, rows=ROWS).code == 0
    assert (scoring.column("judge/score"), len(scoring.judge.requests)) == ([1.0, 0.0, 0.75], 1)
    assert scoring.column("judge/detail")[2] == {"rubric": 0.75, "rubric.raw": 4.0}
    assert [*scoring.samples[2]["run"]["judge_calls"]] == ["rubric/judgment_1"]
    metrics = scoring.run.metrics
    assert (metrics["part_rule"], metrics["part_rubric"]) == (0.5, 0.75)
    assert metrics["part_rule_missing_rate"] == pytest.approx(1 / 3)


def test_plan_has_the_calls_and_the_price_of_each_part(scoring: Scoring) -> None:
    prices = "--judge_price_input=1", "--judge_price_output=1", "--judge_max_tokens=0"
    plan = read_plan(scoring(*RULE_FIRST, "--plan", *prices, rows=ROWS).successful().out)
    assert {name: model.calls.usual for name, model in plan.models.items()} == {"judge rubric": 1}
    assert plan.cost is not None and plan.models["judge rubric"].cost == plan.cost > 0
    assert not scoring.judge.requests


def parts_at(endpoint: ScriptedEndpoint) -> dict[str, Any]:
    parts = {
        "own": {"judge": "rubric", "judge_base_url": endpoint.base_url},
        "same": {
            "judge": "rubric",
            "judge_model_name": "other",
            "judge_api_key_env": "NO_SUCH_KEY",
        },
    }
    return {"judge": "composite", "reward": parts}


@pytest.mark.slow
def test_offline_asks_no_endpoint_of_a_part(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "data.jsonl", ROWS)
    with serving("[FEEDBACK] fine [SCORE] 4") as endpoint:
        config = tmp_path / "reward.yaml"
        config.write_text(yaml.safe_dump(parts_at(endpoint)))
        ended = score(data, "--out", tmp_path / "out.jsonl", "--config", config, "--offline")
        assert ended.code == 0, ended.said
        assert "judged by offline-judge" in ended.out
        config.write_text(yaml.safe_dump({"env": parts_at(endpoint)}))
        where = f"--env.eval_dataset={data}", f"--env.data_dir_to_save_evals={tmp_path / 'run'}"
        ended = in_process(
            "evaluate", "--offline", "--config", str(config), *where, env_type=PromptsEnv
        )
        assert ended.code == 0, ended.said
        assert not endpoint.requests
        with serving(
            "[FEEDBACK] fine [SCORE] 5"
        ) as named:  # by the command line, and so it is asked for every part
            words = (
                f"--env.judge_base_url={named.base_url}",
                f"--env.data_dir_to_save_evals={tmp_path / 'named'}",
            )
            ended = in_process(
                "evaluate",
                "--offline",
                "--config",
                str(config),
                where[0],
                *words,
                env_type=PromptsEnv,
            )
            assert ended.code == 0, ended.said
            assert (len(endpoint.requests), len(named.requests)) == (0, 6)
    metrics = RunFiles(tmp_path / "run").metrics
    assert metrics["mean_score"] == pytest.approx((metrics["part_own"] + metrics["part_same"]) / 2)
    assert metrics["part_own_missing_rate"] == 0


def test_files_of_parts_are_settings_of_the_run(scoring: Scoring, tmp_path: Path) -> None:
    rubric, criteria, rule = (
        tmp_path / "rubric.txt",
        tmp_path / "criteria.yaml",
        tmp_path / "rule.py",
    )
    rubric.write_text("Is it short?")
    criteria.write_text("- {name: short, text: Is short., points: 2}")
    rule.write_text("def score(response): return 0.5")
    parts = {
        "style": {"judge": "rubric", "rubric": f"@{rubric}"},
        "own": {"judge": "rule", "rule": f"{rule}:score"},
        "list": {
            "judge": "checklist",
            "criteria": f"@{criteria}",
            "weight": 0,
            "on_failure": "leave_out",
        },
    }
    words = "--judge=composite", f"--reward={json.dumps(parts)}", "--max_judge_error_rate=1"
    assert scoring(*words, rows=ROWS).code == 0
    kept = yaml.safe_load((scoring.run.path / "config.yaml").read_text("utf-8"))["reward"]
    assert (kept["style"]["rubric"], kept["list"]["criteria"][0]["text"]) == (
        "Is it short?",
        "Is short.",
    )
    assert scoring(*words, "--resume").code == 0
    for file, text in ((rule, "def score(response): return 0.25"), (rubric, "Is it long?")):
        file.write_text(text)
        refused = scoring(*words, "--resume")
        assert (refused.code, "reward" in refused.err) == (2, True)


def test_resumed_run_asks_no_part_again(scoring: Scoring) -> None:
    words = (
        "--judge=composite",
        '--reward={"a": {"judge": "rubric"}, "b": {"judge": "rubric", "judge_temperature": 0.9}}',
    )

    def script(request: Json, number: int) -> str:
        text = request["messages"][-1]["content"]
        return (
            "nothing"
            if "Because." in text and request["temperature"] == 0.9
            else "[FEEDBACK] fine [SCORE] 4"
        )

    with serving(script) as judge:
        scoring.judge = judge
        assert scoring(*words, "--max_judge_error_rate=1", rows=ROWS).code == 0
        asked = len(judge.requests)
        assert scoring.column("judge/status") == ["ok", "ok", "unparsable"]
    with serving("[FEEDBACK] fine [SCORE] 2") as judge:
        scoring.judge = judge
        assert scoring(*words, "--max_judge_error_rate=1", "--resume").code == 0
        assert (asked, len(judge.requests)) == (
            8,
            1,
        )  # the verdict that could not be read was asked for three times
    assert scoring.column("judge/score") == [0.75, 0.75, (0.75 + 0.25) / 2]
