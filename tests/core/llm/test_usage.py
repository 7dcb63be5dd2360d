import pytest

from judgegym.llm.usage import Prices, Usage


@pytest.mark.parametrize(
    ("prices", "cost"),
    [
        (Prices(3.0, 15.0), 0.0105),
        (Prices(0.0, 15.0), 0.0075),
        (Prices(0.0, 0.0), 0.0),
        (Prices(), None),
        (Prices(input=3.0), None),
        (Prices(output=15.0), None),
    ],
)
def test_prices_are_for_a_million_tokens_and_the_cost_is_unknown_without_both(
    prices: Prices, cost: float | None
) -> None:
    usage = prices.price_usage(Usage(1000, 500))
    assert (usage.prompt_tokens, usage.completion_tokens) == (1000, 500)
    assert usage.cost == (cost if cost is None else pytest.approx(cost))


@pytest.mark.parametrize(
    ("prices", "cost"), [(Prices(3.0, 15.0), None), (Prices(0.0, 0.0), 0.0), (Prices(), None)]
)
def test_cost_of_tokens_that_nobody_counted_is_unknown_unless_they_are_free(
    prices: Prices, cost: float | None
) -> None:
    assert prices.price_usage(Usage(0, 0)).cost == cost


@pytest.mark.parametrize(
    ("prices", "cost"),
    [
        (Prices(3.0, 15.0, 0.3), 0.0105 - 0.0027 * 0.8),
        (Prices(3.0, 15.0, 0.0), 0.0105 - 0.003 * 0.8),
        (Prices(3.0, 15.0), 0.0105),
        (Prices(3.0, None, 0.3), None),
    ],
)
def test_cached_prompt_tokens_have_a_price_of_their_own_or_that_of_all(
    prices: Prices, cost: float | None
) -> None:
    usage = prices.price_usage(Usage(1000, 500, cached_prompt_tokens=800))
    assert (usage.prompt_tokens, usage.cached_prompt_tokens) == (1000, 800)
    assert usage.cost == (cost if cost is None else pytest.approx(cost))


def test_sum_with_an_unknown_cost_is_unknown() -> None:
    known, unknown = Usage(1, 2, 0.5), Usage(10, 20, None)
    assert known + unknown == unknown + known == Usage(11, 22, None)
