"""The commands in the documents and presets: each one's words are understood."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from environments.command_line.program import VERBS
from judgegym._command.commands import COMMANDS
from judgegym._command.environments import load_environment
from judges.config.sources import load
from judges.server.presets import with_preset
from judges.server.settings.server import RewardServerSettings
from tests.command import ROOT, in_process

FOLDERS = ("docs", "judges", "environments", "eval_environments", "examples")
DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *(path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.md"))),
]
KEYS = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k", "OPENROUTER_API_KEY": "k"}


def commands_in(text: str) -> Iterator[list[str]]:
    """The words of each `judgegym …` in a block for the shell; a quoted value may have several lines."""
    for block in re.findall(r"^ *```bash\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
        line = ""
        for part in block.replace("\\\n", " ").splitlines():
            line += part + "\n"
            try:
                words = shlex.split(line, comments=True)
            except ValueError:  # a quotation is still open
                continue
            if words[:1] == ["judgegym"]:
                yield words[1:]
            line = ""


FOUND = [(path.relative_to(ROOT), words) for path in DOCUMENTS for words in commands_in(path.read_text())]


def test_documents_have_commands() -> None:
    assert {words[0] for _, words in FOUND} >= {"evaluate", "serve", "process", "judge-server"}


@pytest.mark.parametrize(("path", "words"), FOUND, ids=lambda value: str(value)[:60])
def test_command_in_a_document_is_understood(path: Path, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    command, *rest = words
    if command in VERBS:
        env_type = load_environment(rest[0])
        ended = in_process(command, *rest[1:], "--show_config", env_type=env_type, env=KEYS)
        assert ended.code == 0, ended.err
    elif command == "judge-server":
        load(RewardServerSettings, rest, prog=command, reshape=with_preset)
    else:
        COMMANDS[command].load().parser_of(command).parse_args(rest)
