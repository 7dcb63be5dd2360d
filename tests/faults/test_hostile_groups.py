"""Completions that imitate a prompt, a verdict or a turn, judged together: each has its own score, and the judge sees
no token. The cases are those of `test_hostile_texts.py`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from judgegym.engine.runs.recorded_calls import read_calls
from tests.command import in_process, serving
from tests.conformance.subjects import KEYS, TOGETHER
from tests.faults.bench import GROUP, Bench, stand_in
from tests.faults.test_hostile_texts import ALL, TEXTS
from tests.scripted import Json, Reply, completion

ARENA = [subject for subject in TOGETHER if subject.title.startswith("arena_hard")]
LONG = [case for case in TEXTS if case["name"].startswith("20,000")]
"""For a megabyte in a group see `tests/core/judges/core/test_group_untrusted_texts.py`."""
ENDINGS = (
    "It explains it to a child.",
    "No.",
    "A child would see an example of it, and explain it to another child.",
)


@pytest.mark.slow
@pytest.mark.parametrize("subject", ARENA, ids=lambda subject: subject.title)
@pytest.mark.parametrize("case", [ALL, *LONG], ids=lambda case: str(case["name"]))
def test_hostile_completions_of_a_group_are_judged_and_show_the_judge_no_token(
    bench: Bench, case: dict[str, Any]
) -> None:
    assert len(ENDINGS) == GROUP

    def policy(request: Json, number: int) -> Reply:
        return Reply(body=completion(*(f"{case['text']}\n{ending}" for ending in ENDINGS)))

    with serving(policy) as asked, stand_in(bench.loop) as judge:
        argv = ["process", *bench.subject.endpoints("process", asked.base_url, judge.base_url)]
        flags = [*bench.flags("process", "run"), "--env.write_report=True"]
        ended = in_process(*argv, *flags, env_type=bench.subject.env_type, env=KEYS)
    assert "Traceback" not in ended.said
    assert ended.code == 0, ended.said
    groups = [json.loads(line) for line in (bench.path / "run.jsonl").read_bytes().splitlines()]
    assert len(groups) == bench.rows
    for group in groups:
        assert [turns[-1]["judgment"]["status"] for turns in group["messages"]] == ["ok"] * GROUP
    calls = [
        call for call in read_calls(bench.path / "run.run") if call.component.startswith("group")
    ]
    shown = "\n".join(message["content"] for call in calls for message in call.messages or ())
    assert case["text"].split()[0][:4] in shown
    assert [token for token in case["tokens"] if token in shown] == []
    assert (bench.path / "run.html").stat().st_size > 0
