"""Secrets of judges within judges, which endpoints repeat in errors: none is in any file that a run writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from judgegym.cli.commands import main
from judgegym.engine.settings import BUNDLED_TOKENIZER
from tests.command import serving, write_lines
from tests.core.server.running import running
from tests.faults.test_secrets import all_texts, parts
from tests.scripted import Json, Reply, ScriptedEndpoint

VARIABLES = {
    name: f"{name.lower()}-zq7number{name.lower()}f83jd0w"
    for name in ("MINE", "THEIRS", "GOLD", "POLICY")
}
HEADER, BODY, KEY = "header-zq7f83jd0wheader", "body-zq7f83jd0wbody", "direct-zq7f83jd0wdirect"
SECRETS = (*VARIABLES.values(), HEADER, BODY, KEY)
SENT = {
    "mine": (VARIABLES["MINE"], HEADER, BODY),
    "theirs": (VARIABLES["THEIRS"],),
    "gold": (VARIABLES["GOLD"],),
    "mounted": (KEY, HEADER),
}
"""The secrets that each model is sent."""
FAILING = "row-1"
SERVED = {"prompt": "Why?", "responses": ["row-0", FAILING]}


def answer(request: Json, number: int) -> Reply | str:
    """A verdict, or an answer of the policy; one row is refused, with what was sent in the message."""
    asked = json.dumps(request["messages"])
    if request["model"] == "policy":
        return "row-0" if "Why 0?" in asked else FAILING
    if FAILING in asked:
        sent = SENT[request["model"]]
        return Reply(
            status=400, body={"error": {"message": f"no: {' ; '.join((*sent, *parts(*sent)))}"}}
        )
    return "[FEEDBACK] So. [SCORE] 3"


@pytest.fixture(autouse=True)
def _variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)


@contextmanager
def endpoints() -> Iterator[tuple[ScriptedEndpoint, ScriptedEndpoint]]:
    with serving(answer) as own, serving(answer) as other:
        yield own, other


def judge_at(own: ScriptedEndpoint, other: ScriptedEndpoint) -> Json:
    """A composite of a jury of a cascade, whose strong judge is another host's; the whole has every kind of secret."""
    theirs = {"endpoint": {"base_url": other.base_url, "model": "theirs", "api_key_env": "THEIRS"}}
    cascade = {
        "kind": "cascade",
        "cheap": {},
        "strong": theirs,
        "cascade_threshold": 1.0,
        "cascade_share": 0.0,
    }
    jury = {"kind": "jury", "members": {"same": {}, "m": cascade}}
    secrets = {
        "api_key_env": "MINE",
        "extra_headers": {"X-Team": HEADER},
        "extra_body": {"auth": {"password": BODY}},
    }
    endpoint = {"base_url": own.base_url, "model": "mine", **secrets}
    return {
        "kind": "composite",
        "endpoint": endpoint,
        "parts": {"all": jury, "alone": {"kind": "rubric"}},
    }


def written(path: Path, settings: Json) -> str:
    path.write_text(yaml.safe_dump(settings))
    return f"--config={path}"


def check(folder: Path, said: str, *asked: ScriptedEndpoint) -> None:
    """Check that no secret is kept or shown, and that the endpoints had theirs."""
    texts = all_texts(folder)
    assert any("mine" in text for text in texts), "the run has written nothing"
    assert [
        secret
        for secret in (*SECRETS, *parts(*SECRETS))
        for text in (said, *texts)
        if secret in text
    ] == []
    own, other = asked
    assert {request.headers.get("Authorization") for request in other.requests} == {
        f"Bearer {VARIABLES['THEIRS']}"
    }
    judged = [request for request in own.requests if request.json["model"] == "mine"]
    assert {
        (request.headers["X-Team"], request.json["auth"]["password"]) for request in judged
    } == {(HEADER, BODY)}


def said_by(capsys: pytest.CaptureFixture[str]) -> str:
    told = capsys.readouterr()
    return told.out + told.err


