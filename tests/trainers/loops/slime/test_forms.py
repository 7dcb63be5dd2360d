"""slime's own functions with the stand-in as judge, compared with the judge asked directly: by URL, and by function."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.core.server.running import Running, running
from tests.scripted import Json
from tests.trainers.loops.examples import example, swap
from tests.trainers.loops.groups import ANSWERS, QUESTIONS, asked_directly, mean
from tests.trainers.loops.offline import OfflineJudge
from tests.trainers.loops.slime.test_slime import FUNCTION, rewards_of

GROUP = [{"prompt": QUESTIONS[0], "response": text, "label": "Since."} for text in ANSWERS]
QUESTION = QUESTIONS[:1]
FALLBACK = -0.5


async def ours(kind: str, *, together: bool = False) -> list[float | None]:
    async with running(f"--judge={kind}", judge=OfflineJudge()) as server:
        return await asked_directly(server, together=together, questions=QUESTION)


def by_example(server: Running) -> Json:
    """The arguments of the README's command line."""
    words = swap(example("slime", "bash", 1), ("http://127.0.0.1:8400", server.url)).split()
    known = {name: words[words.index(name) + 1] for name in ("--custom-rm-path", "--rm-url")}
    assert known["--custom-rm-path"] == FUNCTION and "--group-rm" in words
    return {"custom_rm_path": known["--custom-rm-path"], "rm_url": known["--rm-url"]}


def in_process(server: Running, kind: str) -> Json:
    """The README's settings of a judge in slime's process, with the test's endpoint."""
    given: Json = yaml.safe_load(example("slime", "yaml"))["judgegym"]
    given["judge"] |= {"judge": kind, "judge_base_url": server.judge.base_url, "judge_model_name": "the-judge"}
    return {"custom_rm_path": FUNCTION, "judgegym": {**given, "judge": {**given["judge"], "judge_max_retries": 0}}}


@pytest.mark.parametrize("kind", ["rubric", "listwise"])
async def test_rewards_of_a_group_are_those_of_the_judge(kind: str) -> None:
    scores = [score or 0.0 for score in await ours(kind, together=True)]
    async with running(f"--judge={kind}", judge=OfflineJudge()) as server:
        by_server = await rewards_of("", GROUP, **by_example(server))
        by_judge = await rewards_of("", GROUP, **in_process(server, kind))
    assert len(set(scores)) > 1
    assert by_server == by_judge == {"rewards": scores, "removed": [False] * len(GROUP)}


async def test_rewards_of_single_samples_are_those_of_the_judge() -> None:
    """By slime's own `remote_rm`, and by the function without `--group-rm`."""
    scores = [score or 0.0 for score in await ours("rubric")]
    async with running("--judge=rubric", judge=OfflineJudge()) as server:
        by_url = await rewards_of(f"{server.url}/slime", GROUP)
        by_function = await rewards_of(server.url, GROUP, custom_rm_path=FUNCTION, alone=True)
    assert by_url == by_function == {"rewards": scores, "removed": [False] * len(GROUP)}


@pytest.mark.parametrize("place", ["server", "process"])
async def test_every_third_judgment_of_a_group_fails(place: str) -> None:
    """What failed is kept out of the loss, with the mean of its group; the others have their own scores."""
    scores = [score or 0.0 for score in await ours("rubric")]
    judge = OfflineJudge(every_third_fails=True)
    async with running("--judge=rubric", judge=judge) as server:
        given = by_example(server) if place == "server" else in_process(server, "rubric")
        result = await rewards_of("", GROUP, **given)
    failed = [bool(text) and judge.has_failed(text) for text in ANSWERS]
    there = [score for score, is_failed in zip(scores, failed, strict=True) if not is_failed]
    assert any(failed) and result["removed"] == failed
    assert result["rewards"] == [
        mean(there) if is_failed else score for score, is_failed in zip(scores, failed, strict=True)
    ]


@pytest.mark.parametrize("by_url", [True, False])
async def test_every_third_judgment_of_single_samples_fails(by_url: bool) -> None:
    """slime reads no flag of `remote_rm`: it is in the server's metrics; the function keeps the sample out."""
    scores = [score or 0.0 for score in await ours("rubric")]
    judge = OfflineJudge(every_third_fails=True)
    async with running("--on_failure=score", f"--fallback_score={FALLBACK}", judge=judge) as server:
        if by_url:
            result = await rewards_of(f"{server.url}/slime", GROUP)
        else:
            given = {"custom_rm_path": FUNCTION, "alone": True, "judgegym": {"fallback_score": FALLBACK}}
            result = await rewards_of(server.url, GROUP, **given)
        metrics = (await server.get("/metrics")).text
    failed = [bool(text) and judge.has_failed(text) for text in ANSWERS]
    assert any(failed)
    assert result["removed"] == ([False] * len(failed) if by_url else failed)
    assert result["rewards"] == [
        FALLBACK if is_failed else score for score, is_failed in zip(scores, failed, strict=True)
    ]
    counted = re.findall(r"^judgegym_judge_failures_total\{.*\} ([0-9.]+)$", metrics, re.MULTILINE)
    assert sum(map(float, counted)) > 0
