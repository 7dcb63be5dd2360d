"""What `--offline` overrides, what it leaves alone, and what is said of both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from judgegym.engine.settings import BUNDLED_TOKENIZER, EnvSettings
from judgegym.environments.command_line import offline
from judgegym.environments.command_line.offline import SOURCE, STAND_IN_URL, stand_ins, with_stand_ins
from judgegym.eval_environments.arena.environment import ArenaHardConfig
from judgegym.eval_environments.arena_hard_environment import ArenaHardEnv
from judgegym.eval_environments.peer.settings import SelfCritiqueConfig
from judgegym.judges.config.fields import Values
from judgegym.judges.config.sources import LoadedSettings, SettingsSource, SourceKind
from judgegym.judges.core.prompt_format import PromptFormat
from judgegym.llm.errors import SettingsError
from tests.core.engine.loading import loaded_from

PROMPT = PromptFormat(sections=("Claim",), judged=("Claim",), reply=lambda shown: "It is true.")
URL = "http://127.0.0.1:9/v1"
ARENA_HARD = EnvSettings[ArenaHardConfig]


@pytest.mark.parametrize(
    ("flags", "judge", "policy"),
    [
        (["--offline"], True, True),
        (["--offline", f"--env.judge_base_url={URL}"], False, True),
        (["--offline", f"--openai.base_url={URL}"], True, False),
        (["--offline", f'--openai.replicas=[{{"base_url": "{URL}"}}]'], True, False),
        (["--offline", "--env.model_answers=x.jsonl"], True, False),
        (["--offline", f"--env.judge_base_url={URL}", f"--openai.base_url={URL}"], False, False),
        (["--offline", "--openai.model_name=mine", "--env.judge_model_name=ours"], True, True),
        ([], False, False),
    ],
)
def test_which_endpoints_are_stand_ins(flags: list[str], judge: bool, policy: bool) -> None:
    which = stand_ins(loaded_from(*flags).settings)
    assert which == [name for name, is_one in (("judge", judge), ("policy", policy)) if is_one]


def test_names_that_are_given_are_kept() -> None:
    settings = loaded_from("--offline", "--openai.model_name=mine").settings
    assert (settings.openai.model_name, settings.env.judge_model_name) == ("mine", "offline-judge")


def test_the_bundled_samples_are_used_unless_others_are_given() -> None:
    assert loaded_from("--offline").settings.env.train_prompt_dataset.endswith("samples/arena_hard.jsonl")
    assert loaded_from("--offline", "--env.train_prompt_dataset=x").settings.env.train_prompt_dataset == "x"


async def is_served(url: str) -> bool:
    try:
        async with aiohttp.ClientSession() as session, session.get(f"{url}/models") as answer:
            return answer.status == 200
    except aiohttp.ClientConnectionError:
        return False


@pytest.mark.slow
async def test_stand_ins_run_while_the_block_does() -> None:
    loaded = loaded_from("--offline")
    async with offline.running(loaded) as settings:
        urls = {settings.env.judge_base_url, settings.openai.base_url}
        assert len(urls) == 2, "one for each role, so that neither's load is the other's"
        assert all([await is_served(url) for url in urls])
    assert not any([await is_served(url) for url in urls])
    assert loaded.settings.env.judge_base_url == STAND_IN_URL, "what was loaded is not changed"


@pytest.mark.slow
async def test_an_endpoint_that_is_given_is_left_alone() -> None:
    async with offline.running(loaded_from("--offline", f"--env.judge_base_url={URL}")) as settings:
        assert settings.env.judge_base_url == URL
        assert settings.openai.base_url not in (URL, STAND_IN_URL)


@pytest.mark.parametrize("faults", ['{"999": 0.1}', '{"500": 2}'])
async def test_unusable_faults(faults: str) -> None:
    with pytest.raises(SettingsError, match="--faults"):
        async with offline.running(loaded_from("--offline", f"--faults={faults}")):
            pass


@pytest.mark.slow
async def test_the_judges_stand_in_knows_the_environments_prompts_and_refuses_others() -> None:
    async with offline.running(loaded_from("--offline"), [PROMPT]) as settings, aiohttp.ClientSession() as session:
        statuses = []
        for url in (settings.env.judge_base_url, settings.openai.base_url):
            for text in ("[Claim]\nIt rains.", "[Guess]\nIt rains."):
                body = {"model": "m", "messages": [{"role": "user", "content": text}]}
                async with session.post(f"{url}/chat/completions", json=body) as answer:
                    statuses.append((answer.status, "does not know this prompt" in await answer.text()))
    assert statuses == [(200, False), (400, True), (200, False), (200, False)]


@pytest.mark.slow
async def test_a_prompt_that_cannot_be_loaded_is_an_error_that_names_it() -> None:
    with pytest.raises(SettingsError, match=r"nowhere\.py"):
        async with offline.running(loaded_from("--offline"), ["nowhere.py:PROMPT"]):
            pass


def test_it_is_the_environment_that_knows_its_samples() -> None:
    loaded: LoadedSettings[EnvSettings[ArenaHardConfig]] = loaded_from("--offline")
    for name, path in ArenaHardEnv.spec.offline_samples.items():
        assert (getattr(loaded.settings.env, name), loaded.origins[f"env.{name}"]) == (path, SOURCE)


SAMPLES = {"train_prompt_dataset": "samples.jsonl"}
REAL = "https://judge.example/v1"


def source(kind: SourceKind, **values: Any) -> SettingsSource:
    flat: Values = {}
    for name, value in values.items():
        flat |= {f"{name}.{field}": each for field, each in value.items()} if isinstance(value, dict) else {name: value}
    return SettingsSource({"file": "x.yaml"}.get(kind, kind), flat, kind)


def merged(sources: list[SettingsSource]) -> Values:
    values: Values = {"env": {}, "openai": {}}
    for each in reversed(sources):
        for name, value in each.values.items():
            section, _, field = name.partition(".")
            values.setdefault(section, {})[field] = value
    return values


def test_sources_without_the_flag_stay_as_they_are() -> None:
    sources = [source("command line", env={"seed": 1}), source("file", offline=False, env={"judge_base_url": REAL})]
    assert with_stand_ins(sources, ARENA_HARD, SAMPLES) == (sources, [])


def test_offline_alone_adds_a_preset_below_all_sources_and_says_nothing() -> None:
    given = [source("command line", offline=True, env={"seed": 1})]
    (*above, added), notes = with_stand_ins(given, ARENA_HARD, SAMPLES)
    assert (above, notes, added.name) == (given, [], SOURCE)
    assert added.values["env.train_prompt_dataset"] == "samples.jsonl"
    assert added.values["env.judge_base_url"] == added.values["openai.base_url"] == STAND_IN_URL


@pytest.mark.parametrize("kind", ["file", "environment variable"])
def test_endpoints_of_files_and_variables_are_overridden_in_one_line(kind: SourceKind) -> None:
    weaker = source(
        kind,
        env={"judge_base_url": REAL, "judge_model_name": "claude", "judge_api_key": "k", "seed": 7},
        openai={"replicas": [{"base_url": REAL}], "model_name": "m", "server_type": "vllm", "timeout": 5},
    )
    sources, notes = with_stand_ins([source("command line", offline=True), weaker], ARENA_HARD, SAMPLES)
    values = merged(sources)
    assert REAL not in str(values)
    assert (values["env"]["seed"], values["openai"]["timeout"]) == (7, 5)
    assert (values["env"]["judge_model_name"], values["openai"]["model_name"]) == ("offline-judge", "offline-policy")
    assert "server_type" not in values["openai"]
    (note,) = notes
    for name in ("env.judge_base_url", "env.judge_model_name", "openai.replicas", "openai.model_name", weaker.name):
        assert name in note
    assert "timeout" not in note


def test_endpoint_of_the_command_line_is_asked_and_said() -> None:
    typed = source("command line", offline=True, env={"judge_base_url": REAL})
    file = source("file", env={"judge_model_name": "claude"}, openai={"base_url": REAL})
    sources, notes = with_stand_ins([typed, file], ARENA_HARD, SAMPLES)
    values = merged(sources)
    assert (values["env"]["judge_base_url"], values["env"]["judge_model_name"]) == (REAL, "claude")
    assert values["openai"]["base_url"] == STAND_IN_URL
    said = f"--offline: the command line names the judge at {REAL}, which will be asked; "
    assert notes[0] == f"{said}without --env.judge_base_url a stand-in plays it"
    assert "openai.base_url (x.yaml)" in notes[1] and len(notes) == 2


def test_names_in_a_file_of_an_offline_run_are_kept_as_they_are_names_of_stand_ins() -> None:
    file = source("file", offline=True, env={"judge_model_name": "mine"}, openai={"model_name": "ours"})
    sources, notes = with_stand_ins([file], ARENA_HARD, SAMPLES)
    values = merged(sources)
    assert (values["env"]["judge_model_name"], values["openai"]["model_name"], notes) == ("mine", "ours", [])


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
    sources, notes = with_stand_ins([source("command line", offline=True), file], ARENA_HARD, SAMPLES)
    env = merged(sources)["env"]
    assert (env["train_prompt_dataset"], env["train_baseline_dataset"]) == ("samples.jsonl", str(local))
    assert env["tokenizer_name"] == str(BUNDLED_TOKENIZER)
    assert "eval_prompt_dataset" not in env and "token_source" not in env
    assert "train_baseline_dataset" not in notes[0]


@pytest.mark.parametrize("as_json", [False, True])
def test_models_of_a_file_become_stand_ins_with_one_name_in_both_lists(as_json: bool, tmp_path: Path) -> None:
    answers = tmp_path / "a.jsonl"
    answers.touch()
    kept = {"name": "from-file", "answers": str(answers)}
    candidates = [{"name": "gpt", "base_url": REAL, "api_key": "k"}, kept, {"name": "b", "answers": "gone.jsonl"}]
    judges = [{"name": "claude", "base_url": REAL}, {"name": "gpt", "base_url": REAL}]
    env: dict[str, Any] = {"candidates": candidates, "judges": judges}
    if as_json:
        env = {name: json.dumps(value) for name, value in env.items()}
    sources, notes = with_stand_ins(
        [source("command line", offline=True), source("file", env=env)], EnvSettings[SelfCritiqueConfig], {}
    )
    values = merged(sources)["env"]
    first, second, third = ({"name": f"offline-policy-{number}", "base_url": STAND_IN_URL} for number in (1, 2, 3))
    assert values["candidates"] == [first, kept, second]
    assert values["judges"] == [third, first]
    assert "env.candidates, env.judges (x.yaml)" in notes[0]


def test_models_of_the_command_line_are_asked_and_said() -> None:
    candidates = json.dumps([{"name": "gpt", "base_url": REAL}])
    typed = source("command line", offline=True, env={"candidates": candidates})
    file = source("file", env={"judges": [{"name": "claude", "base_url": REAL}]})
    sources, notes = with_stand_ins([typed, file], EnvSettings[SelfCritiqueConfig], {})
    env = merged(sources)["env"]
    assert env["candidates"] == candidates
    assert [model["base_url"] for model in env["judges"]] == [STAND_IN_URL]
    assert "names the models of env.candidates, which will be asked" in notes[0]
