"""skyrl-gym's registry and steps, and SkyRL's generator: rewards to the digit, and a flag where the judge failed."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from judgegym_trainers.scores.results import CompletionReward
from tests.core.server.running import judged_by, running
from tests.trainers.loops import trainers
from tests.trainers.loops.environments import ENVIRONMENTS, expected, of_example, settings_of
from tests.trainers.loops.examples import example, swap
from tests.trainers.loops.offline import OfflineJudge, judging_all_at_once, offline_judge

pytestmark = pytest.mark.timeout(150)

CHOSEN = 'EnvironmentSource.from_settings("arena_hard", offline=True)'
FALLBACK = -7.25
NAMED = "env_class = register_environment(source"


def registering(name: str, url: str) -> str:
    """The README's example with another environment and another fallback."""
    text = swap(example("skyrl-gym"), (CHOSEN, of_example(name, settings_of(name, url))))
    return swap(text, (NAMED, f"{NAMED}, fallback_score={FALLBACK}"))


async def stepped(directory: Path, kind: str, code: str, given: Any) -> Any:
    ended = await trainers.run("skyrl_gym", "gym_program.py", kind, str(directory), code, given)
    assert ended.code == 0, ended.err
    assert "Unclosed" not in ended.err
    return ended.result


@pytest.mark.parametrize("name", ENVIRONMENTS)
async def test_steps_of_an_environment(name: str, tmp_path: Path) -> None:
    trainers.place_of("skyrl_gym")
    async with offline_judge() as (url, _):
        wanted = await expected(name, url)
        given = {uid: [text for text, _ in rewarded] for uid, rewarded in wanted.items()}
        found = await stepped(tmp_path, "environment", registering(name, url), given)
    flat = [rewarded for of_row in wanted.values() for _, rewarded in of_row]
    assert [reward for reward, _, _ in found["steps"]] == [rewarded.reward for rewarded in flat]
    for (reward, metadata, metrics), rewarded in zip(found["steps"], flat, strict=True):
        flags = {"judge_failed": False, "invalid_completion": rewarded.is_invalid}
        said = {
            "status": rewarded.status,
            "label": rewarded.label,
            "explanation": rewarded.explanation,
        }
        assert metadata == {**flags, **said}
        counted = {
            "judge_failed": 0.0,
            "invalid_completion": float(rewarded.is_invalid),
            "reward_of_judged": reward,
        }
        assert metrics == {**counted, **rewarded.metrics}
    assert found["aggregated"]["reward_of_judged"] == pytest.approx(
        fmean(rewarded.reward or 0.0 for rewarded in flat)
    )


# Losses: skyrl-gym | any | SkyRL's own generator | score
async def test_steps_with_failed_judges(tmp_path: Path) -> None:
    trainers.place_of("skyrl_gym")
    async with offline_judge() as (url, _):
        wanted = await expected("rubric_absolute", url)
    given = {uid: [text for text, _ in rewarded] for uid, rewarded in wanted.items()}
    async with offline_judge(every_third_fails=True) as (url, _):
        found = await stepped(tmp_path, "environment", registering("rubric_absolute", url), given)
    failed = 0
    for (reward, metadata, metrics), rewarded in zip(
        found["steps"],
        (rewarded for of_row in wanted.values() for _, rewarded in of_row),
        strict=True,
    ):
        if metadata["judge_failed"]:
            failed += 1
            assert reward == FALLBACK and metadata["status"] == "judge_failed"
            assert "planted" in metadata["explanation"]
            assert metrics == {"judge_failed": 1.0, "invalid_completion": 0.0}
        else:
            assert reward == rewarded.reward
    assert 0 < failed < len(found["steps"])
    assert found["aggregated"]["judge_failed"] == failed / len(found["steps"])
    judged = [reward for reward, metadata, _ in found["steps"] if not metadata["judge_failed"]]
    assert found["aggregated"]["reward_of_judged"] == pytest.approx(fmean(judged))


async def test_all_threads_are_judged_at_once(tmp_path: Path) -> None:
    """The judge answers nobody before all have asked."""
    trainers.place_of("skyrl_gym")
    async with offline_judge() as (url, _):
        wanted = await expected("rubric_absolute", url)
    given = {uid: [text for text, _ in rewarded] for uid, rewarded in wanted.items()}
    asking = sum(bool(text) for texts in given.values() for text in texts)
    async with judging_all_at_once(asking) as endpoint:
        code = registering("rubric_absolute", endpoint.base_url)
        found = await stepped(tmp_path, "environment", code, given)
    assert endpoint.peak == asking == 9
    flat = [rewarded.reward for of_row in wanted.values() for _, rewarded in of_row]
    assert [reward for reward, _, _ in found["steps"]] == flat


