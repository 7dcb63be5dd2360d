"""Commands of this package, each named by an entry point in `pyproject.toml`.

`judgegym --help` imports this module, so it imports nothing else.
"""

from judgegym.cli import Command

_GROUP = "judges on trial"

AUDIT = Command("check a judge on labelled rows", "judgegym_trials.audit.command", "DATA", _GROUP)
ATTACK = Command(
    "find texts that score high without answering",
    "judgegym_trials.attacks.command",
    "DATA --out DIR …",
    _GROUP,
)
LABEL = Command("label rows of a run by hand", "judgegym_trials.labelling.command", "RUN", _GROUP)
REPLAY = Command(
    "try juries and cascades on finished runs",
    "judgegym_trials.replay.command",
    "RUN RUN …",
    _GROUP,
)
