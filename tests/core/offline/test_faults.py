from typing import Any

import pytest

from judgegym.offline.faults import FAULTS, Faults

RATES = {
    "429": 0.1,
    "500": 0.05,
    "drop": 0.02,
    "timeout": 0.02,
    "garbage": 0.05,
    "empty": 0.01,
    "malformed": 0.15,
}


def test_draws_are_a_function_of_digest_and_attempt() -> None:
    cases = [(str(number), attempt) for number in range(50) for attempt in (1, 2)]
    drawn = [Faults(RATES).draw(*case) for case in cases]
    assert drawn == [Faults(RATES).draw(*case) for case in cases]
    assert drawn == [Faults(dict(reversed(RATES.items()))).draw(*case) for case in cases]
    assert len(set(drawn)) > 1


def test_rates_of_0_and_1_are_never_and_always() -> None:
    assert {Faults().draw(str(number), 1) for number in range(200)} == {None}
    assert {Faults({"empty": 0, "drop": 1}).draw(str(number), 1) for number in range(200)} == {
        "drop"
    }


@pytest.mark.parametrize(
    ("rates", "named"),
    [
        ({"429": 1.5}, ["'429'", "1.5"]),
        ({"drop": "often"}, ["'drop'", "'often'"]),
        ({"drop": float("nan")}, ["'drop'", "nan"]),
        ({"399": 0.1}, ["'399'"]),
        ({"٤٢٩": 0.1}, ["'٤٢٩'"]),
        ({"explode": 0.1}, ["'explode'", *FAULTS]),
        ({"429": 0.6, "drop": 0.5}, ["1.1", "'429'", "'drop'", "0.6", "0.5"]),
    ],
)
def test_a_wrong_rate_is_named_in_one_line(rates: dict[Any, Any], named: list[str]) -> None:
    with pytest.raises(ValueError) as caught:
        Faults(rates)
    assert "\n" not in str(caught.value)
    assert all(part in str(caught.value) for part in named)


@pytest.mark.parametrize("text", ["", "[]", "0.5", "{", '{"429": 0.1', "[" * 100_000, "null"])
def test_text_that_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="JSON object"):
        Faults.parse(text)
