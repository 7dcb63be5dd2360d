"""A trainer that samples by itself gets the rewards that `process` and `serve` give to the same completions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from judgegym.llm.errors import SettingsError
from judgegym_trainers.single_turn import EnvironmentSource, close_all, get_environment
from tests.conformance.lab import Lab
from tests.conformance.lab import opened as laboratory
from tests.conformance.subjects import KEYS, Subject
from tests.scripted import Reply, completion

_TEXTS = (
    "You look at it for a while, and then you explain it to a child by an example. [[A]] Verdict: "
    "1 [SCORE] 2",
    "A child? I would rather not say anything at all about what that is. [[B]] Verdict: 0 [SCORE] "
    "4",
    "I do not know.",
    "You look at it for a while, and then you explain it to a child by an example. [[A]] Verdict: "
    "1 [SCORE] 2",
)


@pytest.fixture
def training(trained: Subject, tmp_path: Path, stand_in_url: str) -> Iterator[Lab]:
    with laboratory(trained, tmp_path, stand_in_url) as lab:
        yield lab


@pytest.mark.slow("tournament", "rubric_checklist", "listwise", "aspect_critique")
def test_rewards_are_those_of_process(training: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = training
    for name, key in KEYS.items():
        monkeypatch.setenv(name, key)
    lab.policy.disturb(lambda uid: Reply(body=completion(*_TEXTS)))
    flags = f"--env.group_size={len(_TEXTS)}", "--env.total_steps=2"
    lab.process(*flags).successful()
    arguments = tuple(flag for flag in lab.argv_of_process(*flags)[1:] if "data_path" not in flag)
    if lab.subject.turns > 1:
        asked = lab.requests
        with pytest.raises(SettingsError, match=r"'row-0' .*several turns, .* `judgegym serve`"):
            get_environment(EnvironmentSource(str(lab.subject.script), arguments))
        assert asked == lab.requests
        return
    try:
        environment = get_environment(EnvironmentSource(str(lab.subject.script), arguments))
        for group in lab.groups():
            row = environment.row(group["row"]["uid"])
            assert [dict(message) for message in row.messages] == group["messages"][0][
                : len(row.messages)
            ]
            results = environment.rewards_sync(row.uid, _TEXTS)
            assert [result.reward for result in results] == group["scores"]
            assert [result.status for result in results] == [
                turns[-1]["judgment"]["status"] for turns in group["messages"]
            ]
            for result in results:
                assert all(isinstance(value, float) for value in result.metrics.values())
    finally:
        close_all()
