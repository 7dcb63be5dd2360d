"""What mkdocs does beside Markdown.

Code of `examples/` takes the place of links to it, tables of settings that of their markers, files outside `docs/` that
pages link to are copied into the site, the flags of commands stay whole, and the search asks no other host.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from settings_tables import with_tables
from shown import SHOWN, shown

ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"\]\((?P<target>[^)#:]+)(?P<heading>#[^)]*)?\)")
_COMMANDS = re.compile(r'<div class="language-bash .*?</div>', re.DOTALL)
_FLAG = re.compile(r"(?<![\w-])--[\w.]+")
_FOLDER = "files"
_SHIM, _OWN_SHIM = "https://unpkg.com/iframe-worker/shim", "assets/search_from_disk.js"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Show code and tables of settings, and let links that leave `docs/` lead to copies of the files in the site."""
    here = posixpath.dirname(page.file.src_uri)

    def held(path: str, content: bytes) -> str:
        """The link to a file of the site with this content."""
        uri = f"{_FOLDER}/{path}" + (".txt" if path.endswith(".md") else "")  # a document would be a page of the site
        if files.get_file_from_path(uri) is None:
            files.append(File.generated(config, uri, content=content))
        return posixpath.relpath(uri, here or ".")

    def code(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join("docs", here, link["path"]))
        found = shown(ROOT / path, link["names"] or "")
        text = found.markdown
        for picture in found.pictures:
            text = text.replace(f"]({picture.name})", f"]({held(f'{path}.{picture.name}', picture.png)})")
        return text

    def within(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join("docs", here, link["target"]))
        if path.startswith("docs/") or not (ROOT / path).is_file():
            return link[0]
        return f"]({held(path, (ROOT / path).read_bytes())})"

    return _LINK.sub(within, SHOWN.sub(code, with_tables(markdown)))


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Keep the flags of commands whole where a line goes on in the next one."""

    def whole(block: re.Match[str]) -> str:
        return _FLAG.sub(r'<span class="flag">\g<0></span>', block[0])

    return _COMMANDS.sub(whole, html)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Let the search of a page take what it needs from the site."""
    return output.replace(_SHIM, posixpath.relpath(_OWN_SHIM, posixpath.dirname(page.url) or "."))


def on_post_template(output_content: str, template_name: str, config: MkDocsConfig) -> str:
    """Let the search of `404.html` take what it needs from the site."""
    return output_content.replace(_SHIM, _OWN_SHIM)
