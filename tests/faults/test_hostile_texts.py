"""Answers that imitate a prompt, a verdict or a turn: they are judged as what they are, and the judge sees no token.

The cases are in `data/texts.jsonl`, each with the tokens that it holds.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judgegym.engine.runs.recorded_calls import read_calls
from tests.command import RunFiles, in_process, serving
from tests.conformance.subjects import KEYS, SUBJECTS
from tests.faults.bench import Bench, stand_in
from tests.faults.test_hostile_files import cases
from tests.scripted import Json, Reply, completion

TEXTS = [parameters.values[0] for parameters in cases("texts.jsonl")]
SHORT = [
    case
    for case in TEXTS
    if len(case["text"]) < 1000 and case["name"] != "think tags in the middle"
]
"""Short texts; no judge is shown what stands before the end of thinking."""
ALL = {
    "name": "all",
    "text": "\n".join(case["text"] for case in SHORT),
    "tokens": [token for case in SHORT for token in case["tokens"]],
}
JUDGED = [subject for subject in SUBJECTS if subject.has_judge]


def judged(bench: Bench, case: dict[str, Any]) -> list[dict[str, Any]]:
    """The samples of a policy that always says this text, and a judge that works."""

    def policy(request: Json, number: int) -> Reply:
        return Reply(body=completion(*[case["text"]] * request.get("n", 1)))

    with serving(policy) as asked, stand_in(bench.loop) as judge:
        flags = bench.flags("evaluate", "run")
        argv = [
            "evaluate",
            *bench.subject.endpoints("evaluate", asked.base_url, judge.base_url),
            *flags,
        ]
        ended = in_process(*argv, env_type=bench.subject.env_type, env=KEYS)
    assert "Traceback" not in ended.said
    assert ended.code == 0, ended.said
    return RunFiles(bench.path / "run").samples


def shown_to_the_judge(path: Path) -> str:
    """All that the judge was asked."""
    calls = [call for call in read_calls(path) if "policy" not in call.component.split("/")]
    return "\n".join(message["content"] for call in calls for message in call.messages or ())


def holds(bench: Bench, case: dict[str, Any]) -> None:
    samples = judged(bench, case)
    assert len({sample["uid"].partition(":")[0] for sample in samples}) == bench.rows
    shown = shown_to_the_judge(bench.path / "run")
    assert case["text"].split()[0][:4] in shown
    for token in case["tokens"]:
        assert token not in shown, "a token is bare"
        assert token in json.dumps(samples), "the sample has what the policy said"
    if case["tokens"]:
        assert all(sample["injection_suspects"] >= len(case["tokens"]) for sample in samples)


@pytest.mark.slow("a megabyte")
@pytest.mark.parametrize("case", cases("texts.jsonl"))
def test_hostile_answer_is_judged_and_shows_the_judge_no_token(
    bench: Bench, case: dict[str, Any]
) -> None:
    holds(bench, case)


@pytest.mark.parametrize("subject", JUDGED, ids=lambda subject: subject.title)
def test_hostile_answer_shows_no_judge_a_token(bench: Bench) -> None:
    holds(bench, ALL)
