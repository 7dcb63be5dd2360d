"""The command that adds an extra fits how this package was installed: no index has it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judgegym.judges.config import extras
from judgegym.judges.config.extras import build_requirement, install_command

CHECKOUT = Path(__file__).parents[4]


class Distribution:
    version = "1.2.3"

    def __init__(self, origin: object) -> None:
        self.origin = origin

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return None if self.origin is None else json.dumps(self.origin)


@pytest.mark.parametrize(
    ("origin", "wanted", "command"),
    [
        (
            {"url": CHECKOUT.as_uri(), "dir_info": {"editable": True}},
            f"judgegym[data] @ {CHECKOUT.as_uri()}",
            f"pip install -e '{CHECKOUT}[data]'",
        ),
        (
            {"url": "file:///tmp", "dir_info": {}},
            "judgegym[data] @ file:///tmp",
            "pip install '/tmp[data]'",
        ),
        (
            {"url": "file:///no/such/judgegym-1-py3-none-any.whl", "archive_info": {}},
            "judgegym[data] @ file:///no/such/judgegym-1-py3-none-any.whl",
            "pip install 'judgegym[data] @ file:///no/such/judgegym-1-py3-none-any.whl'",
        ),
        (
            {
                "url": "https://user:secret@host/r.git",
                "vcs_info": {"vcs": "git", "commit_id": "abc"},
            },
            "judgegym[data] @ git+https://host/r.git@abc",
            "pip install 'judgegym[data] @ git+https://host/r.git@abc'",
        ),
        (None, "judgegym[data]==1.2.3", "pip install 'judgegym[data]==1.2.3'"),
    ],
)
def test_the_command_installs_from_where_this_came(
    origin: object, wanted: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "distribution", lambda name: Distribution(origin))
    if origin is None or not str(origin).startswith(f"{{'url': '{CHECKOUT.as_uri()}'"):
        monkeypatch.setattr(extras, "_CHECKOUT", Path("/site-packages"))
    assert (build_requirement("data"), install_command("data")) == (wanted, command)


def test_a_checkout_names_itself_however_it_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        extras, "distribution", lambda name: Distribution(None)
    )  # its egg-info, on PYTHONPATH
    assert install_command("data") == f"pip install -e '{CHECKOUT}[data]'"
