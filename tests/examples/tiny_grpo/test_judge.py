"""The scripted judge, asked over HTTP by this project's judges."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from examples.tiny_grpo.judge import Script, letter_share, main, serve_judge
from judgegym import ArenaHardJudge, RubricJudge

ANSWERS = ["eeee eeee", "tree bee", "house", "stop"]
MANY = [f"answer number {number}" for number in range(60)]


def scores(script: Script, answers: Sequence[str]) -> list[float | None]:
    settings = {"judge_base_url": "", "scale_min": 0, "scale_max": 100}
    with (
        serve_judge(script) as url,
        RubricJudge("More e.", **{**settings, "judge_base_url": url}) as judge,
    ):
        return list(judge.judge_sync("Write.", answers).scores)


def labels(script: Script, answers: Sequence[str], baseline: str) -> list[tuple[str | None, ...]]:
    with serve_judge(script) as url, ArenaHardJudge(judge_base_url=url) as judge:
        table = judge.judge_sync("Write.", answers, baseline=baseline)
    return [
        tuple(game.label for game in judgment.detail.games)
        for judgment in table
        if judgment.detail is not None
    ]


def test_a_rubric_score_is_the_share_of_the_letter_on_the_scale() -> None:
    expected = [int(101 * min(letter_share(answer), 1 - 1e-9)) for answer in ANSWERS]
    assert scores(Script(), ANSWERS) == expected
    assert expected[0] > expected[1] > expected[2] > expected[3] == 0
    assert scores(Script(), ["eee"]) == [100]
    assert scores(Script("o"), ["oo"]) == [100]


def test_two_answers_are_compared_by_the_letter_in_both_orders() -> None:
    assert labels(Script(), ANSWERS, "tree bee") == [
        ("A>B", "B>A"),
        ("A=B", "A=B"),
        ("B>A", "A>B"),
        ("B>A", "A>B"),
    ]


def test_a_failed_judgment_fails_whenever_it_is_asked_for() -> None:
    first, again = scores(Script(failures=0.3), MANY), scores(Script(failures=0.3), MANY[::-1])
    assert first == again[::-1]
    assert 0.15 <= sum(score is None for score in first) / len(first) <= 0.45
    both_orders = labels(Script(failures=0.3), MANY[:20], "x")
    assert all((one is None) == (other is None) for one, other in both_orders)


def test_a_position_bias_decides_one_order_and_cancels_in_both() -> None:
    assert labels(Script(position_bias=0.5), ["tree", "ever"], "tree") == [
        ("A>B", "A>B"),
        ("A>B", "A>B"),
    ]
    with serve_judge(Script(position_bias=0.5)) as url, ArenaHardJudge(judge_base_url=url) as judge:
        table = judge.judge_sync("Write.", ["eeee", "trees", "stop"], baseline="stop")
        assert list(table.scores) == [1.0, 0.0, 0.0]


def test_length_bias_prefers_the_longer_of_two_equal_shares() -> None:
    assert scores(Script(length_bias=0.5), ["xxxx", "x" * 12, "x" * 24, "x" * 30]) == [
        8,
        25,
        50,
        50,
    ]


def test_noise_differs_between_the_orders_and_not_between_two_runs() -> None:
    noisy = labels(Script(noise=0.3), MANY[:20], MANY[0])
    assert noisy == labels(Script(noise=0.3), MANY[:20], MANY[0])
    assert any(first == second for first, second in noisy)


def test_jitter_differs_each_time_and_not_between_two_runs() -> None:
    jittery = Script(jitter=0.3)
    shown = {"A": MANY[0]}
    assert jittery.merits(shown, 1) == jittery.merits(shown, 1) != jittery.merits(shown, 2)
    assert Script().merits(shown, 1) == Script().merits(shown, 2)


@pytest.mark.parametrize(
    ("flag", "said"), [("--failures=2", "from 0 to 1"), ("--letter=ee", "one small letter")]
)
def test_a_wrong_flag_is_one_line(flag: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([flag])
    error = capsys.readouterr().err
    assert stopped.value.code == 2 and said in error and error.count("\n") == 1
