"""The commands of this package; `judgegym --help` imports this module, so keep it small."""

from judgegym.cli import Command

BEST = Command(
    "print the best answers of a run", "haiku_plugin.best", "RUN [COUNT]", "finished runs"
)