@pytest.mark.slow("audit")
@pytest.mark.parametrize("command", ["score", "audit"])
def test_no_secret_of_a_nested_judge_is_kept_by_what_judges_rows(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"prompt": f"Why {n}?", "response": f"row-{n}", "gold": 0.5} for n in range(3)]
    data, out = write_lines(tmp_path / "data.jsonl", rows), tmp_path / "written"
    out.mkdir()
    with endpoints() as (own, other):
        config = written(tmp_path / "judge.yaml", {"judge": judge_at(own, other)})
        where = out / "scored.jsonl" if command == "score" else out / "audited"
        assert main([command, str(data), f"--out={where}", config, "--max_judge_error_rate=1"]) in (
            0,
            4,
        )
        check(out, said_by(capsys), own, other)


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["evaluate", "process"])
def test_no_secret_of_a_nested_judge_is_kept_by_an_environment(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = (
        write_lines(tmp_path / "data.jsonl", [{"prompt": f"Why {n}?"} for n in range(3)]),
        tmp_path / "written",
    )
    out.mkdir()
    with endpoints() as (own, other):
        policy = {"base_url": own.base_url, "model_name": "policy", "api_key_env": "POLICY"}
        gold = {
            "kind": "rubric",
            "endpoint": {"base_url": own.base_url, "model": "gold", "api_key_env": "GOLD"},
        }
        of_verb: Json = {"eval_dataset": str(data), "data_dir_to_save_evals": str(out / "run")}
        if verb == "process":
            saved = {
                "data_path_to_save_groups": str(out / "groups.jsonl"),
                "total_steps": 3,
                "group_size": 2,
            }
            of_verb = {
                "train_dataset": str(data),
                "gold_judge": gold,
                "gold_share": 1.0,
                "tokenizer_name": str(BUNDLED_TOKENIZER),
                **saved,
            }
        config = written(
            tmp_path / "env.yaml",
            {"env": {"judge": judge_at(own, other), **of_verb}, "openai": policy},
        )
        main([verb, "prompts", config])
        check(out, said_by(capsys), own, other)
        assert VARIABLES["POLICY"] in {
            (request.headers["Authorization"] or "")[7:] for request in own.requests
        }


@pytest.mark.slow
async def test_no_secret_of_a_nested_judge_is_kept_by_a_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    out = tmp_path / "written"
    async with ScriptedEndpoint(answer) as own, ScriptedEndpoint(answer) as other:
        mount = {
            "judge": {
                "kind": "rubric",
                "endpoint": {
                    "model": "mounted",
                    "api_key": KEY,
                    "extra_headers": {"X-Team": HEADER},
                },
            }
        }
        elsewhere = {"base_url": other.base_url, "model": "theirs", "api_key_env": "THEIRS"}
        gold = {
            "kind": "jury",
            "members": {"a": {}, "b": {"kind": "cascade", "cheap": {}, "strong": {}}},
            "endpoint": elsewhere,
        }
        settings = {
            "judge": judge_at(own, other),
            "mounts": {"m": mount},
            "run_dir": str(out),
            "gold_judge": gold,
        }
        config = written(tmp_path / "server.yaml", {**settings, "gold_share": 1.0})
        async with running(
            config, "--judge_model_name=mine", f"--judge_base_url={own.base_url}"
        ) as server:
            for path in ("/v1/score", "/m/v1/score"):
                assert (await server.post(path, SERVED)).status == 200
            await other.arrived(2)
        check(out, said_by(capsys) + caplog.text, own, other)
        mounted = [request for request in own.requests if request.json["model"] == "mounted"]
        assert {request.headers["Authorization"] for request in mounted} == {f"Bearer {KEY}"}


def test_no_secret_of_a_mount_is_shown_with_the_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoint = {
        "api_key": KEY,
        "extra_headers": {"X-Team": HEADER},
        "extra_body": {"auth": {"password": BODY}},
    }
    flat = {f"judge_{name}": value for name, value in endpoint.items()}
    mounts = {
        "a": flat,
        "b": {"endpoint": endpoint},
        "c": {"judge": {"kind": "rubric", "endpoint": endpoint}},
    }
    config = written(tmp_path / "server.yaml", {"mounts": mounts})
    assert main(["judge-server", config, "--show_config"]) == 0
    said = said_by(capsys)
    assert "X-Team" in said and [secret for secret in parts(*SECRETS) if secret in said] == []
    mounts = {"m": {"kind": "jury", "members": {"a": {"endpoint": endpoint}, "b": {}}}}
    assert (
        main(
            ["judge-server", written(tmp_path / "server.yaml", {"mounts": mounts}), "--show_config"]
        )
        == 2
    )
    said = said_by(capsys)
    assert said.startswith("mounts.m.judges.a.judge_api_key: ") and "judge_api_key_env" in said
