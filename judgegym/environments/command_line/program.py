"""The typed command and its program, for usage, messages, and commands to paste."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # it is imported with all settings, and help comes at once
    from judgegym.engine.settings.verbs import Verb

VERBS: Mapping[Verb, str] = {
    "evaluate": "Score a policy and print benchmark numbers.",
    "serve": "Send judged rollouts to a trainer, over the Atropos rollout API.",
    "process": "Write judged rollouts to a file.",
}


@dataclass(frozen=True, slots=True)
class Program:
    """The words around the verb.

    `python arena_hard_environment.py VERB …`, or `judgegym VERB arena_hard …`.


    Attributes:
        shown: the words before the verb, for messages.
        started: the words before the verb that start the same program again.
        environment: the words between the verb and the settings.
    """

    shown: tuple[str, ...]
    started: tuple[str, ...]
    environment: tuple[str, ...] = ()

    @classmethod
    def from_script(cls) -> Program:
        """Return the script of this process."""
        return cls(("python", sys.argv[0]), (sys.executable, sys.argv[0]))

    @property
    def name(self) -> str:
        """Name of the program, for messages."""
        return shlex.join(self.shown)

    def usage(self, verb: str) -> str:
        """Return the command without its settings, for usage and messages."""
        return shlex.join([*self.shown, verb, *self.environment])


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A typed command: the program, the verb and the words of the settings."""

    program: Program
    verb: Verb
    settings: Sequence[str]

    def format_command(self, settings: Sequence[str]) -> str:
        """Return the same command with other settings, to paste."""
        return shlex.join([*self.program.started, self.verb, *self.program.environment, *settings])
