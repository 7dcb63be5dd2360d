"""Images in requests: data URLs and addresses reach the judge; the server reads no file that a request names."""

from __future__ import annotations

import asyncio
import json
import re
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.command import serving
from tests.core.server.running import judged_by, running
from tests.core.server.served import started
from tests.core.server.test_process import post
from tests.pictures import data_url, png

RED, URL = data_url(png()), "https://example.org/a.png"


def message(role: str, *urls: object) -> dict[str, Any]:
    images = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return {"role": role, "content": [{"type": "text", "text": "See "}, *images]}


async def test_images_of_prompt_and_response_reach_the_judge() -> None:
    async with running() as server:
        body = {"prompt": [message("user", RED)], "response": [message("assistant", URL)]}
        answer = await server.post("/v1/score", body)
        (asked,) = server.judge.bodies
    assert (answer.status, answer.json["score"]) == (200, 0.75)
    text, *images = asked["messages"][-1]["content"]
    assert "See [image 1]" in text["text"] and "See [image 2]" in text["text"]
    assert [each.get("text") or each["image_url"]["url"] for each in images] == [
        "[image 1]",
        RED,
        "[image 2]",
        URL,
    ]


async def test_a_rollout_of_nemo_gym_has_its_images() -> None:
    item = {"role": "user", "content": [{"type": "input_image", "image_url": RED, "detail": "low"}]}
    said = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Red."}],
    }
    async with running() as server:
        row = {"responses_create_params": {"input": [item]}, "response": {"output": [said]}}
        answer = await server.post("/verify", row)
        (asked,) = server.judge.bodies
    assert (answer.status, answer.json["reward"]) == (200, 0.75)
    assert asked["messages"][-1]["content"][-1] == {
        "type": "image_url",
        "image_url": {"url": RED, "detail": "low"},
    }


@pytest.mark.parametrize("field", ["prompt", "response"])
async def test_no_file_of_the_server_is_read(
    field: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "red.png").write_bytes(png())
    monkeypatch.chdir(tmp_path)
    async with running() as server:
        for path in (
            "red.png",
            "./red.png",
            str(tmp_path / "red.png"),
            (tmp_path / "red.png").as_uri(),
            "/dev/zero",
        ):
            for part in (
                {"type": "image_url", "image_url": {"url": path}},
                {"type": "input_image", "image_url": path},
                {"type": "image", "image": path},
                {"type": "image", "image": {"path": path, "bytes": None}},
                {"type": "image", "path": path},
                {"type": "image", "source": {"type": "url", "url": path}},
            ):
                shown = [{"role": "user" if field == "prompt" else "assistant", "content": [part]}]
                answer = await server.post(
                    "/v1/score", {"prompt": "Q", "response": "A", field: shown}
                )
                assert (answer.status, "names the file" in answer.text) == (422, True), (
                    path,
                    answer.text,
                )
        assert server.judge.requests == []


async def test_a_judge_without_images_refuses_them() -> None:
    async with running("--judge_images=no") as server:
        answer = await server.post("/v1/score", {"prompt": [message("user", RED)], "response": "A"})
        assert (answer.status, server.judge.requests) == (422, [])
        assert "judge_images=no" in answer.text


async def test_responses_that_are_gathered_one_by_one_are_refused_with_images() -> None:
    async with running("--judge=listwise", "--group_size=2") as server:
        answer = await server.post(
            "/v1/score", {"prompt": [message("user", RED)], "response": "A", "group": "g"}
        )
        assert (answer.status, server.judge.requests) == (422, [])
        assert "in one request" in answer.text


async def test_protocols_that_show_no_images_refuse_them() -> None:
    async with running() as server:
        answer = await server.post("/slime", {"prompt": [message("user", RED)], "response": "A"})
        assert (answer.status, server.judge.requests) == (422, [])
        assert "of type image" in answer.text


async def test_the_limit_of_a_request_counts_images() -> None:
    async with running("--max_body_mb=1") as server:
        large = data_url(png() + b"\0" * (2 << 20))
        answer = await server.post(
            "/v1/score", {"prompt": [message("user", large)], "response": "A"}
        )
        assert (answer.status, server.judge.requests) == (413, [])


def black(side: int) -> bytes:
    """A black PNG with a small file."""
    packer = zlib.compressobj()
    row = bytes(1 + 3 * side)
    data = b"".join([*(packer.compress(row) for _ in range(side)), packer.flush()])
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    written = []
    for kind, content in ((b"IHDR", header), (b"IDAT", data), (b"IEND", b"")):
        checksum = struct.pack(">I", zlib.crc32(kind + content))
        written.append(struct.pack(">I", len(content)) + kind + content + checksum)
    return b"\x89PNG\r\n\x1a\n" + b"".join(written)


async def test_an_image_of_too_many_pixels_is_refused_by_its_header() -> None:
    declared = bytearray(png())
    declared[16:24] = struct.pack(">II", 13_000, 13_000)
    async with running() as server:
        shown = [message("user", data_url(bytes(declared)))]
        answer = await server.post("/v1/score", {"prompt": shown, "response": "A"})
        assert server.judge.requests == []
    assert answer.status == 422, answer.text
    assert "13000 × 13000 pixels" in answer.text and "judge_image_max_side=1568" in answer.text


@pytest.mark.slow
async def test_five_large_images_at_once_take_the_memory_of_one() -> None:
    """Of at most 64 million pixels; one of 13,000 x 13,000 is refused beside them."""
    pytest.importorskip("PIL")
    images = [*(black(7900 + number) for number in range(5)), black(13_000)]
    shown = [[message("user", data_url(image))] for image in images]
    with serving("[FEEDBACK] fine [SCORE] 4") as judge:
        flags = [f"--{name}={value}" for name, value in judged_by(judge).items()]
        with started(*flags) as (process, url):
            warm = await asyncio.to_thread(post, url)
            idle = _peak_mb(process.pid)
            answers = await asyncio.gather(
                *(asyncio.to_thread(_score, url, prompt) for prompt in shown),
                return_exceptions=True,
            )
            peak = _peak_mb(process.pid)
    assert warm["score"] == 0.75
    assert answers[:5] == [0.75] * 5
    assert isinstance(answers[5], OSError), "refused by its header"
    assert peak - idle < 400


def _score(url: str, prompt: object) -> float:
    score: float = post(url, body=json.dumps({"prompt": prompt, "response": "A"}).encode())["score"]
    return score


def _peak_mb(pid: int) -> float:
    (kilobytes,) = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(kilobytes) / 1024
