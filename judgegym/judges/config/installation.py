"""How this package was installed, and so how an extra of it is added: no package index has it under its name.

Source: PEP 610, Recording the Direct URL Origin of installed distributions (`direct_url.json`).
"""

from __future__ import annotations

import json
import shlex
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from judgegym.llm.urls import without_credentials

_NAME = "judgegym"
_CHECKOUT = Path(__file__).parents[3]


def requirement(extra: str) -> str:
    """What makes pip install this JudgeGym with an extra, also into another environment (PEP 508)."""
    name = f"{_NAME}[{extra}]"
    if (_CHECKOUT / "pyproject.toml").is_file():
        return f"{name} @ {_CHECKOUT.as_uri()}"
    try:
        installed = distribution(_NAME)
    except PackageNotFoundError:  # a copy of the modules alone
        return name
    origin = json.loads(installed.read_text("direct_url.json") or "{}")
    url = without_credentials(str(origin.get("url", "")))
    vcs = origin.get("vcs_info", {})
    if vcs:
        return f"{name} @ {vcs.get('vcs', 'git')}+{url}@{vcs.get('requested_revision') or vcs.get('commit_id', '')}"
    return f"{name} @ {url}" if url else f"{name}=={installed.version}"


def install_command(extra: str) -> str:
    """The command that adds an extra to this installation; of a checkout, for the same checkout."""
    wanted = requirement(extra)
    _, _, url = wanted.partition(" @ ")
    parts = urlsplit(url)
    folder = Path(url2pathname(parts.path)) if parts.scheme == "file" else None
    if folder is None or not folder.is_dir():
        return f"pip install {shlex.quote(wanted)}"
    return f"pip install {'-e ' if folder == _CHECKOUT else ''}{shlex.quote(f'{folder}[{extra}]')}"
