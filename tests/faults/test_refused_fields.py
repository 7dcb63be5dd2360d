"""Endpoints that refuse request fields: everything is judged, each field costs one refused request, and that is told.

A scripted endpoint refuses fields as OpenAI does, one at a time; the others take all. Each command
sends all that it
has at once: up to 256 requests.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from judgegym import RubricJudge
from judgegym.engine.settings import BUNDLED_TOKENIZER
from judgegym.environments.prompts_environment import PromptsEnv
from judgegym.llm.refusals import request_fields
from judgegym.reports.compare.__main__ import main as compare
from tests.arena import Arena, Run
from tests.batching import BatchEndpoint
from tests.command import in_process, serving, write_lines
from tests.core.datasets.scoring import read_rows, score
from tests.core.server.running import running
from tests.scripted import Json, Meeting, Reply, Script, ScriptedEndpoint, completion

COUNT = 6
BECOMES = {
    "temperature": "left out",
    "top_p": "left out",
    "seed": "left out",
    "max_tokens": "max_completion_tokens",
    "system": "first message",
    "response_format": "in words",
    "n": "single requests",
}
"""Key words of what is done with a field instead."""
OF_JUDGE = [*BECOMES][:6]
OF_POLICY = [*BECOMES][:5]
EXTRA = json.dumps({"top_p": 0.9, "seed": 7})
"""What the settings ask beside temperature and limit."""


def some_of(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Each field by itself, and some of each number of them."""
    return [
        *((name,) for name in names),
        *(tuple(names[:count]) for count in range(2, len(names) + 1)),
    ]


@pytest.fixture(autouse=True)
def _head_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first request goes ahead for as long as it does for users, however slow the machine is."""
    monkeypatch.setattr(request_fields, "HEAD_START_S", 10.0)


def has(request: Json, name: str) -> bool:
    if name == "system":
        return any(message["role"] == "system" for message in request["messages"])
    return name in request


def refusal(name: str, style: str = "param") -> Reply:
    """A refusal of a field, by `error.param` as OpenAI has it, or in words alone."""
    param = "messages[0].role" if name == "system" else name
    if style == "words":
        said = {
            "message": f"Unsupported value: '{param}' does not support '{name}' with this model."
        }
        return Reply(status=400, body={"error": said})
    error = {
        "message": "That is no value for this model.",
        "param": param,
        "code": "unsupported_value",
    }
    return Reply(status=400, body={"error": error})


@dataclass
class Refusing:
    """An endpoint's script: it refuses fields, and says in `refused` which ones it has refused."""

    names: Sequence[str]
    text: str
    style: str = "param"

    def __post_init__(self) -> None:
        self.refused: list[str] = []

    def __call__(self, request: Json, number: int) -> Reply:
        name = next((name for name in self.names if has(request, name)), None)
        if name is not None:
            self.refused.append(name)
            return refusal(name, self.style)
        return Reply(body=completion(*[self.text] * request.get("n", 1)))


RATED = "[FEEDBACK] fine [SCORE] 4"
TEXTS = {"policy": "An answer.", "judge": RATED, "user": "And then?", "gold": RATED}


def with_fields(
    command: Callable[..., int], path: Path, role: str, names: Sequence[str]
) -> Refusing:
    """Run a command in which one role's endpoint refuses fields; its other endpoints take all. All must be judged."""
    scripts = {each: Refusing(names if each == role else (), text) for each, text in TEXTS.items()}
    with ExitStack() as stack:
        urls = {
            each: stack.enter_context(serving(script)).base_url for each, script in scripts.items()
        }
        form = ["judge_output=json_schema"] if "response_format" in names else []
        assert command(path, urls, form) == COUNT
    return scripts[role]


def prompts(
    name: str, path: Path, urls: Mapping[str, str], form: Sequence[str], *flags: str
) -> list[str]:
    """Of an environment with a policy, a judge and a simulated user."""
    rows = [{"uid": f"row-{n}", "prompt": f"Question {n}?"} for n in range(COUNT)]
    data = write_lines(path / "rows.jsonl", rows)
    return [
        *(f"--env.{name}_dataset={data}", "--env.judge=rubric", "--env.rubric=Is it right?"),
        *(
            f"--openai.base_url={urls['policy']}",
            "--openai.model_name=the-policy",
            f"--openai.extra_body={EXTRA}",
        ),
        *(f"--env.judge_base_url={urls['judge']}", "--env.judge_model_name=the-judge"),
        *(f"--env.judge_extra_body={EXTRA}", "--env.custom_system_prompt=Be brief."),
        *(
            f"--env.user_base_url={urls['user']}",
            "--env.user_model_name=the-user",
            "--env.user_max_turns=2",
        ),
        *('--env.user_extra_body={"top_p": 0.9}', "--env.retry_delay=0"),
        *(f"--env.{each}" for each in form),
        *flags,
    ]


