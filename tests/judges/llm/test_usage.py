import pytest

from judges.llm.usage import Prices, Usage


@pytest.mark.parametrize(
    ("prices", "cost"),
    [(Prices(), 0.0), (Prices(3.0, 15.0), 0.0105), (Prices(input=3.0), 0.003), (Prices(output=15.0), 0.0075)],
)
def test_prices_are_for_a_million_tokens(prices: Prices, cost: float) -> None:
    usage = prices.usage(1000, 500)
    assert (usage.prompt_tokens, usage.completion_tokens) == (1000, 500)
    assert usage.cost == pytest.approx(cost)


def test_usages_add_up() -> None:
    assert sum([Usage(1, 2, 0.5), Usage(10, 20, 0.25)], Usage()) == Usage(11, 22, 0.75)
