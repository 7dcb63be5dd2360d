"""What is selected, written as a layout: JSONL or Parquet, by the ending of the file.

Guarantees: the file is written as a whole or not at all; the same selection gives the same bytes. Rows are read and
written piece by piece, so that memory does not grow with them.

A data set of the Hugging Face hub, to which a file and its card are pushed.

Guarantees: the token is that of HF_TOKEN or of a login, is never a flag, and is in no message. What is wrong (no token,
no network, no such organisation, a card of somebody else) is one line. File and card are one commit.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from judgegym.datasets.files.columns import is_parquet
from judgegym.datasets.files.parquet import parts_of_tables
from judgegym.datasets.select.candidates import Candidates, ScoredTexts
from judgegym.datasets.select.card import not_ours
from judgegym.datasets.select.layouts import OutputRow, Rows
from judgegym.datasets.select.options import CARD
from judgegym.datasets.select.rules import Labels, Rule, is_below
from judgegym.datasets.select.selection import Selection
from judgegym.engine.runs.disk import write_atomic
from judgegym.judges.config.extras import needs
from judgegym.llm import wire
from judgegym.llm.errors import SettingsError, UserError

_AT_ONCE = 500
"""Rows of Parquet that are in memory together: a row group."""


def picked(texts: ScoredTexts, candidates: Candidates, selection: Selection, rule: Rule) -> Iterator[OutputRow]:
    """What is selected, with its texts, in the order of the prompts."""
    for number, (chosen, rejected) in enumerate(zip(selection.chosen, selection.rejected, strict=True)):
        row, response = candidates.row(chosen)
        scored, answered = texts.read(row)
        worse_row, worse = candidates.row(rejected)
        worse_scored, other = texts.read(worse_row)
        yield OutputRow(
            number,
            scored.row.place,
            answered.prompt,
            answered.responses[response],
            other.responses[worse],
            source=scored.row.values,
            score=scored.score[response],
            rejected_score=worse_scored.score[worse],
        )
    for number, place in enumerate(selection.singles):
        row, response = candidates.row(place)
        scored, answered = texts.read(row)
        label = not (isinstance(rule, Labels) and is_below(candidates.candidate(place), rule.score))
        yield OutputRow(
            number,
            scored.row.place,
            answered.prompt,
            answered.responses[response],
            label=label,
            source=scored.row.values,
            score=scored.score[response],
        )


def each_labelled(pairs: Iterator[OutputRow]) -> Iterator[OutputRow]:
    """Both responses of each pair, with a label."""
    for number, pair in enumerate(pairs):
        yield replace(pair, number=2 * number, rejected=())
        yield replace(
            pair,
            number=2 * number + 1,
            response=pair.rejected,
            rejected=(),
            label=False,
            score=pair.rejected_score,
        )


def write_rows(path: Path, rows: Rows, content: Iterator[OutputRow]) -> int:
    """Write them; the folder is made if it is not there. Returns how many rows were written.

    Raises:
        DataError: a text is asked for, and there are several turns.
        UserError: the file cannot be written.
    """
    written = 0

    def counted() -> Iterator[OutputRow]:
        nonlocal written
        for each in content:
            written += 1
            yield each

    parts = _parquet if is_parquet(path) else _lines
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, lambda: parts(rows, counted()))
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from error
    return written


def _lines(rows: Rows, content: Iterator[OutputRow]) -> Iterator[bytes]:
    return (wire.dumps(rows.row(each)) + b"\n" for each in content)


def _parquet(rows: Rows, content: Iterator[OutputRow]) -> Iterator[bytes]:
    import pyarrow  # late: an extra

    schema = rows.schema()
    groups = iter(lambda: [rows.row(each) for each in islice(content, _AT_ONCE)], [])
    return parts_of_tables(schema, (pyarrow.Table.from_pylist(group, schema=schema) for group in groups))


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
    def open(cls, name: str, file: str, *, private: bool) -> Repository:
        """Look whether it can be written to, before anything is made.

        Args:
            name: the repository.
            file: the name of the file that will be pushed.
            private: it must not be a public one.

        Raises:
            SettingsError: the name is wrong, there is no token, its card is somebody else's, or it is public.
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
            is_public, card = repository._there()
        why = None if card is None else not_ours(card, file)
        if why is not None:
            raise SettingsError(f"--push_to_hub: {CARD} of {name} {why}, and is not overwritten; push to another one")
        if private and is_public:
            raise SettingsError(f"--private: {name} is there, and is public; push to another one")
        return repository

    def _there(self) -> tuple[bool, str | None]:
        """Whether there is a public repository, and the card that it has."""
        name = self.name if "/" in self.name else f"{self.api.whoami()['name']}/{self.name}"
        if not self.api.repo_exists(name, repo_type="dataset"):
            return False, None
        is_public = not self.api.dataset_info(name).private
        if not self.api.file_exists(name, CARD, repo_type="dataset"):
            return is_public, None
        path = self.api.hf_hub_download(name, CARD, repo_type="dataset", force_download=True)
        return is_public, Path(path).read_text("utf-8", errors="replace")

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
                [CommitOperationAdd(file.name, str(file)), CommitOperationAdd(CARD, str(card))],
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
