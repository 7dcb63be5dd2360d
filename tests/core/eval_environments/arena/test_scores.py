"""Judges of known verdicts give exactly the win rates and counts that the method defines."""

import asyncio
import re

import pytest

from judgegym.judges.arena import ArenaProtocol
from tests.arena import Arena, Verdict, against_model, always, for_model, model_is_a, tie
from tests.scripted import Json

FIVE = ("--env.judge_protocol=arena_hard_v0.1",)


def by_row(*verdicts: Verdict) -> Verdict:
    """Row 0 gets the first of these judges, and so on in turn."""
    return lambda uid, as_a: verdicts[int(uid.removeprefix("row-")) % len(verdicts)](uid, as_a)


def games(first: str, second: str) -> Verdict:
    """The label of the game with the model as A, and of the other one."""
    return lambda uid, as_a: f"[[{first if as_a else second}]]"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        pytest.param(
            for_model,
            {"overall_winrate": 1.0, "overall_winrate_ci_low": 0.6049897, "overall_winrate_ci_high": 1.0,
             "win_count": 6, "tie_count": 0, "loss_count": 0, "win_rate": 1.0, "tie_rate": 0.0, "loss_rate": 0.0,
             "winrate_coding": 1.0, "winrate_precise_if": 1.0, "winrate_math": 1.0, "position_agreement_rate": 1.0,
             "first_position_advantage": 0.0, "total_samples": 6},
            id="always the model",
        ),
        pytest.param(
            against_model,
            {"overall_winrate": 0.0, "win_count": 0, "tie_count": 0, "loss_count": 6, "loss_rate": 1.0,
             "winrate_math": 0.0, "position_agreement_rate": 1.0, "total_samples": 6},
            id="always the baseline",
        ),
        pytest.param(
            always("A>B"),
            {"overall_winrate": 0.5, "win_count": 0, "tie_count": 6, "loss_count": 0, "tie_rate": 1.0,
             "position_agreement_rate": 0.0, "first_position_advantage": 1.0},
            id="always A",
        ),
        pytest.param(
            always("B>A"),
            {"overall_winrate": 0.5, "tie_count": 6, "position_agreement_rate": 0.0, "first_position_advantage": -1.0},
            id="always B",
        ),
        pytest.param(
            tie,
            {"overall_winrate": 0.5, "tie_count": 6, "position_agreement_rate": 1.0, "first_position_advantage": 0.0},
            id="always a tie",
        ),
        pytest.param(
            by_row(for_model, against_model, tie),
            {"overall_winrate": 0.5, "win_count": 2, "tie_count": 2, "loss_count": 2, "win_rate": 2 / 6,
             "winrate_coding": 1.0, "winrate_precise_if": 0.0, "winrate_math": 0.5},
            id="by category",
        ),
        pytest.param(
            by_row(for_model, games("A>B", "A=B"), games("A=B", "A>B")),
            {"overall_winrate": (1.0 + 0.75 + 0.25) / 3, "win_count": 2, "tie_count": 4, "loss_count": 0,
             "winrate_precise_if": 0.75, "winrate_math": 0.25, "position_agreement_rate": 1 / 3},
            id="a win that the other order does not confirm is a tie",
        ),
    ],
)  # fmt: skip
def test_three_way(arena: Arena, verdict: Verdict, expected: dict[str, float]) -> None:
    run = arena.evaluate(verdict=verdict)
    assert run.code == 0, run.said
    found = run.files.metrics
    assert {name: found[name] for name in expected} == pytest.approx(expected)


@pytest.mark.parametrize(
    ("labels", "entries", "label"),
    [
        (("A>>B", "B>>A"), [1, 1, 1, 1, 1, 1], "win"),
        (("A>>B", "B>A"), [1, 1, 1, 1], "win"),
        (("A>B", "B>A"), [1, 1], "win"),
        (("A>>B", "A=B"), [1, 1, 1, 0.5], "tie"),
        (("A>>B", "A>B"), [1, 1, 1, 0], "tie"),
        (("A=B", "A=B"), [0.5, 0.5], "tie"),
        (("B>>A", "B>A"), [0, 0, 0, 1], "tie"),
        (("B>A", "A>>B"), [0, 0, 0, 0], "loss"),
        (("B>>A", "A>>B"), [0, 0, 0, 0, 0, 0], "loss"),
        (("b<a", "[A=B]"), [1, 0.5], "tie"),
    ],
)
def test_five_labels_of_one_row(
    arena: Arena, labels: tuple[str, str], entries: list[float], label: str
) -> None:
    run = arena.rows(1).evaluate(*FIVE, verdict=games(*labels))
    (sample,) = run.files.samples
    assert sorted(sample["detail"]["entries"]) == sorted(entries)
    assert sample["label"] == label
    assert sample["score"] == pytest.approx(2 * sum(entries) / len(entries) - 1)
    assert run.files.metrics["overall_winrate"] == pytest.approx(sum(entries) / len(entries))


