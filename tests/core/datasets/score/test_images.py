"""Rows with images through the real command: what judge and policy are sent, what is refused, what is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from judgegym.engine.runs.recorded_calls import read_calls
from tests.command import serving
from tests.core.datasets.scoring import Scoring
from tests.pictures import data_url, png
from tests.plans import read_plan
from tests.scripted import Json, Reply

RED, BLUE, URL = png(4, 3), png(4, 3, (0, 0, 255)), "https://example.org/a.png"
FILE = {"type": "image_url", "image_url": {"url": "red.png", "detail": "low"}}
ADDRESS = {"type": "image_url", "image_url": {"url": URL}}
WHAT = {"type": "text", "text": "What is this?"}
ROW = {
    "prompt": [{"role": "user", "content": [WHAT, FILE, ADDRESS]}],
    "response": "Red, as in [image 2].",
}
VERDICTS = {
    "rubric": "[FEEDBACK] Because. [SCORE] 4",
    "choice": "[[A]]",
    "tournament": "[[A>B]]",
}


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Scoring]:
    (tmp_path / "red.png").write_bytes(RED)
    with serving(VERDICTS["rubric"]) as judge:
        yield Scoring(tmp_path, judge)


def parts_of(body: Json) -> list[Any]:
    """The parts of the only message of the user that has any."""
    (found,) = (
        message["content"] for message in body["messages"] if isinstance(message["content"], list)
    )
    return list(found)


def test_the_judge_is_sent_each_image_after_its_mark(command: Scoring, tmp_path: Path) -> None:
    ended = command(rows=[ROW])
    assert ended.code == 0, ended.said
    text, *images = parts_of(command.judge.bodies[0])
    assert (
        "What is this?[image 1][image 2]" in text["text"]
        and "Red, as in [¦image 2]." in text["text"]
    )
    assert images == [
        {"type": "text", "text": "[image 1]"},
        {"type": "image_url", "image_url": {"url": data_url(RED), "detail": "low"}},
        {"type": "text", "text": "[image 2]"},
        ADDRESS,
    ]
    run = command.out.parent / "scored.run"
    (call,) = read_calls(run)
    assert call.messages is not None
    kept, remote = call.messages[-1]["images"]
    assert ((run / kept.url).read_bytes(), remote.url) == (RED, URL)
    assert [path.name for path in (run / "images").iterdir()] == [Path(kept.url).name]
    assert data_url(RED) not in "".join(
        path.read_text("utf-8") for path in run.glob("*.json*") if path.suffix != ".gz"
    )
    assert (tmp_path / "red.png").read_bytes() == RED


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "What is this?", "image": "red.png"},
        {"question": "What is this?", "images": ["red.png"]},
        {
            "prompt": [{"role": "user", "content": [{"type": "image"}, WHAT]}],
            "images": [{"path": "red.png"}],
        },
        {"messages": [{"role": "user", "content": [{"type": "image", "image": "red.png"}, WHAT]}]},
    ],
)
def test_images_beside_the_messages_are_those_of_the_prompt(
    command: Scoring, row: dict[str, Any]
) -> None:
    answer = {"role": "assistant", "content": "Red."}
    whole = (
        {"messages": [*row["messages"], answer]}
        if "messages" in row
        else {**row, "response": "Red."}
    )
    ended = command(rows=[whole])
    assert (ended.code, "not read" in ended.said) == (0, False), ended.said
    text, *images = parts_of(command.judge.bodies[0])
    assert "[image 1]What is this?" in text["text"]
    assert [each["image_url"]["url"] for each in images[1:]] == [data_url(RED)]


def test_images_of_responses_are_shown_too(command: Scoring) -> None:
    answer = {"role": "assistant", "content": [{"type": "text", "text": "Here: "}, ADDRESS]}
    assert command(rows=[{"prompt": ROW["prompt"], "completion": [answer]}]).code == 0
    text, *images = parts_of(command.judge.bodies[0])
    assert "Here: [image 3]" in text["text"]
    assert [each["text"] for each in images[::2]] == ["[image 1]", "[image 2]", "[image 3]"]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({**ROW, "images": ["red.png"]}, ""),
        (
            {
                "prompt": [{"role": "user", "content": [{"type": "image"}]}],
                "images": ["red.png"] * 2,
            },
            "1 placeholders",
        ),
        ({"prompt": [{"role": "user", "content": [{"type": "image"}]}]}, "is not there"),
        ({"prompt": "Q", "image": "secret.txt"}, "PNG, JPEG, GIF"),
        ({"prompt": "Q", "image": "missing.png"}, "no file of"),
        (
            {"prompt": "Q", "chosen": "A", "rejected": "B", "image": "red.png"},
            "images beside chosen",
        ),
    ],
)
def test_a_row_whose_images_cannot_be_shown_is_refused(
    command: Scoring, row: dict[str, Any], why: str
) -> None:
    (command.data.parent / "secret.txt").write_text("a secret")
    ended = command(rows=[{"response": "Red.", **row} if "chosen" not in row else row])
    assert (ended.code, command.judge.requests) == ((2, []) if why else (0, command.judge.requests))
    assert why in ended.said and "a secret" not in ended.said


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--judge_images=no",), "judge_images=no"),
        (("--judge=reward_model", "--reward_protocol=vllm_classify"), "reads texts alone"),
    ],
)
def test_a_judge_that_sees_no_images_is_asked_nothing(
    command: Scoring, words: tuple[str, ...], why: str
) -> None:
    ended = command(*words, rows=[{"prompt": "Q", "response": "A"}, ROW])
    assert (ended.code, command.judge.requests) == (2, [])
    assert "row 2: images: " in ended.said and why in ended.said


@pytest.mark.slow
@pytest.mark.parametrize(("images", "most"), [("auto", 2), ("yes", 6)])
def test_a_refusal_of_images_is_remembered_for_the_run(
    command: Scoring, images: str, most: int
) -> None:
    def judge(request: Json, number: int) -> Reply | str:
        has_images = any(isinstance(message["content"], list) for message in request["messages"])
        refusal = Reply(status=400, body={"error": {"message": "m is not a multimodal model"}})
        return refusal if has_images else VERDICTS["rubric"]

    with serving(judge) as endpoint:
        command.judge = endpoint
        rows = [{**ROW, "response": f"Red {number}."} for number in range(6)]
        flags = (
            "--judge_max_concurrency=1",
            f"--judge_images={images}",
            "--max_judge_error_rate=1",
        )
        command(*flags, rows=[*rows, {"prompt": "Q", "response": "A"}])
        asked = [body for body in endpoint.bodies if "What is this?" in json.dumps(body)]
    assert len(asked) <= most if images == "auto" else len(asked) == most
    assert command.column("judge/score") == [None] * 6 + [0.75]
    assert all(
        "m is not a multimodal model" in said for said in command.column("judge/explanation")[:6]
    )


def test_a_refusal_of_one_image_is_of_its_row_alone(command: Scoring) -> None:
    def judge(request: Json, number: int) -> Reply | str:
        is_first = "Red 0." in json.dumps(request)
        refusal = Reply(status=400, body={"error": {"message": "Could not process image"}})
        return refusal if is_first else VERDICTS["rubric"]

    with serving(judge) as endpoint:
        command.judge = endpoint
        command(
            "--judge_max_concurrency=1",
            rows=[{**ROW, "response": f"Red {number}."} for number in range(4)],
        )
    assert command.column("judge/score") == [None, 0.75, 0.75, 0.75]


@pytest.mark.slow
def test_an_image_beyond_the_longest_side_is_scaled_down(command: Scoring, tmp_path: Path) -> None:
    (tmp_path / "red.png").write_bytes(large := png(40, 20))
    assert command("--judge_image_max_side=10", rows=[ROW]).code == 0
    (sent,) = (
        part["image_url"]["url"]
        for part in parts_of(command.judge.bodies[0])
        if part["type"] == "image_url" and part["image_url"]["url"].startswith("data:")
    )
    assert sent.startswith("data:image/png;base64,") and sent != data_url(large)
    assert (tmp_path / "red.png").read_bytes() == large


def test_without_pillow_a_larger_image_is_refused(
    command: Scoring, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("judgegym.judges.core.images.find_spec", lambda name: None)
    ended = command("--judge_image_max_side=2", rows=[ROW])
    assert (ended.code, command.judge.requests) == (2, [])
    assert "pip install pillow" in ended.said
    assert command("--judge_image_max_side=0", rows=[ROW]).code == 0


@pytest.mark.slow
def test_a_policy_is_asked_with_images_where_they_stood(command: Scoring) -> None:
    with serving("Red.") as policy:
        flags = (
            f"--openai.base_url={policy.base_url}",
            "--openai.model_name=p",
            "--responses_per_prompt=1",
        )
        ended = command(*flags, rows=[{"prompt": [{"role": "user", "content": [FILE, WHAT]}]}])
        assert ended.code == 0, ended.said
        asked = policy.bodies[0]
    image = {"type": "image_url", "image_url": {"url": data_url(RED), "detail": "low"}}
    assert asked["messages"][-1]["content"] == [image, WHAT]
    assert parts_of(command.judge.bodies[0])[1:] == [{"type": "text", "text": "[image 1]"}, image]


def test_images_of_tools_are_shown_with_the_prompt_and_once(command: Scoring) -> None:
    call = {
        "role": "assistant",
        "tool_calls": [{"id": "1", "function": {"name": "look", "arguments": "{}"}}],
    }
    messages = [
        {"role": "user", "content": [FILE, WHAT]},
        call,
        {"role": "tool", "tool_call_id": "1", "content": [ADDRESS]},
    ]
    ended = command(
        rows=[{"messages": [*messages, {"role": "assistant", "content": "As in [image 2], red."}]}]
    )
    assert ended.code == 0, ended.said
    text, *images = parts_of(command.judge.bodies[0])
    assert "tool (look): [image 2]" in text["text"] and "As in [¦image 2], red." in text["text"]
    assert [each["text"] for each in images[::2]] == ["[image 1]", "[image 2]"]
    assert images[3] == ADDRESS


def test_a_step_is_judged_with_the_images_before_it(command: Scoring) -> None:
    call = {
        "role": "assistant",
        "tool_calls": [{"id": "1", "function": {"name": "look", "arguments": "{}"}}],
    }
    said = [
        call,
        {"role": "tool", "tool_call_id": "1", "content": [ADDRESS]},
        {"role": "assistant", "content": "Red."},
    ]
    ended = command(
        "--judge=steps",
        rows=[{"prompt": [{"role": "user", "content": [FILE, WHAT]}], "completion": said}],
    )
    assert ended.code == 0, ended.said
    counts = sorted(len(parts_of(body)[1::2]) for body in command.judge.bodies)
    assert counts == [1, 2]
    (last,) = (body for body in command.judge.bodies if len(parts_of(body)) == 5)
    assert "tool (look): [image 2]" in parts_of(last)[0]["text"] and parts_of(last)[-1] == ADDRESS


def test_rows_of_a_group_have_the_same_images(command: Scoring) -> None:
    (command.data.parent / "blue.png").write_bytes(BLUE)
    rows = [
        {"prompt": "Q", "response": f"A {name}", "image": f"{name}.png", "g": 1}
        for name in ("red", "blue")
    ]
    ended = command("--judge=tournament", "--group_by=g", rows=rows)
    assert (ended.code, command.judge.requests) == (2, [])
    assert "and another images" in ended.said


def test_images_in_several_columns_of_a_prompt_are_refused(command: Scoring) -> None:
    rows = [{"a": "Q", "b": [{"role": "user", "content": [FILE]}], "response": "A"}]
    ended = command("--prompt_column=a,b", rows=rows)
    assert (ended.code, command.judge.requests) == (2, [])
    assert "several columns" in ended.said


@pytest.mark.parametrize("judge", ["choice", "tournament"])
def test_judges_that_compare_are_sent_the_images(command: Scoring, judge: str) -> None:
    with serving(VERDICTS[judge]) as endpoint:
        command.judge = endpoint
        ended = command(
            f"--judge={judge}", rows=[{"prompt": ROW["prompt"], "responses": ["Red.", "Blue."]}]
        )
        assert ended.code == 0, ended.said
        bodies = endpoint.bodies
    assert bodies and all(parts_of(body)[-1] == ADDRESS for body in bodies)


@pytest.mark.slow
def test_equal_rows_with_other_images_are_judged_apart(command: Scoring, tmp_path: Path) -> None:
    (tmp_path / "blue.png").write_bytes(BLUE)
    (tmp_path / "same.png").write_bytes(RED)
    rows = [
        {"prompt": "Q", "response": "A", "image": f"{name}.png"} for name in ("red", "blue", "same")
    ]
    assert command(f"--judge_cache={tmp_path / 'cache.sqlite'}", rows=rows).code == 0
    assert len(command.judge.requests) == 2
    command.out = command.out.with_name("again.jsonl")
    assert command(f"--judge_cache={tmp_path / 'cache.sqlite'}").code == 0
    assert len(command.judge.requests) == 2


@pytest.mark.slow
def test_a_plan_counts_images(command: Scoring) -> None:
    others = {"prompt": "Q", "response": "A"}
    planned = command("--plan", rows=[ROW, others])
    assert (planned.code, command.judge.requests) == (0, [])
    bare = command("--plan", rows=[{**ROW, "prompt": "What is this?[image 1][image 2]"}, others])
    counts = [read_plan(plan.out).prompt_tokens for plan in (planned, bare)]
    assert counts[0] - counts[1] in range(2 + 12_000, 2 + 12_000 + 20)
