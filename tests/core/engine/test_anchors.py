"""Anchors with each run: a judge that is swapped behind its name is told, and one that stays is not."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from judgegym.environments.prompts_environment import PromptsEnv
from judgegym.environments.rubric_absolute_environment import RubricAbsoluteEnv
from judgegym.eval_environments.pairwise_judgement_environment import PairwiseJudgementEnv
from tests.command import Ended, serving, write_lines
from tests.core.datasets.scoring import Scoring, response_in, score
from tests.judged import evaluate, never
from tests.scripted import Json, Reply, Script, ScriptedEndpoint, completion

Rating = Callable[[str, int], int]
DATA = [{"prompt": "Why?", "response": "row"}]


def anchors(folder: Path, count: int = 60, **more: Any) -> Path:
    rows = [
        {"uid": f"a{n}", "prompt": f"Q{n}", "response": f"anchor {n}", **more} for n in range(count)
    ]
    return write_lines(folder / "anchors.jsonl", rows)


def judge(rating: Rating, *, model: str = "m-0711", fingerprint: str | None = "fp_1") -> Script:
    """A judge that says as which model it is served, and rates anchors by their text and the number of the call."""

    def answer(request: Json, number: int) -> Reply:
        text = f"[FEEDBACK] Because. [SCORE] {rating(response_in(request), number)}"
        return Reply(body={**completion(text), "model": model, "system_fingerprint": fingerprint})

    return answer


def run(
    folder: Path, name: str, script: Script, *words: object
) -> tuple[Ended, Mapping[str, Any], int]:
    """A run of `judgegym score`, what its metrics.json says, and how many calls it took."""
    with serving(script) as endpoint:
        return run_at(endpoint, folder, name, *words)


def run_at(
    endpoint: ScriptedEndpoint, folder: Path, name: str, *words: object
) -> tuple[Ended, Mapping[str, Any], int]:
    """The same, at an endpoint of several runs."""
    before, scoring = len(endpoint.requests), Scoring(folder, endpoint)
    scoring.out = folder / f"{name}.jsonl"
    ended = scoring(
        "--judge_model_name=m", f"--anchors={folder / 'anchors.jsonl'}", *words, rows=DATA
    )
    assert ended.code == 0, ended.said
    return ended, scoring.run.report["config_general"], len(endpoint.requests) - before


def steady(text: str, number: int) -> int:
    return 5 if text.endswith(("0", "1", "2", "3", "4", "5")) else 2


def swapped(text: str, number: int) -> int:
    """Another judge, which differs on seven anchors."""
    return 1 if text in {f"anchor {n}" for n in range(0, 35, 5)} else steady(text, number)


@pytest.mark.slow  # 60 anchors, in three runs
def test_a_judge_that_is_swapped_behind_its_name_is_told_in_one_run(tmp_path: Path) -> None:
    anchors(tmp_path)
    cache, now = f"--judge_cache={tmp_path / 'cache.sqlite'}", [judge(steady)]
    with serving(lambda request, number: now[0](request, number)) as endpoint:
        first, general, calls = run_at(endpoint, tmp_path, "first", cache)
        assert calls == 1 + 3 * 60
        assert "first run of m " in first.said and "judges 60 anchors 3 times" in first.said
        assert general["served_models"] == {"judge": {"m-0711 (fp_1)": 181}}
        assert (general["anchors"]["judgments"], general["anchors"]["test"]) == (180, None)

        same, general, calls = run_at(endpoint, tmp_path, "same", cache)
        assert calls == 60  # the row is in the cache; anchors are new calls in each run
        assert (
            "no sign that m has changed since" in same.said
            and "0 of 60 anchors flipped (expected 0" in same.said
        )
        assert general["anchors"]["has_changed"] is False

        now[0] = judge(swapped, model="m-1112", fingerprint=None)
        told, general, calls = run_at(endpoint, tmp_path, "told", cache)
        assert calls == 3 * 60
    assert "The judge behind m has changed since" in told.said
    assert "7 of 60 anchors flipped (expected 0" in told.said
    assert "Served as: m-0711 (fp_1) then, m-1112 now." in told.said
    found = general["anchors"]
    assert (found["has_changed"], found["test"]["flipped"], found["served_first"]) == (
        True,
        7,
        ["m-0711 (fp_1)"],
    )
    assert any("has changed since" in notice for notice in general["notices"])
    state = (tmp_path / "anchors.jsonl.state.jsonl").read_text().splitlines()
    assert [len(json.loads(line)["scores"]["a0"]) for line in state] == [3, 1, 3]


@pytest.mark.slow
def test_a_resumed_run_pays_for_no_anchor_twice_and_has_one_line(tmp_path: Path) -> None:
    anchors(tmp_path, 5, label=5)
    run(tmp_path, "first", judge(steady), "--no-keep_calls")
    ended, general, calls = run(tmp_path, "first", judge(steady), "--resume")
    assert calls == 0 and general["anchors"]["judgments"] == 15
    assert "agrees with 5 of 5 labels" in ended.said
    assert len((tmp_path / "anchors.jsonl.state.jsonl").read_text().splitlines()) == 1


@pytest.mark.slow
def test_the_cache_does_not_answer_for_a_judge_after_a_run_that_ended_without_its_line(
    tmp_path: Path,
) -> None:
    state = anchors(tmp_path).with_name("anchors.jsonl.state.jsonl")
    cache, now = f"--judge_cache={tmp_path / 'cache.sqlite'}", [judge(steady)]
    with serving(lambda request, number: now[0](request, number)) as endpoint:
        run_at(endpoint, tmp_path, "first", cache)
        lines = state.read_text()
        run_at(endpoint, tmp_path, "lost", cache)
        state.write_text(lines)  # as if it had been killed before it wrote its own
        now[0] = judge(swapped)
        told, general, calls = run_at(endpoint, tmp_path, "told", cache)
    assert calls == 3 * 60 and general["anchors"]["has_changed"] is True, told.said


@pytest.mark.slow
def test_other_settings_or_anchors_begin_anew(tmp_path: Path) -> None:
    anchors(tmp_path, 2)
    run(tmp_path, "first", judge(steady))
    other, _, _ = run(tmp_path, "other", judge(steady), "--scale_max=6")
    assert "first run of m " in other.said
    seed, _, _ = run(tmp_path, "seed", judge(steady), "--seed=3")
    assert "no sign that m has changed since" in seed.said
    anchors(tmp_path, 3)
    more, _, _ = run(tmp_path, "more", judge(steady))
    assert "first run of m " in more.said and "judges 3 anchors" in more.said


@pytest.mark.slow
def test_an_anchor_without_a_verdict_is_left_out(tmp_path: Path) -> None:
    anchors(tmp_path, 3)
    run(tmp_path, "first", judge(steady))
    silent = judge(lambda text, number: 99 if text == "anchor 1" else steady(text, number))
    _, general, _ = run(tmp_path, "silent", silent)
    assert (general["anchors"]["rows"], general["anchors"]["test"]["rows"]) == (3, 2)


@pytest.mark.parametrize(
    ("rows", "words", "reason"),
    [
        ([{"prompt": "Q"}], [], "row 1: expected an anchor"),
        ([{"prompt": "Q", "response": " "}], [], "row 1: .*texts, not empty"),
        ([{"uid": "a", "prompt": "Q", "response": "r"}] * 2, [], "the id 'a' is also .*row 1"),
        (
            [{"prompt": "Q", "response": "r"}],
            ["--judge=listwise"],
            "row 1: responses: expected several",
        ),
        ([{"prompt": "Q", "response": "r", "label": True}], [], "row 1: .*, and a label"),
        (
            [{"prompt": "Q", "response": "r", "label": 0.75}],
            [],
            r"row 1: .*label .*1 to 5, found 0\.75",
        ),
        (
            [{"prompt": "Q", "response": "r"}],
            ["--judge=rule", "--rule=number"],
            "--anchors: .*calls no endpoint",
        ),
    ],
)
def test_what_is_wrong_is_said_before_the_first_call(
    tmp_path: Path, rows: Sequence[Mapping[str, Any]], words: Sequence[str], reason: str
) -> None:
    path = write_lines(tmp_path / "anchors.jsonl", rows)
    data = write_lines(tmp_path / "d.jsonl", [{"prompt": "Why?", "responses": ["row", "other"]}])
    with serving(never) as endpoint:
        url = [] if "--judge=rule" in words else [f"--judge_base_url={endpoint.base_url}"]
        ended = score(data, "--out", tmp_path / "o.jsonl", f"--anchors={path}", *url, *words)
        assert not endpoint.requests
    assert ended.code == 2 and re.search(reason, ended.err), ended.err


def test_a_damaged_state_names_its_line(tmp_path: Path) -> None:
    path = anchors(tmp_path, 2)
    (tmp_path / "anchors.jsonl.state.jsonl").write_text('{"judge": 1}\n')
    with serving(judge(steady)) as endpoint:
        ended = score(
            write_lines(tmp_path / "d.jsonl", DATA),
            "--out",
            tmp_path / "o.jsonl",
            f"--anchors={path}",
            f"--judge_base_url={endpoint.base_url}",
        )
    assert (
        ended.code == 2
        and "anchors.jsonl.state.jsonl, line 1: judge: Input should be a valid string" in ended.err
    )
    assert not endpoint.requests, "it is read before the first call"


@pytest.mark.slow
def test_evaluations_judge_anchors_with_their_own_judge(tmp_path: Path) -> None:
    path = anchors(tmp_path, 4)
    row = {"uid": "1", "instruction": "Why?", "rubric": "Good?", "prompt": "Why?"}
    flags = [f"--anchors={path}", "--env.min_response_length=0"]
    calls = []
    for name, env in {
        "first": RubricAbsoluteEnv,
        "second": RubricAbsoluteEnv,
        "prompts": PromptsEnv,
    }.items():
        judged = evaluate(
            env, tmp_path, *flags, rows=[row], judge=judge(steady), policy="row", run=name
        )
        assert judged.code == 0, judged.said
        calls.append(len(judged.judge.requests))
    assert calls == [
        1 + 12,
        1 + 4,
        1 + 4,
    ]  # the same judge with the same settings, whatever asks it
    assert "no sign that the-judge has changed since" in judged.said
    assert judged.general["anchors"]["test"]["rows"] == 4


def test_where_the_judge_is_no_kind_of_score_anchors_are_refused(tmp_path: Path) -> None:
    path = anchors(tmp_path, 2)
    judged = evaluate(
        PairwiseJudgementEnv, tmp_path, f"--anchors={path}", judge=never, policy=never
    )
    assert judged.code == 2
    assert re.search("--anchors: .*`judgegym score --judge`", judged.said)
