"""Images in requests: data URLs and addresses reach the judge; the server reads no file that a request names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.pictures import data_url, png
from tests.server.running import running

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
    assert [each.get("text") or each["image_url"]["url"] for each in images] == ["[image 1]", RED, "[image 2]", URL]


async def test_a_rollout_of_nemo_gym_has_its_images() -> None:
    item = {"role": "user", "content": [{"type": "input_image", "image_url": RED, "detail": "low"}]}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Red."}]}
    async with running() as server:
        row = {"responses_create_params": {"input": [item]}, "response": {"output": [said]}}
        answer = await server.post("/verify", row)
        (asked,) = server.judge.bodies
    assert (answer.status, answer.json["reward"]) == (200, 0.75)
    assert asked["messages"][-1]["content"][-1] == {"type": "image_url", "image_url": {"url": RED, "detail": "low"}}


@pytest.mark.parametrize("field", ["prompt", "response"])
async def test_no_file_of_the_server_is_read(field: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "red.png").write_bytes(png())
    monkeypatch.chdir(tmp_path)
    async with running() as server:
        for path in ("red.png", "./red.png", str(tmp_path / "red.png"), (tmp_path / "red.png").as_uri(), "/dev/zero"):
            for part in (
                {"type": "image_url", "image_url": {"url": path}},
                {"type": "input_image", "image_url": path},
                {"type": "image", "image": path},
                {"type": "image", "image": {"path": path, "bytes": None}},
                {"type": "image", "path": path},
                {"type": "image", "source": {"type": "url", "url": path}},
            ):
                shown = [{"role": "user" if field == "prompt" else "assistant", "content": [part]}]
                answer = await server.post("/v1/score", {"prompt": "Q", "response": "A", field: shown})
                assert (answer.status, "no file is read here" in answer.text) == (422, True), (path, answer.text)
        assert server.judge.requests == []


async def test_a_judge_without_images_refuses_them() -> None:
    async with running("--judge_images=no") as server:
        answer = await server.post("/v1/score", {"prompt": [message("user", RED)], "response": "A"})
        assert (answer.status, server.judge.requests) == (422, [])
        assert "judge_images=no" in answer.text


async def test_responses_that_are_gathered_one_by_one_are_refused_with_images() -> None:
    async with running("--judge=listwise", "--group_size=2") as server:
        answer = await server.post("/v1/score", {"prompt": [message("user", RED)], "response": "A", "group": "g"})
        assert (answer.status, server.judge.requests) == (422, [])
        assert "send them together" in answer.text


async def test_protocols_that_show_no_images_refuse_them() -> None:
    async with running() as server:
        answer = await server.post("/slime", {"prompt": [message("user", RED)], "response": "A"})
        assert (answer.status, server.judge.requests) == (422, [])
        assert "which no judge is shown" in answer.text


async def test_the_limit_of_a_request_counts_images() -> None:
    async with running("--max_body_mb=1") as server:
        large = data_url(png() + b"\0" * (2 << 20))
        answer = await server.post("/v1/score", {"prompt": [message("user", large)], "response": "A"})
        assert (answer.status, server.judge.requests) == (413, [])
