"""The page of a run as an HTML document: head, list and details of its items, for a browser without a network.

Texts reach the browser as data, and its scripts put them on the page as text. The summaries of all items are one block
of JSON; what items open to is packed in chunks that are unpacked when they are needed, so that the page of a large run
opens at once. Items are read one by one: of their details only a chunk is in memory.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from judgegym.reports.pages.document import DataBlock, as_json, base_style, document, json_block, packed_block, render
from judgegym.reports.run_page.items import Chart, ItemDetail, ItemSummary, PageHead, PageKind

_STATIC = Path(__file__).parent / "static"
_SCRIPTS = (
    "dom",
    "signs",
    "texts",
    "markdown",
    "tree",
    "data",
    "search",
    "highlights",
    "address",
    "filters",
    "controls",
    "list",
    "rows",
    "calls",
    "detail",
    "keys",
    "page",
)
_WORDS: dict[PageKind, str] = {"rows": "sample", "groups": "group", "responses": "response"}
_CHUNK_ITEMS = 25
_CHUNK_BYTES = 500_000


def page(head: PageHead, items: Iterable[tuple[ItemSummary, ItemDetail]]) -> Iterator[bytes]:
    """Write the page, part by part; `items` is read once, while it is written."""
    return document(
        title=head.title,
        body=render(
            "report.html", head=head, charts=[_Image.of(chart) for chart in head.charts], word=_WORDS[head.kind]
        ),
        styles=[base_style(), (_STATIC / "report.css").read_text("utf-8")],
        scripts=[(_STATIC / f"{name}.js").read_text("utf-8") for name in _SCRIPTS],
        data=_data(head, items),
    )


@dataclass(frozen=True, slots=True)
class _Image:
    title: str
    light: str
    dark: str
    description: str

    @classmethod
    def of(cls, chart: Chart) -> _Image:
        return cls(chart.title, _address(chart.light), _address(chart.dark), chart.description)


def _address(svg: bytes) -> str:
    return f"data:image/svg+xml;base64,{b64encode(svg).decode()}"


@dataclass(frozen=True, slots=True)
class _Index:
    """What the page reads first.

    Attributes:
        kind: what the items are.
        total: the number of items of the run.
        chunks: of each chunk the position of its first item.
        scores: of each group the scores of its rollouts; empty for rows.
        items: the summaries.
    """

    kind: PageKind
    total: int
    chunks: Sequence[int]
    scores: Sequence[Sequence[float | None]]
    items: Sequence[ItemSummary]


def _data(head: PageHead, items: Iterable[tuple[ItemSummary, ItemDetail]]) -> Iterator[DataBlock]:
    summaries: list[ItemSummary] = []
    scores: list[list[float | None]] = []
    starts: list[int] = []
    chunk: list[bytes] = []
    for summary, detail in items:
        packed = as_json(detail)
        if chunk and (len(chunk) == _CHUNK_ITEMS or sum(map(len, chunk)) + len(packed) > _CHUNK_BYTES):
            yield _chunk(len(starts) - 1, chunk)
            chunk = []
        if not chunk:
            starts.append(len(summaries))
        chunk.append(packed)
        summaries.append(summary)
        if head.kind == "groups":
            scores.append([completion.score for completion in detail.completions])
    if chunk:
        yield _chunk(len(starts) - 1, chunk)
    yield json_block("index", _Index(head.kind, head.total, starts, scores, summaries))


def _chunk(number: int, details: Sequence[bytes]) -> DataBlock:
    return packed_block(f"chunk-{number}", b"[" + b",".join(details) + b"]")