QUESTIONS = [
    (
        "Why is the sky blue at noon?",
        "The sky is blue at noon since air scatters blue light.",
        "Scattering.",
    ),
    ("Why is the sky blue at noon?", "Bananas.", None),
    ("Name a prime number.", "Seven is a prime number.", 7),
    ("Name a prime number.", "", None),
    (
        "What do bees make?",
        "Bees make honey and wax, and bees make more bees.",
        {"reference": "Honey."},
    ),
    ("What do bees make?", "They make nothing at all, I think.", None),
]


@pytest.mark.parametrize("fails", [False, True])
async def test_steps_of_a_judge(tmp_path: Path, fails: bool) -> None:
    trainers.place_of("skyrl_gym")
    given = [
        (
            {
                "prompt": [{"role": "user", "content": question}],
                "reward_spec": {"ground_truth": truth},
            },
            text,
        )
        for question, text, truth in QUESTIONS
    ]
    async with running("--judge=rubric", judge=OfflineJudge(every_third_fails=fails)) as server:
        wanted = []
        for question, text, truth in QUESTIONS:
            reference = truth["reference"] if isinstance(truth, dict) else truth
            named = {} if reference is None else {"reference": str(reference)}
            body = {"prompt": [{"role": "user", "content": question}], "response": text, **named}
            wanted.append((await server.post("/v1/score", body)).json)
        here = {"judge": "rubric", **judged_by(server.judge)}
        code = "from judgegym_trainers.skyrl_gym import *\nenv_class = register_judge({})"
        found = await stepped(tmp_path, "judge", code.format(repr(server.url)), given)
        in_process = await stepped(tmp_path, "judge", code.format(f"judge={here!r}"), given)
    assert in_process == found
    assert any(result["status"] == "judge_failed" for result in wanted) is fails
    for (reward, metadata, metrics), result in zip(found["steps"], wanted, strict=True):
        is_failed, is_invalid = (
            result["status"] == status for status in ("judge_failed", "invalid_completion")
        )
        assert reward == (result["score"] if result["score"] is not None else 0.0)
        assert (
            metadata["judge_failed"] is is_failed and metadata["invalid_completion"] is is_invalid
        )
        assert metadata["explanation"] == result["explanation"]
        assert (
            metrics["judge_failed"] == float(is_failed)
            and ("reward_of_judged" in metrics) is not is_failed
        )


async def test_the_generator_of_skyrl(tmp_path: Path) -> None:
    libraries = next((trainers.place_of("skyrl_gym") / "lib").glob("python3*")) / "site-packages"
    if not (libraries / "skyrl").is_dir() or not (libraries / "torch").is_dir():
        pytest.skip(
            "skyrl is not installed beside skyrl-gym: it needs Python 3.12 and several GB of a "
            "GPU's libraries"
        )
    async with offline_judge() as (url, _), offline_judge(every_third_fails=True) as (failing, _):
        wanted = await expected("rubric_absolute", url, rows=4)
        given = {uid: [text for text, _ in rewarded] for uid, rewarded in wanted.items()}
        codes = [registering("rubric_absolute", each) for each in (url, failing)]
        ended = await trainers.run(
            "skyrl_gym",
            "generator_program.py",
            str(tmp_path),
            codes,
            example("skyrl-gym", number=1),
            given,
        )
    assert ended.code == 0, ended.err
    for found, fails in zip(ended.result, (False, True), strict=True):
        check_generated(
            found, [rewarded for uid in found["uids"] for _, rewarded in wanted[uid]], fails=fails
        )


def check_generated(found: Any, flat: list[CompletionReward], *, fails: bool) -> None:
    """Rewards, loss masks, metrics and SkyRL's own advantages, of groups of four."""
    plain, left_out = found["plain"], found["left_out"]
    flags = [bool(metrics["judge_failed"]) for metrics in plain["env_metrics"]]
    assert flags == [bool(metrics["judge_failed"]) for metrics in left_out["env_metrics"]]
    assert any(flags) is fails and not all(flags)
    assert plain["metrics"]["environment/judge_failed"] == sum(flags) / len(flags)
    assert plain["rewards"] == [
        FALLBACK if failed else each.reward for each, failed in zip(flat, flags, strict=True)
    ]
    assert all(plain["trained"])
    assert [trained == 0 for trained in left_out["trained"]] == flags
    assert all(math.isfinite(advantage) for advantage in left_out["advantages"])
    for start in range(0, len(flat), 4):
        places = range(start, start + 4)
        there = [
            reward
            for place in places
            if not flags[place] and (reward := flat[place].reward) is not None
        ]
        for place in places:
            if flags[place]:
                assert left_out["rewards"][place] == pytest.approx(fmean(there), abs=1e-12)
                assert left_out["advantages"][place] == pytest.approx(0.0, abs=1e-4)
            else:
                assert left_out["rewards"][place] == flat[place].reward
