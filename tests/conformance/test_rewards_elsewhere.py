"""A trainer that samples by itself gets the rewards that `process` and `serve` give to the same completions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from judgegym.engine.settings import BUNDLED_TOKENIZER
from judgegym.llm.errors import SettingsError
from judgegym_trainers.single_turn import EnvironmentSource, close_all, opened
from tests.conformance.lab import Lab
from tests.conformance.lab import opened as laboratory
from tests.conformance.subjects import KEYS, Subject
from tests.scripted import Reply, completion

_TEXTS = (
    "You look at it for a while, and then you explain it to a child by an example. [[A]] Verdict: 1 [SCORE] 2",
    "A child? I would rather not say anything at all about what that is. [[B]] Verdict: 0 [SCORE] 4",
    "I do not know.",
    "You look at it for a while, and then you explain it to a child by an example. [[A]] Verdict: 1 [SCORE] 2",
)


@pytest.fixture
def training(trained: Subject, tmp_path: Path, stand_in_url: str) -> Iterator[Lab]:
    with laboratory(trained, tmp_path, stand_in_url) as lab:
        yield lab


def test_rewards_are_those_of_process(training: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = training
    for name, key in KEYS.items():
        monkeypatch.setenv(name, key)
    lab.policy.disturb(lambda uid: Reply(body=completion(*_TEXTS)))
    path = lab.path / "groups.jsonl"
    flags = (
        f"--env.tokenizer_name={BUNDLED_TOKENIZER}",
        f"--env.group_size={len(_TEXTS)}",
        "--env.total_steps=2",
        "--env.ensure_scores_are_not_same=False",
        "--env.include_messages=true",
        f"--env.data_path_to_save_groups={path}",
    )
    ended = lab.command(*lab.argv(*flags, verb="process"))
    assert ended.code == 0, ended.said
    arguments = tuple(flag for flag in lab.argv(*flags, verb="process")[1:] if "data_path" not in flag)
    if lab.subject.turns > 1:
        asked = len(lab.policy.endpoint.requests), len(lab.judge.endpoint.requests)
        with pytest.raises(SettingsError, match=r"'row-0' is a conversation of several turns, .* `judgegym serve`"):
            opened(EnvironmentSource(str(lab.subject.script), arguments))
        assert asked == (len(lab.policy.endpoint.requests), len(lab.judge.endpoint.requests))
        return
    try:
        environment = opened(EnvironmentSource(str(lab.subject.script), arguments))
        for line in path.read_text().splitlines():
            group = json.loads(line)
            row = environment.row(group["row"]["uid"])
            assert [dict(message) for message in row.messages] == group["messages"][0][: len(row.messages)]
            results = environment.rewards_sync(row.uid, _TEXTS)
            assert [result.reward for result in results] == group["scores"]
            assert [result.status for result in results] == [
                turns[-1]["judgment"]["status"] for turns in group["messages"]
            ]
            for result in results:
                assert all(isinstance(value, float) for value in result.metrics.values())
    finally:
        close_all()
