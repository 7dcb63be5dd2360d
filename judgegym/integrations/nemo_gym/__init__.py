"""NeMo Gym: a resources server that is the reward server, to be spawned by `gym env start` or reached over HTTP.

    python -m judgegym.integrations.nemo_gym          # puts resources_servers/judgegym into the current folder

`resources_server` has the class that NeMo Gym runs; it alone imports NeMo Gym. `put` copies the server's folder to
where `gym` looks for it: in the current folder first, then beside NeMo Gym. `gym env start` makes a virtual environment
in it from `requirements.txt`. The copy therefore requires the JudgeGym that wrote it: the same files, where it was
installed from a folder, or the same version.

Source: nemo-gym 0.4.0 (`cli/env.py`, `cli/setup_command.py`).
"""

from __future__ import annotations

import shutil
from pathlib import Path

from judgegym.judges.config.extras import requirement
from judgegym.llm.errors import SettingsError

TEMPLATE = Path(__file__).parent / "resources_servers" / "judgegym"
"""The folder as it is in this package."""
_REQUIREMENT = "judgegym[server]"


def put(place: Path) -> Path:
    """Copy the server's folder.

    Args:
        place: the folder of a NeMo Gym project, or a checkout of NeMo Gym.

    Returns:
        The copy: `place/resources_servers/judgegym`.

    Raises:
        SettingsError: there is no such place, or it has a server of this name.
    """
    if not place.is_dir():
        raise SettingsError(f"{place} is no folder; expected the one in which `gym` is called")
    target = place / "resources_servers" / TEMPLATE.name
    if target.exists():
        raise SettingsError(f"{target} is there already: remove it first, its changes would be lost")
    shutil.copytree(TEMPLATE, target, ignore=shutil.ignore_patterns("__pycache__", ".venv", ".pytest_cache"))
    requirements = target / "requirements.txt"
    lines = [requirement("server") if line == _REQUIREMENT else line for line in requirements.read_text().splitlines()]
    requirements.write_text("\n".join(lines) + "\n")
    return target
