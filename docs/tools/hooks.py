"""What mkdocs does beside Markdown: a link to a file outside `docs/` gets the file, which the site then holds."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"\]\((?P<target>[^)#:]+)(?P<heading>#[^)]*)?\)")
_FOLDER = "files"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links that leave `docs/` lead to copies of the files within the site."""
    here = posixpath.dirname(page.file.src_uri)

    def within(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join("docs", here, link["target"]))
        if path.startswith("docs/") or not (ROOT / path).is_file():
            return link[0]
        uri = f"{_FOLDER}/{path}" + (".txt" if path.endswith(".md") else "")  # a document would be a page of the site
        if files.get_file_from_path(uri) is None:
            files.append(File.generated(config, uri, content=(ROOT / path).read_bytes()))
        return f"]({posixpath.relpath(uri, here or '.')})"

    return _LINK.sub(within, markdown)
