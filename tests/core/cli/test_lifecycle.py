"""`judgegym list --judges`: when models are retired."""

from __future__ import annotations

from datetime import date

import pytest

from judgegym.cli import lifecycle
from judgegym.cli.lifecycle import describe_models
from judgegym.cli.listing import main
from judgegym.llm.cost.models import DEFAULT_JUDGE, known_models
from judgegym.llm.errors import SettingsError


@pytest.fixture(autouse=True)
def _that_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "today", lambda: date(2026, 12, 10))


def test_all_models_are_listed_by_provider_the_next_to_end_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--judges"], prog="judgegym list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    names = [line.split()[0] for line in lines if line.startswith("  ")]
    assert {name for name in names if name in known_models()} == {
        *{id(model): name for name, model in reversed(known_models().items())}.values()
    }
    assert lines[3].split() == ["gpt-5", "2026-12-11,", "in", "1", "day", "gpt-6.1-sol"]
    assert f"judge is {DEFAULT_JUDGE}." in lines[-1]


def test_named_models_are_listed_alone_by_any_of_their_names() -> None:
    lines = describe_models(["gpt-4.1-2025-04-14", "claude-sonnet-4-6", "claude-sonnet-4-0"])
    text = " ".join(" ".join(lines).split())
    assert "gpt-4.1-2025-04-14 2027-01-14, in 35 days gpt-6.1-sol" in text
    assert "claude-sonnet-4-6 not before 2027-02-17 claude-sonnet-5-5" in text
    assert "claude-sonnet-4-0 2026-06-15, gone claude-sonnet-4-6" in text
    assert text.count("gpt-") == 2


def test_an_unknown_model_is_refused_with_a_similar_one() -> None:
    with pytest.raises(SettingsError, match=r"gpt-4\.11: no model .*, did you mean gpt-4\.1\?"):
        describe_models(["gpt-4.11"])
