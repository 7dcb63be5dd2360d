"""verl's reward managers, loaded as its trainer loads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.core.server.running import asked, running
from tests.listwise import judging, shown_answers
from tests.scripted import Json
from tests.trainers.judges import good_or_bad as judge
from tests.trainers.loops import trainers

PATH = str(trainers.ROOT / "judgegym_trainers/verl/function.py")
MANAGERS = ["naive", "dapo", "gdpo", "rate_limited"]
ROWS = [
    {"response": "good", "truth": 72, "extra_info": {"question": "Why?"}},
    {
        "response": "bad",
        "truth": ["a", "b"],
        "extra_info": {"prompt": [{"role": "user", "content": "Why not?"}]},
    },
    {"response": "FAIL", "truth": "text", "extra_info": {"question": "Who?"}},
]
RIGHT = [
    {"score": 1.0, "judge_failed": 0.0, "invalid_completion": 0.0},
    {"score": 0.0, "judge_failed": 0.0, "invalid_completion": 0.0},
    {"score": 0.0, "judge_failed": 1.0, "invalid_completion": 0.0},
]


def case(
    manager: str, rows: Any = ROWS, name: str = "compute_score", path: str = PATH, **kwargs: Any
) -> Json:
    return {
        "manager": manager,
        "name": name,
        "path": path,
        "kwargs": {"on_failure": "score", **kwargs},
        "rows": rows,
    }


async def test_all_managers_give_the_scores_and_the_same_keys() -> None:
    async with running(judge=judge) as server:
        in_process = {
            "judge": "rubric",
            "judge_base_url": server.judge.base_url,
            "judge_model_name": "m",
            "judge_extra_body": {
                "stop": ["###"]
            },  # a list inside, which arrives as a container of OmegaConf
        }
        cases = [
            *(case(manager, url=server.url) for manager in MANAGERS),
            case("naive", judge=in_process),
            case("naive", name="compute_score_sync", url=server.url),
            {**case("naive", path="pkg://judgegym_trainers.verl", url=server.url), "router": True},
        ]
        ended = await trainers.run("verl", "program.py", cases)
        shown = "".join(asked(request) for request in server.judge.bodies)
    assert ended.code == 0, ended.err
    assert ended.result == [RIGHT] * len(cases)
    for text in (
        "Why?",
        "Why not?",
        "### Reference Response\n\n72",
        "### Reference Response\n\n['a', 'b']",
    ):
        assert text in shown
    assert "Unclosed" not in ended.err


@pytest.mark.parametrize(
    ("managers", "named"),
    [
        # Unless told otherwise, `rate_limited` asks for one sample at a time, so that no group is
        # ever whole.
        (
            ["naive", "dapo", "gdpo"],
            lambda group: {"extra_info": {"question": "Why?", "index": group}},
        ),
        (
            ["naive"],
            lambda group: {
                "extra_info": {"question": "Why?"},
                "extra_fields": {"uid": f"u{group}"},
            },
        ),
    ],
)
async def test_samples_of_one_row_are_compared(
    managers: list[str], named: Callable[[int], Json]
) -> None:
    """Its managers pass no `uid`: two rows with one question are told apart by `index`, or by what a loop has added."""
    points = {"good": 0.9, "fair": 0.5, "poor": 0.25, "bad": 0.0}
    rows = [
        {"response": text, "truth": "x", **named(number % 2)} for number, text in enumerate(points)
    ]
    async with running(
        "--judge=listwise", "--group_size=2", judge=judging(lambda text, _: points[text])
    ) as server:
        ended = await trainers.run(
            "verl", "program.py", [case(manager, rows, url=server.url) for manager in managers]
        )
        groups = {
            frozenset(answer.text for answer in shown_answers(request))
            for request in server.judge.bodies
        }
    assert ended.code == 0, ended.err
    scored = [
        {"score": score, "judge_failed": 0.0, "invalid_completion": 0.0}
        for score in points.values()
    ]
    assert ended.result == [scored] * len(managers)
    assert groups == {frozenset({"good", "poor"}), frozenset({"fair", "bad"})}


async def test_settings_that_cannot_work_end_the_run() -> None:
    async with running('--tokens={"trainer": "right"}', judge=judge) as server:
        url, token = server.url, "right"
        cases = [
            case("naive", url=url, token="wrong"),
            case("dapo", url=url, token=token, mount="nobody"),
            case("gdpo", ulr=url),
            case(
                "naive",
                url=url,
                token=token,
                rows=[{"response": "good", "truth": "x", "extra_info": {}}],
            ),
            case("naive", judge={"judge": "listwise", "judge_base_url": url}),
            case("rate_limited", url=url, token="wrong"),
        ]
        ended = await trainers.run("verl", "program.py", cases)
    assert ended.code == 0, ended.err
    *raised, limited = ended.result
    told = (
        "HTTP 401",
        "HTTP 404",
        "did you mean url",
        "expected the question",
        "verl's reward workers",
    )
    for said, result in zip(told, raised, strict=True):
        assert result.startswith("SettingsError: ")
        assert said in result
    assert [each["score"] for each in limited] == [
        0.0
    ] * 3  # verl's own: this manager catches every error
    assert "HTTP 401" in limited[0]["error"]
    assert server.judge.requests == []


@pytest.mark.timeout(150)
async def test_the_manager_remote_takes_the_synchronous_twin() -> None:
    async with running(judge=judge) as server:
        cases = [
            case("remote", name=name, url=server.url)
            for name in ("compute_score", "compute_score_sync")
        ]
        ended = await trainers.run("verl", "program.py", cases)
    assert ended.code == 0, ended.err
    refused, scored = ended.result
    assert refused.startswith("AssertionError: Async reward score is not supported")
    assert scored == RIGHT
