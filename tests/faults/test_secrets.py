"""Secrets of every kind, which an endpoint repeats in its errors: none is in a file, in a log or on the terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import parse_qsl, quote

import pytest

from tests.arena import Arena, answering, for_model, model_is_a, uid_of
from tests.command import RunFiles, in_process, serving, write_lines
from tests.core.datasets.scoring import score
from tests.scripted import Json, Reply, completion

QUERY, BODY, HEADER, KEY, PASSWORD = (
    f"{name}-zq/7+{number}f83jd0w=="
    for number, name in enumerate(["query", "body", "header", "key", "pass"])
)
SECRETS = (QUERY, BODY, HEADER, KEY, PASSWORD)
OF_JUDGE, OF_POLICY = (QUERY, BODY, HEADER, KEY), (PASSWORD, BODY, HEADER)


def parts(*secrets: str) -> list[str]:
    """Beginnings and ends of secrets."""
    return [
        part
        for secret in secrets
        for part in (secret[:8], secret[-8:], quote(secret, safe="")[-12:])
    ]


def refused(*secrets: str) -> Reply:
    """What an endpoint says that repeats its secrets: each as it is, URL-encoded, and in part."""
    said = [
        *secrets,
        *(quote(secret, safe="") for secret in secrets),
        *(f"{part}…" for part in parts(*secrets)),
    ]
    return Reply(status=400, body={"error": {"message": f"no: {' ; '.join(said)}"}})


def with_query(base_url: str) -> str:
    return f"{base_url}?api-version=2&code={quote(QUERY, safe='')}"


def with_password(base_url: str) -> str:
    return base_url.replace("://", f"://user:{quote(PASSWORD, safe='')}@")


def leaks(texts: Sequence[str]) -> list[str]:
    found = [secret for text in texts for secret in (*parts(*SECRETS), *SECRETS) if secret in text]
    return sorted(set(found))


def all_texts(path: Path) -> list[str]:
    files = [file for file in path.rglob("*") if file.is_file() and file.suffix != ".gz"]
    packed = [text for run in path.rglob("calls.jsonl.gz") for text in RunFiles(run.parent).texts()]
    return [*(file.read_text(errors="replace") for file in files), *packed]


@pytest.mark.slow
def test_no_secret_of_an_evaluation_is_kept_or_shown_and_it_can_be_resumed(tmp_path: Path) -> None:
    fails = True

    def judged(request: Json, _: int) -> Reply | str:
        assert request["api_key"] == BODY
        failing = fails and uid_of(request) in ("row-1", "row-2")
        return refused(*OF_JUDGE) if failing else for_model("", model_is_a(request))

    def asked(request: Json, number: int) -> Reply | str:
        assert request["metadata"] == {"access_token": BODY}
        return (
            refused(*OF_POLICY)
            if fails and uid_of(request) == "row-3"
            else answering(request, number)
        )

    arena = Arena(tmp_path).rows(6)
    with serving(judged) as judge, serving(asked) as policy:
        argv = [
            *arena.argv(with_query(judge.base_url), with_password(policy.base_url), run="run"),
            f"--env.judge_extra_body={json.dumps({'api_key': BODY})}",
            f"--openai.extra_body={json.dumps({'metadata': {'access_token': BODY}})}",
            f"--env.judge_extra_headers=X-Team={HEADER}",
            "--openai.extra_headers",
            json.dumps({"X-Team": HEADER}),
            f"--env.judge_api_key={KEY}",
            "--env.write_report=True",
            "--env.full_debug=True",
        ]
        ended = in_process(*argv)
        assert ended.code == 1, ended.said
        assert leaks([ended.said, *all_texts(tmp_path / "run")]) == []
        assert "api-version" in (tmp_path / "run" / "config.yaml").read_text()
        fails = False
        ended = in_process(*argv, "--resume")
        assert ended.code == 0, ended.said
        assert leaks([ended.said, *all_texts(tmp_path / "run")]) == []
    (asked_judge, *_), (asked_policy, *_) = judge.requests, policy.requests
    assert asked_judge.path == "/v1/chat/completions" and asked_judge.headers["X-Team"] == HEADER
    assert asked_judge.headers["Authorization"] == f"Bearer {KEY}"
    assert asked_policy.headers["X-Team"] == HEADER and asked_policy.headers[
        "Authorization"
    ].startswith("Basic ")
    assert {tuple(parse_qsl(request.query)) for request in judge.requests} == {
        (("api-version", "2"), ("code", QUERY))
    }


def test_no_secret_of_a_scored_data_set_is_kept_or_shown(tmp_path: Path) -> None:
    data = write_lines(
        tmp_path / "data.jsonl", [{"prompt": "Why?", "response": f"row-{n}"} for n in range(6)]
    )

    def rated(request: Json, _: int) -> Reply:
        return (
            refused(*OF_JUDGE)
            if uid_of(request) == "row-1"
            else Reply(body=completion("[FEEDBACK] x [SCORE] 4"))
        )

    out = tmp_path / "out" / "scored.jsonl"
    out.parent.mkdir()
    with serving(rated) as judge:
        url = f"--judge_base_url={with_query(judge.base_url)}"
        body, headers = (
            f'--judge_extra_body={{"api_key":"{BODY}"}}',
            f"--judge_extra_headers=X-Team={HEADER}",
        )
        ended = score(data, "--out", out, url, body, headers, "--judge_api_key", KEY)
    assert ended.code == 1, ended.said
    assert leaks([ended.said, *all_texts(out.parent)]) == []


MISTAKES = {
    "password_and_key": (
        ["--env.judge_base_url=http://u:p4ssw0rd@127.0.0.1:9/v1", "--env.judge_api_key=k"],
        "judge_api_key",
    ),
    "two_keys": (
        ["--env.judge_extra_headers=Authorization=p4ssw0rd", "--env.judge_api_key=k"],
        "judge_api_key",
    ),
    "policy_password_and_key": (
        ["--openai.base_url=http://u:p4ssw0rd@127.0.0.1:9/v1", "--openai.api_key=k"],
        "api_key",
    ),
    "header_name": (["--env.judge_extra_headers", '{"a b": "p4ssw0rd"}'], "judge_extra_headers"),
    "header_value": (["--env.judge_extra_headers", '{"a": "p4ssw0rd\\n"}'], "judge_extra_headers"),
    "nested_header": (["--env.judge_extra_headers", '{"a": ["p4ssw0rd"]}'], "judge_extra_headers"),
    "own_header": (["--openai.extra_headers=Content-Length=p4ssw0rd"], "extra_headers"),
    "blank_in_body": (["--env.judge_extra_body", '{"api_key": "***"}'], "judge_extra_body"),
    "blank_in_query": (["--env.judge_base_url=http://127.0.0.1:9/v1?code=***"], "judge_base_url"),
    "two_models": (["--env.judge_model_name=a,b"], "judge_model_name"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_settings_that_cannot_be_meant_are_told_before_the_first_call(
    tmp_path: Path, mistake: str
) -> None:
    flags, setting = MISTAKES[mistake]
    run = Arena(tmp_path).rows(1).evaluate(*flags)
    assert run.code == 2, run.said
    assert setting in run.said and "p4ssw0rd" not in run.said and "Traceback" not in run.said
    assert run.judge.requests == run.policy.requests == []
