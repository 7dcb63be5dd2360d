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
    ("width", "height", "detail", "counts"),
    [  # Anthropic; OpenAI's patches; GPT-4o's tiles: examples of their guides, and the limits
        (1024, 1024, "high", (1369, 1229, 765)),
        (2048, 4096, "", (4784, 9831, 1105)),
        (2048, 4096, "high", (4784, 3000, 1105)),
        (4096, 8192, "low", (4784, 308, 85)),
        (1075, 1520, "auto", (2145, 1959, 1105)),
        (512, 512, "auto", (361, 308, 255)),
        (1, 1, "", (1, 2, 255)),
        (0, 0, "", (4784, 12000, 1445)),
    ],
)
def test_an_image_counts_by_the_published_formula(
    width: int, height: int, detail: str, counts: tuple[int, int, int]
) -> None:
    image = Image("https://example.org/a.png", detail, width=width, height=height)
    found = [image_tokens(image, api, "some-model") for api in ("anthropic", "openai")]
    assert (*found, image_tokens(image, "openai", "gpt-4o-2024-08-06")) == counts
    assert image_tokens(image, "openai", "gpt-4o-mini") >= 2833


def test_a_budget_reserves_the_most_of_an_image_and_not_its_bytes() -> None:
    prices = ChatSettings(
        (Endpoint("http://localhost/v1", "gpt-4o"),), prices=Prices(input=1e6, output=0.0)
    )
    images = [Image(data_url(png(2, 2) + b"\0" * 90_000)), Image("https://example.org/a.png")]
    spelled = '"image_url":{"url":"x"'

    def worst(shown: list[Image]) -> float:
        message = Message(role="user", content=spelled)
        body: dict[str, Any] = {
            "messages": messages_json([{**message, "images": shown} if shown else message])
        }
        return Budget(usd=1.0).worst_cost(body, prices)

    assert worst([]) > len(spelled)
    assert 2 * 1445 < worst(images) - worst([]) < 2 * 1445 + 200
