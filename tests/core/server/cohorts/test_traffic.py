"""Cohorts under a trainer's traffic: responses lost, late, sent twice and again, two epochs interleaved.

By the prompt, responses name their group (then both epochs are under way at once), their member alone (then the second
epoch follows the answers to the first), or neither (then it follows some time later, as in training).
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from tests.core.server.group_judges import TEXT, arena_judge, listwise_judge, metric
from tests.core.server.running import Running, asked, running
from tests.scripted import Json, Script
from tests.trainer import until

WAIT_S = 2.0
GIVEN_UP_S = 0.3
FATES = {"sent": 80, "lost": 5, "late": 5, "retried": 5, "doubled": 5}
"""Of a hundred responses; who retries gives up first, before the others come or while the judge thinks."""


class Sent(NamedTuple):
    """A response on its way, and what happens to it."""

    cohort: str
    fate: str
    text: str
    body: Json


def cohort(prompt: int, epoch: int, size: int) -> list[Sent]:
    name, sent = f"{prompt}-{epoch}", list[Sent]()
    rng = random.Random(name)
    for member in range(size):
        (fate,) = rng.choices([*FATES], [*FATES.values()])
        fate = "sent" if fate == "doubled" and prompt % 3 == 2 else fate  # equal ones without an id are two members
        slow = " slow" if fate == "retried" and rng.random() < 0.5 else ""
        text = f"cohort {name} member {member} quality {rng.randrange(101) / 100}{slow}"
        ids = {"group": str(epoch), "member": member} if prompt % 3 == 0 else {"member": member}
        body = {"prompt": f"Question {prompt}?", "response": text, **({} if prompt % 3 == 2 else ids)}
        sent.append(Sent(name, fate, text, body))
    return sent


@pytest.mark.slow
@pytest.mark.parametrize(
    ("judge", "script", "prompts", "size"),
    [("listwise", listwise_judge, 100, 8), ("tournament", arena_judge, 12, 4)],
)
async def test_cohorts_of_a_trainers_traffic_are_judged_by_themselves_in_time(
    judge: str, script: Script, prompts: int, size: int
) -> None:
    answers: defaultdict[str, list[Json]] = defaultdict(list)
    plan = [[cohort(prompt, epoch, size) for epoch in range(2)] for prompt in range(prompts)]
    everything = [sent for epochs in plan for epoch in epochs for sent in epoch]
    flags = f"--group_size={size}", f"--group_wait={WAIT_S}", "--deadline=120"

    async def ask(server: Running, sent: Sent, patience_s: float | None = None) -> None:
        try:
            answer = await asyncio.wait_for(server.post("/v1/score", sent.body), patience_s)
        except asyncio.TimeoutError:
            assert patience_s is not None
            return
        assert answer.status == 200, answer.text
        answers[sent.text].append(answer.json)

    async def send(server: Running, epoch: Sequence[Sent]) -> None:
        early = [sent for sent in epoch if sent.fate == "retried" and "slow" not in sent.text]
        await asyncio.gather(*(ask(server, sent, GIVEN_UP_S) for sent in early))
        slow = [ask(server, sent, GIVEN_UP_S) for sent in epoch if "slow" in sent.text]
        once = [ask(server, sent) for sent in epoch if sent.fate in ("sent", "doubled")]
        twice = [ask(server, sent) for sent in epoch if sent.fate == "doubled"]
        await asyncio.gather(*slow, *once, *twice, *(ask(server, sent) for sent in early))
        await asyncio.gather(*(ask(server, sent) for sent in epoch if "slow" in sent.text))
        for sent in epoch:
            if sent.fate == "late":
                await ask(server, sent)

    async def send_prompt(server: Running, prompt: int) -> None:
        await asyncio.sleep(prompt * 0.01)
        first, second = plan[prompt]
        if prompt % 3 == 0:
            await asyncio.gather(send(server, first), send(server, second))
            return
        await send(server, first)
        await asyncio.sleep(0 if prompt % 3 == 1 else 1.2 * WAIT_S)
        await send(server, second)

    async with running(f"--judge={judge}", *flags, judge=script) as server:
        await asyncio.gather(*(send_prompt(server, prompt) for prompt in range(prompts)))

        async def nobody_waits() -> bool:
            return metric((await server.get("/metrics")).text, "judgegym_in_flight") == 0

        await until(nobody_waits, "all who gave up are noticed")
        metrics = (await server.get("/metrics")).text
        calls = [asked(body) for body in server.judge.bodies]
    retried = {sent.text for sent in everything if sent.fate == "retried"}
    for shown in calls:
        texts = [match[0] for match in TEXT.finditer(shown)]
        assert len({TEXT.findall(text)[0][0] for text in texts}) == 1, "a call shows the answers of one cohort"
        twice = [text for text, count in Counter(texts).items() if count > 1]
        assert all(any(each.startswith(text) for each in retried) for text in twice), "each of them once"
        assert len(texts) > 1
    assert answers.keys() == {sent.text for sent in everything if sent.fate != "lost"}
    scored: Counter[str] = Counter()
    for sent in everything:
        results = answers.get(sent.text, [])
        told: set[tuple[Any, ...]] = {(each["score"], each["status"], each["explanation"]) for each in results}
        assert len(told) == (sent.fate != "lost"), "all its answers are the same"
        for score, _, explanation in told:
            assert score is not None or "late: " in explanation or "members came within" in explanation, explanation
            assert score is None or sent.fate != "late"
            assert judge != "listwise" or score in (None, float(TEXT.findall(sent.text)[0][2]))
            scored[sent.cohort] += score is not None
    assert min(scored.values()) > 1
    assert metric(metrics, "judgegym_judge_calls_total") == len(calls)
    assert metric(metrics, "judgegym_cohorts_open") == 0
