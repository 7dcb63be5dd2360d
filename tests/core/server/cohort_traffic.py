"""The traffic of a trainer that sends single samples, with what goes wrong on the way; for one worker and for several.

Each prompt has two epochs. By the prompt, responses name their group (then both epochs are under way at once), their
member alone (then the second epoch follows the answers to the first), or neither (then it follows some time later, as
in training). Of the responses some are lost, of which some come late after all; some are sent twice at the same time;
of some the caller gives up, before the others come or while the judge thinks, and asks again.

A response's text says which cohort it belongs to, and what the judge is to think of it.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import aiohttp

from tests.core.server.running import asked
from tests.scripted import Json

MARGIN_S = 5.0
_GIVEN_UP_S = 0.3
_APART_S = 0.1
_THINKING_S = 2 * _GIVEN_UP_S
_TEXT = re.compile(r"cohort (\d+-\d+) member (\d+) quality ([\d.]+)")
_OVERDUE = "within the server's deadline"
_REASONS = "late: ", "members came within", _OVERDUE
_LISTED = re.compile(r"\[Start of answer (\w+)[^\]]*\]\n(.*)")

Naming = Literal["group", "member", "nothing"]
_NAMINGS: tuple[Naming, ...] = ("group", "member", "nothing")


@dataclass(frozen=True)
class Plan:
    """What is sent.

    Attributes:
        prompts: each in two epochs, so that there are twice as many cohorts.
        size: members of a cohort.
        wait_s: the server's `--group_wait`.
        deadline_s: the server's `--deadline`.
    """

    prompts: int = 100
    size: int = 8
    wait_s: float = 2.0
    deadline_s: float = 120.0

    @property
    def flags(self) -> tuple[str, ...]:
        """The server's."""
        return f"--group_size={self.size}", f"--group_wait={self.wait_s}", f"--deadline={self.deadline_s}"


@dataclass(frozen=True)
class Sent:
    """A response on its way, and what happens to it."""

    cohort: str
    naming: Naming
    member: int
    text: str
    fate: Literal["sent", "lost", "late", "doubled", "retried"]

    @property
    def quality(self) -> float:
        return float(_TEXT.findall(self.text)[0][2])

    @property
    def body(self) -> Json:
        prompt, epoch = self.cohort.split("-")
        names: Json = {"member": self.member} if self.naming != "nothing" else {}
        if self.naming == "group":
            names["group"] = epoch
        return {"prompt": f"Question {prompt}?", "response": self.text, **names}


@dataclass
class Traffic:
    """What was answered: the results of each response, as often as it was answered."""

    plan: Plan
    answers: dict[Sent, list[Json]] = field(default_factory=lambda: defaultdict(list))
    given_up: int = 0
    stood_still_s: float = 0.0

    @property
    def results(self) -> list[Json]:
        return [result for results in self.answers.values() for result in results]


def responses(plan: Plan, prompt: int, epoch: int) -> list[Sent]:
    """The responses of a cohort: 10 % are lost or late, 5 % sent twice, 5 % sent again after the caller gave up."""
    rng, naming = random.Random(f"{prompt}-{epoch}"), _NAMINGS[prompt % 3]
    sent: list[Sent] = []
    for member in range(plan.size):
        chance = rng.random()
        fate: Any = "lost" if chance < 0.05 else "late" if chance < 0.1 else "retried" if chance < 0.15 else "sent"
        if 0.15 <= chance < 0.225 and naming != "nothing":  # equal responses without an id are two members
            fate = "doubled"
        slow = " slow" if fate == "retried" and rng.random() < 0.5 else ""
        text = f"cohort {prompt}-{epoch} member {member} quality {rng.randrange(101) / 100}{slow}"
        sent.append(Sent(f"{prompt}-{epoch}", naming, member, text, fate))
    return sent


async def send(url: str, plan: Plan) -> Traffic:
    """Send everything; no call may take longer than the server's deadline and a margin."""
    traffic = Traffic(plan)
    total = aiohttp.ClientTimeout(total=plan.deadline_s + MARGIN_S)
    async with aiohttp.ClientSession(timeout=total, connector=aiohttp.TCPConnector(limit=0)) as session:
        watching = asyncio.create_task(_watch(traffic))
        await asyncio.gather(*(_prompt(session, url, traffic, number) for number in range(plan.prompts)))
        watching.cancel()
    return traffic


