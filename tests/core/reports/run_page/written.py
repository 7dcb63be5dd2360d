"""The page of a run, read back from its file."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Written:
    """What a page says: its summaries and details by id, in the order of the page, and the text of its head."""

    index: dict[str, Any]
    summaries: dict[str, dict[str, Any]]
    details: dict[str, dict[str, Any]]
    head: str

    @classmethod
    def read(cls, path: Path) -> Written:
        text = path.read_text()
        found = re.search(r'id="index">(.*?)</script>', text)
        assert found is not None
        index = json.loads(found.group(1))
        chunks = re.findall(r'id="chunk-\d+">(.*?)</script>', text)
        details = [
            item
            for chunk in chunks
            for item in json.loads(gzip.decompress(base64.b64decode(chunk)))
        ]
        body = re.sub(
            r"data:image/svg[^\"]*", "", text[text.index("<body") : text.index('id="controls"')]
        )
        head = " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())
        return cls(
            index,
            {item["id"]: item for item in index["items"]},
            {item["id"]: item for item in details},
            " ".join([head, *map(html.unescape, re.findall(r'alt="([^"]*)"', body))]),
        )

    @property
    def order(self) -> list[str]:
        assert list(self.summaries) == list(self.details)
        return list(self.summaries)
