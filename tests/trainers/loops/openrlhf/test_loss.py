"""What a failed judgment adds to OpenRLHF's loss, by its own experience maker and policy loss, with every estimator."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from judgegym_trainers.openrlhf import ESTIMATORS
from tests.core.server.running import running
from tests.scripted import Json
from tests.trainers.judges import rating
from tests.trainers.loops import trainers

PROMPT = "<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n"
TEXTS = ["good", "FAIL", "fair, and of some length", "poor answer"]
judge = rating({"good": 5, "fair, and of some length": 3, "poor answer": 1})
FAILED = TEXTS.index("FAIL")
ALL = ("gae", "reinforce", "flash_reinforce", *ESTIMATORS)
SCALES = {"rloo": 4 * 2 / (3 * 3), "group_norm": math.sqrt(3 / 2)}
"""How much larger the others' advantages are than in a group without the failed one: 4 samples, 3 of them judged."""


def samples(texts: list[str]) -> list[Json]:
    return [{"prompt": PROMPT, "label": None, "response": text} for text in texts]


def written(path: Path, maker: str, arguments: str) -> str:
    """A file with an agent or a function."""
    made = "AgentExecutor" if maker == "agent_executor" else "reward_func"
    path.write_text(
        f"from judgegym_trainers.openrlhf import {maker}\n{made} = {maker}({arguments})\n"
    )
    return f"agent={path}" if maker == "agent_executor" else str(path)


async def trained(forms: dict[str, str], texts: list[str]) -> dict[str, dict[str, Json]]:
    ended = await trainers.run("openrlhf", "loss_program.py", forms, list(ALL), samples(texts))
    assert ended.code == 0, ended.err
    results: dict[str, dict[str, Json]] = ended.result
    return results


# Losses: OpenRLHF | any, without `--algo.kl.target` | agent | safe
@pytest.mark.timeout(200)
async def test_a_failed_judgment_adds_nothing_by_the_agent_with_every_estimator(
    tmp_path: Path,
) -> None:
    async with running("--judge=rubric", judge=judge) as server:
        whole = written(tmp_path / "whole.py", "agent_executor", f"{server.url!r}, group_size=4")
        part = written(tmp_path / "part.py", "agent_executor", f"{server.url!r}, group_size=3")
        of_all = (await trained({"agent": whole}, TEXTS))["agent"]
        of_judged = (await trained({"agent": part}, [text for text in TEXTS if text != "FAIL"]))[
            "agent"
        ]
    for estimator in ALL:
        advantages, gradients = of_all[estimator]["advantages"], of_all[estimator]["gradients"]
        assert (advantages.pop(FAILED), gradients.pop(FAILED)) == (0.0, 0.0), estimator
        expected = [
            SCALES.get(estimator, 1.0) * each for each in of_judged[estimator]["advantages"]
        ]
        assert advantages == pytest.approx(expected, abs=1e-5), estimator
        assert any(gradients), estimator


# Losses: OpenRLHF | `rloo`, `group_norm`, `dr_grpo`, `reinforce_baseline` | function | mean
# Losses: OpenRLHF | `gae` (its default), `reinforce`, `flash_reinforce` | function | refused
@pytest.mark.timeout(200)
async def test_the_function_gives_the_mean_which_only_some_estimators_subtract(
    tmp_path: Path,
) -> None:
    async with running("--judge=rubric", judge=judge) as server:
        arguments = f"{server.url!r}, group_size=4, estimator='rloo'"
        forms = {
            "mean": written(tmp_path / "mean.py", "reward_function", arguments),
            "score": written(
                tmp_path / "score.py", "reward_function", f"{server.url!r}, on_failure='score'"
            ),
        }
        results = await trained(forms, TEXTS)
        refused = written(
            tmp_path / "refused.py",
            "reward_function",
            f"{server.url!r}, group_size=4, estimator='gae'",
        )
        ended = await trainers.run("openrlhf", "program.py", refused, samples(TEXTS))
    of_mean = {estimator: results["mean"][estimator]["advantages"][FAILED] for estimator in ALL}
    for estimator in ("rloo", "group_norm", "dr_grpo"):
        assert of_mean[estimator] == pytest.approx(0.0, abs=1e-6), estimator
    # Its advantages are whitened over all tokens of the batch: the zero of the mean moves by that
    # of longer samples.
    assert abs(of_mean["reinforce_baseline"]) < 0.5
    for estimator in ("reinforce_baseline", "gae", "reinforce"):
        assert results["mean"][estimator]["gradients"][FAILED] > 0.0, estimator
    for estimator in ESTIMATORS:
        assert results["score"][estimator]["advantages"][FAILED] < -0.1, (
            estimator
        )  # as a wrong answer
    assert ended.code == 1
    assert "estimator: " in ended.err and "found estimator 'gae' and group_size 4" in ended.err


# Losses: OpenRLHF | any | URL | refused
@pytest.mark.timeout(200)
async def test_by_url_a_failed_judgment_is_an_error_and_no_reward() -> None:
    """OpenRLHF sends the request five times; a sample without a reward ends its run, unless a score is chosen."""
    async with running("--judge=rubric", judge=judge) as server:
        ended = await trainers.run(
            "openrlhf", "program.py", f"{server.url}/get_reward", samples(TEXTS)
        )
    assert ended.code == 0, ended.err
    rewards = [each["reward"] for each in ended.result]
    assert rewards == [[1.0], None, [0.5], [0.0]]


@pytest.mark.timeout(200)
async def test_a_judge_that_is_down_ends_the_run(tmp_path: Path) -> None:
    """A batch of masked samples alone has no token, and OpenRLHF divides by their number."""
    async with running("--judge=rubric", judge="I cannot say.") as server:
        form = written(tmp_path / "down.py", "agent_executor", f"{server.url!r}, group_size=1")
        ended = await trainers.run(
            "openrlhf", "program.py", form, samples([f"text {n}" for n in range(40)])
        )
    assert ended.code == 1
    assert re.search("NoRewardError: .*failed for 32 samples", ended.err)
