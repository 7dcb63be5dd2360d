import asyncio
import io
import itertools
import sys

import pytest

from environments import terminal
from environments.metrics import Metrics
from environments.terminal import EvaluationProgress, ProgressDisplay, progress
from judges.config.sources import ConfigLine

ODD = ":100: [red]x[/red] \\[b] 数学 [[A>B]]"


def test_text_is_shown_as_it_is_results_and_messages_apart(capsys: pytest.CaptureFixture[str]) -> None:
    """No markup, no emoji, no colours, no line breaks: paths and endpoints' messages must survive."""
    result, message = (f"{ODD} {'word ' * 60}{end}" for end in ("result", "message"))
    terminal.say(result)
    terminal.warn(message)
    assert capsys.readouterr() == (f"{result}\n", f"{message}\n")


def test_the_table_shows_each_metric_what_is_left_out_and_the_notices(capsys: pytest.CaptureFixture[str]) -> None:
    name = "eval/winrate_" + "a_rather_long_category_" * 5 + "name"
    metrics = Metrics({"eval/rate": 0.123456, "eval/count": 7, name: 1.0, "eval/whole": 2.0}, {"eval/x": ODD})
    terminal.show_metrics(f"title {ODD}", metrics, [f"notice {ODD}"])
    out = capsys.readouterr().out
    assert f"title {ODD}" in out
    assert f"eval/x is left out: {ODD}\n" in out
    assert f"notice {ODD}\n" in out
    cells = [[cell.strip() for cell in line.split("│")[1:3]] for line in out.splitlines() if line.startswith("│")]
    assert cells == [["eval/rate", "0.1235"], ["eval/count", "7"], [name, "1.0000"], ["eval/whole", "2.0000"]]


def test_headline_is_shown_apart_notes_beside_their_metrics_and_other_tables_metrics_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    values = {"eval/a": 0.5, "eval/a_ci_low": 0.25, "eval/a_ci_high": 0.75, "eval/b": 0.125, "eval/a_of_one": 1.0}
    display = terminal.MetricDisplay(("eval/a", "share"), {"eval/b": "not to be quoted"}, frozenset({"eval/a_of_one"}))
    terminal.show_metrics("title", Metrics(values, {}, {"eval/cost_usd": "no price"}), [], display)
    out = capsys.readouterr().out
    assert "The result: share 0.5000 (95 %: 0.2500 to 0.7500), eval/a\n" in out
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if line.startswith("│")]
    assert [each for each in cells if each[0] == "eval/b"] == [["eval/b", "0.1250", "not to be quoted"]]
    assert ["eval/cost_usd", "unknown", ""] in cells
    assert "eval/a_of_one" not in out and "1 more metrics, of single models, are in metrics.json\n" in out


def test_reasons_that_several_metrics_share_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.show_metrics("title", Metrics({"eval/a": 1}, {"eval/b": "why", "eval/c": "other", "eval/d": "why"}), [])
    assert "eval/b, eval/d are left out: why\neval/c is left out: other\n" in capsys.readouterr().out


def test_settings_are_shown_with_their_source(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.show_config([ConfigLine("env.a", ODD, "default"), ConfigLine("openai.long_name", "", "my.yaml")])
    assert capsys.readouterr().out == f"env.a             {ODD}  [default]\nopenai.long_name    [my.yaml]\n"


def test_the_notice_of_stand_ins() -> None:
    assert terminal.offline_notice(["judge"]).startswith("The judge is an offline stand-in, ")
    assert terminal.offline_notice(["judge", "policy"]).startswith("The judge and the policy are ")
    assert terminal.offline_notice(["policy"]).endswith("these numbers are no benchmark result.")


@pytest.mark.parametrize(
    ("headline", "failures", "cost", "text"),
    [
        (0.5, 2, 0.126, "win rate 0.500, 2 failed, judge $0.13"),
        (0.5, 0, 0.0, "win rate 0.500"),
        (None, 1, 0.0, "1 failed"),
        (None, 0, 0.0, ""),
    ],
)
def test_a_line_of_progress_says_what_there_is_to_say(
    headline: float | None, failures: int, cost: float, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (line,) = steps(1, 0, capsys, headline, failures, cost)
    assert line.partition("rows/s")[2].removeprefix(", ") == text


def steps(
    total: int,
    done: int,
    capsys: pytest.CaptureFixture[str],
    headline: float | None = 1.0,
    failures: int = 0,
    cost: float = 0.0,
) -> list[str]:
    with ProgressDisplay(total) as display:
        display.begin_with(done)
        for rows in range(done + 1, total + 1):
            display.show(EvaluationProgress(rows, "win rate", headline, failures, cost))
    captured = capsys.readouterr()
    assert captured.out == "", "progress is no result"
    return captured.err.splitlines()


@pytest.mark.parametrize(
    ("total", "done", "shown"),
    [
        (500, 0, list(range(50, 501, 50))),
        (500, 260, [300, 350, 400, 450, 500]),
        (10, 0, list(range(1, 11))),
        (3, 0, [1, 2, 3]),
        (1, 0, [1]),
        (7, 7, []),
    ],
)
def test_without_a_terminal_there_is_a_line_at_each_tenth(
    total: int, done: int, shown: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = steps(total, done, capsys)
    assert [line.split(" rows, ")[0] for line in lines] == [f"{number}/{total}" for number in shown]
    assert all(line.endswith("rows/s, win rate 1.000") for line in lines)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_there_is_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    with ProgressDisplay(3) as display:
        display.begin_with(1)
        display.show(EvaluationProgress(2, "win rate", 0.25, 1, 0.0))
    shown = terminal.getvalue()
    assert "2/3" in shown
    assert "win rate 0.250, 1 failed" in shown


async def test_the_display_looks_for_itself_again_and_again_and_once_more_at_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_REFRESH_S", 0.0)
    looks, often = itertools.count(1), asyncio.Event()

    def look() -> EvaluationProgress:
        number = next(looks)
        if number == 5:
            often.set()
        return EvaluationProgress(min(number, 10), "win rate", None, 0, 0.0)

    with ProgressDisplay(10) as display, display.following(look):
        await asyncio.wait_for(often.wait(), 30)
        monkeypatch.setattr(progress, "_REFRESH_S", 1e6)
        shown_before = next(looks)
    assert next(looks) == shown_before + 2, "one look at the end"
    assert capsys.readouterr().err.startswith("1/10 rows")


async def test_rows_that_are_done_between_two_looks_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressDisplay(10) as display, display.following(lambda: EvaluationProgress(7, "win rate", 0.5, 0, 0.0)):
        pass
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("7/10 rows, ") and line.endswith("win rate 0.500")
