"""How many settings a command may have that are not a judge's: one that nobody sets is a constant with a name."""

from __future__ import annotations

import pytest

from judgegym.datasets.sample import USED_BY
from judgegym.datasets.score.settings import ScoreSettings
from judgegym.engine.settings.verbs import Verb
from judgegym.server.settings import RewardServerSettings
from tests.house.settings import settings_of, settings_of_verb


@pytest.mark.parametrize(("verb", "most"), [("serve", 97), ("process", 81), ("evaluate", 68)])
def test_settings_of_an_environment(verb: Verb, most: int) -> None:
    """Of prompts, which has the most; two are those of the signal meter."""
    _, others = settings_of_verb(verb, "prompts")
    assert len(others) <= most, others


def test_settings_of_score_and_judge_server() -> None:
    """One of score's names the card that repeated rows add evidence to."""
    _, of_score = settings_of(ScoreSettings, USED_BY)
    _, of_server = settings_of(RewardServerSettings)
    assert (len(of_score) <= 66, len(of_server) <= 33) == (True, True), (
        len(of_score),
        len(of_server),
    )
