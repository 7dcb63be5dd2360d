"""Images of conversations: every form of part is read, nothing else is, and a mark stands for an image alone."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from judgegym.judges.conversations.images import (
    decode_image,
    insert_images,
    read_image,
    show_images,
)
from judgegym.judges.conversations.messages import parse_items, parse_turns
from judgegym.judges.conversations.turns import UnseenPart, list_images, render_transcript
from judgegym.judges.core.tasks import JudgeTask
from tests.pictures import data_url, png

RED, URL = png(3, 2), "https://example.org/a.png"
BASE64 = base64.b64encode(RED).decode()
ADDRESS = {"type": "image_url", "image_url": {"url": URL, "detail": "low"}}


@pytest.fixture(autouse=True)
def images_are_shown() -> Iterator[None]:
    with show_images():
        yield


class Pil:
    """What is used of a PIL image."""

    mode = "RGB"

    def save(self, file: Any, kind: str) -> None:
        assert kind == "PNG"
        file.write(RED)


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": data_url(RED)}},
        {"type": "image_url", "image_url": data_url(RED, "image/jpeg")},
        {"type": "input_image", "image_url": data_url(RED), "file_id": None},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": BASE64}},
        {"type": "image", "image": data_url(RED), "detail": "auto"},
        {"type": "image", "base64": BASE64},
        {"type": "image", "image": {"bytes": RED, "path": "elsewhere.png"}},
        {"type": "image", "image": Pil()},
        {"type": "image", "image": "a.png"},
        {"type": "image", "path": "file://a.png"},
        {"type": "image", "image": {"bytes": None, "path": "a.png"}},
    ],
)
def test_an_image_is_the_same_whatever_its_form(part: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(RED)
    with show_images(tmp_path):
        image = read_image(part)
    assert (image.url, image.width, image.height) == (data_url(RED), 3, 2)
    assert image.name == decode_image(RED).name != decode_image(png(3, 3)).name
    assert RED.hex() not in repr(image) and BASE64 not in repr(image)


def test_an_address_is_kept_and_never_fetched() -> None:
    for part in (
        ADDRESS,
        {"type": "image", "source": {"type": "url", "url": URL}},
        {"type": "image", "url": URL},
    ):
        assert (read_image(part).url, read_image(part).name) == (URL, URL)
    assert read_image(ADDRESS).detail == "low"


@pytest.mark.parametrize(
    "value",
    [
        *(
            "a.png",
            "/etc/passwd",
            "file:///etc/passwd",
            "ftp://example.org/a.png",
            "",
            "https://a b",
            "data:",
        ),
        *(
            "data:image/png,abc",
            "data:image/png;base64,?",
            data_url(b"text"),
            "https://a\n",
            5,
            [],
            b"%PDF-1.7",
        ),
    ],
)
def test_what_is_no_image_is_refused(value: object) -> None:
    with pytest.raises(UnseenPart, match="type image"):
        parse_turns([{"role": "user", "content": [{"type": "image", "image": value}]}])


@pytest.mark.parametrize("name", ["missing.png", "notes.txt", "", ".", "\0.png", "empty.png"])
def test_of_files_images_alone_are_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.txt").write_text("a secret")
    (tmp_path / "empty.png").write_bytes(b"")
    with show_images(tmp_path), pytest.raises(UnseenPart) as raised:
        read_image({"type": "image", "image": name})
    assert "a secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("data", "kind", "sides"),
    [
        (png(700, 5), "png", (700, 5)),
        (b"GIF89a" + struct.pack("<HH", 20, 30) + b"\0" * 9, "gif", (20, 30)),
        (b"RIFF\0\0\0\0WEBPVP8X" + b"\0" * 20, "webp", (0, 0)),
        (
            b"\xff\xd8\xff\xe0\0\4ab\xff\xc2\0\x11\x08" + struct.pack(">HH", 40, 50) + b"\0" * 9,
            "jpeg",
            (50, 40),
        ),
    ],
)
def test_sides_are_read_from_the_header(data: bytes, kind: str, sides: tuple[int, int]) -> None:
    image = decode_image(data)
    assert image.url.startswith(f"data:image/{kind};base64,")
    assert ((image.width, image.height), image.data) == (sides, data)


def test_images_are_marked_in_order_and_nothing_else_looks_like_a_mark() -> None:
    said = [
        {"type": "text", "text": "See [image 9] and ["},
        ADDRESS,
        {"type": "text", "text": " IMAGE #2]."},
    ]
    tool = {"type": "tool_result", "content": [{"type": "text", "text": "[image 1]"}, ADDRESS]}
    turns = (
        parse_turns([{"role": "user", "content": said}, {"role": "user", "content": [tool]}]) or ()
    )
    assert render_transcript(turns) == (
        "user: See [¦image 9] and [[image 1] IMAGE #2].\n\nuser: [¦image 1][image 2]"
    )
    assert [image.url for image in list_images(turns)] == [URL, URL]


@pytest.mark.parametrize(
    "part", [ADDRESS, {"type": "image"}, {"type": "input_image", "image_url": data_url(RED)}]
)
def test_no_image_is_read_where_none_is_shown(part: dict[str, Any]) -> None:
    with show_images(shown=False):
        with pytest.raises(UnseenPart, match="would judge blind"):
            parse_turns([{"role": "user", "content": [part]}])
        with show_images():
            assert parse_turns([{"role": "user", "content": [part]}])


def test_images_beside_a_conversation_stand_before_those_of_its_first_message() -> None:
    turns = parse_turns([{"role": "user", "content": ["Is this ", ADDRESS, " [image 1]?"]}]) or ()
    (turn,) = insert_images({"images": [RED]}, turns)
    assert turn.shown == "[image 1]Is this [image 2] [¦image 1]?"
    assert [image.url for image in turn.images] == [data_url(RED), URL]


def test_outputs_of_tools_have_images_in_the_responses_api() -> None:
    item = {
        "type": "function_call_output",
        "call_id": "c",
        "output": [{"type": "input_image", "image_url": URL}],
    }
    (turn,) = parse_items([item])
    assert (turn.shown, [image.url for image in turn.images]) == ("[image 1]", [URL])


def test_a_turn_is_a_message_again_with_its_images_where_they_stood() -> None:
    content = [
        {"type": "text", "text": "[image 1] "},
        ADDRESS,
        {"type": "text", "text": "is what?"},
    ]
    (turn,) = parse_turns([{"role": "user", "content": content}]) or ()
    assert turn.message() == {"role": "user", "content": content}
    assert turn.policy_message()["content"] == "[image 1] is what?"


def test_a_task_numbers_its_images_through_prompt_and_responses() -> None:
    (asked,) = parse_turns([{"role": "user", "content": [ADDRESS, "What?"]}]) or ()
    trace = parse_turns([{"role": "assistant", "content": ["It is ", ADDRESS, ADDRESS]}]) or ()
    text = render_transcript(trace)
    task = JudgeTask(
        asked.shown,
        (text, "As in [image 2].", text),
        traces=(trace, (), trace),
        images=asked.images,
    )
    found = task.number_images()
    assert found.prompt == "[image 1]What?"
    assert found.responses == (
        "It is [image 2][image 3]",
        "As in [¦image 2].",
        "It is [image 4][image 5]",
    )
    assert [image.mark for image in found.all_images] == [
        f"[image {number}]" for number in range(1, 6)
    ]
    assert found.number_images() == found
    assert [image.mark for image in found.select_responses((2,)).all_images] == [
        "[image 1]",
        "[image 4]",
        "[image 5]",
    ]
    other = JudgeTask(asked.shown, (text,), traces=(trace,), images=(decode_image(RED),))
    assert len({each.key("j") for each in (task, other, JudgeTask(asked.shown, (text,)))}) == 3
