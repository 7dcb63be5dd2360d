"""Pushing to the hub, with the real `huggingface_hub` against a scripted one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.command import Ended
from tests.core.cli.command import judgegym
from tests.core.datasets.select.hub import TOKEN, serving_hub
from tests.core.datasets.select.scored import lines_file, scored_row
from tests.scripted import refusing


@pytest.fixture
def scored(tmp_path: Path) -> Path:
    return lines_file(
        tmp_path / "scored.jsonl",
        [scored_row({"prompt": "Q", "responses": ["a", "b"]}, [1.0, 0.0])],
    )


def push(
    scored: Path, repository: str, url: str, *words: str, token: str = TOKEN, out: str = "o.jsonl"
) -> Ended:
    home = {"HF_HOME": str(scored.parent / "home"), "HF_ENDPOINT": url, "HF_TOKEN": token}
    home["HF_HUB_OFFLINE"] = ""  # set in this process by a test that has read a local file
    command = [
        "select",
        str(scored),
        "--out",
        f"out/{out}",
        "--pairs",
        f"--push_to_hub={repository}",
        *words,
    ]
    return judgegym(*command, cwd=scored.parent, env=home, fresh=True)


@pytest.mark.slow
def test_file_and_card_are_one_commit_and_the_token_is_nowhere(scored: Path) -> None:
    with serving_hub() as hub:
        ended = push(scored, "ours/pairs", hub.url, "--private")
        assert ended.code == 0, ended.said
        files = {
            name: (scored.parent / "out" / name).read_bytes() for name in ("o.jsonl", "README.md")
        }
        assert hub.files == {"ours/pairs": files}
        assert (hub.private, hub.commits) == ({"ours/pairs": True}, 1)
        assert f"pushed to {hub.url}/datasets/ours/pairs" in ended.err
        again = push(scored, "ours/pairs", hub.url)
        assert (again.code, hub.commits) == (0, 2)
        assert TOKEN not in ended.said + again.said + files["README.md"].decode()


@pytest.mark.slow
def test_what_the_hub_refuses_is_one_line(scored: Path) -> None:
    with serving_hub() as hub, refusing() as nobody:
        hub.files["ours/theirs"], hub.private["ours/theirs"] = {"README.md": b"# Theirs\n"}, False
        hub.files["ours/public"], hub.private["ours/public"] = {}, False
        cases = [
            (push(scored, "ours/public", hub.url, "--private"), "ours/public .*is public"),
            (push(scored, "strangers/pairs", hub.url), "You don't have the rights"),
            (push(scored, "ours/pairs", hub.url, token="hf_wrong"), "Invalid"),
            (
                push(scored, "ours/theirs", hub.url),
                r"README\.md of ours/theirs was not written",
            ),
            (push(scored, "ours/pairs", nobody), "cannot be reached"),
            (push(scored, "ours/pairs", hub.url, token=""), "set HF_TOKEN"),
            (push(scored, "a b/c/d", hub.url), "organisation/name, found a b/c/d"),
        ]
        for ended, message in cases:
            last = ended.err.strip().splitlines()[-1]
            assert ended.code == 2 and re.search(f"^--p.*{message}", last), ended.said
            assert (
                "Traceback" not in ended.err
                and TOKEN not in ended.said
                and "hf_wrong" not in ended.said
            )
        assert (hub.commits, hub.files["ours/theirs"]) == (0, {"README.md": b"# Theirs\n"})
