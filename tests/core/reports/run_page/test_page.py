"""What is in the file of a page."""

from __future__ import annotations

import base64
import gzip
import json
import re
from typing import Any

from judgegym.reports.run_page.items import Item
from judgegym.reports.run_page.page import render_page
from tests.core.reports.run_page.made import HEAD, arena_like, detail, replace, summary


def blocks(items: list[Item], kind: str = "rows") -> tuple[Any, list[Any]]:
    text = b"".join(render_page(replace(HEAD, kind=kind, total=len(items)), items)).decode()
    index = re.search(r'id="index">(.*?)</script>', text)
    assert index is not None
    chunks = re.findall(r'id="chunk-\d+">(.*?)</script>', text)
    return json.loads(index.group(1)), [
        json.loads(gzip.decompress(base64.b64decode(chunk))) for chunk in chunks
    ]


def test_chunks_hold_the_details_in_the_order_of_the_index() -> None:
    index, chunks = blocks(list(arena_like(60, 500)))
    assert index["chunks"] == [0, 25, 50]
    assert [row["id"] for chunk in chunks for row in chunk] == [row["id"] for row in index["items"]]


def test_large_items_are_chunks_of_their_own() -> None:
    texts = [("a", 10), ("b", 600_000), ("c", 10), ("d", 10)]
    index, chunks = blocks([(summary(uid), detail(uid, error="e" * size)) for uid, size in texts])
    assert index["chunks"] == [0, 1, 2]
    assert [len(chunk) for chunk in chunks] == [1, 1, 2]
