"""Write the page of a run as an HTML document: head, list and details of its items.

Texts reach the browser as data, and its scripts insert them as text. The summaries of all items are
one block of JSON; details are packed in chunks that are unpacked when they are needed, so that the
page of a large run opens at once. Items are read one by one: only a chunk of details is in memory.

Guarantees: the page needs no network and is made from the files of a run alone. A finished run
gives the same bytes whenever its page is written. The page is replaced as a whole or not at all;
nothing else in the run directory is touched.
"""

from __future__ import annotations

import logging
import shlex
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from judgegym.engine.runs.directory import REPORT
from judgegym.engine.runs.disk import Disk, write_atomic
from judgegym.reports.document import TEMPLATES, as_json, document, json_block, packed_block, render
from judgegym.reports.labels.correction import Correction
from judgegym.reports.results.run import find_scoring_run
from judgegym.reports.run_page.groups import read_group_page
from judgegym.reports.run_page.items import MOST_ITEMS, Item, View
from judgegym.reports.run_page.rows import read_run_page

logger = logging.getLogger(__name__)

_STATIC = Path(__file__).parent / "static"
_SCRIPTS = (
    *(
        "dom",
        "signs",
        "texts",
        "markdown",
        "tree",
        "unpack",
        "data",
        "search",
        "highlights",
        "address",
        "filters",
        "controls",
    ),
    *("list", "rows", "calls", "detail", "keys", "page"),
)
_WORDS = {"rows": "sample", "groups": "group", "responses": "response"}
_CHUNK_ITEMS = 25
_CHUNK_BYTES = 500_000


def locate_report(path: Path) -> Path:
    """Return the path of the page of a run directory, a scored file or a file of groups."""
    run = path if path.is_dir() else find_scoring_run(path)
    if run is None:
        return path.with_suffix(".html")
    return run / REPORT


def write_report(
    path: Path,
    *,
    order: str | None = None,
    most: int | None = MOST_ITEMS,
    output: Path | None = None,
    correction: Correction | None = None,
) -> Path:
    """Write the page of an evaluation, of a scored data set or of a file of groups.

    Args:
        path: the run directory; or a scored file or a file of groups with its run directory beside
            it.
        order: the order of the items; by default that of the run, for a scored data set the worst
            first.
        most: the most items of the page; `None` for all.
        output: the file to write; by default in the run directory, or beside the file of groups.
        correction: the correction of the result; by default the one in `metrics.json`.

    Returns:
            The path of the page.

    Raises:
        RunDirectoryError: there is no run, or a file of it is damaged.
        OSError: the page cannot be written.
    """
    if path.is_file() and find_scoring_run(path) is None:
        head, items = read_group_page(path, order=order, most=most)
    else:
        head, items = read_run_page(path, order=order, most=most, correction=correction)
    target = output or locate_report(path)
    write_atomic(target, lambda: render_page(head, items()))
    return target


async def write_report_after(
    path: Path, disk: Disk, write: Callable[[Path], Path] | None = None
) -> Path | None:
    """Write the page of a finished run, in a thread.

    Args:
        path: the run directory, or the file of groups.
        disk: writes the files of the run.
        write: writes the page and returns its path; by default `write_report`.

    Returns:
            The path of the page; `None` if it could not be written, with a warning that says why.
    """
    try:
        return await disk.retry_until_written(
            path, lambda: (write or write_report)(path), in_thread=True
        )
    except Exception as error:  # noqa: BLE001
        # Charts, a damaged file or the disk may fail; the numbers are on the disk already.
        how = shlex.join(["python", "-m", "judgegym.reports", str(path)])
        logger.warning(
            "the page of the run is not written: %s: %s. To write it: %s",
            type(error).__name__,
            error,
            how,
        )
        return None


def render_page(head: View, items: Iterable[Item]) -> Iterator[bytes]:
    """Write the page in parts; `items` is read once, while it is written.

    Args:
        head: the head of the page: the `kind` of the items and their `total` number, of which
            the page may hold fewer; `title`, `headline`, `notices`, `first_facts` and `facts` in
            words; `charts` and `tables`.
        items: the items.
    """
    return document(
        title=head["title"],
        body=render(
            TEMPLATES / "report.html", head=head, address=_data_url, word=_WORDS[head["kind"]]
        ),
        styles=[_STATIC / "report.css"],
        scripts=[_STATIC / f"{name}.js" for name in _SCRIPTS],
        data=_iter_blocks(head, items),
    )


def _data_url(svg: bytes) -> str:
    return f"data:image/svg+xml;base64,{b64encode(svg).decode()}"


def _iter_blocks(head: View, items: Iterable[Item]) -> Iterator[bytes]:
    summaries: list[View] = []
    scores: list[list[float | None]] = []
    starts: list[int] = []
    chunk: list[bytes] = []

    def block() -> bytes:
        return packed_block(f"chunk-{len(starts) - 1}", b"[" + b",".join(chunk) + b"]")

    for summary, detail in items:
        packed = as_json(detail)
        if chunk and (
            len(chunk) == _CHUNK_ITEMS or sum(map(len, chunk)) + len(packed) > _CHUNK_BYTES
        ):
            yield block()
            chunk = []
        if not chunk:
            starts.append(len(summaries))
        chunk.append(packed)
        summaries.append(summary)
        if head["kind"] == "groups":
            scores.append([completion["score"] for completion in detail["completions"]])
    if chunk:
        yield block()
    index = {
        "kind": head["kind"],
        "total": head["total"],
        "chunks": starts,
        "scores": scores,
        "items": summaries,
    }
    yield json_block("index", index)