def evaluated(path: Path, urls: Mapping[str, str], form: Sequence[str]) -> int:
    flags = prompts("eval", path, urls, form, f"--env.data_dir_to_save_evals={path / 'run'}")
    ended = in_process("evaluate", *flags, env_type=PromptsEnv)
    assert ended.code == 0, ended.said
    return len(read_rows(path / "run" / "samples.jsonl"))


def processed(path: Path, urls: Mapping[str, str], form: Sequence[str]) -> int:
    gold = {
        "judge": "rubric",
        "judge_base_url": urls["gold"],
        "judge_extra_body": json.loads(EXTRA),
    }
    gold |= dict(each.split("=") for each in form)
    file = path / "groups.jsonl"
    flags = prompts(
        *(
            "train",
            path,
            urls,
            form,
            f"--env.data_path_to_save_groups={file}",
            f"--env.total_steps={COUNT}",
        ),
        *(
            "--env.group_size=2",
            "--env.token_source=retokenize",
            f"--env.tokenizer_name={BUNDLED_TOKENIZER}",
        ),
        *(f"--env.gold_judge={json.dumps(gold)}", "--env.gold_share=1"),
    )
    ended = in_process("process", *flags, env_type=PromptsEnv)
    assert ended.code == 0, ended.said
    return len(read_rows(file))


def data_set(path: Path) -> Path:
    return write_lines(
        path / "data.jsonl", [{"prompt": f"Q{n}", "response": f"R{n}"} for n in range(COUNT)]
    )


def scored(path: Path, urls: Mapping[str, str], form: Sequence[str], *flags: str) -> int:
    judge = (
        f"--judge_base_url={urls['judge']}",
        f"--judge_extra_body={EXTRA}",
        *(f"--{each}" for each in form),
    )
    ended = score(data_set(path), f"--out={path / 'out.jsonl'}", *judge, *flags)
    assert ended.code == 0, ended.said
    return sum(row["judge/score"] is not None for row in read_rows(path / "out.jsonl"))


def judged_by_server(path: Path, urls: Mapping[str, str], form: Sequence[str]) -> int:
    async def ask() -> int:
        async with running(
            f"--judge_base_url={urls['judge']}", f"--judge_extra_body={EXTRA}"
        ) as server:
            bodies = [{"prompt": f"Q{n}", "response": f"R{n}"} for n in range(COUNT)]
            answers = await asyncio.gather(*(server.post("/v1/score", body) for body in bodies))
        return sum(answer.status == 200 for answer in answers)

    return asyncio.run(ask())


DOORS = [
    ("policy", evaluated, OF_POLICY),
    ("judge", evaluated, OF_JUDGE),
    ("user", evaluated, OF_POLICY),
    ("policy", processed, [*OF_POLICY, "n"]),
    ("judge", processed, OF_JUDGE),
    ("user", processed, OF_POLICY),
    ("gold", processed, OF_JUDGE),
    ("judge", scored, OF_JUDGE),
    ("judge", judged_by_server, OF_POLICY),
]
CASES = [
    pytest.param(role, command, names, id=f"{command.__name__}-{role}-{'+'.join(names)}")
    for role, command, fields in DOORS
    for names in some_of(fields)
]


@pytest.mark.parametrize(("role", "command", "names"), CASES)
def test_each_refused_field_costs_one_request_of_each_command_and_role(
    tmp_path: Path, role: str, command: Callable[..., int], names: Sequence[str]
) -> None:
    assert sorted(with_fields(command, tmp_path, role, names).refused) == sorted(names)


@pytest.mark.slow
def test_each_refused_field_costs_one_request_with_256_at_once(tmp_path: Path) -> None:
    judge, meeting = Refusing(OF_JUDGE, RATED), Meeting(256)
    data = write_lines(
        tmp_path / "data.jsonl", [{"prompt": f"Q{n}", "response": f"R{n}"} for n in range(1000)]
    )

    async def script(request: Json, number: int) -> Reply:
        reply = judge(request, number)
        if number > 1 + len(OF_JUDGE):  # the first request was answered: the others go at once
            await meeting.wait()
        return reply

    with serving(script) as endpoint:
        words = (
            f"--judge_base_url={endpoint.base_url}",
            f"--judge_extra_body={EXTRA}",
            "--judge_output=json_schema",
        )
        ended = score(
            data, f"--out={tmp_path / 'out.jsonl'}", *words, "--judge_max_concurrency=256"
        )
        assert ended.code == 0, ended.said
        assert sorted(judge.refused) == sorted(OF_JUDGE)
        assert len(endpoint.requests) == 1000 + len(OF_JUDGE)
        assert endpoint.peak == 256


