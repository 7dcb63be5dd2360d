"""Runs of the last commit before settings were removed, as it left them when it was killed.

`runs_of_c6c2dc6b` has four: `evaluate`, `process` and `serve` of the environment prompts, and
`score`. Their `config.yaml` names every setting of that time at its default, so that each removed
one is at its constant.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from judgegym.engine.settings import BUNDLED_TOKENIZER
from judgegym.environments.prompts_environment import PromptsEnv
from judgegym.judges.config.presets import load_yaml
from judgegym.judges.config.removed import REMOVED, REMOVED_FROM_JUDGES, RemovedSetting
from tests.command import Ended, in_process, serving
from tests.core.datasets.scoring import score
from tests.scripted import Json, Reply, completion, refusing

RUNS = Path(__file__).parent / "runs_of_c6c2dc6b"
_ENV = [
    *("--env.judge_model_name=the-judge", "--openai.model_name=the-policy"),
    *("--env.train_dataset=prompts.jsonl", "--env.tokenizer_name=bytes", "--env.group_size=2"),
]


class Run(NamedTuple):
    """A recorded run: its folder, the command that resumes it, and how many requests the whole run has."""

    folder: str
    words: Sequence[str]
    requests: int


EVALUATE = Run(
    "evaluate",
    [
        "evaluate",
        *_ENV[:2],
        "--env.eval_dataset=prompts.jsonl",
        "--env.data_dir_to_save_evals=evaluate",
    ],
    8,
)
PROCESS = Run(
    "process.run",
    ["process", *_ENV, "--env.data_path_to_save_groups=process.jsonl", "--env.total_steps=4"],
    4 * 3,
)
SERVE = Run(
    "serve.run",
    ["serve", *_ENV, "--env.data_dir_to_save_evals=serve.run", "--env.steps_per_eval=0"],
    0,
)
SCORE = Run(
    "score.run",
    [
        "score",
        "rows.jsonl",
        "--out=score.jsonl",
        "--samples_per_item=2",
        "--judge_model_name=the-judge",
    ],
    4 * 2,
)


@cache
def _recorded(run: str) -> Any:
    return load_yaml((RUNS / run / "config.yaml").read_bytes())


def recorded(run: Run) -> dict[str, Any]:
    """A copy of the recorded settings."""
    settings: dict[str, Any] = deepcopy(_recorded(run.folder))
    return settings


def cases() -> list[Any]:
    """Each removed setting of the table that one of the runs has, with the section and the run."""
    listed = []
    for setting in (*REMOVED, *REMOVED_FROM_JUDGES):
        for run in (EVALUATE, SERVE, PROCESS, SCORE):
            config = recorded(run)
            section = next(
                (each for each in ("env", "openai") if setting.name in config.get(each, {})), ""
            )
            if section or setting.name in config:
                listed.append(pytest.param(setting, section, run, id=setting.name))
                break
    return listed


def other_value(setting: RemovedSetting) -> Any:
    """A value that is not the constant."""
    constant = setting.constant
    if isinstance(constant, bool):
        return not constant
    if isinstance(constant, int | float):
        return constant + 7
    return (
        {"other": 1}
        if isinstance(constant, dict)
        else ["other"]
        if isinstance(constant, list)
        else "7"
    )


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(RUNS, tmp_path, dirs_exist_ok=True)
    shutil.copytree(BUNDLED_TOKENIZER, tmp_path / "bytes")
    monkeypatch.chdir(tmp_path)


def resumed(run: Run, url: str) -> Ended:
    verb, *flags = run.words
    if verb == "score":
        return score(*flags, f"--judge_base_url={url}", "--resume")
    with refusing() as trainer:
        urls = [f"--env.judge_base_url={url}", f"--openai.base_url={url}"]
        urls += [f"--env.rollout_server_url={trainer}"] if verb == "serve" else []
        return in_process(verb, *flags, *urls, "--resume", env_type=PromptsEnv)


def change(run: Run, edit: Callable[[dict[str, Any]], None]) -> None:
    """Edit the settings of the run that is resumed."""
    config = recorded(run)
    edit(config)
    Path(run.folder, "config.yaml").write_text(json.dumps(config, indent=1))  # which is YAML, too


def script(request: Json, number: int) -> Reply:
    if request["model"] == "the-judge":
        return Reply(body=completion("[FEEDBACK] fine [SCORE] 4"))
    return Reply(
        body=completion(
            *(f"An answer that differs, {each}." for each in range(request.get("n", 1)))
        )
    )


@pytest.mark.parametrize(
    "run",
    [EVALUATE, SCORE, pytest.param(PROCESS, marks=pytest.mark.slow)],
    ids=lambda run: run.folder,
)
def test_a_run_with_all_settings_at_their_constants_continues_without_a_repeated_call(
    run: Run,
) -> None:
    held = (RUNS / run.folder / "calls.jsonl").read_bytes().count(b'{"call":')
    with serving(script) as endpoint:
        ended = resumed(run, endpoint.base_url)
        assert ended.code == 0, ended.said
        assert 0 < held < run.requests
        assert len(endpoint.requests) == run.requests - held


@pytest.mark.parametrize(("setting", "section", "run"), cases())
def test_a_run_with_a_removed_setting_at_another_value_is_refused_by_name(
    setting: RemovedSetting, section: str, run: Run
) -> None:
    def edit(config: dict[str, Any]) -> None:
        (config[section] if section else config)[setting.name] = other_value(setting)

    change(run, edit)
    before = Path(run.folder, "config.yaml").read_bytes()
    with serving("unused") as endpoint:
        ended = resumed(run, endpoint.base_url)
        assert not endpoint.requests
    assert ended.code == 2, ended.said
    line = next(
        line
        for line in ended.said.splitlines()
        if f"{section}.{setting.name} (".lstrip(".") in line
    )
    assert f"{run.folder}/config.yaml, line " in line
    assert setting.advice in line
    assert Path(run.folder, "config.yaml").read_bytes() == before


@pytest.mark.parametrize(
    ("run", "section", "name"),
    [
        (EVALUATE, "env", "judge_temperatur"),
        (SERVE, "openai", "time_out"),
        (SCORE, "", "on_bad_rows"),
    ],
)
def test_a_run_with_an_unknown_setting_is_refused_by_name(
    run: Run, section: str, name: str
) -> None:
    change(run, lambda config: (config[section] if section else config).update({name: 1}))
    with serving("unused") as endpoint:
        ended = resumed(run, endpoint.base_url)
        assert not endpoint.requests
    assert ended.code == 2, ended.said
    path = f"{section}.{name}".lstrip(".")
    assert f"{path} ({run.folder}/config.yaml): unknown setting" in ended.said


_PLACES: dict[str, Callable[[str], dict[str, Any]]] = {
    "reward.style.judge_mood": lambda mood: {
        "judge": "composite",
        "reward": {"style": {"judge": "rubric", "judge_mood": mood}},
    },
    "judges.a.judge_mood": lambda mood: {
        "judge": "jury",
        "judges": {"a": {"judge_mood": mood}, "b": {}},
    },
    "cascade.1.judge_mood": lambda mood: {
        "judge": "cascade",
        "cascade": [{}, {"judge_mood": mood}],
    },
}


@pytest.mark.parametrize("path", _PLACES)
@pytest.mark.parametrize("mood", ["calm", "cross"])
def test_a_removed_setting_of_a_part_or_member(
    path: str, mood: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = RemovedSetting("JudgeSettings", "judge_mood", "calm", "leave it out")
    monkeypatch.setattr("judgegym.judges.config.removed.REMOVED_FROM_JUDGES", [gone])
    change(SCORE, lambda config: config.update(_PLACES[path](mood)))
    with serving("unused") as endpoint:
        ended = resumed(SCORE, endpoint.base_url)
    assert ended.code == 2, ended.said  # the judges differ
    assert (f"{path} (score.run/config.yaml, line " in ended.said) == (mood == "cross")
    assert ("judge_mood" in ended.said) == (mood == "cross")
