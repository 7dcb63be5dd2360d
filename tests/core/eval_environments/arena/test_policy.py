"""The policy: what it is asked, and what becomes of answers that are malformed, short or missing."""

from __future__ import annotations

import pytest

from tests.arena import Arena, answering, uid_of
from tests.command import write_lines
from tests.scripted import Json, Reply, completion

THINKING = "--env.thinking_mode=true"
SPEC_THINKING_PROMPT = (
    "You are a deep thinking AI assistant. Before providing your response, you should think "
    "through the problem "
    "carefully. Use <think></think> tags to enclose your internal reasoning and thought process, "
    "then provide your "
    "final response after the thinking tags."
)


def asked(arena: Arena, *flags: str) -> Json:
    """The policy's request for one row."""
    run = arena.rows(1).evaluate(*flags, policy="<think>Hm.</think> ANSWER of the model to row-0")
    assert run.code == 0, run.said
    (body,) = run.policy.bodies
    return body


QUESTION = {"role": "user", "content": "Question of row-0: why?"}


@pytest.mark.parametrize(
    ("flags", "system"),
    [
        ((), None),
        (
            ("--env.custom_system_prompt=You are a helpful assistant.",),
            "You are a helpful assistant.",
        ),
        ((THINKING,), SPEC_THINKING_PROMPT),
        (
            (THINKING, "--env.custom_system_prompt=Be brief."),
            f"{SPEC_THINKING_PROMPT}\n\nBe brief.",
        ),
        ((THINKING, "--env.custom_thinking_prompt=Use <think></think>."), "Use <think></think>."),
        (("--env.custom_thinking_prompt=Use <think></think>.",), None),
        (
            (
                THINKING,
                "--env.custom_thinking_prompt=Think.",
                "--env.custom_system_prompt=Be brief.",
            ),
            "Think.\n\nBe brief.",
        ),
    ],
)
def test_the_system_prompt(arena: Arena, flags: tuple[str, ...], system: str | None) -> None:
    expected = [QUESTION] if system is None else [{"role": "system", "content": system}, QUESTION]
    assert asked(arena, *flags)["messages"] == expected


@pytest.mark.parametrize(
    ("flags", "fields"),
    [
        ((), {"model": "the-policy", "temperature": 0.6, "max_tokens": 40960}),
        (("--env.eval_temperature=0.0", "--env.eval_max_tokens=8192"), {"temperature": 0.0, "max_tokens": 8192}),
        (('--openai.extra_body={"top_p": 0.9, "chat_template_kwargs": {"a": [1]}}',),
         {"top_p": 0.9, "chat_template_kwargs": {"a": [1]}}),
    ],
)  # fmt: skip
def test_the_parameters(arena: Arena, flags: tuple[str, ...], fields: Json) -> None:
    body = asked(arena, *flags)
    assert {name: body[name] for name in fields} == fields


def test_thinking_mode_sends_nothing_but_the_prompt(arena: Arena) -> None:
    """Tags in the text are meant: no reasoning parameters for the endpoint."""
    assert set(asked(arena, THINKING)) == {"model", "messages", "temperature", "max_tokens"}


MALFORMED = {
    "not closed": ("<think>ANSWER is still being thought", "no_close_tag"),
    "twice": ("<think>a</think><think>b</think> ANSWER of the model", "several_open_tags"),
    "closed twice": ("<think>a</think> ANSWER </think> of the model", "several_close_tags"),
    "nothing after": ("<think>a long thought about this</think>\n ", "empty_answer"),
}


@pytest.mark.parametrize("text, fault", MALFORMED.values(), ids=MALFORMED)
def test_malformed_thinking_is_two_lost_games(arena: Arena, text: str, fault: str) -> None:
    def policy(request: Json, number: int) -> str:
        return (
            text
            if uid_of(request) == "row-1"
            else f"<think>Hm.</think> {answering(request, number)}"
        )

    run = arena.evaluate(THINKING, "--env.min_response_length=0", policy=policy)
    assert run.code == 0, run.said
    assert "row-1" not in {uid_of(body) for body in run.judge.bodies}, "the judge is not asked"
    (sample,) = (sample for sample in run.files.samples if sample["uid"] == "row-1")
    assert (sample["status"], sample["thinking_fault"], sample["thinking_valid"]) == (
        "invalid_completion",
        fault,
        False,
    )
    found = run.files.metrics
    assert found["overall_winrate"] == pytest.approx(5 / 6)
    assert (found["total_samples"], found["win_count"], found["loss_count"]) == (6, 5, 1)
    assert found["thinking_valid_rate"] == pytest.approx(5 / 6)
    assert found["judge_error_rate"] == 0


