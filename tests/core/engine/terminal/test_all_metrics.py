import pytest

from judgegym.engine import terminal
from judgegym.engine.metrics import Metrics
from tests.core.engine.terminal.odd import ODD


def cells(out: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.split("│")[1:-1]]
        for line in out.splitlines()
        if line.startswith("│")
    ]


def test_table_shows_each_metric_whole_and_what_is_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = "eval/winrate_" + "a_rather_long_category_" * 5 + "name"
    metrics = Metrics(
        {"eval/rate": 0.123456, "eval/count": 7, name: 1.0, "eval/whole": 2.0}, {"eval/x": ODD}
    )
    terminal.show_all_metrics(f"title {ODD}", metrics, {})
    out = capsys.readouterr().out
    assert f"title {ODD}" in out
    assert f"eval/x is left out: {ODD}\n" in out
    assert cells(out) == [
        ["eval/rate", "0.1235"],
        ["eval/count", "7"],
        [name, "1.0000"],
        ["eval/whole", "2.0000"],
    ]


def test_notes_stand_beside_their_metrics_and_what_is_unknown_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    metrics = Metrics({"eval/a": 0.5, "eval/b": 0.125}, {}, {"eval/cost_usd": "no price"})
    terminal.show_all_metrics("title", metrics, {"eval/b": "not to be quoted"})
    assert cells(capsys.readouterr().out) == [
        ["eval/a", "0.5000", ""],
        ["eval/b", "0.1250", "not to be quoted"],
        ["eval/cost_usd", "unknown", ""],
    ]


def test_reasons_that_several_metrics_share_are_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    metrics = Metrics({"eval/a": 1}, {"eval/b": "why", "eval/c": "other", "eval/d": "why"})
    terminal.show_all_metrics("title", metrics, {})
    assert (
        "eval/b, eval/d are left out: why\neval/c is left out: other\n" in capsys.readouterr().out
    )