@pytest.mark.slow
def test_five_labels_weigh_a_strong_verdict_three_times(arena: Arena) -> None:
    strong_win, slight_loss = games("A>>B", "B>>A"), games("B>A", "A>B")
    run = arena.rows(2).evaluate(*FIVE, verdict=by_row(strong_win, slight_loss))
    found = run.files.metrics
    assert found["overall_winrate"] == pytest.approx(6 / 8)  # six entries of 1, two of 0
    assert (found["win_rate"], found["loss_rate"]) == (0.5, 0.5)
    assert (found["winrate_coding"], found["winrate_precise_if"]) == (1.0, 0.0)


def test_strong_labels_weigh_nothing_extra_in_three_way(arena: Arena) -> None:
    run = arena.rows(2).evaluate(verdict=by_row(games("A>>B", "B>>A"), games("B>A", "A>B")))
    assert run.files.metrics["overall_winrate"] == 0.5


@pytest.mark.parametrize("protocol", ["three_way", "arena_hard_v0.1"])
def test_what_the_judge_is_asked(arena: Arena, protocol: ArenaProtocol) -> None:
    flags = "--env.judge_temperature=0.7", "--env.judge_max_tokens=77"
    run = arena.rows(1).evaluate(f"--env.judge_protocol={protocol}", *flags)
    for body in run.judge.bodies:
        assert (body["model"], body["temperature"], body["max_tokens"]) == ("the-judge", 0.7, 77)
        assert ("[[A>>B]]" in body["messages"][0]["content"]) is (protocol == "arena_hard_v0.1")
        assert "<|User Prompt|>\nQuestion of row-0: why?\n\n" in body["messages"][1]["content"]
    assert {model_is_a(body) for body in run.judge.bodies} == {True, False}


@pytest.mark.slow
def test_a_judge_without_a_verdict_is_asked_once_more(arena: Arena) -> None:
    def script(request: Json, number: int) -> str:
        return "[[A=B]]" if len(request["messages"]) > 2 else "It is a tie, I think."

    run = arena.rows(1).evaluate(judge_script=script)
    (sample,) = run.files.samples
    assert [game["earlier_texts"] for game in sample["detail"]["games"]] == [
        ["It is a tie, I think."]
    ] * 2
    assert set(sample["run"]["judge_calls"]) == {
        "game_1",
        "game_1_reask_1",
        "game_2",
        "game_2_reask_1",
    }
    assert (run.files.metrics["reask_rate"], run.files.metrics["overall_winrate"]) == (1.0, 0.5)


@pytest.mark.slow
def test_win_rates_of_clusters_are_reported_when_they_are_asked_for(arena: Arena) -> None:
    verdict = by_row(for_model, against_model, tie)
    found = arena.evaluate("--env.cluster_winrates=True", verdict=verdict).files.metrics
    assert found["winrate_cluster_c"] == found["overall_winrate"] == 0.5
    assert "winrate_cluster_c" not in arena.evaluate(verdict=verdict, run="without").files.metrics


@pytest.mark.slow
def test_the_win_rate_at_equal_style_is_reported_when_it_is_asked_for(arena: Arena) -> None:
    run = arena.evaluate("--env.style_control=true", verdict=by_row(for_model, against_model, tie))
    found = run.files.metrics
    assert 0 < found["style_controlled_winrate"] < 1
    assert re.search(r"^  at equal style +0\.\d{4}$", run.ended.out, re.MULTILINE)
    assert "style_controlled_winrate" not in arena.evaluate(run="without").files.metrics


def test_both_games_of_a_row_and_all_rows_run_at_once(arena: Arena) -> None:
    """Each judge request waits for all the others: anything that is awaited in turn would never end."""
    arrived = asyncio.Event()

    async def script(request: Json, number: int) -> str:
        if number == 12:
            arrived.set()
        await arrived.wait()
        return "[[A=B]]"

    run = arena.evaluate(judge_script=script)
    assert run.code == 0, run.said
    assert (run.judge.peak, len(run.judge.requests)) == (12, 12)
