"""Prompts of several turns: who asks what, what the judge is shown, and whose failure is whose."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from judgegym.environments.prompts_environment import PromptsEnv
from tests.command import Ended, RunFiles, in_process, serving, write_lines
from tests.core.datasets.scoring import response_in
from tests.scripted import Json, Reply, Script, ScriptedEndpoint, completion

OVER = "Thank you.\n\n[END OF CONVERSATION]"
ROW = {"uid": "r", "turns": ["Name a prime.", "Why?"], "rubric": "Is it true?"}


def speaks(request: Json, number: int) -> str:
    """A policy whose answer says how many turns it was shown."""
    return f"This is the answer to {len(request['messages'])} messages."


def rates(request: Json, number: int) -> str:
    """A judge whose score is the number of messages that the last answer names, from 1 to 5."""
    return f"[FEEDBACK] So. [SCORE] {re.findall(r'to ([1-5]) messages', response_in(request))[-1]}"


class Talk:
    """Endpoints of policy, judge and user, and evaluations that ask them."""

    def __init__(
        self, path: Path, stack: ExitStack, *, policy: Script, user: Script | Reply | str
    ) -> None:
        self.path = path
        self.policy, self.judge = (
            stack.enter_context(serving(policy)),
            stack.enter_context(serving(rates)),
        )
        self.user = stack.enter_context(serving(user))

    def evaluate(self, rows: Sequence[Mapping[str, Any]], *flags: str) -> Ended:
        urls = {"openai.base_url": self.policy, "env.judge_base_url": self.judge}
        asked = dict(urls, **{"env.user_base_url": self.user}) if "user_max" in str(flags) else urls
        return in_process(
            "evaluate",
            *(f"--{name}={endpoint.base_url}" for name, endpoint in asked.items()),
            f"--env.eval_dataset={write_lines(self.path / 'rows.jsonl', rows)}",
            f"--env.data_dir_to_save_evals={self.path / 'run'}",
            "--env.retry_delay=0",
            "--env.min_response_length=0",
            "--env.max_retries=1",
            *flags,
            env_type=PromptsEnv,
        )

    @property
    def files(self) -> RunFiles:
        return RunFiles(self.path / "run")


@pytest.fixture
def stack() -> Any:
    with ExitStack() as opened:
        yield opened


def shown(endpoint: ScriptedEndpoint) -> list[list[str]]:
    return sorted([message["content"] for message in body["messages"]] for body in endpoint.bodies)


def test_rows_own_turns_follow_the_policys_answers(tmp_path: Path, stack: ExitStack) -> None:
    talk = Talk(tmp_path, stack, policy=speaks, user="never")
    ended = talk.evaluate([ROW], "--env.judged=turns")
    assert ended.code == 0, ended.said
    answers = ["This is the answer to 1 messages.", "This is the answer to 3 messages."]
    assert shown(talk.policy) == [["Name a prime."], ["Name a prime.", answers[0], "Why?"]]
    (sample,) = talk.files.samples
    assert [each["model_answer"] for each in sample["completions"]] == answers
    assert [each.get("follow_up") for each in sample["completions"]] == [None, "Why?"]
    assert sample["detail"]["parts"] == {"turn_1": 0.0, "turn_2": 0.5, "raw": 2.0}
    assert (sample["score"], sample["label"]) == (0.25, "0, 0.5")
    assert sorted(sample["run"]["judge_calls"]) == ["judgment_1/turn_1", "judgment_1/turn_2"]
    metrics = talk.files.metrics
    assert (metrics["mean_score_turn_1"], metrics["mean_score_turn_2"], metrics["turns"]) == (
        0.0,
        0.5,
        2.0,
    )
    assert "user_error_rate" not in metrics


@pytest.mark.parametrize("judged", ["whole", "last"])
def test_judge_is_shown_the_whole_or_the_last_turn(
    tmp_path: Path, stack: ExitStack, judged: str
) -> None:
    talk = Talk(tmp_path, stack, policy=speaks, user="never")
    ended = talk.evaluate([ROW], f"--env.judged={judged}")
    assert ended.code == 0, ended.said
    first, second = "This is the answer to 1 messages.", "This is the answer to 3 messages."
    (request,) = talk.judge.bodies
    response = {
        "whole": f"assistant: {first}\n\nuser: Why?\n\nassistant: {second}",
        "last": second,
    }[judged]
    assert response_in(request) == response
    before = {
        "whole": "Name a prime.",
        "last": f"user: Name a prime.\n\nassistant: {first}\n\nuser: Why?",
    }[judged]
    assert f"\n{before}\n" in request["messages"][-1]["content"]
    (sample,) = talk.files.samples
    assert (sample["score"], sample["detail"]["parts"]) == (0.5, {"raw": 3.0})


def test_conversation_that_ends_with_its_first_turn_is_a_trace_too(
    tmp_path: Path, stack: ExitStack
) -> None:
    """As one with several turns: a policy that called no tool has the score of that, whenever its user is content."""
    talk = Talk(tmp_path, stack, policy=speaks, user=OVER)
    rule = ("--env.judge=rule", "--env.rule=tool_not_called", "--env.rule_expected=delete_*")
    urls = [
        f"--openai.base_url={talk.policy.base_url}",
        f"--env.user_base_url={talk.user.base_url}",
    ]
    rows = write_lines(tmp_path / "rows.jsonl", [{"uid": "one", "prompt": "Why?"}, ROW])
    data = [f"--env.eval_dataset={rows}", f"--env.data_dir_to_save_evals={tmp_path / 'run'}"]
    ended = in_process(
        "evaluate", *urls, *rule, *data, "--env.user_max_turns=2", env_type=PromptsEnv
    )
    assert ended.code == 0, ended.said
    assert [sample["score"] for sample in talk.files.samples] == [1.0, 1.0]
    assert len(talk.policy.requests) == 1 + 2


def test_simulated_user_goes_on_until_it_says_so_or_the_limit(
    tmp_path: Path, stack: ExitStack
) -> None:
    talk = Talk(
        tmp_path,
        stack,
        policy=speaks,
        user=lambda request, _: (
            OVER if "Alice" in str(request) and len(request["messages"]) > 5 else "And then?"
        ),
    )
    rows = [
        {"uid": "a", "prompt": "Why?", "persona": "Alice"},
        {"uid": "b", "prompt": "Why?", "persona": "Bob"},
    ]
    ended = talk.evaluate(
        [*rows, {**ROW, "persona": "Bob"}], "--env.user_max_turns=2", "--env.seed=7"
    )
    assert ended.code == 0, ended.said
    turns = {
        row["uid"]: [each.get("follow_up") for each in row["completions"]]
        for row in talk.files.samples
    }
    assert turns == {
        "a": [None, "And then?"],
        "b": [None, "And then?", "And then?"],
        "r": [None, "Why?", "And then?", "And then?"],
    }
    assert [len(row["run"]["user_calls"]) for row in talk.files.samples] == [2, 2, 2]
    assert (talk.files.metrics["user_calls"], talk.files.metrics["user_error_rate"]) == (6, 0)
    assert "END OF CONVERSATION" not in str(talk.policy.bodies)
    assert len({body["seed"] for body in talk.user.bodies}) == 6, "each row and turn has its own"


CUT = Reply(body=completion("And th", finish_reason="length"))
REFUSES = Reply(status=400, body={"error": {"message": "no such model"}})


@pytest.mark.parametrize(
    ("says", "why", "calls"),
    [
        (REFUSES, ("no such model",), 1),
        (CUT, ("4 messages", "was cut off"), 4),
        ("[END OF CONVERSATION] And then?", ("4 messages", "closing line elsewhere"), 4),
    ],
)
def test_user_who_fails_is_no_failure_of_the_policy(
    tmp_path: Path, stack: ExitStack, says: Reply | str, why: tuple[str, ...], calls: int
) -> None:
    talk = Talk(
        tmp_path,
        stack,
        policy=speaks,
        user=lambda request, _: says if "Eve" in str(request) else OVER,
    )
    rows = [{"uid": name, "prompt": "Why?", "persona": name} for name in ("Alice", "Bob", "Eve")]
    flags = ("--env.user_max_turns=3", "--env.user_model_name=someone")
    ended = talk.evaluate(rows, *flags)
    assert ended.code == 1, ended.said
    assert re.search(r"33\.3 % .*of the user; env\.max_judge_error_rate .*5\.0 %", ended.err)
    assert "the user failed" in ended.out and "1 user_failed" in ended.out
    (failure,) = talk.files.failures
    assert (failure["uid"], failure["status"], failure["score"]) == ("Eve", "user_failed", None)
    assert failure["error"].startswith(f"the user: someone at {talk.user.base_url}: ")
    assert all(fact in failure["error"] for fact in why)
    assert len(failure["run"]["user_calls"]) == calls
    metrics = talk.files.metrics
    assert (metrics["user_failed_count"], metrics["policy_failed_count"]) == (1, 0)
    assert (metrics["policy_error_rate"], metrics["user_error_rate"], metrics["mean_score"]) == (
        0,
        1 / 3,
        0.0,
    )
    asked, judged = len(talk.policy.requests), len(talk.judge.requests)
    assert talk.evaluate(rows, *flags, "--resume").code == 1
    assert (len(talk.policy.requests), len(talk.judge.requests)) == (asked, judged), (
        "the policy is not asked again"
    )


def test_failed_judgment_of_a_turn_is_that_of_the_row(tmp_path: Path, stack: ExitStack) -> None:
    talk = Talk(
        tmp_path,
        stack,
        policy=lambda request, _: f"to {6 if len(request['messages']) > 1 else 2} messages",
        user="",
    )
    rows = [ROW, {**ROW, "uid": "s", "turns": ROW["turns"][:1]}]
    talk.judge._script = lambda request, _: (
        rates(request, 0) if "to 2" in response_in(request) else "I cannot say."
    )
    ended = talk.evaluate(rows, "--env.judged=turns", "--env.max_judge_error_rate=1")
    assert ended.code == 0, ended.said
    (failure,), (sample,) = talk.files.failures, talk.files.samples
    assert (failure["status"], failure["score"]) == ("unparsable", None)
    assert failure["error"].startswith("turn_2: 0 of 1 judgments ")
    assert talk.files.metrics["mean_score"] == sample["score"] == 0.25


@pytest.mark.parametrize(
    ("row", "flags", "said"),
    [
        (
            ROW,
            ("--env.model_answers=answers.jsonl",),
            ("the row r: ", "several turns", "model_answers"),
        ),
        (
            {"prompt": "?"},
            ("--env.user_max_turns=1", "--env.model_answers=a.jsonl"),
            ("user_max_turns: model_answers",),
        ),
        (
            {"prompt": "?"},
            ("--env.user_goal=fun",),
            ("--env.user_goal ", "without --env.user_max_turns"),
        ),
        (
            {"prompt": "?"},
            ("--env.judged=turns", "--env.judge_critique_rounds=1"),
            ("judge_critique_rounds: judged=turns", "whole or last"),
        ),
    ],
)
def test_what_cannot_be_is_one_line_before_the_first_call(
    tmp_path: Path, stack: ExitStack, row: Any, flags: tuple[str, ...], said: tuple[str, ...]
) -> None:
    talk = Talk(tmp_path, stack, policy=speaks, user="never")
    write_lines(tmp_path / "answers.jsonl", [{"uid": "r", "answer": "Seven."}])
    ended = talk.evaluate(
        [row], *(flag.replace("answers.jsonl", str(tmp_path / "answers.jsonl")) for flag in flags)
    )
    assert (ended.code, talk.policy.requests) == (2, [])
    assert all(fact in ended.err for fact in said)


def test_keys_of_the_user_go_to_its_endpoint_and_nowhere_else(
    tmp_path: Path, stack: ExitStack
) -> None:
    talk = Talk(tmp_path, stack, policy=speaks, user=REFUSES)
    key, header = "sk-of-the-user-0123", "a-secret-of-the-header"
    secrets = (f"--env.user_api_key={key}", f"--env.user_extra_headers=X-Team={header}")
    ended = talk.evaluate([{"prompt": "Why?"}], "--env.user_max_turns=1", *secrets)
    (request,) = talk.user.requests
    assert (request.headers["Authorization"], request.headers["X-Team"]) == (
        f"Bearer {key}",
        header,
    )
    said = [
        ended.said,
        *talk.files.texts(),
        *(str(each.headers) for each in talk.policy.requests + talk.judge.requests),
    ]
    assert not any(secret in text for text in said for secret in (key, header))


def test_offline_asks_no_user_that_only_a_file_names(tmp_path: Path, stack: ExitStack) -> None:
    talk = Talk(tmp_path, stack, policy=speaks, user="never")
    named = f"{{user_max_turns: 1, user_base_url: '{talk.user.base_url}', user_model_name: mine}}"
    (tmp_path / "user.yaml").write_text(f"env: {named}\n")
    ended = talk.evaluate(
        [{"uid": "r", "prompt": "Why?"}], "--offline", f"--config={tmp_path / 'user.yaml'}"
    )
    assert ended.code == 0, ended.said
    assert not talk.user.requests
    assert "--offline overrides env.user_base_url, env.user_model_name" in ended.err
    (sample,) = talk.files.samples
    assert len(sample["run"]["user_calls"]) == 1
    config = (talk.files.path / "config.yaml").read_text()
    assert "user_model_name: offline-user" in config and "user_base_url" not in config
