"""OpenRLHF's own executor, which tokenizes, decodes and asks for the reward of a single sample."""

from __future__ import annotations

from tests.core.server.running import asked, running
from tests.listwise import judging, shown_answers
from tests.scripted import Json
from tests.trainers.loops import trainers

CHAT = "<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n"


def judge(request: Json, number: int) -> str:
    """Passes a response that is `good` and nothing else: a part of the prompt in it fails it."""
    response = (
        asked(request).partition("### Response To Evaluate\n\n")[2].partition("\n")[0].strip()
    )
    return "I cannot say." if response == "FAIL" else f"[SCORE] {5 if response == 'good' else 1}"


async def test_rewards_as_the_executor_receives_them() -> None:
    samples = [
        {"prompt": CHAT, "label": "Since.", "response": "good"},
        {"prompt": CHAT, "label": 5, "response": "bad"},
        {"prompt": CHAT, "label": None, "response": "FAIL"},
        {
            "prompt": CHAT,
            "label": {"reference": "R", "rubric": "Is it good?"},
            "response": "good<|im_end|>",
        },
        {"prompt": CHAT, "label": None, "response": ""},
    ]
    async with running("--on_failure=score", judge=judge) as server:
        ended = await trainers.run("openrlhf", "program.py", f"{server.url}/get_reward", samples)
        shown = "".join(asked(request) for request in server.judge.bodies)
    assert ended.code == 0, ended.err
    assert [each["reward"] for each in ended.result] == [[1.0], [0.0], [0.0], [1.0], [0.0]]
    assert [each["scores"] for each in ended.result] == [[1.0], [0.0], [0.0], [1.0], [0.0]]
    assert [each["extra_logs"]["judge_failed"] for each in ended.result] == [
        [0.0],
        [0.0],
        [1.0],
        [0.0],
        [0.0],
    ]
    for text in (
        "### Reference Response\n\nSince.",
        "### Reference Response\n\n5",
        "### Score Rubric\n\nIs it good?",
    ):
        assert text in shown


async def test_the_prompt_is_never_judged_as_part_of_the_response() -> None:
    """A tokenizer that changes white space, and a prompt that is cut from the left, which the query shows only."""
    context = " ".join(map(str, range(200)))
    long = f"<|im_start|>user\n{context} Why?<|im_end|>\n<|im_start|>assistant\n"
    plain = f"{context} Why?\n\nAnswer:"
    samples = [
        {"prompt": "Is   it\n\n\nso?  Answer: ", "label": None, "response": "good", "words": True},
        {"prompt": long, "label": None, "response": "good", "max_length": 200},
        {"prompt": plain, "label": None, "response": "good", "max_length": 200},
    ]
    async with running(judge=judge) as server:
        ended = await trainers.run("openrlhf", "program.py", f"{server.url}/get_reward", samples)
    assert ended.code == 0, ended.err
    assert [each["reward"] for each in ended.result] == [
        [1.0]
    ] * 3  # formerly the prompt was judged, too


async def test_samples_of_one_prompt_and_label_are_compared() -> None:
    """The executor sends one sample a request, without ids: prompt and label tell the groups apart."""
    points = {"good": 0.9, "fair": 0.5, "poor": 0.25}
    samples = [
        {"prompt": CHAT, "label": label, "response": response}
        for response in points
        for label in ("one", "other")
    ]
    async with running(
        "--judge=listwise", "--group_size=3", judge=judging(lambda text, _: points[text])
    ) as server:
        ended = await trainers.run("openrlhf", "program.py", f"{server.url}/get_reward", samples)
        groups = [
            {answer.text for answer in shown_answers(request)} for request in server.judge.bodies
        ]
    assert ended.code == 0, ended.err
    assert [each["reward"] for each in ended.result] == [
        [points[sample["response"]]] for sample in samples
    ]
    assert groups == [set(points)] * 2
