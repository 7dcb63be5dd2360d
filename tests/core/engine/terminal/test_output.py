"""How commands over finished runs end.

Tables on terminals that are too narrow for them.
"""

from __future__ import annotations

import logging
import re

import pytest

from judgegym.engine import terminal
from judgegym.engine.terminal.output import LogFormatter, Table, show_table
from judgegym.judges.config.exit_code import exit_code
from judgegym.judges.config.extras import install_command
from judgegym.judges.config.sources import ConfigLine
from tests.core.engine.terminal.odd import ODD
from tests.core.engine.terminal.screen import screen


def test_text_is_shown_as_it_is_results_and_messages_apart(
    capsys: pytest.CaptureFixture[str],
) -> None:
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
    record = logging.LogRecord(
        "judgegym", logging.WARNING, __file__, 1, "an endpoint said %s", (HOSTILE,), None
    )
    assert (
        LogFormatter("%(levelname)s %(message)s")
        .format(record)
        .endswith(f"WARNING an endpoint said {HARMLESS}")
    )


def test_settings_are_shown_with_their_source(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.show_config(
        [ConfigLine("env.a", ODD, "default"), ConfigLine("openai.long_name", "", "my.yaml")]
    )
    assert (
        capsys.readouterr().out
        == f"env.a             {ODD}  [default]\nopenai.long_name    [my.yaml]\n"
    )


def test_a_missing_extra_is_named_with_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> int:
        raise ModuleNotFoundError("No module named 'scipy.stats'", name="scipy.stats")

    assert exit_code(command) == 2
    assert capsys.readouterr().err == f"scipy is not installed: {install_command('environments')}\n"


def test_another_missing_module_is_a_fault_of_the_program() -> None:
    def command() -> int:
        raise ModuleNotFoundError("No module named 'nothing'", name="nothing")

    with pytest.raises(ModuleNotFoundError):
        exit_code(command)


NAME = "a-name-that-is-longer-than-the-terminal-is-wide-" * 2


@pytest.mark.parametrize("one_line", [True, False])
def test_long_name_is_cut_or_folded(monkeypatch: pytest.MonkeyPatch, one_line: bool) -> None:
    out = screen(monkeypatch, "stdout", width=60)
    show_table(Table("Title", ("name", "number"), ((NAME, "123456.789"),), one_line=one_line))
    drawn = [line for line in out.getvalue().splitlines() if "│" in line]
    assert (len(drawn) == 1) is one_line
    assert "123456.789" in drawn[0], "numbers are whole"
    assert ("…" in drawn[0]) is one_line
