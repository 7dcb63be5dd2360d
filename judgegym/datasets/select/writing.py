"""Write a selection as JSONL or Parquet, and push it to the Hugging Face hub.

Guarantees: the file is written as a whole or not at all. The same selection gives the same bytes.
Rows are read and written in parts, so that memory does not grow with them.

Guarantees for the hub: the token comes from HF_TOKEN or a login, is never a flag, and is in no
message. Errors (no token, no network, no such organisation, a card of somebody else) are one line.
File and card are one commit.
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
from judgegym.datasets.select.card import explain_foreign_card
from judgegym.datasets.select.layouts import OutputRow, RowFormatter
from judgegym.datasets.select.options import CARD, SelectOptions
from judgegym.datasets.select.selection import Selection
from judgegym.engine.runs.disk import Content, write_atomic
from judgegym.judges.config.extras import report_missing_extra
from judgegym.llm import wire
from judgegym.llm.errors import SettingsError, UserError

_AT_ONCE = 500
"""Rows of Parquet that are in memory at once: a row group."""


def iter_output_rows(
    texts: ScoredTexts, selection: Selection, options: SelectOptions
) -> Iterator[OutputRow]:
    """Yield the output rows in the order of the prompts; labelled pairs give two rows."""
    for number, (better, worse) in enumerate(selection.pairs):
        chosen = _make_output_row(texts, better, number)
        rejected = _make_output_row(texts, worse, number)
        if options.both_labelled:
            yield replace(chosen, number=2 * number)
            yield replace(rejected, number=2 * number + 1, label=False, source=chosen.source)
        else:
            yield replace(chosen, rejected=rejected.response, rejected_score=rejected.score)
    for number, single in enumerate(selection.singles):
        is_good = options.rule.take != "labels" or options.rule.is_good(single)
        yield replace(_make_output_row(texts, single, number), label=is_good)


def _make_output_row(texts: ScoredTexts, candidate: ResponseCandidate, number: int) -> OutputRow:
    """Return a response with its texts."""
    scored, responses = texts.read(candidate.row)
    response, score = responses.response_turns[candidate.number], scored.score[candidate.number]
    return OutputRow(
        number, scored.row.place, responses.turns, response, source=scored.row.values, score=score
    )


def replace_file(path: Path, content: Content) -> None:
    """Write a file as a whole, and create its folder if it is missing.

    Raises:
        UserError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, content)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from error


def write_rows(path: Path, rows: RowFormatter, content: Iterator[OutputRow]) -> None:
    """Write the rows of a file.

    Raises:
        DataError: a text is required, but there are several turns.
        UserError: the file cannot be written.
    """
    encode = _encode_parquet if is_parquet(path) else _encode_lines
    replace_file(path, lambda: encode(rows, content))


def _encode_lines(rows: RowFormatter, content: Iterator[OutputRow]) -> Iterator[bytes]:
    return (wire.dumps(rows.row(output_row)) + b"\n" for output_row in content)


def _encode_parquet(rows: RowFormatter, content: Iterator[OutputRow]) -> Iterator[bytes]:
    import pyarrow  # late: an extra

    schema = rows.schema()
    groups = iter(lambda: [rows.row(output_row) for output_row in islice(content, _AT_ONCE)], [])
    return encode_tables(
        schema, (pyarrow.Table.from_pylist(group, schema=schema) for group in groups)
    )


_TOKEN = re.compile(r"hf_\w{4,}")
_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)
_LONGEST = 300


def open_repository(name: str, file: str, *, private: bool) -> Any:
    """Check that a data set of the hub can be written, before any work; return the hub's client.

    Args:
        name: `organisation/name`, or a name alone for the user's own.
        file: the name of the file that will be pushed.
        private: the data set must not be public.

    Raises:
        SettingsError: the name is wrong, there is no token, the card is somebody else's, or the
            data set is public.
        UserError: the hub cannot be reached, or refuses.
    """
    with report_missing_extra("data"):
        from huggingface_hub import HfApi, get_token  # late: an extra
    if not _NAME.fullmatch(name):
        raise SettingsError(f"--push_to_hub: expected a name or organisation/name, found {name}")
    if get_token() is None:
        raise SettingsError(
            "--push_to_hub: no token of the Hugging Face hub; set HF_TOKEN, or log in: hf auth "
            "login"
        )
    api = HfApi()
    with _one_line_errors(name):
        full_name = name if "/" in name else f"{api.whoami()['name']}/{name}"
        exists = api.repo_exists(full_name, repo_type="dataset")
        is_public = exists and not api.dataset_info(full_name).private
        card = None
        if exists and api.file_exists(full_name, CARD, repo_type="dataset"):
            path = api.hf_hub_download(full_name, CARD, repo_type="dataset", force_download=True)
            card = Path(path).read_text("utf-8", errors="replace")
    why = None if card is None else explain_foreign_card(card, file)
    if why is not None:
        raise SettingsError(
            f"--push_to_hub: {CARD} of {name} {why}, and is not overwritten; push to another one"
        )
    if private and is_public:
        raise SettingsError(f"--private: {name} is there, and is public; push to another one")
    return api


def push(api: Any, name: str, file: Path, card: Path, *, private: bool) -> str:
    """Push a file and its card; create the repository if it is missing; return its address.

    Raises:
        UserError: the hub cannot be reached, or refuses.
    """
    from huggingface_hub import CommitOperationAdd

    with _one_line_errors(name):
        repository = api.create_repo(
            name, repo_type="dataset", private=private or None, exist_ok=True
        )
        api.create_commit(
            repository.repo_id,
            [CommitOperationAdd(file.name, str(file)), CommitOperationAdd(CARD, str(card))],
            commit_message=f"Add {file.name}, selected with JudgeGym",
            repo_type="dataset",
        )
    return str(repository)


@contextmanager
def _one_line_errors(name: str) -> Iterator[None]:
    """Turn errors of the hub's client into one line without the token."""
    try:
        yield
    except UserError:
        raise
    except (
        Exception
    ) as error:  # the client raises its own errors, its HTTP library's and the system's
        message = " ".join(str(error).split()) or type(error).__name__
        token = os.environ.get("HF_TOKEN")
        message = _TOKEN.sub("***", message.replace(token, "***") if token else message)
        raise UserError(
            f"--push_to_hub={name}: the hub refused, or cannot be reached: {message[:_LONGEST]}"
        ) from error