async def _watch(traffic: Traffic) -> None:
    """Note for how long the machine stands still at most."""
    loop = asyncio.get_running_loop()
    while True:
        before = loop.time()
        await asyncio.sleep(0.05)
        traffic.stood_still_s = max(traffic.stood_still_s, loop.time() - before)


async def _prompt(session: aiohttp.ClientSession, url: str, traffic: Traffic, prompt: int) -> None:
    await asyncio.sleep(prompt * 0.01)
    plan, epochs = traffic.plan, [responses(traffic.plan, prompt, epoch) for epoch in range(2)]
    if epochs[0][0].naming == "group":
        await asyncio.gather(*(_cohort(session, url, traffic, epoch) for epoch in epochs))
        return
    await _cohort(session, url, traffic, epochs[0])
    if epochs[0][0].naming == "nothing":
        await asyncio.sleep(1.2 * plan.wait_s)
    await _cohort(session, url, traffic, epochs[1])


async def _cohort(session: aiohttp.ClientSession, url: str, traffic: Traffic, sent: Sequence[Sent]) -> None:
    """Send a cohort: first those whose callers give up before the others come, at the end those that come late."""
    early = [each for each in sent if each.fate == "retried" and "slow" not in each.text]
    await asyncio.gather(*(_answered(session, url, traffic, each, _GIVEN_UP_S) for each in early))
    tasks = [each for each in sent if each.fate in ("sent", "doubled", "retried")]
    await asyncio.gather(*(_until_answered(session, url, traffic, each) for each in tasks))
    for each in sent:
        if each.fate == "late":
            await _until_answered(session, url, traffic, each)


async def _until_answered(session: aiohttp.ClientSession, url: str, traffic: Traffic, sent: Sent) -> None:
    await asyncio.sleep(random.random() * _APART_S)
    if sent.fate == "doubled":
        await asyncio.gather(*(_answered(session, url, traffic, sent) for _ in range(2)))
    elif "slow" not in sent.text or await _answered(session, url, traffic, sent, _GIVEN_UP_S) is None:
        await _answered(session, url, traffic, sent)


async def _answered(
    session: aiohttp.ClientSession, url: str, traffic: Traffic, sent: Sent, given_up_s: float | None = None
) -> Json | None:
    """The result, or `None` for a caller that gave up. Without `given_up_s`, giving up is an error."""
    total = session.timeout if given_up_s is None else aiohttp.ClientTimeout(total=given_up_s)
    try:
        async with session.post(f"{url}/v1/score", json=sent.body, timeout=total) as answer:
            assert answer.status == 200, await answer.text()
            result: Json = await answer.json()
    except asyncio.TimeoutError:
        assert given_up_s is not None, f"{sent} waited beyond its deadline"
        traffic.given_up += 1
        return None
    traffic.answers[sent].append(result)
    return result


async def listwise_judge(request: Json, number: int) -> str:
    """Gives each answer the quality in its text; slowly, if one of them says so."""
    shown = asked(request)
    if "slow" in shown:
        await asyncio.sleep(_THINKING_S)
    scores = [
        f'{{"id": "{name}", "explanation": "It says so.", "score": {_TEXT.findall(text)[0][2]}}}'
        for name, text in _LISTED.findall(shown)
    ]
    return f'{{"scores": [{", ".join(scores)}]}}'


async def arena_judge(request: Json, number: int) -> str:
    """The answer of the higher quality wins; slowly, if one of them says so."""
    shown = asked(request)
    if "slow" in shown:
        await asyncio.sleep(_THINKING_S)
    (_, _, first), (_, _, second) = _TEXT.findall(shown)
    return "[[A=B]]" if float(first) == float(second) else "[[A>B]]" if float(first) > float(second) else "[[B>A]]"


def check_cohorts(traffic: Traffic, bodies: Sequence[Json]) -> None:
    """Each call of the judge shows the answers of one cohort, and each of them at most once.

    Without an id, a response that is sent again before the server has noticed that its first caller left is another
    member that says the same.
    """
    unnamed = {sent.text for sent in _all(traffic.plan) if sent.naming == "nothing" and sent.fate == "retried"}
    for body in bodies:
        texts = [match[0] for match in _TEXT.finditer(asked(body))]
        assert len({_TEXT.findall(text)[0][0] for text in texts}) == 1, texts
        twice = Counter(texts) - Counter(set(texts))
        assert all(any(text.startswith(each) for text in unnamed) for each in twice), texts
        assert len(texts) > 1, texts


