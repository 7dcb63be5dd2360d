"""Tokens of images by the published formulas, and what a request with images may cost at most."""

from __future__ import annotations

from typing import Any

import pytest

from judgegym.llm.cost.budget import Budget
from judgegym.llm.cost.images import image_tokens
from judgegym.llm.types import ChatSettings, Endpoint
from judgegym.llm.usage import Prices
from judgegym.llm.wire import Image, Message, messages_json
from tests.pictures import data_url, png


@pytest.mark.parametrize(
    ("width", "height", "detail", "openai", "anthropic"),
    [
        (1024, 1024, "high", 765, 1399),
        (2048, 4096, "", 1105, 1600),
        (4096, 8192, "low", 85, 1600),
        (512, 512, "auto", 255, 350),
        (1, 1, "", 255, 1),
        (0, 0, "", 1445, 1600),
        (200, 200, "", 255, 54),
    ],
)
def test_an_image_counts_by_the_published_formula(
    width: int, height: int, detail: str, openai: int, anthropic: int
) -> None:
    image = Image("https://example.org/a.png", detail, width=width, height=height)
    assert (image_tokens(image, "openai"), image_tokens(image, "anthropic")) == (openai, anthropic)


def test_a_budget_reserves_the_most_of_an_image_and_not_its_bytes() -> None:
    prices = ChatSettings((Endpoint("http://localhost/v1", "m"),), prices=Prices(input=1e6, output=0.0))
    images = [Image(data_url(png(2, 2) + b"\0" * 90_000)), Image("https://example.org/a.png")]
    spelled = '"image_url":{"url":"x"'

    def worst(shown: list[Image]) -> float:
        message = Message(role="user", content=spelled)
        body: dict[str, Any] = {"messages": messages_json([{**message, "images": shown} if shown else message])}
        return Budget(usd=1.0).worst_cost(body, prices)

    assert worst([]) > len(spelled)
    assert 2 * 1445 < worst(images) - worst([]) < 2 * 1445 + 200