def arena(
    path: Path, names: Sequence[str], *flags: str, run: str = "run", style: str = "words"
) -> tuple[Run, Refusing]:
    """An evaluation whose judge refuses fields."""
    judge = Refusing(names, "So.\n\n[[A>B]]", style)
    return Arena(path).rows(COUNT).evaluate(
        f"--env.judge_extra_body={EXTRA}", *flags, judge_script=judge, run=run
    ), judge


@pytest.mark.parametrize("style", ["param", "words"])
def test_what_is_refused_is_told_once_and_recorded(tmp_path: Path, style: str) -> None:
    run, judge = arena(tmp_path, OF_POLICY, style=style)
    assert run.code == 0, run.said
    assert sorted(judge.refused) == sorted(OF_POLICY)
    general = run.files.report["config_general"]
    ((role, models),) = general["refused_fields"].items()
    ((model, becomes),) = models.items()
    assert (role, model, {*becomes}) == ("judge", "the-judge", {*OF_POLICY})
    for name in OF_POLICY:
        assert BECOMES[name] in becomes[name]
        said = (
            f"{run.judge.base_url} takes no {'system message' if name == 'system' else name}: it "
            f"is {becomes[name]}"
        )
        assert run.said.count(said) == 1
        assert sum(said in notice for notice in general["notices"]) == 1


