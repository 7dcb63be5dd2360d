"""The commands of this package: `judgegym --help` imports this module, so it imports nothing else."""

from judgegym.cli import Command

BEST = Command(
    "print the best answers of a run", "haiku_plugin.best", "RUN [COUNT]", "finished runs"
)
