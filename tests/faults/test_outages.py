"""Endpoints that answer no call any more, in each verb: what that costs, how the command ends, what stays."""

from __future__ import annotations

import json
import re
import shlex
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from judgegym.engine.settings import BUNDLED_TOKENIZER
from judgegym.llm import reachability
from judgegym.llm.reachability import MOST_IN_A_ROW
from tests.arena import Arena, for_model, judge, uid_of
from tests.command import SCRIPT, Ended, Started, in_process, serving, write_lines
from tests.core.datasets.scoring import rated, score
from tests.faults.bench import GROUP, TrainerInMemory
from tests.scripted import Json, Reply, Script, ScriptedEndpoint, refusing
from tests.serving import judging, sampling
from tests.trainer import ScriptedServer

Verb = Literal["evaluate", "process", "serve", "score"]
VERBS: tuple[Verb, ...] = ("evaluate", "process", "serve", "score")
ROWS, BEFORE = 60, 30
"""Rows of a run, and answers of the endpoint that then rejects all requests."""
AT_ONCE, MOST_REJECTED = 16, 32
"""Requests in flight, and those that may be rejected: the ones on their way when the endpoint turns, and nine more.

With 256 in flight the number on their way would depend on the speed of the endpoint's thread. That
case is in `tests/core/llm/test_breaker.py`, where client and endpoint share an event loop.
"""


@pytest.fixture(autouse=True)
def _quick_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reachability, "_FIRST_PROBE_PAUSE_S", 0.01)


def _error(
    number: int, message: str, headers: Mapping[str, str] | None = None, **fields: Any
) -> Reply:
    return Reply(
        status=number, headers=headers or {}, body={"error": {"message": message, **fields}}
    )


NO_CREDIT = _error(402, "insufficient credits")
GOOGLE = "You exceeded your current quota, please check your plan and billing details."
OUT_OF_CREDIT: Mapping[str, Reply] = {
    "quota": _error(429, GOOGLE, type="insufficient_quota", code="insufficient_quota"),
    "hard_limit": _error(
        429, "Billing hard limit has been reached", code="billing_hard_limit_reached"
    ),
    "not_active": _error(
        429, "Please check your billing details", type="billing_not_active", code=None
    ),
    "balance": _error(
        429, "Insufficient Balance", type="unknown_error", code="invalid_request_error"
    ),
    "too_low": _error(
        400, "Your credit balance is too low to access the API.", type="invalid_request_error"
    ),
    "spent": _error(
        400,
        "You have reached your specified API usage limits. You will regain access on 2027-01-01.",
    ),
    "in_a_body": Reply(body={"error": {"message": "Insufficient credits", "code": 402}}),
}
"""An account without credit, in the words of providers."""
DAILY: Mapping[str, Reply] = {
    "header": _error(
        429, "Daily limit of requests reached", {"Retry-After": "86400"}, code="rate_limit_exceeded"
    ),
    "in_words": _error(
        429, "Limit of requests per day (RPD): 1000. Please try again in 1h25m13.5s."
    ),
    "without_a_time": _error(
        429, "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock more."
    ),
    "google": _error(
        429,
        GOOGLE,
        status="RESOURCE_EXHAUSTED",
        details=[
            {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},
            {"retryDelay": "39s"},
        ],
    ),
}
"""A limit whose end is hours away."""


@dataclass
class Account:
    """The credit of an endpoint: after so many answers it rejects, until it is paid."""

    script: Callable[[Json, int], Reply | str]
    credit: float
    rejection: Reply = NO_CREDIT
    rejected: int = 0
    answered: Counter[str] = field(default_factory=Counter)
    is_rejected: threading.Event = field(default_factory=threading.Event)

    def __call__(self, request: Json, number: int) -> Reply | str:
        if self.answered.total() >= self.credit:
            self.rejected += 1
            if self.rejected >= MOST_IN_A_ROW + 2:  # two of them are probes
                self.is_rejected.set()
            return self.rejection
        self.answered[json.dumps(request)] += 1
        return self.script(request, number)


