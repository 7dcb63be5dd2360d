"""Cohorts of a server with two workers: as processes, over TCP, whichever worker a member reaches."""

from __future__ import annotations

import asyncio
import os
import re
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from signal import SIGCONT, SIGINT, SIGKILL, SIGSTOP, SIGTERM, Signals

import aiohttp
import pytest

from judgegym.llm.wire import JSON
from tests.command import PATIENCE_S, serving
from tests.forking import Forked
from tests.listwise import judging
from tests.scripted import Json, Script, ScriptedEndpoint
from tests.server import cohort_traffic
from tests.server.cohort_traffic import Plan, Traffic
from tests.server.running import Answer, Reached
from tests.server.served import started
from tests.trainer import until

WORKERS, GROUPS, SIZE = 2, 12, 4
DEADLINE_S = 5.0
EVERYBODY = [(group, number) for number in range(SIZE) for group in range(GROUPS)]
FLAGS = ("--judge=listwise", f"--group_size={SIZE}", f"--workers={WORKERS}", "--deadline=40", "--group_wait=20")

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="there is no /proc")


def planted(group: int, number: int) -> float:
    """The score of a member: another one in each cohort."""
    return (10 * number + group) / 100


def by_text(text: str, place: int) -> float:
    return float(text.rpartition(" ")[2])


PLANTED = judging(by_text)


@dataclass(frozen=True)
class TwoWorkers:
    """A server with two workers, and the judge behind it."""

    process: Forked
    url: str
    judge: ScriptedEndpoint

    def pids(self) -> list[int]:
        """The workers."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(child) for child in children.split()]

    def directory(self) -> Path:
        """Where the workers find each other."""
        variables = Path(f"/proc/{self.pids()[0]}/environ").read_bytes().decode().split("\0")
        return Path(next(each for each in variables if each.startswith("JUDGES_SERVER_DIRECTORY=")).partition("=")[2])

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @asynccontextmanager
    async def reached(self) -> AsyncIterator[Reached]:
        """Each request has a connection of its own, which the system gives to one of the workers."""
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(PATIENCE_S)) as session:
            yield Reached(self.url, self.judge, session)


@contextmanager
def two_workers(*flags: str, script: Script = PLANTED) -> Iterator[TwoWorkers]:
    with serving(script) as judge, started(f"--judge_base_url={judge.base_url}", *flags) as (process, url):
        process.first_lines(WORKERS, PATIENCE_S)
        yield TwoWorkers(process, url, judge)
        process.send_signal(SIGTERM)
        process.communicate(PATIENCE_S)
        assert process.returncode == 0


def connections(pid: int, port: int) -> int:
    """How many callers at a port a process has a connection with."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    established = {words[9] for words in lines if words[1].endswith(f":{port:04X}") and words[3] == "01"}
    links = [str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir() if each.is_symlink()]
    return sum(link.removeprefix("socket:[").removesuffix("]") in established for link in links)


async def member(server: Reached, group: int, number: int, *, is_named: bool = True) -> Answer:
    """The answer to a member of a group."""
    body: Json = {"prompt": f"Why {group}?", "response": f"Score {planted(group, number)}"}
    ids = {"group": str(group), "member": str(number)} if is_named else {}
    return await server.post("/v1/score", {**body, **ids})


