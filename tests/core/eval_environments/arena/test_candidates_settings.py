"""The settings of Arena-Hard's candidates: what is refused, what is asked, and that nothing changes without them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.arena import for_model
from tests.command import in_process
from tests.contest import answer_of, answering, contest

A, B = {"name": "a", "answers": "a.jsonl"}, {"name": "b", "base_url": "http://127.0.0.1:9/v1"}


@pytest.mark.parametrize(
    ("candidates", "flags", "said"),
    [
        ([A], (), "one candidate, 'a', "),
        ([A, {**B, "name": "A"}], (), "the same name, .*: 'a', 'A'"),
        ([A, {**B, "name": "Baseline"}], (), "'Baseline' .*a candidate's name"),
        ([A, {**B, "name": "a vs b"}], (), "'a vs b' .*a candidate's name"),
        ([A, B], (), r"a\.jsonl: .*no such file"),
        (
            [A, B],
            ("--env.model_answers=a.jsonl",),
            r'--env\.model_answers: .*as a candidate: .*"answers":',
        ),
        (
            [A, B],
            ("--env.judge_critique_rounds=1",),
            r"--env\.judge_critique_rounds: .*expected 0, found 1, .*candidates_play=baseline",
        ),
        ([A, B], ("--env.cluster_winrates=True",), r"--env\.cluster_winrates: .*one model only"),
        ([A, B], ("--env.candidates_play=league",), r"--env\.candidates_play"),
        (
            [],
            ("--env.candidates_play=baseline",),
            r"--env\.candidates_play: .*no candidates; .*--env\.candidates ",
        ),
    ],
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_compared_is_refused_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    candidates: list[dict[str, Any]],
    flags: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    run = contest(tmp_path, 2).compare(*flags, candidates=candidates)
    assert run.code == 2, run.said
    assert re.search(said, " ".join(run.said.split()))
    assert run.judge.bodies == []


@pytest.mark.parametrize("verb", ["serve", "process"])
def test_other_verbs_have_no_candidates(verb: str) -> None:
    ended = in_process(verb, "--offline", f"--env.candidates={json.dumps([A, B])}")
    assert (
        ended.code == 2
        and f"--env.candidates (command line): a setting of evaluate, not of {verb}" in ended.said
    )


@pytest.mark.slow
def test_baseline_may_be_played_with_self_critique(tmp_path: Path) -> None:
    flags = "--env.candidates_play=baseline", "--env.judge_critique_rounds=1"
    run = contest(tmp_path, 1).compare(*flags, candidates=["ann", "bob"])
    assert run.code == 0, run.said
    assert len(run.judge.bodies) == 8, "a game and a critique, in both orders, for each candidate"


@pytest.mark.slow
def test_endpoint_is_asked_with_its_own_name_and_the_settings_of_a_policy(tmp_path: Path) -> None:
    flags = (
        "--env.eval_temperature=0.1",
        "--env.eval_max_tokens=77",
        "--env.custom_system_prompt=Be brief.",
    )
    run = contest(tmp_path, 2).compare(
        *flags, candidates=["ann", "bob"], policies={"bob": answering("bob")}
    )
    assert run.code == 0, run.said
    asked = run.policies["bob"].bodies
    assert len(asked) == 2
    assert {(body["model"], body["temperature"], body["max_tokens"]) for body in asked} == {
        ("bob", 0.1, 77)
    }
    assert all(body["messages"][0] == {"role": "system", "content": "Be brief."} for body in asked)


@pytest.mark.slow
def test_run_of_one_policy_is_a_candidate(tmp_path: Path) -> None:
    here = contest(tmp_path, 3)
    alone = here.arena.evaluate(policy=answering("bob"), verdict=for_model, run="alone")
    assert alone.code == 0, alone.said
    run = here.compare(candidates=["ann", {"name": "bob", "answers": str(alone.files.path)}])
    assert run.code == 0, run.said
    said = [sample["detail"]["answers"][1]["answer"] for sample in run.files.samples]
    assert said == [answer_of("bob", uid) for uid in here.uids]
    assert re.search(rf"bob: .*those of {re.escape(str(alone.files.path))} ", run.ended.err)


@pytest.mark.slow
def test_offline_stand_ins_play_if_asked_to_and_files_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = in_process(
        "evaluate",
        "--offline",
        "--env.candidates_play=tournament",
        "--env.data_dir_to_save_evals=first",
    )
    assert first.code == 0, first.said
    assert (
        "offline-policy-1, offline-policy-2, offline-policy-3, judged by offline-judge" in first.out
    )
    config = {
        "env": {
            "candidates": [
                {"name": "offline-policy-2", "answers": "first"},
                {"name": "real", "base_url": "https://x.y/v1"},
            ]
        }
    }
    Path("config.yaml").write_text(yaml.safe_dump(config))
    second = in_process(
        "evaluate", "--offline", "--config=config.yaml", "--env.data_dir_to_save_evals=second"
    )
    assert second.code == 0, second.said
    assert "offline-policy-2, offline-policy-1, judged by offline-judge" in second.out