@dataclass
class Command:
    """A command of each verb against two scripted endpoints."""

    verb: Verb
    path: Path
    judge: Account = field(init=False)
    policy: Account = field(init=False)
    trainer: TrainerInMemory = field(init=False)
    judge_url: str = ""
    policy_url: str = ""
    api_url: str = ""

    def __post_init__(self) -> None:
        self.trainer = TrainerInMemory(ROWS // 4)
        scripts: dict[Verb, Script] = {"evaluate": judge(for_model), "score": rated(lambda text: 4)}
        self.judge = Account(scripts.get(self.verb, judging()), float("inf"))  # type: ignore[arg-type]  # not async
        answering = (
            (lambda request, number: f"ANSWER to {uid_of(request)}")
            if self.verb == "evaluate"
            else sampling()
        )
        self.policy = Account(answering, float("inf"))

    @contextmanager
    def endpoints(self) -> Iterator[None]:
        """Serve judge, policy and rollout API; a URL that is set already is another's."""
        with ExitStack() as stack:
            self.judge_url = self.judge_url or stack.enter_context(serving(self.judge)).base_url
            self.policy_url = self.policy_url or stack.enter_context(serving(self.policy)).base_url
            api: ScriptedEndpoint = stack.enter_context(serving(ScriptedServer(self.trainer)))
            self.api_url = api.base_url.removesuffix("/v1")
            yield

    def words(self, *flags: str) -> list[str]:
        if self.verb == "score":
            rows = [
                {"prompt": f"question {number}", "response": f"response {number}"}
                for number in range(ROWS)
            ]
            data = write_lines(self.path / "data.jsonl", rows)
            rubric = '--rubric={"criteria":"good?","1":"a","2":"b","3":"c","4":"d","5":"e"}'
            endpoint = f"--judge_base_url={self.judge_url}"
            return [
                str(data),
                f"--out={self.path / 'out.jsonl'}",
                "--judge=rubric",
                rubric,
                endpoint,
                *flags,
            ]
        arena = Arena(self.path).rows(ROWS)
        settings = {
            "evaluate": [f"--env.data_dir_to_save_evals={self.path / 'run'}"],
            "process": ["--env.total_steps=20"],
            "serve": [
                f"--env.rollout_server_url={self.api_url}",
                "--env.steps_per_eval=-1",
                "--env.max_num_workers=20",
                "--env.total_steps=1",
                "--env.max_batches_offpolicy=1",
            ],
        }[self.verb]
        groups = [
            f"--env.data_path_to_save_groups={self.path / 'groups.jsonl'}",
            f"--env.group_size={GROUP}",
            f"--env.tokenizer_name={BUNDLED_TOKENIZER}",
            "--env.ensure_scores_are_not_same=False",
        ]
        endpoints = [
            f"--env.judge_base_url={self.judge_url}",
            f"--openai.base_url={self.policy_url}",
        ]
        of_verb = settings if self.verb == "evaluate" else [*settings, *groups]
        return [self.verb, *arena.flags, *endpoints, *of_verb, "--env.retry_delay=0", *flags]

    @property
    def section(self) -> str:
        return "" if self.verb == "score" else "env."

    def run(self, *words: str) -> Ended:
        return score(*words) if self.verb == "score" else in_process(*words)

    def started(self, *flags: str) -> Started:
        if self.verb == "score":
            return Started("-m", "judgegym", "score", *self.words(*flags), cwd=self.path)
        return Started(str(SCRIPT), *self.words(*flags), cwd=self.path)


def resuming(said: str) -> list[str]:
    """The words of the command that a message gives, without the program's."""
    line = next(line for line in said.splitlines() if "--resume" in line and line.startswith("  "))
    words = shlex.split(line)
    return words[2:]


@pytest.fixture
def command(request: pytest.FixtureRequest, tmp_path: Path) -> Command:
    return Command(request.param, tmp_path)


each_verb = pytest.mark.parametrize("command", VERBS, indirect=True, ids=VERBS)


@each_verb
@pytest.mark.parametrize(
    ("side", "wording"),
    [("policy", "402"), *(("judge", wording) for wording in ("402", *OUT_OF_CREDIT, *DAILY))],
)
def test_endpoint_that_rejects_the_account_in_mid_run_ends_it_with_a_command_that_goes_on(
    command: Command, side: str, wording: str
) -> None:
    """Also out of credit or at the limit of a day, in any words."""
    if (command.verb, side) == ("score", "policy"):
        pytest.skip("it has none")
    account: Account = getattr(command, side)
    account.rejection, is_daily = (
        {"402": NO_CREDIT, **OUT_OF_CREDIT, **DAILY}[wording],
        wording in DAILY,
    )
    account.credit = BEFORE if side == "judge" or command.verb == "evaluate" else BEFORE // 4
    limits = [
        f"judge_max_concurrency={AT_ONCE}",
        *([] if is_daily else ["endpoint_rejected_deadline=0"]),
    ]
    flags = [f"--{command.section}{limit}" for limit in limits]
    if side == "policy":
        name = "num_requests_for_eval" if command.verb == "evaluate" else "num_max_requests_at_once"
        flags.append(f"--openai.{name}={AT_ONCE}")
    with command.endpoints():
        ended = command.run(*command.words(*flags))
        assert ended.code == 1, ended.said
        assert "Traceback" not in ended.said
        said = " ".join(ended.err.split())
        url = command.judge_url if side == "judge" else command.policy_url
        assert f"the {side} at {url} {'asks to wait' if is_daily else 'has rejected'}" in said
        assert str(account.rejection.body["error"]["message"]) in said
        assert is_daily or f"--{command.section}endpoint_rejected_deadline" in said
        assert account.rejected <= MOST_REJECTED
        account.credit = float("inf")
        again = command.run(*resuming(ended.err))
        assert again.code == 0, again.said
    for asked in (command.judge, command.policy):
        assert set(asked.answered.values()) <= {1}, "paid for twice"


@each_verb
def test_account_that_is_paid_in_time_loses_nothing(command: Command) -> None:
    command.judge.credit = BEFORE

    def pay() -> None:
        if command.judge.is_rejected.wait(60):
            command.judge.credit = float("inf")

    payer = threading.Thread(target=pay)
    payer.start()
    with command.endpoints():
        ended = command.run(*command.words())
    payer.join()
    assert ended.code == 0, ended.said
    assert "accepts requests again" in ended.err
    assert set(command.judge.answered.values()) == {1}


@each_verb
@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid"])
def test_endpoint_that_was_never_there_ends_the_command_with_its_url_and_its_setting(
    command: Command, host: str
) -> None:
    with refusing() as refused:
        command.judge_url = url = refused.replace("127.0.0.1", host)
        with command.endpoints():
            flags = "wait_for_endpoints=0.05", "judge_api_key=no-key-at-all"
            ended = command.run(*command.words(*(f"--{command.section}{flag}" for flag in flags)))
    assert ended.code == 2, ended.said
    assert "Traceback" not in ended.said
    err = " ".join(ended.err.split())
    assert f"the judge at {url} has not answered" in err
    assert (
        f"--{command.section}judge_base_url" in err
        and f"--{command.section}wait_for_endpoints" in err
    )
    assert resuming(ended.err)
    assert set(command.policy.answered.values()) <= {1}


@each_verb
def test_deadline_of_a_call_bounds_the_wait_for_an_endpoint_that_was_never_there(
    command: Command,
) -> None:
    """It would be a minute."""
    with refusing() as url:
        command.judge_url = url
        with command.endpoints():
            ended = command.run(*command.words(f"--{command.section}judge_deadline=0.5"))
    assert ended.code == 2, ended.said
    assert re.search(
        rf"the judge at {re.escape(url)} has not answered .*0\.5 s", " ".join(ended.err.split())
    )


@pytest.mark.slow("rejected")
@each_verb
@pytest.mark.parametrize("cause", ["never there", "rejected"])
def test_ctrl_c_ends_both_waits_with_the_command_that_goes_on(command: Command, cause: str) -> None:
    said = {"never there": "has never answered", "rejected": "rejected 10 requests"}[cause]
    with ExitStack() as stack:
        if cause == "never there":
            command.judge_url = stack.enter_context(refusing())
        command.judge.credit = BEFORE
        stack.enter_context(command.endpoints())
        started = stack.enter_context(
            command.started("--" + command.section + "wait_for_endpoints=3600")
        )
        log = (
            command.path
            / {"evaluate": "run", "score": "out.run"}.get(command.verb, "groups.run")
            / "run.log"
        )
        started.until(lambda: log.exists() and said in log.read_text("utf-8"), "it waits")
        started.send(signal.SIGINT)
        ended = started.ended()
    assert ended.code == 130, ended.said
    assert "Traceback" not in ended.said
    assert resuming(ended.err)
