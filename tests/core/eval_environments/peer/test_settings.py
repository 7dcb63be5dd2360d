"""How the models of a peer evaluation are named, and what is said of settings that are wrong; no key is ever shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from judgegym.eval_environments.models import ModelSettings
from judgegym.eval_environments.peer.settings import SelfCritiqueConfig
from tests.command import write_lines
from tests.peers import Bench, bench, peer, queries

KEY = "sk-secret-of-a-model-0123456789"
ELSEWHERE = {"name": "far", "base_url": "https://models.example/v1"}


@pytest.mark.slow
def test_keys_go_to_their_own_models_and_nowhere_else(tmp_path: Path) -> None:
    with bench(tmp_path, names=("ann", "bob", "cid")) as models:
        named = [
            models.model("ann", api_key=KEY),
            models.model("bob", api_key_env="KEY_OF_BOB"),
            models.model("cid"),
        ]
        ended = models.evaluate(candidates=json.dumps(named), KEY_OF_BOB=KEY + "-bob")
        sent = {
            name: {request.headers.get("Authorization") for request in endpoint.requests}
            for name, endpoint in models.endpoints.items()
        }
    assert ended.code == 0, ended.said
    assert sent == {"ann": {f"Bearer {KEY}"}, "bob": {f"Bearer {KEY}-bob"}, "cid": {None}}
    written = ended.files.texts()
    assert len(written) > 5
    assert not [text for text in written if KEY in text]
    assert KEY not in ended.said
    saved = yaml.safe_load((ended.files.path / "config.yaml").read_text())["env"]["candidates"]
    assert saved[1]["api_key_env"] == "KEY_OF_BOB"


@pytest.mark.parametrize(
    "wrong", [{"typo": 1}, {"answers": "a.jsonl"}, {"max_concurrency": 0}, {"base_url": "nowhere"}]
)
def test_no_key_is_shown_with_an_error(tmp_path: Path, wrong: dict[str, Any]) -> None:
    ended = peer(
        "evaluate", f"--env.candidates={json.dumps([{**ELSEWHERE, 'api_key': KEY, **wrong}])}"
    )
    assert ended.code == 2
    assert "candidates" in ended.said
    assert "Traceback" not in ended.said
    assert KEY not in ended.said


def no_key_named(models: Bench) -> list[str]:
    return [f"--env.candidates={json.dumps([models.model('ann'), ELSEWHERE])}"]


def nobody_judges(models: Bench) -> list[str]:
    return [f"--env.candidates={models.models('ann')}"]


def only_answers(models: Bench) -> list[str]:
    file = write_lines(models.path / "old.jsonl", [{"uid": "q0", "answer": "An answer of old."}])
    return [f'--env.candidates=[{{"name": "old", "answers": "{file}"}}]']


def judge_with_answers(models: Bench) -> list[str]:
    file = write_lines(models.path / "old.jsonl", [{"uid": "q0", "answer": "An answer of old."}])
    return [
        f"--env.candidates={models.models()}",
        f'--env.judges=[{{"name": "old", "answers": "{file}"}}]',
    ]


def answer_missing(models: Bench) -> list[str]:
    file = write_lines(models.path / "old.jsonl", [{"uid": "q7", "answer": "An answer of old."}])
    return [
        f'--env.candidates=[{models.models("ann")[1:-1]}, {{"name": "old", "answers": "{file}"}}]'
    ]


def model_answers(models: Bench) -> list[str]:
    return [f"--env.candidates={models.models()}", "--env.model_answers=old.jsonl"]


def no_dataset(models: Bench) -> list[str]:
    return [f"--env.candidates={models.models()}", "--env.dataset=/nowhere/rows.jsonl"]


def no_query(models: Bench) -> list[str]:
    rows = write_lines(models.path / "wrong.jsonl", [{"uid": "q0", "topic": "frost"}])
    return [f"--env.candidates={models.models()}", f"--env.dataset={rows}"]


WRONG: list[tuple[Callable[[Bench], list[str]], list[str]]] = [
    (lambda models: [], ["--env.candidates", "models to compare"]),
    (no_key_named, ["'far'", "api_key_env", "models.example", "only sent to"]),
    (nobody_judges, ["--env.judges", "no judge has", "env.include_self"]),
    (only_answers, ["--env.judges", "no model judges"]),
    (judge_with_answers, ["--env.judges", "'old'", "cannot judge"]),
    (answer_missing, ["old.jsonl", "no answer for 1 of 1 rows", "'q0'"]),
    (model_answers, ["--env.model_answers", "candidate"]),
    (no_dataset, ["/nowhere/rows.jsonl", "no such file"]),
    (no_query, ["row 1", "query", "topic"]),
    (lambda models: ["--env.rubric=@/nowhere/rubric.txt"], ["env.rubric", "/nowhere/rubric.txt"]),
]


@pytest.mark.parametrize(("flags", "words"), WRONG)
def test_what_is_wrong_is_said_before_the_first_call(
    tmp_path: Path, flags: Callable[[Bench], list[str]], words: list[str]
) -> None:
    rows = write_lines(tmp_path / "rows.jsonl", queries(1))
    with bench(tmp_path) as models:
        into = f"--env.data_dir_to_save_evals={tmp_path / 'run'}"
        ended = peer("evaluate", f"--env.dataset={rows}", into, *flags(models))
        assert models.counts() == {}
    assert ended.code == 2, ended.said
    said = " ".join(ended.said.split())
    assert [word for word in words if word not in said] == []
    assert "Traceback" not in said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("names", "name"),
    [([], "gpt-4.1"), (["a"], "a"), (["a", "b"], "a+b"), (["a", "b", "c", "d"], "a+b+2 more")],
)
def test_a_run_is_named_after_its_candidates(names: list[str], name: str) -> None:
    candidates = [ModelSettings(name=each, base_url="http://127.0.0.1:1/v1") for each in names]
    assert SelfCritiqueConfig(candidates=candidates).run_name("gpt-4.1") == name


@pytest.mark.parametrize(
    ("lists", "asked"),
    [
        ({}, "judge"),
        ({"candidates": "a"}, "a"),
        ({"judges": "b"}, "b"),
        ({"candidates": "a", "judges": "b"}, "b"),
    ],
)
def test_in_training_the_judges_are_asked_or_the_candidates_or_the_judge(
    lists: dict[str, str], asked: str
) -> None:
    urls = {name: f"http://{name}.example/v1" for name in ("a", "b", "judge")}
    models = {
        setting: [ModelSettings(name=name, base_url=urls[name])] for setting, name in lists.items()
    }
    config = SelfCritiqueConfig(judge_base_url=urls["judge"], **models)  # type: ignore[arg-type]
    assert config.endpoints_asked("serve", ("policy",)).judge == (urls[asked],)
