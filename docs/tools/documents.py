"""What pages lead to outside `docs/`, such as a folder's README or a prompt: each text becomes a page of the site.

Most of these pages have no line in the navigation; the pages that link to them lead there. A
document is a page with the links that it has in the repository, code and other texts are a page
with one block. What is no text is copied.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from notebook_page import NOTEBOOK

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\((?P<target>[^)#:\s]+)(?P<heading>#[^)\s]*)?\)")
_CODE = re.compile(r"^(?P<fence>```+|~~~+).*?^(?P=fence)|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_FOLDER, _README = "files/", "README.md"
_LANGUAGES = {
    ".py": "python",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".jsonl": "json",
    ".json": "json",
    ".txt": "text .prose",
    ".service": "ini",
    "Dockerfile": "docker",
}
_PAGE = "---\nsearch: {{exclude: true}}\nhide: [toc]\n---\n\n# {name}\n\n"
_BLOCK = _PAGE + '`````` {{.{language} title="{path}"}}\n{text}\n``````\n'


def parse_source(page: str) -> str:
    """The path in the repository of a page by its name in the site: `files/ARCHITECTURE.md`, `files/a/judge.py.md`."""
    if not page.startswith(_FOLDER):
        return f"docs/{page}"
    path = page.removeprefix(_FOLDER)
    code = path.removesuffix(".md")
    return (
        f"{code}/{_README}"
        if (ROOT / code / _README).is_file()
        else path
        if (ROOT / path).is_file()
        else code
    )


def page_of(path: str) -> str:
    """The name in the site of a file of the repository."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    folder, name = posixpath.split(path)
    if folder and name == _README:  # an index would be taken for that of a part of the navigation
        return f"{_FOLDER}{folder}.md"
    return f"{_FOLDER}{path}" + (".md" if _kind(path) in _LANGUAGES else "")


def _kind(path: str) -> str:
    """The ending of a file's name; the name, if it has none."""
    name = posixpath.basename(path)
    return posixpath.splitext(name)[1] or name


def target_of(path: str, link: str) -> str:
    """The path in the repository to which a link of a document leads; of a folder, that of what describes it."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
    described = (posixpath.join(target, name) for name in (_README, "__init__.py"))
    return next((each for each in described if (ROOT / each).is_file()), target)


def add_linked(files: Files, config: MkDocsConfig) -> None:
    """Add what the pages lead to, and what this leads to in its turn."""
    waiting = [parse_source(file.src_uri) for file in files.documentation_pages()]
    known = set(waiting)
    while waiting:
        for path in _linked(waiting.pop()):
            if path not in known:
                known.add(path)
                waiting += [path] * path.endswith(".md")
                files.append(_added(path, config))


def _linked(path: str) -> Iterator[str]:
    """The files outside `docs/` to which a document links, but for the notebooks that it shows itself."""
    text = (ROOT / path).read_text(encoding="utf-8")
    for link in LINK.finditer(_CODE.sub("", NOTEBOOK.sub("", text))):
        target = target_of(path, link["target"])
        if not target.startswith(("docs/", "../")) and (ROOT / target).is_file():
            yield target


def _added(path: str, config: MkDocsConfig) -> File:
    """The page, or the copy, of a file."""
    name, kind = posixpath.basename(path), _kind(path)
    content: str | bytes = (ROOT / path).read_bytes()
    if kind in _LANGUAGES:
        text = (ROOT / path).read_text(encoding="utf-8").rstrip("\n")
        content = _BLOCK.format(name=name, path=path, language=_LANGUAGES[kind], text=text)
    listed = page_of(path) in _names(config.nav or [])
    inclusion = InclusionLevel.INCLUDED if listed else InclusionLevel.NOT_IN_NAV
    return File.generated(config, page_of(path), content=content, inclusion=inclusion)


def _names(nav: object) -> Iterator[str]:
    """The pages that a part of the navigation names."""
    if isinstance(nav, str):
        yield nav
    for part in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        yield from _names(part)
