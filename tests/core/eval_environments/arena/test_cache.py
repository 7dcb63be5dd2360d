"""The judgment cache: what was paid for once costs nothing again, in whichever run."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from judgegym.llm.usage import Usage
from tests.arena import Arena, Run, answering, for_model, judge
from tests.command import RunFiles, in_process, serving

NOTHING = asdict(Usage())


def twice(arena: Arena, *flags: str, second: tuple[str, ...] = ()) -> tuple[RunFiles, RunFiles, int, int]:
    """Two runs with one cache against one judge; how many requests each made."""
    cache = f"--env.judge_cache={arena.path / 'deep' / 'cache.sqlite'}"
    with serving(judge(for_model)) as judging, serving(answering) as policy:
        counts = []
        for name, extra in (("one", ()), ("two", second)):
            before = len(judging.requests)
            argv = arena.argv(judging.base_url, policy.base_url, cache, *flags, *extra, run=name)
            ended = in_process(*argv)
            assert ended.code == 0, ended.said
            counts.append(len(judging.requests) - before)
    return arena.files("one"), arena.files("two"), counts[0], counts[1]


@pytest.mark.slow
@pytest.mark.parametrize("temperature", ["0.2", "0"])
def test_the_second_run_costs_no_judge_request(arena: Arena, temperature: str) -> None:
    one, two, first, second = twice(
        arena, f"--env.judge_temperature={temperature}", "--env.judge_price_input=0", "--env.judge_price_output=1000"
    )
    assert (first, second) == (12, 0)
    assert two.without_run() == one.without_run()
    for run in two.runs():
        assert all(call["cached"] for call in run["judge_calls"].values())
        assert [(call["attempts"], call["usage"]) for call in run["judge_calls"].values()] == [(0, NOTHING)] * 2
    assert one.metrics["judge_cost_usd"] > 0
    assert (two.metrics["judge_cost_usd"], two.metrics["judge_requests"]) == (0, 0)
    assert two.metrics["judge_cached_calls"] == two.metrics["judge_calls"] == 12


@pytest.mark.slow
@pytest.mark.parametrize(
    "flag",
    ["--env.judge_temperature=0.3", "--env.judge_max_tokens=99", "--env.judge_model_name=another",
     "--env.judge_protocol=arena_hard_v0.1", '--env.judge_extra_body={"reasoning_effort": "low"}'],
)  # fmt: skip
def test_what_shapes_an_answer_is_part_of_the_key(arena: Arena, flag: str) -> None:
    _, _, first, second = twice(arena, second=(flag,))
    assert (first, second) == (12, 12)


@pytest.mark.slow
def test_the_policy_is_never_cached(arena: Arena) -> None:
    """Its samples must be independent."""
    cache = f"--env.judge_cache={arena.path / 'cache.sqlite'}"
    counts = [len(arena.evaluate(cache, run=name).policy.requests) for name in ("one", "two")]
    assert counts == [6, 6]


def test_an_answer_without_a_verdict_is_not_kept(arena: Arena) -> None:
    cache = f"--env.judge_cache={arena.path / 'cache.sqlite'}"

    def run(name: str, verdict: str) -> Run:
        return arena.evaluate(cache, "--env.judge_reask=0", verdict=lambda uid, as_a: verdict, run=name)

    assert run("one", "I cannot say.").code == 1
    again = run("two", "[[A=B]]")
    assert again.code == 0, again.said
    assert again.files.metrics["tie_count"] == 6


@pytest.mark.slow
def test_the_stand_in_of_another_run_is_the_same_judge(arena: Arena) -> None:
    """Its port is new each time; its answers are not."""
    flags = ("evaluate", "--offline", f"--env.judge_cache={arena.path / 'cache.sqlite'}")
    for name in ("one", "two"):
        ended = in_process(*flags, f"--env.data_dir_to_save_evals={arena.path / name}")
        assert ended.code == 0, ended.said
    one, two = arena.files("one"), arena.files("two")
    assert two.without_run() == one.without_run()
    assert (one.metrics["judge_requests"], two.metrics["judge_requests"]) == (24, 0)
