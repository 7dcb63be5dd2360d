"""The command that goes on with a run, to be pasted; it holds no secrets."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from judgegym.datasets.score.settings import ScoreSettings
from judgegym.environments.command_line.resume import without_secrets

_RESUME = ("--resume", "--no-resume")


def resume_command(settings: ScoreSettings, command: Sequence[str], *more: str) -> str:
    """The command that was given, with `--resume`.

    Args:
        settings: of the run.
        command: the words of the command, as the user gave them.
        more: further words.
    """
    words, hint = without_secrets(settings, command)
    kept = [word for word in words if word.partition("=")[0] not in _RESUME]
    return f"{shlex.join([*kept, '--resume', *more])}{hint}"
