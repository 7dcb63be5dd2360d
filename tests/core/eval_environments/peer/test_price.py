from judgegym.eval_environments.models import ModelSettings
from judgegym.eval_environments.peer.models import estimate_calls

URL = "http://127.0.0.1:9/v1"
PRICED = ModelSettings(name="priced", base_url=URL, price_input=1.0, price_output=2.0)
FREE = ModelSettings(name="free", base_url=URL, price_input=0.0, price_output=0.0)
UNPRICED = ModelSettings(name="unpriced", base_url=URL, price_input=1.0)
QUERY = ("q" * 400, "r" * 400)


def said(*models: ModelSettings, rounds: int = 0) -> str:
    return estimate_calls(models, models, [QUERY] * 1000, rounds=rounds, include_self=False)


def test_price_of_models_that_all_have_prices() -> None:
    # 1000 answers of 100 + 500 tokens and 1000 judgments of 700 + 150 tokens by the priced one, the
    # rest is free.
    price = said(PRICED, FREE)
    assert price.startswith("2000 answers, 2000 judgments: 4000 calls; about $2.10 ")
    assert "500 tokens an answer" in price and "150 a judgment" in price


def test_rounds_multiply_the_judgments_and_their_price() -> None:
    assert said(PRICED, FREE, rounds=1).startswith(
        "2000 answers, 2000 judgments and up to 2000 critiques: up to 6000 calls; about $3.10 "
    )


def test_price_is_unknown_if_one_model_lacks_a_price_and_the_model_is_named() -> None:
    price = said(PRICED, UNPRICED)
    facts = "cost is unknown", "price_input", "price_output of unpriced"
    assert "$" not in price and all(fact in price for fact in facts)
