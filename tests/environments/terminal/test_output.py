import pytest

from environments import terminal
from judges.config.sources import ConfigLine
from tests.environments.terminal.odd import ODD


def test_text_is_shown_as_it_is_results_and_messages_apart(capsys: pytest.CaptureFixture[str]) -> None:
    """No markup, no emoji, no colours, no line breaks: paths and endpoints' messages must survive."""
    result, message = (f"{ODD} {'word ' * 60}{end}" for end in ("result", "message"))
    terminal.say(result)
    terminal.warn(message)
    assert capsys.readouterr() == (f"{result}\n", f"{message}\n")


def test_settings_are_shown_with_their_source(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.show_config([ConfigLine("env.a", ODD, "default"), ConfigLine("openai.long_name", "", "my.yaml")])
    assert capsys.readouterr().out == f"env.a             {ODD}  [default]\nopenai.long_name    [my.yaml]\n"


def test_the_notice_of_stand_ins() -> None:
    assert terminal.offline_notice(["judge"]).startswith("The judge is an offline stand-in, ")
    assert terminal.offline_notice(["judge", "policy"]).startswith("The judge and the policy are ")
    assert terminal.offline_notice(["policy"]).endswith("these numbers are no benchmark result.")
