"""`process` of prompts with a simulated user at an endpoint of its own: its failures, its cost, its calls, its plan."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from judgegym.environments.prompts_environment import PromptsEnv
from tests.command import Ended, in_process, serving, write_lines
from tests.scripted import Json, Reply, Script, ScriptedEndpoint
from tests.talks import Talker, says

FILE = "groups.jsonl"
OVER = "Thank you.\n\n[END OF CONVERSATION]"
REFUSES = Reply(status=400, body={"error": {"message": "no such user"}})
FLAGS = (
    *(
        "--env.judge=rule",
        "--env.rule=contains",
        "--env.rule_expected=d1 is",
        "--env.user_max_turns=2",
    ),
    *("--env.token_source=chat", "--env.retry_delay=0", "--env.max_retries=0"),
    *("--env.total_steps=2", "--env.max_num_workers=1", "--env.include_messages=True"),
    *("--env.user_price=input=1000000,output=0", f"--env.data_path_to_save_groups={FILE}"),
)
TURNS = {"a": 1, "b": 1, "c": 2, "d": 3}
"""How many turns each rollout has with `user_of`."""
CALLS = 1 + 1 + 2 + 2
"""The user's calls for the four rollouts of a group, of which `b`'s fails."""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def user_of(request: Json, number: int) -> Reply | str:
    """Ends `a` at once and `c` after one message, fails `b`, and leaves `d` to the limit of its turns."""
    said = request["messages"][-1]["content"]
    name = re.findall(r"([abcd])\d is worth", said)[-1]
    return REFUSES if name == "b" else OVER if name == "a" or "c2" in said else "And then?"


def argv(policy: ScriptedEndpoint, user: ScriptedEndpoint, *flags: str) -> list[str]:
    rows = [{"uid": uid, "prompt": f"Why {uid}?", "persona": uid} for uid in ("first", "second")]
    return [
        *(
            "process",
            f"--openai.base_url={policy.base_url}",
            f"--env.user_base_url={user.base_url}",
        ),
        *(f"--env.train_dataset={write_lines(Path('rows.jsonl'), rows)}", *FLAGS, *flags),
    ]


def process(stack: ExitStack, *flags: str, user: Script = user_of) -> tuple[Ended, int, int]:
    """Two groups of four; also how often the policy and the user were asked."""
    policy, users = stack.enter_context(serving(Talker(says()))), stack.enter_context(serving(user))
    ended = in_process(*argv(policy, users, *flags), env_type=PromptsEnv)
    return ended, len(policy.requests), len(users.requests)


def groups() -> list[Any]:
    return [json.loads(line) for line in Path(FILE).read_bytes().splitlines()]


def test_a_user_who_fails_masks_its_rollout_and_all_its_calls_are_paid() -> None:
    with ExitStack() as stack:
        ended, asked, of_users = process(stack)
    assert ended.code == 0, ended.said
    assert (asked, of_users) == (2 * (1 + 1 + 2), 2 * CALLS)
    for group in groups():
        assert group["overrides"] == [{}, {"set_advantage_to_zero": True}, {}, {}]
        assert group["scores"] == [0.0, pytest.approx(1 / 3), 0.0, 1.0]
        spoken = [sum(turn["role"] == "assistant" for turn in turns) for turns in group["messages"]]
        assert spoken == [*TURNS.values()]
        judgment = group["messages"][1][-1]["judgment"]
        assert judgment["status"] == "judge_failed" and "no such user" in judgment["explanation"]
    values = json.loads(Path("groups.run/train_metrics.json").read_bytes())
    paid = 10.0 * 2 * (CALLS - 1)  # 10 tokens a message; a refusal costs nothing
    assert (values["train/user_cost_usd"], values["train/broken_off_rate"]) == (paid, 0.25)
    assert values["train/user_latency_mean_s"] > 0
    assert re.search(rf"^ *cost.*\n(.*\n)* *user +\${paid:.2f}", ended.out, re.MULTILINE), ended.out
    steps = [
        json.loads(line) for line in Path("groups.run/monitor.jsonl").read_bytes().splitlines()
    ]
    assert sum(line["step"]["cost"]["user"] for line in steps if "step" in line) == paid
