"""slime's own functions with the stand-in as judge, compared with the judge asked directly: by URL, and by function."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import yaml

from tests.core.server.running import Running, running
from tests.scripted import Json
from tests.trainers.loops.examples import example, swap
from tests.trainers.loops.groups import ANSWERS, QUESTIONS, asked_directly, failed_among, with_means
from tests.trainers.loops.offline import OfflineJudge
from tests.trainers.loops.slime.test_slime import FUNCTION, rewards_of

GROUP = [{"prompt": QUESTIONS[0], "response": text, "label": "Since."} for text in ANSWERS]
FALLBACK = -0.5


async def ours(kind: str, *, together: bool = False) -> list[float]:
    async with running(f"--judge={kind}", judge=OfflineJudge()) as server:
        scores = await asked_directly(server, together=together, questions=QUESTIONS[:1])
    return [score or 0.0 for score in scores]


def by_example(server: Running, kind: str) -> Json:
    """The arguments of the README's command line."""
    words = swap(example("slime", "bash", 1), ("http://127.0.0.1:8400", server.url)).split()
    known = {name: words[words.index(name) + 1] for name in ("--custom-rm-path", "--rm-url")}
    assert known["--custom-rm-path"] == FUNCTION and "--group-rm" in words
    return {"custom_rm_path": known["--custom-rm-path"], "rm_url": known["--rm-url"]}


def in_process(server: Running, kind: str) -> Json:
    """The README's settings of a judge in slime's process, with the test's endpoint."""
    given: Json = yaml.safe_load(example("slime", "yaml"))["judgegym"]
    given["judge"] |= {
        "judge": kind,
        "judge_base_url": server.judge.base_url,
        "judge_model_name": "the-judge",
    }
    return {
        "custom_rm_path": FUNCTION,
        "judgegym": {**given, "judge": {**given["judge"], "judge_max_retries": 0}},
    }


async def test_rewards_of_a_group_are_those_of_a_judge_that_compares() -> None:
    scores = await ours("listwise", together=True)
    async with running("--judge=listwise", judge=OfflineJudge()) as server:
        by_server = await rewards_of("", GROUP, **by_example(server, "listwise"))
        by_judge = await rewards_of("", GROUP, **in_process(server, "listwise"))
    assert len(set(scores)) > 1
    assert by_server == by_judge == {"rewards": scores, "removed": [False] * len(GROUP)}


@pytest.mark.parametrize("form", [by_example, in_process])
async def test_every_third_judgment_of_a_group_fails(form: Callable[[Running, str], Json]) -> None:
    """What failed is kept out of the loss, with the mean of its group; the others have their own scores."""
    judge = OfflineJudge(every_third_fails=True)
    async with running("--judge=rubric", judge=judge) as server:
        result = await rewards_of("", GROUP, **form(server, "rubric"))
    failed = failed_among([(QUESTIONS[0], text) for text in ANSWERS], judge)
    assert result == {"rewards": with_means(await ours("rubric"), failed), "removed": failed}


@pytest.mark.parametrize("by_url", [True, False])
async def test_every_third_judgment_of_single_samples_fails(by_url: bool) -> None:
    """slime reads no flag of `remote_rm`: it is in the server's metrics; the function keeps the sample out."""
    judge = OfflineJudge(every_third_fails=True)
    async with running("--on_failure=score", f"--fallback_score={FALLBACK}", judge=judge) as server:
        if by_url:
            result = await rewards_of(f"{server.url}/slime", GROUP)
        else:
            given = {
                "custom_rm_path": FUNCTION,
                "alone": True,
                "judgegym": {"fallback_score": FALLBACK},
            }
            result = await rewards_of(server.url, GROUP, **given)
        metrics = (await server.get("/metrics")).text
    failed = failed_among([(QUESTIONS[0], text) for text in ANSWERS], judge)
    rewards = [
        FALLBACK if is_failed else score
        for score, is_failed in zip(await ours("rubric"), failed, strict=True)
    ]
    assert result == {"rewards": rewards, "removed": [False] * len(failed) if by_url else failed}
    counted = re.findall(r"^judgegym_judge_failures_total\{.*\} ([0-9.]+)$", metrics, re.MULTILINE)
    assert sum(map(float, counted)) > 0
