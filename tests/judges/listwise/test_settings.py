"""The settings of the listwise judge, as a command line gives them."""

from __future__ import annotations

import pytest

from judgegym.judges.config.sources import settings_from_keywords
from judgegym.judges.listwise.prompt import ListwiseJudgeSettings
from judgegym.llm.errors import SettingsError


def test_orders_are_read_from_the_text_of_a_command_line() -> None:
    assert settings_from_keywords(ListwiseJudgeSettings, {"listwise_orders": "2"}).listwise_orders == 2


@pytest.mark.parametrize("orders", ["0", "3", "both"])
def test_orders_other_than_one_and_two_are_refused(orders: str) -> None:
    with pytest.raises(SettingsError, match="listwise_orders: input should be"):
        settings_from_keywords(ListwiseJudgeSettings, {"listwise_orders": orders})
