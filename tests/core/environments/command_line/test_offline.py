"""What `--offline` overrides, what it leaves alone, and what is said of both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judgegym.engine.settings import BUNDLED_TOKENIZER, EnvSettings
from judgegym.environments.command_line.offline import STAND_IN_URL, apply_offline
from judgegym.eval_environments.arena.environment import ArenaHardConfig
from judgegym.eval_environments.peer.settings import SelfCritiqueConfig
from judgegym.judges.config.fields import Values
from judgegym.judges.config.sources import SettingsSource, SourceKind

ARENA_HARD = EnvSettings[ArenaHardConfig]


SAMPLES = {"train_prompt_dataset": "samples.jsonl"}
REAL = "https://judge.example/v1"


def source(kind: SourceKind, **values: Any) -> SettingsSource:
    flat: Values = {}
    for name, value in values.items():
        flat |= (
            {f"{name}.{field}": each for field, each in value.items()}
            if isinstance(value, dict)
            else {name: value}
        )
    return SettingsSource({"file": "x.yaml"}.get(kind, kind), flat, kind)


def merged(sources: list[SettingsSource]) -> Values:
    values: Values = {"env": {}, "openai": {}}
    for each in reversed(sources):
        for name, value in each.values.items():
            section, _, field = name.partition(".")
            values.setdefault(section, {})[field] = value
    return values


@pytest.mark.parametrize("kind", ["file", "environment variable"])
def test_endpoints_of_files_and_variables_are_overridden_in_one_line(kind: SourceKind) -> None:
    weaker = source(
        kind,
        env={"judge_base_url": REAL, "judge_model_name": "claude", "judge_api_key": "k", "seed": 7},
        openai={
            "replicas": [{"base_url": REAL}],
            "model_name": "m",
            "server_type": "vllm",
            "timeout": 5,
        },
    )
    sources, notes = apply_offline(
        [source("command line", offline=True), weaker], ARENA_HARD, SAMPLES
    )
    values = merged(sources)
    assert REAL not in str(values)
    assert (values["env"]["seed"], values["openai"]["timeout"]) == (7, 5)
    assert (values["env"]["judge_model_name"], values["openai"]["model_name"]) == (
        "offline-judge",
        "offline-policy",
    )
    assert "server_type" not in values["openai"]
    (note,) = notes
    for name in (
        "env.judge_base_url",
        "env.judge_model_name",
        "openai.replicas",
        "openai.model_name",
        weaker.name,
    ):
        assert name in note
    assert "timeout" not in note


def test_endpoint_of_the_command_line_is_asked_and_said() -> None:
    typed = source("command line", offline=True, env={"judge_base_url": REAL})
    file = source("file", env={"judge_model_name": "claude"}, openai={"base_url": REAL})
    sources, notes = apply_offline([typed, file], ARENA_HARD, SAMPLES)
    values = merged(sources)
    assert (values["env"]["judge_base_url"], values["env"]["judge_model_name"]) == (REAL, "claude")
    assert values["openai"]["base_url"] == STAND_IN_URL
    facts = f"the judge at {REAL}, ", "will be asked", "without --env.judge_base_url "
    assert notes[0].startswith("--offline: ") and all(fact in notes[0] for fact in facts)
    assert "openai.base_url (x.yaml)" in notes[1] and len(notes) == 2


def test_data_and_tokenizer_out_of_reach_are_replaced_and_local_ones_kept(tmp_path: Path) -> None:
    local = tmp_path / "mine.jsonl"
    local.touch()
    file = source(
        "file",
        env={
            "train_prompt_dataset": "hub/prompts",
            "eval_prompt_dataset": "hub/prompts",
            "train_baseline_dataset": str(local),
            "tokenizer_name": "hub/model",
            "token_source": "token_server",
        },
    )
    sources, notes = apply_offline(
        [source("command line", offline=True), file], ARENA_HARD, SAMPLES
    )
    env = merged(sources)["env"]
    assert (env["train_prompt_dataset"], env["train_baseline_dataset"]) == (
        "samples.jsonl",
        str(local),
    )
    assert env["tokenizer_name"] == str(BUNDLED_TOKENIZER)
    assert "eval_prompt_dataset" not in env and "token_source" not in env
    assert "train_baseline_dataset" not in notes[0]


def test_models_of_a_file_become_stand_ins_with_one_name_in_both_lists(tmp_path: Path) -> None:
    answers = tmp_path / "a.jsonl"
    answers.touch()
    kept = {"name": "from-file", "answers": str(answers)}
    candidates = [
        {"name": "gpt", "base_url": REAL, "api_key": "k"},
        kept,
        {"name": "b", "answers": "gone.jsonl"},
    ]
    judges = [{"name": "claude", "base_url": REAL}, {"name": "gpt", "base_url": REAL}]
    env = {"candidates": json.dumps(candidates), "judges": judges}
    sources, notes = apply_offline(
        [source("command line", offline=True), source("file", env=env)],
        EnvSettings[SelfCritiqueConfig],
        {},
    )
    values = merged(sources)["env"]
    first, second, third = (
        {"name": f"offline-policy-{number}", "base_url": STAND_IN_URL} for number in (1, 2, 3)
    )
    assert values["candidates"] == [first, kept, second]
    assert values["judges"] == [third, first]
    assert "env.candidates, env.judges (x.yaml)" in notes[0]
