import logging
import re

import pytest

from judgegym.engine import terminal
from judgegym.judges.config.sources import ConfigLine
from tests.engine.terminal.odd import ODD


def test_text_is_shown_as_it_is_results_and_messages_apart(capsys: pytest.CaptureFixture[str]) -> None:
    """No markup, no emoji, no colours, no line breaks: paths and endpoints' messages must survive."""
    result, message = (f"{ODD} {'word ' * 60}{end}" for end in ("result", "message"))
    terminal.say(result)
    terminal.warn(message)
    assert capsys.readouterr() == (f"{result}\n", f"{message}\n")


HOSTILE = "a\x1b]0;title\x07\x1b[31mred\x9b2J\u202eright\u2066\x00\x08\udc80\rover"
HARMLESS = "a�]0;title��[31mred�2J�right�����over"


@pytest.mark.parametrize("is_terminal", [False, True])
def test_no_text_gives_the_terminal_a_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    if is_terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes it for a terminal
    terminal.say(f"{HOSTILE}\r\n\tnext")
    terminal.warn(HOSTILE)
    terminal.console().print(HOSTILE)
    terminal.show_table(terminal.Table(HOSTILE, (HOSTILE, "b"), ((HOSTILE, HOSTILE),)))
    out, err = capsys.readouterr()
    assert out.startswith(f"{HARMLESS}\r\n\tnext\n") and err == f"{HARMLESS}\n"
    assert "\x1b[31m" not in out and "\x1b]" not in out
    drawn = re.sub(r"\x1b\[[0-9;]*m", "", out)  # rich's own styles
    assert not re.search(r"[\x00\x07\x08\x1b\x9b\u202e\u2066\udc80]|\r(?!\n)", drawn)


def test_a_record_of_the_log_gives_the_terminal_no_command() -> None:
    record = logging.LogRecord("judgegym", logging.WARNING, __file__, 1, "an endpoint said %s", (HOSTILE,), None)
    assert terminal.LogFormatter().format(record).endswith(f"WARNING an endpoint said {HARMLESS}")


def test_settings_are_shown_with_their_source(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.show_config([ConfigLine("env.a", ODD, "default"), ConfigLine("openai.long_name", "", "my.yaml")])
    assert capsys.readouterr().out == f"env.a             {ODD}  [default]\nopenai.long_name    [my.yaml]\n"


def test_the_notice_of_stand_ins() -> None:
    assert terminal.offline_notice(["judge"]).startswith("The judge is an offline stand-in, ")
    assert terminal.offline_notice(["judge", "policy"]).startswith("The judge and the policy are ")
    assert terminal.offline_notice(["policy"]).endswith("these numbers are no benchmark result.")