def check_answers(traffic: Traffic) -> None:
    """Each response has a score, or is flagged with the reason; all its answers are the same.

    Of the second epoch that follows at once, a member that the first one lost is taken for a late one of the first:
    nobody can know better, and it costs a flag, and never a score among others. So does a machine that is so busy that
    members are on their way for seconds; on one that is not, it may happen to few of them.
    """
    scored: Counter[str] = Counter()
    delayed: list[Sent] = []
    lost = {(sent.cohort.split("-")[0], sent.member) for sent in _all(traffic.plan) if sent.fate == "lost"}
    for sent, results in traffic.answers.items():
        assert len({(result["score"], result["status"], result["explanation"]) for result in results}) == 1, results
        result = results[0]
        why = result["explanation"]
        if sent.fate == "late":
            assert result["score"] is None, sent
            assert any(words in why for words in _REASONS), result
        elif result["score"] is None:
            assert any(words in why for words in _REASONS), (sent, result)
            if sent.naming != "member" or (sent.cohort.split("-")[0], sent.member) not in lost:
                delayed.append(sent)
        else:
            scored[sent.cohort] += 1
    expected = {sent for sent in _all(traffic.plan) if sent.fate != "lost"}
    assert traffic.answers.keys() == expected
    assert traffic.stood_still_s > traffic.plan.wait_s / 10 or len(delayed) < len(expected) / 4, delayed
    assert min(scored.values()) > 1


def check_qualities(traffic: Traffic) -> None:
    """Each response has the score that the judge gave to it."""
    for sent, results in traffic.answers.items():
        assert results[0]["score"] in (None, sent.quality), (sent, results)


def check_metrics(traffic: Traffic, metrics: str, bodies: Sequence[Json]) -> None:
    """What is counted is what was sent: each member, each call and each cohort once.

    Where callers give up, the server may have answered before it notices: nobody sees that answer, with its flags and
    its usage, and who asks again is told that it is shared. So what is exact is what nobody gave up; of the rest there
    are bounds.
    """
    judge_calls = len(bodies)
    late = sum(results[0]["explanation"].startswith("late:") for results in traffic.answers.values())
    alone = sum("members came" in results[0]["explanation"] for results in traffic.answers.values())
    closed = (
        metric(metrics, "judgegym_cohorts_closed_total", 'how="full"'),
        metric(metrics, "judgegym_cohorts_closed_total", 'how="short"'),
    )
    assert metric(metrics, "judgegym_cohorts_open") == 0
    untold = sum(closed) - 2 * traffic.plan.prompts - alone
    assert 0 <= untold <= traffic.given_up
    assert min(closed) > 0
    assert late > 0
    shared = sum(result["shared"] for result in traffic.results)
    for name, seen in (("late_members", late), ("responses", len(traffic.answers)), ("equal_responses", shared)):
        assert 0 <= metric(metrics, f"judgegym_{name}_total") - seen <= traffic.given_up, name
    assert metric(metrics, "judgegym_judge_calls_total") == judge_calls
    assert metric(metrics, "judgegym_in_flight") == 0
    assert metric(metrics, "judgegym_requests_total", 'code="499"') <= traffic.given_up
    overdue = {sent.cohort for sent, results in traffic.answers.items() if _OVERDUE in results[0]["explanation"]}
    given_up = {sent.cohort for sent in _all(traffic.plan) if sent.fate == "retried"} | overdue
    made = Counter(_TEXT.findall(asked(body))[0][0] for body in bodies)
    told: Counter[str] = Counter()
    for sent, results in traffic.answers.items():
        told[sent.cohort] += sum(result["usage"]["judge_calls"] for result in results)
        if sent.cohort not in given_up:
            assert [result["shared"] for result in results].count(False) == 1, (sent, results)
    for cohort, calls in made.items():
        assert told[cohort] <= calls if cohort in given_up else told[cohort] == calls, cohort


def metric(metrics: str, name: str, label: str = "") -> float:
    """The sum of a metric over its labels."""
    lines = [line for line in metrics.splitlines() if re.match(rf"{name}[ {{]", line) and label in line]
    return sum(float(line.split()[-1]) for line in lines)


def _all(plan: Plan) -> list[Sent]:
    return [sent for prompt in range(plan.prompts) for epoch in range(2) for sent in responses(plan, prompt, epoch)]
