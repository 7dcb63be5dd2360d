"""Opens a data set by its name: a file, a compressed file, a pattern, standard input, a folder.

Guarantees: the files of a pattern are read in the order of their names, as one data set, whose rows
are named by file and number. A digest is that of the bytes as they are, compressed or not; of
several files, one after the other.
"""

from __future__ import annotations

import atexit
import gzip
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, chain
from pathlib import Path

from judgegym.data.arrow import ArrowRows, join_tables, read_hub, read_saved, read_table
from judgegym.data.json_file import BadLine, JsonFile, digest_file
from judgegym.llm.errors import DataError
from judgegym.llm.wire import JSON

FILE_KINDS = (".jsonl", ".json", ".csv", ".tsv", ".parquet")
STDIN = "-"
_COMPRESSED = ".gz"
_PATTERN = "*?["
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class OpenedData:
    """Rows of a data set.

    Attributes:
        values: the columns of each row.
        digest: SHA-256 of the bytes of its files; for a data set of the hub or a folder, of its
            rows as JSON.
        files: the first row of each file, with the file's name; empty without a pattern.
        bad_lines: lines that are no JSON objects, if such lines are left out.
    """

    values: Sequence[Mapping[str, JSON]]
    digest: str
    files: Sequence[tuple[int, str]] = ()
    bad_lines: Sequence[BadLine] = ()


def parse_file_kind(name: str) -> str | None:
    """Return the ending that says how a file is read, without `.gz`; `None` for other files."""
    kind = Path(name.lower().removesuffix(_COMPRESSED)).suffix
    if kind in FILE_KINDS:
        return kind
    return None


def is_pattern(source: str) -> bool:
    """Return whether a name is a pattern of several files."""
    return any(sign in source for sign in _PATTERN) and not Path(source).expanduser().exists()


def open_data(source: str, split: str, *, skips: bool) -> OpenedData:
    """Open a data set.

    Args:
        source: a file, a pattern such as `data/*.jsonl`, `-` for JSON on standard input, a folder
            that `datasets.save_to_disk` has written, or a data set's name on the hub.
        split: the split of a folder or hub data set.
        skips: leave out lines that are no JSON objects.

    Raises:
        DataError: it cannot be loaded.
    """
    if source == STDIN:
        return _open_file(save_standard_input(), "standard input", skips)
    if is_pattern(source):
        return _open_pattern(source, skips)
    path = Path(source).expanduser()
    if parse_file_kind(source) is None and path.is_file():
        endings = ", ".join(FILE_KINDS)
        raise DataError(
            f"{source}: expected a file with one of the endings {endings}, or these with .gz"
        )
    if (path / "state.json").is_file() or (path / "dataset_dict.json").is_file():
        return OpenedData(*read_saved(path, split))
    if parse_file_kind(source) is not None:
        if not path.is_file():
            raise DataError(f"{source}: there is no such file")
        return _open_file(path, source, skips)
    return OpenedData(*read_hub(source, split, FILE_KINDS))


def _open_file(path: Path, name: str, skips: bool) -> OpenedData:
    with _decompress(path, name) as plain:
        if plain.suffix.lower() in (".jsonl", ".json"):
            rows = JsonFile(plain, name=name, skips=skips)
            opened = OpenedData(rows, rows.digest, bad_lines=rows.bad_lines)
        else:
            opened = OpenedData(*read_table(plain, name))
        if plain == path:
            return opened
        return replace(opened, digest=digest_file(path))


def _open_pattern(pattern: str, skips: bool) -> OpenedData:
    """Open all files of a pattern as one data set.

    Raises:
        DataError: no file matches, one cannot be read, or they are of several kinds.
    """
    wanted = Path(pattern).expanduser()
    folder = Path(wanted.anchor)
    matches = folder.glob(str(wanted.relative_to(folder)))
    files = [path for path in matches if path.is_file()]
    names = sorted(str(path) for path in files if not path.name.startswith("."))
    kinds = {parse_file_kind(name) for name in names}
    if not names or None in kinds or len(kinds) > 1:
        some = ", ".join(names[:3]) or "none"
        expected = ", ".join(FILE_KINDS)
        raise DataError(f"{pattern}: expected files of one of the kinds {expected}, found {some}")
    opened = [_open_file(Path(name), name, skips) for name in names]
    starts = accumulate((len(data.values) for data in opened), initial=0)
    bad_lines = list(chain.from_iterable(opened_file.bad_lines for opened_file in opened))
    values = _join_parts(pattern, [nonempty.values for nonempty in opened if len(nonempty.values)])
    return OpenedData(
        values, digest_file(*map(Path, names)), list(zip(starts, names, strict=False)), bad_lines
    )


def _join_parts(
    pattern: str, parts: Sequence[Sequence[Mapping[str, JSON]]]
) -> Sequence[Mapping[str, JSON]]:
    tables = [part for part in parts if isinstance(part, ArrowRows)]
    if tables:
        return join_tables(pattern, tables)
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "all.jsonl"
        with path.open("wb") as file:
            for part in parts:
                for text in part.texts() if isinstance(part, JsonFile) else ():
                    # White space alone: no string of JSON holds an end of a line.
                    file.write(text.strip().replace(b"\n", b" ").replace(b"\r", b" ") + b"\n")
        return JsonFile(path, name=pattern)  # the open file outlives its name


@contextmanager
def _decompress(path: Path, name: str) -> Iterator[Path]:
    """Decompress a file for the time of the context; yield other files as they are.

    Raises:
        DataError: it cannot be decompressed.
    """
    if path.suffix.lower() != _COMPRESSED:
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / path.stem
        try:
            with gzip.open(path) as file, plain.open("wb") as copy:
                shutil.copyfileobj(file, copy, _PIECE)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{name}: cannot be decompressed: {error}") from error
        yield plain


@cache
def save_standard_input() -> Path:
    """Save standard input to a file that exists until the process ends.

    Raises:
        DataError: standard input is a terminal.
    """
    if sys.stdin is None or sys.stdin.isatty():
        raise DataError(
            "-: expected rows in JSON on standard input, such as zcat rows.jsonl.gz | judgegym "
            "score - …"
        )
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder) / "input.jsonl"
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file, _PIECE)
    with path.open("rb") as file:
        is_list = file.read(_PIECE).lstrip().startswith(b"[")
    if not is_list:
        return path
    return path.rename(path.with_suffix(".json"))
