"""What is selected, written as a layout: JSONL or Parquet, by the ending of the file.

Guarantees: the file is written as a whole or not at all; the same selection gives the same bytes.
Rows are read and written piece by piece, so that memory does not grow with them.

A data set of the Hugging Face hub, to which a file and its card are pushed.

Guarantees: the token is that of HF_TOKEN or of a login, is never a flag, and is in no message. What
is wrong (no token, no network, no such organisation, a card of somebody else) is one line. File and
card are one commit.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from judgegym.datasets.files.columns import is_parquet
from judgegym.datasets.files.parquet import encode_tables
from judgegym.datasets.select.candidates import ResponseCandidate, ScoredTexts
from judgegym.datasets.select.card import not_ours
from judgegym.datasets.select.layouts import OutputRow, Rows
from judgegym.datasets.select.options import CARD, SelectOptions
from judgegym.datasets.select.selection import Selection
from judgegym.engine.runs.disk import Content, write_atomic
from judgegym.judges.config.extras import needs
from judgegym.llm import wire
from judgegym.llm.errors import SettingsError, UserError

_AT_ONCE = 500
"""Rows of Parquet that are in memory together: a row group."""


def picked(texts: ScoredTexts, selection: Selection, options: SelectOptions) -> Iterator[OutputRow]:
    """What is selected, with its texts, in the order of the prompts; of labelled pairs both responses, one by one."""
    for number, (better, worse) in enumerate(selection.pairs):
        chosen, rejected = _output(texts, better, number), _output(texts, worse, number)
        if options.both_labelled:
            yield replace(chosen, number=2 * number)
            yield replace(rejected, number=2 * number + 1, label=False, source=chosen.source)
        else:
            yield replace(chosen, rejected=rejected.response, rejected_score=rejected.score)
    for number, single in enumerate(selection.singles):
        is_good = options.rule.take != "labels" or options.rule.is_good(single)
        yield replace(_output(texts, single, number), label=is_good)


def _output(texts: ScoredTexts, candidate: ResponseCandidate, number: int) -> OutputRow:
    """A response with its texts."""
    scored, answered = texts.read(candidate.row)
    response, score = answered.answers[candidate.number], scored.score[candidate.number]
    return OutputRow(
        number, scored.row.place, answered.turns, response, source=scored.row.values, score=score
    )


def replace_file(path: Path, content: Content) -> None:
    """Write a file as a whole; the folder is made if it is not there.

    Raises:
        UserError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, content)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from error


def write_rows(path: Path, rows: Rows, content: Iterator[OutputRow]) -> None:
    """Write the rows of a file.

    Raises:
        DataError: a text is asked for, and there are several turns.
        UserError: the file cannot be written.
    """
    parts = _parquet if is_parquet(path) else _lines
    replace_file(path, lambda: parts(rows, content))


def _lines(rows: Rows, content: Iterator[OutputRow]) -> Iterator[bytes]:
    return (wire.dumps(rows.row(each)) + b"\n" for each in content)


def _parquet(rows: Rows, content: Iterator[OutputRow]) -> Iterator[bytes]:
    import pyarrow  # late: an extra

    schema = rows.schema()
    groups = iter(lambda: [rows.row(each) for each in islice(content, _AT_ONCE)], [])
    return encode_tables(
        schema, (pyarrow.Table.from_pylist(group, schema=schema) for group in groups)
    )


_TOKEN = re.compile(r"hf_\w{4,}")
_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)
_LONGEST = 300


def open_repository(name: str, file: str, *, private: bool) -> Any:
    """Look whether a data set of the hub can be written to, before anything is made; return the hub's client.

    Args:
        name: `organisation/name`, or a name alone for the user's own.
        file: the name of the file that will be pushed.
        private: it must not be a public one.

    Raises:
        SettingsError: the name is wrong, there is no token, its card is somebody else's, or it is
            public.
        UserError: the hub cannot be reached, or refuses.
    """
    with needs("data"):
        from huggingface_hub import HfApi, get_token  # late: an extra
    if not _NAME.fullmatch(name):
        raise SettingsError(f"--push_to_hub: expected a name or organisation/name, found {name}")
    if get_token() is None:
        raise SettingsError(
            "--push_to_hub: no token of the Hugging Face hub; set HF_TOKEN, or log in: hf auth "
            "login"
        )
    api = HfApi()
    with _in_one_line(name):
        whole = name if "/" in name else f"{api.whoami()['name']}/{name}"
        is_there = api.repo_exists(whole, repo_type="dataset")
        is_public = is_there and not api.dataset_info(whole).private
        card = None
        if is_there and api.file_exists(whole, CARD, repo_type="dataset"):
            path = api.hf_hub_download(whole, CARD, repo_type="dataset", force_download=True)
            card = Path(path).read_text("utf-8", errors="replace")
    why = None if card is None else not_ours(card, file)
    if why is not None:
        raise SettingsError(
            f"--push_to_hub: {CARD} of {name} {why}, and is not overwritten; push to another one"
        )
    if private and is_public:
        raise SettingsError(f"--private: {name} is there, and is public; push to another one")
    return api


def push(api: Any, name: str, file: Path, card: Path, *, private: bool) -> str:
    """Push a file and its card by the hub's client; the repository is made if it is not there. Returns its address.

    Raises:
        UserError: the hub cannot be reached, or refuses.
    """
    from huggingface_hub import CommitOperationAdd

    with _in_one_line(name):
        made = api.create_repo(name, repo_type="dataset", private=private or None, exist_ok=True)
        api.create_commit(
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
    except (
        Exception
    ) as error:  # the client has errors of its own, of its HTTP library and of the system
        said = " ".join(str(error).split()) or type(error).__name__
        token = os.environ.get("HF_TOKEN")
        said = _TOKEN.sub("***", said.replace(token, "***") if token else said)
        raise UserError(
            f"--push_to_hub={name}: the hub refused, or cannot be reached: {said[:_LONGEST]}"
        ) from error
