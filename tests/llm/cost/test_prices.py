"""The table of list prices: whose prices are taken from it, and whose never."""

from __future__ import annotations

from datetime import date
from urllib.parse import urlsplit

import pytest

from judgegym.llm.cost.prices import price_table, prices_of
from judgegym.llm.usage import Prices

OPENAI = "https://api.openai.com/v1"


def test_every_entry_has_prices_a_date_and_a_source() -> None:
    table = price_table()
    assert len({model for _, model in table}) >= 30
    for (host, model), listed in table.items():
        prices = listed.prices
        assert "." in host and model and isinstance(listed.at, date) and urlsplit(listed.source).scheme == "https"
        assert prices.input is not None and prices.output is not None and 0 < prices.input <= prices.output
        assert (prices.cached_input or 0.0) < prices.input <= (prices.cache_write or prices.input)


@pytest.mark.parametrize(
    ("urls", "model", "known"),
    [
        ([OPENAI], "gpt-4.1", True),
        ([OPENAI], "gpt-4.1-2025-04-14", True),
        ([OPENAI], "GPT-4.1", False),
        (["http://localhost:8000/v1"], "gpt-4.1", False),
        (["https://api.openai.com.example.org/v1"], "gpt-4.1", False),
        ([OPENAI, "http://localhost:8000/v1"], "gpt-4.1", False),
    ],
)
def test_a_price_is_that_of_the_name_at_the_providers_host(urls: list[str], model: str, known: bool) -> None:
    assert prices_of("openai", Prices(), urls, model) == (Prices(2.0, 8.0, 0.5) if known else Prices())


def test_settings_and_another_tier_beat_the_table() -> None:
    assert prices_of("openai", Prices(input=1.0), [OPENAI], "gpt-4.1") == Prices(input=1.0)
    assert prices_of("openai", Prices(), [OPENAI], "gpt-4.1", {"service_tier"}) == Prices()