async def count(server: Reached, name: str) -> float:
    """A metric, over all its labels; each worker has said its own of what is under way."""
    for _ in range(4 * WORKERS):
        text = (await server.get("/metrics")).text
    return sum(float(value) for value in re.findall(rf"^judgegym_{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE))


async def seated(server: Reached, members: int) -> None:
    """Wait until so many members have their places."""

    async def are_there() -> bool:
        return await count(server, "in_flight") == members

    await until(are_there, f"{members} members wait")


def test_members_meet_whichever_worker_they_reach_and_are_counted_once() -> None:
    async def traffic(server: TwoWorkers) -> None:
        async with server.reached() as reached:
            answers = await asyncio.gather(*(member(reached, *each) for each in EVERYBODY))
            again = await member(reached, 3, 2)
            assert [answer.json["score"] for answer in answers] == [planted(*each) for each in EVERYBODY]
            assert (again.json["score"], again.json["shared"]) == (planted(3, 2), True)
            assert await count(reached, "cohorts_closed_total") == GROUPS
            assert await count(reached, "cohorts_open") == 0
            assert await count(reached, "responses_total") == GROUPS * SIZE
            assert await count(reached, "equal_responses_total") == 1
            assert await count(reached, "requests_total") == GROUPS * SIZE + 1
            assert await count(reached, "judge_calls_total") == GROUPS

    with two_workers(*FLAGS) as server:
        asyncio.run(traffic(server))
        assert len(server.judge.requests) == GROUPS


def test_members_without_ids_meet_by_prompt() -> None:
    async def traffic(server: TwoWorkers) -> list[Answer]:
        async with server.reached() as reached:
            return await asyncio.gather(*(member(reached, *each, is_named=False) for each in EVERYBODY))

    with two_workers(*FLAGS) as server:
        answers = asyncio.run(traffic(server))
        assert len(server.judge.requests) == GROUPS
    assert [answer.json["score"] for answer in answers] == [planted(*each) for each in EVERYBODY]


def test_worker_that_is_killed_costs_nobody_a_score_who_asks_again() -> None:
    """Half of the groups lose their owner; those whose connections broke ask once more, as trainers do."""
    lost: list[tuple[int, int]] = []

    async def persistent(reached: Reached, group: int, number: int) -> Answer:
        while True:
            try:
                return await member(reached, group, number)
            except aiohttp.ClientError:
                lost.append((group, number))
                await asyncio.sleep(0.05)

    async def traffic(server: TwoWorkers) -> list[Answer]:
        async with server.reached() as reached:
            *first, last = [EVERYBODY[place : place + GROUPS] for place in range(0, GROUPS * SIZE, GROUPS)]
            early = [asyncio.create_task(persistent(reached, *each)) for some in first for each in some]
            await seated(reached, len(early))
            os.kill(server.pids()[0], SIGKILL)
            late = [asyncio.create_task(persistent(reached, *each)) for each in last]
            return await asyncio.gather(*early, *late)

    with two_workers(*FLAGS) as server:
        answers = asyncio.run(traffic(server))
    assert lost
    assert [answer.json["score"] for answer in answers] == [planted(*each) for each in EVERYBODY]


def test_worker_that_is_killed_leaves_every_other_caller_a_score_or_a_flag() -> None:
    """Nobody asks again: groups are judged without those who were connected to it."""

    async def traffic(server: TwoWorkers) -> list[Answer | BaseException]:
        async with server.reached() as reached:
            waiting = [asyncio.create_task(member(reached, *each)) for each in EVERYBODY if each[1]]
            await seated(reached, len(waiting))
            os.kill(server.pids()[1], SIGKILL)
            return await asyncio.gather(*waiting, return_exceptions=True)

    with two_workers(*FLAGS, "--deadline=20", "--group_wait=5") as server:
        answers = dict(zip([each for each in EVERYBODY if each[1]], asyncio.run(traffic(server)), strict=True))
    broken = {each for each, answer in answers.items() if isinstance(answer, aiohttp.ClientError)}
    results = {each: answer.json for each, answer in answers.items() if isinstance(answer, Answer)}
    assert broken
    assert broken | set(results) == set(answers)
    scored = {each for each, result in results.items() if result["score"] is not None}
    assert scored
    assert [results[each]["score"] for each in scored] == [planted(*each) for each in scored]
    assert {results[each]["status"] for each in scored} == {"ok"}
    assert {results[each]["status"] for each in set(results) - scored} <= {"judge_failed"}


def test_worker_that_hangs_keeps_nobody_waiting_who_has_reached_the_other() -> None:
    async def traffic(server: TwoWorkers) -> tuple[list[Answer], list[Answer]]:
        async with server.reached() as reached:
            tasks = [asyncio.create_task(member(reached, *each)) for each in EVERYBODY if each[1]]
            await seated(reached, len(tasks))
            pid, other = server.pids()

            def only_members() -> bool:
                return sum(connections(each, server.port) for each in (pid, other)) == len(tasks)

            await until(only_members, "nobody else is connected")
            reached_other = connections(other, server.port)
            os.kill(pid, SIGSTOP)
            try:
                await until(lambda: sum(task.done() for task in tasks) == reached_other, "the other has answered")
                answered, waiting = await asyncio.wait(tasks, timeout=0)
            finally:
                os.kill(pid, SIGCONT)
            return [task.result() for task in answered], await asyncio.gather(*waiting)

    with two_workers(*FLAGS, f"--deadline={DEADLINE_S}", f"--group_wait={DEADLINE_S / 2}") as server:
        answered, waiting = asyncio.run(traffic(server))
    assert answered
    assert waiting
    assert {answer.json["status"] for answer in answered} == {"ok", "judge_failed"}
    assert {answer.status for answer in waiting} == {200}


@pytest.mark.parametrize("number", [SIGTERM, SIGINT])
def test_open_cohorts_of_all_workers_are_judged_before_the_end(number: Signals) -> None:
    async def traffic(server: TwoWorkers) -> tuple[list[Answer], Answer]:
        async with server.reached() as reached:
            waiting = [asyncio.create_task(member(reached, *each)) for each in EVERYBODY if each[1]]
            alone = asyncio.create_task(member(reached, GROUPS, 0))
            await seated(reached, len(waiting) + 1)
            server.process.send_signal(number)
            return await asyncio.gather(*waiting), await alone

    with two_workers(*FLAGS) as server:
        answers, alone = asyncio.run(traffic(server))
        server.process.communicate(PATIENCE_S)
        assert server.process.returncode == 0
    assert [answer.json["score"] for answer in answers] == [planted(*each) for each in EVERYBODY if each[1]]
    assert (alone.status, alone.json["status"], alone.json["score"]) == (200, "judge_failed", None)
    assert "before the server stopped" in alone.json["explanation"]


def test_sockets_are_private_and_no_route_leads_to_them() -> None:
    forged: Json = {"mount": "", "item": {"prompt": "Q", "responses": ["A"]}, "spent_s": 0.0}
    headers = {"X-Judges-Member": "1", "X-Forwarded-For": "127.0.0.1", "Host": "worker"}

    async def traffic(server: TwoWorkers) -> tuple[list[Answer], list[Answer]]:
        async with server.reached() as reached:
            paths = ("/join", "//join", "/token/x/join", "/0.sock", "/v1/score/join")
            closed = [await reached.post(path, forged, **headers) for path in paths * WORKERS]
            body: dict[str, JSON] = {"prompt": "Q", "response": "Score 0.5", "spent_s": 0.0, "mount": "other"}
            fields = [await reached.post("/v1/score", body, **headers) for _ in range(WORKERS)]
            return closed, fields

    with two_workers(*FLAGS) as server:
        directory = server.directory()
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        assert sorted(path.name for path in directory.glob("*.sock")) == ["0.sock", "1.sock"]
        closed, fields = asyncio.run(traffic(server))
    assert {answer.status for answer in closed} == {404}
    assert {answer.status for answer in fields} == {422}  # unknown fields
    assert not server.judge.requests
    assert not directory.exists()


def test_judges_that_gather_nothing_have_no_sockets() -> None:
    with two_workers("--judge=listwise", f"--workers={WORKERS}") as server:
        assert not list(server.directory().glob("*.sock"))


@pytest.mark.parametrize(
    ("judge", "script", "plan"),
    [
        ("listwise", cohort_traffic.listwise_judge, Plan()),
        ("tournament", cohort_traffic.arena_judge, Plan(prompts=12, size=4)),
    ],
)
def test_cohorts_of_a_trainers_traffic_meet_in_one_worker_each(judge: str, script: Script, plan: Plan) -> None:
    """Responses lost, late, sent twice and again, two epochs interleaved: as with one worker."""

    async def traffic(server: TwoWorkers) -> tuple[Traffic, str]:
        sent = await cohort_traffic.send(server.url, plan)
        async with server.reached() as reached:
            await seated(reached, 0)
            return sent, (await reached.get("/metrics")).text

    with two_workers(f"--judge={judge}", *plan.flags, f"--workers={WORKERS}", script=script) as server:
        sent, metrics = asyncio.run(traffic(server))
        bodies = server.judge.bodies
    cohort_traffic.check_cohorts(sent, bodies)
    cohort_traffic.check_answers(sent)
    cohort_traffic.check_metrics(sent, metrics, bodies)
    if judge == "listwise":
        cohort_traffic.check_qualities(sent)
        closed = cohort_traffic.metric(metrics, "judgegym_cohorts_closed_total")
        assert 2 * plan.prompts <= len(bodies) <= closed, "one call for each cohort"
