"""`python -m judgegym_trainers.nemo_gym [FOLDER]`: install our server into a NeMo Gym project.

The command writes `resources_servers/judgegym`.

Exit codes: 0, or 2 if the folder cannot be written there.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from judgegym.judges.config.exit_code import BAD_INPUT
from judgegym.judges.config.extras import build_requirement
from judgegym.judges.config.one_line_parser import OneLineParser
from judgegym.llm.errors import SettingsError

TEMPLATE = Path(__file__).parent / "resources_servers" / "judgegym"
"""The server's folder in this package."""
_REQUIREMENT = "judgegym[server]"
_ENVIRONMENT_SERVERS = "environment_servers"
"""The folder of NeMo Gym 0.7 with the servers in front of an agent; older versions lack it."""
_FROM_0_7 = "\n# From 0.7 on"
"""Start of the last part of each configuration, which needs a NeMo Gym with environment servers."""


def copy_server_folder(folder: Path) -> Path:
    """Copy the server's folder.

    Args:
        folder: the folder of a NeMo Gym project, or a checkout of NeMo Gym.

    Returns:
        The copy: `place/resources_servers/judgegym`.

    Raises:
        SettingsError: there is no such folder, or it has a server of this name.
    """
    if not folder.is_dir():
        raise SettingsError(f"{folder} is not a folder; expected the one where you call `gym`")
    target = folder / "resources_servers" / TEMPLATE.name
    if target.exists():
        raise SettingsError(
            f"{target} exists already; remove it first (your changes in it would be lost)"
        )
    shutil.copytree(
        TEMPLATE, target, ignore=shutil.ignore_patterns("__pycache__", ".venv", ".pytest_cache")
    )
    requirements = target / "requirements.txt"
    lines = [
        build_requirement("server") if line == _REQUIREMENT else line
        for line in requirements.read_text().splitlines()
    ]
    requirements.write_text("\n".join(lines) + "\n")
    if not _has_environment_servers(folder):
        for config in (target / "configs").glob("*.yaml"):
            config.write_text(
                config.read_text(encoding="utf-8").partition(_FROM_0_7)[0], encoding="utf-8"
            )
    return target


def _has_environment_servers(folder: Path) -> bool:
    """Return whether NeMo Gym, in this checkout or installed, has environment servers.

    True if there is no NeMo Gym.
    """
    if (folder / "nemo_gym").is_dir():
        return (folder / _ENVIRONMENT_SERVERS).is_dir()
    return find_spec("nemo_gym") is None or find_spec(_ENVIRONMENT_SERVERS) is not None


_NEXT_STEPS = """{target}
  spawned:   gym env start --resources-server judgegym --model-type … ++judge_base_url=…
  external:  judgegym judge-server --for nemo_gym …
             gym env start --resources-server judgegym/external --model-type …
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Copy the folder, and print the next steps.

    Args:
        argv: the words after the program's name; the process's own by default.

    Returns:
        The exit code.
    """
    parser = OneLineParser(
        "python -m judgegym_trainers.nemo_gym",
        "Put the resources server `judgegym` into a NeMo Gym project.",
    )
    parser.add_argument(
        "folder", nargs="?", type=Path, default=Path(), help="where `gym` is called; default: here"
    )
    try:
        target = copy_server_folder(parser.parse_args(argv).folder)
    except (SettingsError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return BAD_INPUT
    sys.stdout.write(_NEXT_STEPS.format(target=target))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
