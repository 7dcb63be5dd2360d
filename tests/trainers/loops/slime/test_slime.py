"""slime's own `remote_rm`, `async_rm` and `batched_async_rm` (`--group-rm`), from a checkout of its repository."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.core.server.running import asked, running
from tests.listwise import judging
from tests.scripted import Json
from tests.trainers.judges import best
from tests.trainers.judges import good_or_bad as judge
from tests.trainers.loops import trainers

FUNCTION = "judgegym_trainers.slime.reward"


async def rewards_of(url: str, samples: list[Json], **given: Any) -> Json:
    """What slime has after its own functions: the rewards, and which samples are kept out of the loss."""
    checkout = str(trainers.place_of("slime"))
    ended = await trainers.run_with(
        sys.executable, trainers.HERE / "slime/program.py", checkout, url, samples, given
    )
    assert ended.code == 0, ended.err
    assert "Unclosed" not in ended.err
    return dict(ended.result)


async def test_rewards_as_the_trainer_receives_them() -> None:
    samples = [
        {"prompt": "Why?", "response": "good", "label": "Since."},
        {"prompt": [{"role": "user", "content": "Why not?"}], "response": "bad", "label": 5},
        {"prompt": "Who?", "response": "FAIL", "label": None},
        {"prompt": "Who?", "response": "", "label": None},
        {
            "prompt": "What?",
            "response": "good",
            "label": '{"reference": "R", "rubric": "Is it good?"}',
        },
    ]
    async with running("--on_failure=score", judge=judge) as server:
        result = await rewards_of(f"{server.url}/slime", samples)
        shown = "".join(asked(request) for request in server.judge.bodies)
    assert result["rewards"] == [1.0, 0.0, 0.0, 0.0, 1.0]
    for text in ("Why not?", "### Reference Response\n\nSince.", "### Score Rubric\n\nIs it good?"):
        assert text in shown


@pytest.mark.slow
@pytest.mark.parametrize("group", ["good", "nobody"])
async def test_a_group_with_group_rm_is_one_request(group: str) -> None:
    samples = [
        {"prompt": "Why?", "response": text, "label": None} for text in ("bad", group, "worse", "")
    ]
    async with running("--judge=choice", judge=best) as server:
        result = await rewards_of(server.url, samples, custom_rm_path=FUNCTION)
        asked_for = len(server.judge.requests)
    is_judged = group == "good"
    # Without a verdict the three of them get the mean of what has a reward: the empty one's.
    assert result["rewards"] == ([0.0, 1.0, 0.0, 0.0] if is_judged else [0.0] * 4)
    assert result["removed"] == ([False] * 4 if is_judged else [True, True, True, False])
    assert asked_for == 1


async def test_single_samples_by_the_same_function() -> None:
    samples = [
        {"prompt": "Why?", "response": text, "label": None} for text in ("good", "FAIL", "bad")
    ]
    async with running(judge=judge) as server:
        result = await rewards_of(
            server.url, samples, custom_rm_path=FUNCTION, alone=True, reward_key="judge"
        )
    assert [reward["judge"] for reward in result["rewards"]] == [1.0, 0.0, 0.0]
    assert [reward["judge_failed"] for reward in result["rewards"]] == [0.0, 1.0, 0.0]
    assert result["removed"] == [False, True, False]


POINTS = {"good": 0.9, "fair": 0.5, "poor": 0.25}
GROUP = [{"prompt": "Why?", "response": text, "label": None} for text in POINTS]


@pytest.mark.parametrize(
    ("route", "given"),
    [
        ("/slime", {"alone": True}),  # `remote_rm`: prompt and label tell groups apart
        ("", {"alone": True, "custom_rm_path": FUNCTION}),
        ("", {"custom_rm_path": FUNCTION}),
    ],
)
async def test_samples_of_one_prompt_are_compared_however_they_are_sent(
    route: str, given: Json
) -> None:
    async with running(
        "--judge=listwise", "--group_size=3", judge=judging(lambda text, _: POINTS[text])
    ) as server:
        result = await rewards_of(server.url + route, GROUP, **given)
        asked_for = len(server.judge.requests)
    assert (result["rewards"], asked_for) == (list(POINTS.values()), 1)
    assert result["removed"] == [False] * 3
