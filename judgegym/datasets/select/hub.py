"""A data set of the Hugging Face hub, to which a file and its card are pushed.

Guarantees: the token is that of HF_TOKEN or of a login, is never a flag, and is in no message. What is wrong (no token,
no network, no such organisation, a card of somebody else) is one line. File and card are one commit.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judgegym.datasets.select.card import not_ours
from judges.config.extras import needs
from judges.llm.errors import SettingsError, UserError

_CARD = "README.md"
_TOKEN = re.compile(r"hf_\w{4,}")
_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)
_LONGEST = 300


@dataclass(frozen=True, slots=True)
class Repository:
    """A data set of the hub.

    Attributes:
        name: `organisation/name`, or a name alone for the user's own.
        api: the hub's client.
    """

    name: str
    api: Any

    @classmethod
    def open(cls, name: str, file: str) -> Repository:
        """Look whether it can be written to, before anything is made.

        Args:
            name: the repository.
            file: the name of the file that will be pushed.

        Raises:
            SettingsError: the name is wrong, there is no token, or its card is somebody else's.
            UserError: the hub cannot be reached, or refuses.
        """
        with needs("data"):
            from huggingface_hub import HfApi, get_token  # late: an extra
        if not _NAME.fullmatch(name):
            raise SettingsError(f"--push_to_hub: expected a name or organisation/name, found {name}")
        if get_token() is None:
            raise SettingsError(
                "--push_to_hub: no token of the Hugging Face hub; set HF_TOKEN, or log in: hf auth login"
            )
        repository = cls(name, HfApi())
        with _in_one_line(name):
            card = repository._card()
        why = None if card is None else not_ours(card, file)
        if why is not None:
            raise SettingsError(f"--push_to_hub: {_CARD} of {name} {why}, and is not overwritten; push to another one")
        return repository

    def _card(self) -> str | None:
        """The card that is there; `None` without a repository or a card."""
        user = self.api.whoami()["name"]
        full = self.name if "/" in self.name else f"{user}/{self.name}"
        if not self.api.repo_exists(full, repo_type="dataset"):
            return None
        if not self.api.file_exists(full, _CARD, repo_type="dataset"):
            return None
        path = self.api.hf_hub_download(full, _CARD, repo_type="dataset", force_download=True)
        return Path(path).read_text("utf-8", errors="replace")

    def push(self, file: Path, card: Path, *, private: bool) -> str:
        """Push a file and its card; the repository is made if it is not there. Returns its address.

        Raises:
            UserError: the hub cannot be reached, or refuses.
        """
        from huggingface_hub import CommitOperationAdd

        with _in_one_line(self.name):
            made = self.api.create_repo(self.name, repo_type="dataset", private=private or None, exist_ok=True)
            self.api.create_commit(
                made.repo_id,
                [CommitOperationAdd(file.name, str(file)), CommitOperationAdd(_CARD, str(card))],
                commit_message=f"Add {file.name}, selected with JudgeGym",
                repo_type="dataset",
            )
        return str(made)


@contextmanager
def _in_one_line(name: str) -> Iterator[None]:
    """Say in one line what the hub's client says in many, and without the token."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # the client has errors of its own, of its HTTP library and of the system
        said = " ".join(str(error).split()) or type(error).__name__
        token = os.environ.get("HF_TOKEN")
        said = _TOKEN.sub("***", said.replace(token, "***") if token else said)
        raise UserError(f"--push_to_hub={name}: the hub refused, or cannot be reached: {said[:_LONGEST]}") from error
