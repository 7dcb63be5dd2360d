"""Arena-Hard with several candidates: who plays whom, ratings, win rates of pairs, and what the run directory holds."""

from __future__ import annotations

import math
import re
from collections import Counter
from itertools import permutations
from pathlib import Path

import pytest

from tests.contest import Compared, better, contest, judging, planted

POINT = 400 / math.log(10)
STRENGTHS = {"ann": 0.9, "bob": 0.2, "cid": -0.6, "baseline": 0.0}
NAMES = ("ann", "bob", "cid")
LONG_NAMES = [f"a-model-with-quite-a-long-name-of-size-{size}b-instruct" for size in range(8)]


def rating(run: Compared, name: str) -> tuple[float, float, float]:
    """A rating, and the ends of its interval."""
    low, value, high = (run.metrics[f"rating_{name}{end}"] for end in ("_ci_low", "", "_ci_high"))
    return low, value, high


@pytest.mark.slow
@pytest.mark.parametrize("play", ["tournament", "baseline"])
def test_planted_strengths_are_found_and_lie_in_their_intervals(tmp_path: Path, play: str) -> None:
    verdict = planted(STRENGTHS, position=0.4, ties=0.0)
    run = contest(tmp_path, 150).compare(
        f"--env.candidates_play={play}", candidates=NAMES, verdict=verdict
    )
    assert run.code == 0, run.said
    for name in NAMES:
        low, value, high = rating(run, name)
        assert low < 1000 + POINT * STRENGTHS[name] < high, name
        assert low < value < high < low + 200
    assert run.metrics["first_position_rating"] == pytest.approx(0.4 * POINT, abs=40)
    assert run.metrics["first_position_advantage"] > 0.05
    assert [row["name"] for row in run.table("ratings.csv")] == ["ann", "bob", "baseline", "cid"]


@pytest.mark.slow
def test_each_pair_plays_in_both_orders_and_the_baseline_is_one_more_player(tmp_path: Path) -> None:
    run = contest(tmp_path, 3).compare(
        candidates=NAMES, verdict=better("ann", "baseline", "bob", "cid")
    )
    assert sorted(run.games) == sorted(
        (f"row-{n}", *pair) for n in range(3) for pair in permutations(STRENGTHS, 2)
    )
    assert run.metrics["games_played"] == 36 and run.metrics["games_ann"] == 18
    assert (
        run.metrics["position_agreement_rate"] == 1 and run.metrics["first_position_advantage"] == 0
    )
    assert run.metrics["winrate_ann_vs_bob"] == run.metrics["winrate_ann_vs_baseline"] == 1
    assert run.metrics["winrate_cid_vs_baseline"] == 0
    assert run.metrics["overall_winrate"] == pytest.approx(1 / 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "games"),
    [
        (("--env.schedule=balanced", "--env.schedule_rounds=2", "--env.game_orders=balanced"), 4),
        (("--env.schedule=swiss", "--env.schedule_rounds=3"), 12),
        (("--env.candidates_play=baseline",), 8),
    ],
    ids=["balanced once", "swiss", "baseline"],
)
def test_schedule_decides_how_many_games_a_row_has(
    tmp_path: Path, flags: tuple[str, ...], games: int
) -> None:
    verdict, names = planted({**STRENGTHS, "dan": 0}), ("ann", "bob", "cid", "dan")
    run = contest(tmp_path, 20).compare(*flags, candidates=names, verdict=verdict)
    assert run.code == 0, run.said
    assert Counter(uid for uid, _, _ in run.games) == dict.fromkeys(
        (f"row-{n}" for n in range(20)), games
    )
    assert f"{20 * games} games" in run.ended.err
    met = Counter(frozenset(game[1:]) for game in run.games)
    assert len(met) == (4 if "baseline" in flags[0] else 10), (
        "over the rows, everyone who may meet has met"
    )
    assert all(f"rating_{name}" in run.metrics for name in names)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["three_way", "arena_hard_v0.1"])
def test_win_rates_against_the_baseline_are_those_of_an_evaluation_of_each_alone(
    tmp_path: Path, protocol: str
) -> None:
    """To the last digit, intervals included, also with empty answers; the judge is asked word for word the same."""
    drawn = planted(STRENGTHS, position=0.3)

    def verdict(uid: str, first: str, second: str) -> str:
        return drawn(uid, first, second).replace(
            ">", ">>" if protocol != "three_way" and uid > "row-3" else ">"
        )

    here = contest(tmp_path, 12)
    listed = [
        here.file("ann"),
        here.file("bob", {"row-1": "", "row-2": "   "}),
        here.file("cid", {"row-4": ""}),
    ]
    flags = (f"--env.judge_protocol={protocol}", "--env.min_response_length=0")
    together = here.compare(
        *flags, "--env.candidates_play=baseline", candidates=listed, verdict=verdict
    )
    assert together.code == 0, together.said
    prompts = [body["messages"] for body in together.judge.bodies]
    for candidate in listed:
        name, answers = candidate["name"], f"--env.model_answers={candidate['answers']}"
        alone = here.arena.evaluate(
            *flags, answers, judge_script=judging(verdict), run=f"{name}-alone"
        )
        assert alone.code == 0, alone.said
        for end in ("", "_ci_low", "_ci_high"):
            assert (
                together.metrics[f"winrate_{name}_vs_baseline{end}"]
                == alone.files.metrics[f"overall_winrate{end}"]
            )
        assert alone.judge.bodies and all(
            body["messages"] in prompts for body in alone.judge.bodies
        )
    assert together.metrics["wrong_answers_bob"] == 2 and together.metrics["wrong_answers_cid"] == 1


def test_one_row_has_ratings_without_intervals(tmp_path: Path) -> None:
    run = contest(tmp_path, 1).compare(
        candidates=["ann", "bob"], verdict=better("ann", "bob", "baseline")
    )
    assert run.code == 0, run.said
    assert run.metrics["rating_ann"] > run.metrics["rating_bob"] > 1000
    assert "one row" in run.left_out["rating_ann_ci_low"]


@pytest.mark.slow
def test_tables_have_room_on_a_terminal_of_80_columns(tmp_path: Path) -> None:
    strengths = {name: float(number) for number, name in enumerate(LONG_NAMES)} | {"baseline": 0.0}
    screen = {"FORCE_COLOR": "1", "COLUMNS": "80"}
    run = contest(tmp_path, 4).compare(
        "--env.style_control=True", candidates=LONG_NAMES, verdict=planted(strengths), **screen
    )
    assert run.code == 0, run.said
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in run.ended.out.splitlines()]
    drawn = [line for line in lines if line[:1] in tuple("┏┃┡│└")]
    assert len(drawn) == 2 * (9 + 4), "no row takes two lines"
    assert max(map(len, drawn)) <= 80
    assert any("win_rates.csv has all" in line for line in lines)
    assert "equal style" in run.said and all(
        f"style_controlled_rating_{name}" in run.metrics for name in LONG_NAMES
    )
    rows = run.table("win_rates.csv")
    assert len(rows) == 9 and len(rows[0]) == 10
