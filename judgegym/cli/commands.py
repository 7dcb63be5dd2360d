"""The commands of `judgegym`, what each is for, and the module that it is imported from when it is called."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:  # help comes without it
    import argparse


class CommandModule(Protocol):
    """What the module of a command offers; those of an environment's verbs take the environment beside it."""

    def main(self, argv: Sequence[str], *, prog: str) -> int:
        """Run the command."""

    def parser_of(self, prog: str) -> argparse.ArgumentParser:
        """Its arguments, for completion."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    Attributes:
        group: the heading under which the overview lists it.
        words: what follows its name, for the overview.
        about: what it does, in a few words.
        module: where its `main` and `parser_of` are; empty for the verbs of an environment.
    """

    group: str
    words: str
    about: str
    module: str = ""

    def load(self) -> CommandModule:
        """Import its module."""
        return cast(CommandModule, importlib.import_module(self.module))


_ENVIRONMENTS, _DATA, _RUNS, _SERVERS, _SHELL = "environments", "data sets", "finished runs", "servers", "shell"
COMMANDS: Mapping[str, Command] = {
    "list": Command(_ENVIRONMENTS, "[ENV …]", "show environments, and what each needs", "judgegym.cli.listing"),
    "evaluate": Command(_ENVIRONMENTS, "ENV …", "score a policy and print benchmark numbers"),
    "serve": Command(_ENVIRONMENTS, "ENV …", "send judged rollouts to a trainer"),
    "process": Command(_ENVIRONMENTS, "ENV …", "write judged rollouts to a file"),
    "score": Command(_DATA, "DATA --out FILE …", "judge the rows of a data set", "judgegym.datasets.score.command"),
    "select": Command(_DATA, "SCORED --out FILE", "take the best rows, or pairs", "judgegym.datasets.select.command"),
    "report": Command(_RUNS, "RUN", "write the page of a run, report.html", "judgegym.reports.run_page.command"),
    "compare": Command(_RUNS, "RUN RUN …", "compare runs on the rows they share", "judgegym.reports.compare.command"),
    "view": Command(_RUNS, "FOLDER", "show all runs of a folder in a browser", "judgegym.reports.view.command"),
    "repair": Command(_RUNS, "RUN", "keep what can be read of a damaged run", "judgegym.cli.repair"),
    "judge-server": Command(_SERVERS, "…", "serve judges to trainers over HTTP", "judgegym.server.command"),
    "offline-server": Command(_SERVERS, "…", "serve the stand-in for policy and judge", "judgegym.offline.command"),
    "completion": Command(_SHELL, "SHELL", "complete judgegym in bash, zsh or fish", "judgegym.cli.completion"),
}
