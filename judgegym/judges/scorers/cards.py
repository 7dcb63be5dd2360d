"""Whether a judge that has judged is the one of a card."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from judgegym.judges.config.fields import declared_settings
from judgegym.judges.config.sources import settings_from_keywords
from judgegym.judges.prompt_files.card import JudgeCard, load_card
from judgegym.judges.scorers.sections import flat_settings
from judgegym.judges.scorers.settings import AnyJudgeSettings
from judgegym.llm.wire import JSON

_OTHER = frozenset(("judge_model_name", "seed"))
"""Settings that another run of the same judge may change."""


def open_card(path: Path) -> AnyJudgeSettings:
    """Return the settings of a card's judge.

    Raises:
        SettingsError: one is unknown or wrong.
    """
    return settings_from_keywords(AnyJudgeSettings, {"judge": str(path)})


def load_matching_card(path: Path, values: Mapping[str, JSON], source: str) -> JudgeCard:
    """Read the card of a judge that has judged, or is about to.

    The model may be another one: evidence says which model it is about.

    Args:
        path: the card.
        values: the settings of that judge, as a run records them.
        source: where that judge is, for messages.

    Raises:
        ValueError: the card cannot be read, or that judge has another prompt, or another value of a
            setting that shapes its judgments.
        SettingsError: a setting of the card is wrong.
    """
    card = load_card(path)
    opened = open_card(path)
    settings = opened.model_dump(mode="json")
    shaping = {
        declared.name for declared in declared_settings(type(opened)) if not declared.is_operational
    }
    names = {*flat_settings(card.section), "judge", *(shaping & values.keys())} - _OTHER
    if card.prompt_file is not None:
        names.add("judge_prompt")
    different = sorted(
        name for name in names & settings.keys() if values.get(name) != settings[name]
    )
    if "judge_prompt" in different:
        raise ValueError(f"{path}: {source} has another prompt than this card has now")
    if different:
        listed = ", ".join(different)
        raise ValueError(f"{path}: {source} has another value than this card of {listed}")
    return card