def test_thinking_is_cut_off_before_the_judge_sees_the_answer(arena: Arena) -> None:
    run = arena.rows(1).evaluate(
        THINKING, policy="\n<think>\nSECRET PLAN\n</think>\n\n  ANSWER of the model to row-0 \n"
    )
    (sample,) = run.files.samples
    assert (sample["model_answer"], sample["thinking"]) == (
        "ANSWER of the model to row-0",
        "SECRET PLAN",
    )
    assert len(run.judge.bodies) == 2
    assert not any(
        b"SECRET" in request.raw or b"<think>" in request.raw for request in run.judge.requests
    )


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_that_the_endpoint_returns_apart_is_valid_thinking(
    arena: Arena, field: str
) -> None:
    reply = Reply(body=completion("ANSWER of the model to row-0", **{field: "SECRET PLAN"}))
    run = arena.rows(1).evaluate(THINKING, policy=reply)
    assert run.code == 0, run.said
    (sample,) = run.files.samples
    assert (sample["thinking_valid"], sample["thinking"], sample["label"]) == (
        True,
        "SECRET PLAN",
        "win",
    )
    assert not any(b"SECRET" in request.raw for request in run.judge.requests)


@pytest.mark.parametrize("setting", ["removed", "kept"])
def test_thinking_that_a_server_leaves_in_the_text_is_shown_to_no_judge_but_where_it_is_kept(
    arena: Arena, setting: str
) -> None:
    text = "[THINK]SECRET PLAN[/THINK]\nANSWER of the model to row-0"
    run = arena.rows(1).evaluate(f"--env.judged_thinking={setting}", policy=text)
    (sample,) = run.files.samples
    is_kept = setting == "kept"
    assert [b"SECRET" in request.raw for request in run.judge.requests] == [is_kept] * 2
    assert sample["model_answer"] == (text if is_kept else "ANSWER of the model to row-0")
    assert sample.get("written") == (None if is_kept else text)
    assert sample["thinking"] == ("" if is_kept else "SECRET PLAN")
    assert run.files.metrics["thinking_removed_rate"] == (0 if is_kept else 1)
    assert run.said.count("with its thinking: ") == (0 if is_kept else 1)


def test_a_refusal_is_a_wrong_answer_that_is_not_judged(arena: Arena) -> None:
    reply = Reply(body=completion("", finish_reason="stop", refusal="I would rather not."))
    run = arena.rows(1).evaluate(policy=reply)
    assert run.code == 0, run.said
    (sample,) = run.files.samples
    assert (sample["model_answer"], sample["finish_reason"]) == ("I would rather not.", "refusal")
    assert (sample["status"], sample["score"]) == ("invalid_completion", -1.0)
    assert run.judge.requests == []


def test_an_answer_that_was_cut_off_is_judged_and_counted(arena: Arena) -> None:
    reply = Reply(body=completion("ANSWER of the model, and then", finish_reason="length"))
    found = arena.rows(1).evaluate(policy=reply).files.metrics
    assert (found["truncated_response_rate"], found["win_count"]) == (1.0, 1)


def test_answers_from_a_file_need_no_policy(arena: Arena) -> None:
    rows = [{"uid": f"row-{number}", "answer": f"my answer to row-{number}"} for number in range(5)]
    original = [
        {
            "uid": "row-5",
            "messages": [{"role": "user"}, {"content": {"answer": "my answer to row-5"}}],
        }
    ]
    answers = write_lines(arena.path / "mine.jsonl", [*rows, *original])
    run = arena.evaluate(f"--env.model_answers={answers}")
    assert run.code == 0, run.said
    assert run.policy.requests == []
    assert [sample["model_answer"] for sample in run.files.samples] == [
        f"my answer to row-{n}" for n in range(6)
    ]
    assert "mine" in run.ended.out, "the table says what was scored"