def test_runs_with_other_request_fields_are_said_to_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arena(tmp_path, [], run="all")
    arena(tmp_path, ["temperature"], run="some")
    assert compare([str(tmp_path / name) for name in ("all", "some")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "endpoints refused some: none in A, temperature of the-judge left out in B" in said


def test_a_resumed_run_repeats_no_call_that_was_answered_with_other_fields(tmp_path: Path) -> None:
    """Its keys are of what the settings ask; what is refused when it is resumed changes no key."""
    run, _ = arena(tmp_path, [])
    run.files.interrupt("row-1", "row-2")
    again, _ = arena(tmp_path, OF_POLICY, "--resume")
    assert again.code == 0, again.said
    assert not again.judge.requests and not again.policy.requests
    assert len(again.files.samples) == COUNT


def test_a_resumed_run_asks_as_its_first_part_did(tmp_path: Path) -> None:
    """What is refused is learned again; the record of the run has what both parts have learned."""

    def failing(request: Json, number: int) -> Reply:
        return (
            Reply(status=400)
            if "row-1" in json.dumps(request["messages"])
            else judge(request, number)
        )

    judge = Refusing(OF_POLICY, "So.\n\n[[A>B]]")
    flags = f"--env.judge_extra_body={EXTRA}", "--env.max_judge_error_rate=1"
    first = Arena(tmp_path).rows(COUNT).evaluate(*flags, judge_script=failing)
    assert len(first.files.failures) == 1
    first_refused = sorted(judge.refused)
    judge.refused.clear()
    again = Arena(tmp_path).rows(COUNT).evaluate(*flags, "--resume", judge_script=judge)
    assert again.code == 0, again.said
    assert first_refused == sorted(judge.refused) == sorted(OF_POLICY)
    shapes = [{frozenset(body) for body in run.judge.bodies[-2:]} for run in (first, again)]
    assert shapes[0] == shapes[1] == {frozenset({"model", "messages", "max_completion_tokens"})}
    assert set(again.files.report["config_general"]["refused_fields"]["judge"]["the-judge"]) == {
        *OF_POLICY
    }


def like_gpt5(text: str) -> Script:
    """An endpoint of a reasoning model: it takes no other temperature than 1, and no `max_tokens`."""

    def refused(name: str, code: str, message: str) -> Reply:
        return Reply(status=400, body={"error": {"message": message, "param": name, "code": code}})

    def script(request: Json, number: int) -> Reply | str:
        if request.get("temperature", 1) != 1:
            message = "Unsupported value: 'temperature' does not support 0.2 with this model."
            return refused("temperature", "unsupported_value", message)
        if "max_tokens" in request:
            return refused(
                "max_tokens", "unsupported_parameter", "Use 'max_completion_tokens' instead."
            )
        return text

    return script


def test_the_default_settings_suit_a_reasoning_model_as_judge_and_policy(tmp_path: Path) -> None:
    run = (
        Arena(tmp_path)
        .rows(COUNT)
        .evaluate(judge_script=like_gpt5("So.\n\n[[A>B]]"), policy=like_gpt5("An answer."))
    )
    assert run.code == 0, run.said
    assert len(run.files.samples) == COUNT


STREAMS = Reply(
    status=400,
    body={"error": {"message": "This model only supports streaming; set stream to true."}},
)


@pytest.mark.parametrize("role", ["judge", "policy"])
def test_an_endpoint_that_only_streams_ends_the_run_with_one_line(
    tmp_path: Path, role: str
) -> None:
    of_judge = STREAMS if role == "judge" else Reply(RATED)
    run = (
        Arena(tmp_path)
        .rows(COUNT)
        .evaluate(judge_script=of_judge, policy=STREAMS if role == "policy" else "An answer.")
    )
    setting = "--env.judge_base_url" if role == "judge" else "--openai.base_url"
    assert run.code == 2
    assert run.said.count("only streams") == 1 and setting in run.said
    assert "To resume" not in run.said and "Traceback" not in run.said


def test_logprobs_that_are_refused_end_the_run_with_the_setting_that_asks_for_them(
    tmp_path: Path,
) -> None:
    refused = Reply(
        status=403,
        body={"error": {"message": "You are not allowed to request logprobs from this model"}},
    )
    with serving(refused) as endpoint:
        ended = score(
            *(data_set(tmp_path), f"--out={tmp_path / 'out.jsonl'}", "--weighting=logprobs"),
            f"--judge_base_url={endpoint.base_url}",
        )
        assert len(endpoint.requests) == 1
    assert ended.code == 2
    assert (
        "--weighting=none" in ended.said
        and endpoint.base_url in ended.said
        and "Traceback" not in ended.said
    )


THOUGHT = Reply(body=completion("", finish_reason="length", reasoning_content="Hmm."))


def test_a_text_that_is_empty_because_of_thinking_names_the_setting_of_its_limit(
    tmp_path: Path,
) -> None:
    run = Arena(tmp_path).rows(1).evaluate("--env.judge_max_tokens=64", judge_script=THOUGHT)
    said = json.dumps(run.files.failures) + run.said
    assert "completion limit; raise --env.judge_max_tokens=64" in said
    run = Arena(tmp_path).rows(2).evaluate(policy=THOUGHT, run="other")
    said = "tokens; raise --env.eval_max_tokens"
    assert run.said.count(said) == 1 and said in json.dumps(
        run.files.report["config_general"]["notices"]
    )


async def test_the_others_go_too_if_the_first_request_is_not_answered(
    connect: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_fields, "HEAD_START_S", 0.05)
    over = asyncio.Event()

    async def script(request: Json, number: int) -> str:
        await (over.wait() if number == 1 else asyncio.sleep(0))
        return "fine"

    async with ScriptedEndpoint(script) as endpoint:
        client = connect(endpoint)
        first, *others = [
            asyncio.ensure_future(client.chat([{"role": "user", "content": f"{n}"}]))
            for n in range(9)
        ]
        await asyncio.gather(*others)
        assert not first.done()
        over.set()
        await first


async def test_another_request_goes_ahead_if_the_first_one_is_cancelled(
    connect: Callable[..., Any],
) -> None:
    async def script(request: Json, number: int) -> Reply:
        return Reply("fine", hang=number == 1)

    async with ScriptedEndpoint(script) as endpoint:
        client = connect(endpoint)
        first, *others = [
            asyncio.ensure_future(client.chat([{"role": "user", "content": f"{n}"}]))
            for n in range(9)
        ]
        await endpoint.arrived(1)
        assert len(endpoint.requests) == 1
        first.cancel()
        await asyncio.gather(*others)
        assert len(endpoint.requests) == 9


def test_what_one_event_loop_has_learned_another_one_knows() -> None:
    judge = Refusing(OF_POLICY, RATED)
    with serving(judge) as endpoint:
        body = json.loads(EXTRA)

        def ask(number: int) -> float | None:
            with RubricJudge(
                "Is it right?", judge_base_url=endpoint.base_url, judge_extra_body=body
            ) as rubric:
                return asyncio.run(rubric.judge(f"Q{number}", ["R"])).scores[0]

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(ask, range(8))) == [4.0] * 8
    assert sorted(judge.refused) == sorted(OF_POLICY)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_lines_of_a_batch_that_are_refused_are_sent_again_without_the_field(
    tmp_path: Path, kind: str
) -> None:
    judge = Refusing(["temperature"], RATED, "words")
    batches = BatchEndpoint(judge)
    with serving(batches) as endpoint:
        ended = score(
            *(
                data_set(tmp_path),
                f"--out={tmp_path / 'out.jsonl'}",
                f"--judge_base_url={endpoint.base_url}",
            ),
            *(f"--judge_batch={kind}", f"--judge_api={kind}", "--judge_batch_poll=0.01"),
        )
    assert ended.code == 0, ended.said
    assert len(judge.refused) == COUNT
    first, second = ([*batch.requests.values()] for batch in batches.batches)
    assert all("temperature" in body for body in first) and not any(
        "temperature" in body for body in second
    )
    warnings = [line for line in ended.err.splitlines() if "WARNING" in line]
    assert sum("takes no temperature: it is left out" in line for line in warnings) == 1
