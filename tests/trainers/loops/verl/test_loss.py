"""What a failed judgment adds to verl's loss, by its own advantage estimators and aggregation."""

from __future__ import annotations

import json
import math
import shlex

import pytest

from judgegym.statistics.signal import Advantage, compute_advantages
from judgegym_trainers.verl.rewards import ESTIMATORS
from tests.core.server.running import running
from tests.scripted import Json
from tests.trainers.judges import rating
from tests.trainers.loops import trainers
from tests.trainers.loops.examples import example, swap

TEXTS = ["good", "FAIL", "fair, and of some length", "poor answer"]
judge = rating({"good": 5, "fair, and of some length": 3, "poor answer": 1})
FAILED = TEXTS.index("FAIL")
KWARGS = "+reward.custom_reward_function.reward_kwargs"
OTHERS = ("gae", "reinforce_plus_plus", "remax", "opo")
"""Estimators that do not subtract the mean of the group's rewards."""
ALL = (*OTHERS, *ESTIMATORS)
SCALES = {
    **dict.fromkeys(("rloo", "rloo_vectorized"), 4 * 2 / (3 * 3)),
    **dict.fromkeys(("grpo", "grpo_vectorized"), math.sqrt(3 / 2)),
    "gpg": 4
    / 3
    * 2
    / 3,  # it counts the rewards that are not 0: 3 of 4, and without the failed one 2 of 3
}
"""How much larger the others' advantages are than in a group without the failed one: 4 samples, 3 of them judged."""

SIGNAL: dict[str, Advantage] = {
    "grpo": "deviation",
    "grpo_vectorized": "deviation",
    "rloo": "rloo",
    "rloo_vectorized": "rloo",
}


def overrides(url: str, number: int) -> list[str]:
    """Those of a command of the page, with a server of the test and the folder of the checkout."""
    words = [word for word in shlex.split(example("verl", "bash", number)) if "=" in word]
    folder = str(trainers.ROOT / "judgegym_trainers/verl/config")
    replaced = {"http://127.0.0.1:8400": url, "$(python -m judgegym_trainers.verl)": folder}
    return [
        swap(word, *((old, new) for old, new in replaced.items() if old in word)) for word in words
    ]


async def trained(forms: Json, texts: list[str]) -> Json:
    given = (forms, list(ALL), json.dumps("Why?"), texts)
    ended = await trainers.run("verl", "loss_program.py", *given, patience_s=280.0)
    assert ended.code == 0, ended.err
    return dict(ended.result)


# Losses: verl | any | `JudgeAgentLoop` | safe
@pytest.mark.timeout(600)
async def test_a_failed_judgment_adds_nothing_by_the_loop_with_every_estimator() -> None:
    async with running("--judge=rubric", judge=judge) as server:
        forms = {"loop": ("loop", overrides(server.url, 1))}
        of_all = (await trained(forms, TEXTS))["loop"]
        of_judged = (await trained(forms, [text for text in TEXTS if text != "FAIL"]))["loop"]
    assert of_all.pop("failed") == [0.0, 1.0, 0.0, 0.0]
    for estimator in ALL:
        advantages, gradients = of_all[estimator]["advantages"], of_all[estimator]["gradients"]
        assert (advantages.pop(FAILED), gradients.pop(FAILED)) == (0.0, 0.0), estimator
        expected = [
            SCALES.get(estimator, 1.0) * each for each in of_judged[estimator]["advantages"]
        ]
        assert advantages == pytest.approx(expected, abs=1e-4), estimator
        assert any(gradients), estimator
    for estimator, advantage in SIGNAL.items():  # up to one factor, as the signal meter has them
        theirs = of_judged[estimator]["advantages"]
        ours = compute_advantages([1.0, 0.5, 0.0], advantage)
        assert theirs == pytest.approx(ours * (theirs[0] / ours[0]), abs=1e-3), estimator


# Losses: verl | `grpo`, `rloo` (also vectorized), `gpg`, `gdpo`, `reinforce_plus_plus_baseline`
#   | `JudgeRewardManager` | mean
# Losses: verl | `gae` (its default) and others | `JudgeRewardManager` | refused
@pytest.mark.timeout(600)
async def test_the_manager_gives_the_mean_and_is_refused_where_that_is_a_reward() -> None:
    async with running("--judge=rubric", judge=judge) as server:
        manager = overrides(server.url, 2)
        by_estimator = {
            name: [*manager, f"algorithm.adv_estimator={name}"]
            for name in (*OTHERS, "grpo_passk", "rloo")
        }
        forms = {name: ("manager", given) for name, given in by_estimator.items()}
        forms["score"] = ("manager", [*by_estimator["gae"], f"{KWARGS}.on_failure=score"])
        forms["one"] = ("manager", [*manager, "actor_rollout_ref.rollout.n=1"])
        results = await trained(forms, TEXTS)
    for name in (*OTHERS, "grpo_passk", "one"):
        assert results[name].startswith(
            "SettingsError: algorithm.adv_estimator: JudgeRewardManager"
        ), name
    for estimator in ESTIMATORS:
        advantage = results["rloo"][estimator]["advantages"][FAILED]
        if estimator in (
            "reinforce_plus_plus_baseline",
            "gdpo",
        ):  # whitened over all tokens of the batch
            assert abs(advantage) < 0.5, estimator
        else:
            assert advantage == pytest.approx(0.0, abs=1e-6), estimator
    for estimator in OTHERS:
        assert results["score"][estimator]["gradients"][FAILED] > 0.0, (
            estimator
        )  # what the refusal is for
