"""What a door is: a way to a judge, with the settings of a judge in its own form."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.command import Ended, write_lines
from tests.conformance.doors.judges import QUESTIONS
from tests.scripted import ScriptedEndpoint

Scores = Sequence[float | None]
"""Of the right and of the wrong response."""
ROWS = tuple(
    {"uid": f"row-{number}", "prompt": question, "response": text}
    for number, (question, text) in enumerate(QUESTIONS.items())
)
"""The rows that are judged; policies answer with their responses."""


class RefusedError(Exception):
    """A door was not opened: the exit code of a command, 2 for an error in Python, and what was said."""

    def __init__(self, code: int, said: str) -> None:
        super().__init__(said)
        self.code, self.said = code, said


@dataclass(frozen=True)
class Visit:
    """What goes through a door.

    Attributes:
        folder: where the door writes.
        endpoint: of all models; `None` for the stand-in.
        settings: of the judge under test: `judge`, and the form in which it is asked.
    """

    folder: Path
    endpoint: ScriptedEndpoint | None
    settings: Mapping[str, Any]

    def data(self, rows: Sequence[Mapping[str, Any]] = ROWS) -> Path:
        """The rows as a file."""
        return write_lines(self.folder / "data.jsonl", rows)

    def flags(self, section: str = "--", **settings: Any) -> list[str]:
        """The settings of the judge as flags, with others in their place where there are any."""
        given = settings or self.settings
        return [f"{section}{name}={as_flag(value)}" for name, value in given.items()]

    def place(self, section: str = "--") -> list[str]:
        """Who is asked, as flags."""
        if self.endpoint is None:
            return ["--offline"]
        url = self.endpoint.base_url
        of_policy = (
            [] if section == "--" else [f"--openai.base_url={url}", f"{section}retry_delay=0"]
        )
        return [f"{section}judge_base_url={url}", f"{section}judge_max_retries=0", *of_policy]

    def fields(self) -> dict[str, Any]:
        """The settings with who is asked, by name."""
        if self.endpoint is None:
            return {**self.settings, "offline": True}
        return {**self.settings, "judge_base_url": self.endpoint.base_url, "judge_max_retries": 0}

    def of_gold(self) -> dict[str, Any]:
        """The settings as those of a gold judge, which inherits nothing but the stand-in."""
        return {name: value for name, value in self.fields().items() if name != "offline"}


def as_flag(value: object) -> str:
    """A value as it is typed."""
    return value if isinstance(value, str) else json.dumps(value)


def succeeded(ended: Ended) -> Ended:
    """A command that ended with 0.

    Raises:
        RefusedError: it did not.
    """
    if ended.code:
        raise RefusedError(ended.code, ended.err)
    return ended


@dataclass(frozen=True)
class Door:
    """A way to a judge.

    Attributes:
        name: of the row.
        judge: goes through it; returns the scores.
        is_dear: it takes more CPU than a test of the gate may.
        has_stand_in: it may be tried without an endpoint.
    """

    name: str
    judge: Callable[[Visit], Scores]
    is_dear: bool = False
    has_stand_in: bool = True
