"""What mkdocs does beside Markdown.

A notebook takes the place of a link to it, texts outside `docs/` that pages link to become pages,
the flags of commands stay whole, and the search asks no other host.
"""

from __future__ import annotations

import posixpath
import re

from documents import LINK, ROOT, add_linked, page_of, parse_source, target_of
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from notebook_page import NOTEBOOK, notebook_page

_COMMANDS = re.compile(r'<div class="language-bash .*?</div>', re.DOTALL)
_FLAG = re.compile(r"(?<![\w-])--[\w.]+")
_SHIM, _OWN_SHIM = "https://unpkg.com/iframe-worker/shim", "assets/search_from_disk.js"


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add what pages lead to outside `docs/`."""
    add_linked(files, config)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Show notebooks, and let links that leave `docs/` lead to what the site has of the files."""
    here, source = posixpath.dirname(page.file.src_uri), parse_source(page.file.src_uri)
    if not source.endswith(".md"):
        return markdown

    def notebook(link: re.Match[str]) -> str:
        path = target_of(source, link["path"])
        shown = notebook_page(ROOT / path)
        text = shown.markdown
        for picture in shown.pictures:
            uri = page_of(f"{path}.{picture.name}")
            if files.get_file_from_path(uri) is None:
                files.append(File.generated(config, uri, content=picture.png))
            text = text.replace(f"]({picture.name})", f"]({posixpath.relpath(uri, here or '.')})")
        return text

    def within(link: re.Match[str]) -> str:
        path = target_of(source, link["target"])
        if files.get_file_from_path(page_of(path)) is None:
            return link[0]
        return f"]({posixpath.relpath(page_of(path), here or '.')}{link['heading'] or ''})"

    return LINK.sub(within, NOTEBOOK.sub(notebook, markdown))


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
