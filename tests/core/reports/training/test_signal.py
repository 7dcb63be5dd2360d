"""The charts of a reward's signal on the page of a training."""

from __future__ import annotations

from judgegym.llm.wire import JSON
from judgegym.reports.training.history import MonitorHistory

ADVICE = "vote twice: 4.0 calls, 0.71 → 0.77"


def report(step: int, share: float) -> dict[str, JSON]:
    interval: dict[str, JSON] = {"low": share - 0.1, "high": share + 0.1}
    return {
        "step": step,
        "groups": 32 + step,
        "unrepeated": {"value": share, "interval": interval},
        "reliability": {"value": 1 - share, "interval": interval},
        "texts": [ADVICE],
    }


def test_reports_of_the_meter_are_charts_with_their_interval_and_the_advice() -> None:
    history = MonitorHistory()
    history.add({"signal": report(1, 0.5)})
    history.add({"signal": report(2, 0.4)})
    charts = {chart["id"]: chart for chart in history.state()["charts"]}
    share, reliability = charts["signal unrepeated"], charts["signal reliability"]
    assert "does not repeat" in share["title"] and "Reliability" in reliability["title"]
    assert share["said"] == f"0.40 (0.30 to 0.50), 34 groups. {ADVICE}"
    (line,) = share["lines"]
    assert line["y"] == [0.5, 0.4]


def test_a_report_without_a_number_is_no_chart() -> None:
    history = MonitorHistory()
    history.add({"signal": {"step": 1, "left_out": "2 groups", "measured": 2}})
    assert history.state()["charts"] == []
