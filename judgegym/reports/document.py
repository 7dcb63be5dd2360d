"""Write self-contained HTML documents: no network, and no scripts but their own.

The content security policy of a document names the digests of its styles and scripts, so that a
browser runs nothing else: no other `<script>`, no attribute such as `onclick` or `style`, no image
except those inside the file. Browsers with trusted types also refuse `innerHTML` and the like: a
model's text can reach the page as text only.

Data blocks are neither run nor parsed as markup: a block is a `<script>` of a type that no browser
runs, which the document's scripts find by its id. Its content has no `<`, so nothing in it can end
the block; lone surrogates, which UTF-8 cannot hold, become U+FFFD.

Templates escape every value. `TEMPLATES` is the folder of the core's templates, one for each kind
of page.
"""

from __future__ import annotations

import argparse
import gzip
import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import lru_cache
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from judgegym.engine.runs.disk import write_atomic
from judgegym.engine.terminal.output import say, warn
from judgegym.llm import wire
from judgegym.llm.errors import UserError
from judgegym.llm.wire import scrub, scrub_all

if TYPE_CHECKING:
    from jinja2 import Environment


_LEVEL = 6
_STATIC = Path(__file__).parent / "static"
TEMPLATES = Path(__file__).parent / "templates"
_CONTROLS = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127), "�")


def json_block(block_id: str, value: object) -> bytes:
    """Return a block of JSON; a script reads it with `JSON.parse(element.textContent)`."""
    return _block(block_id, "application/json", as_json(value).replace(b"<", b"\\u003c"))


def packed_block(block_id: str, content: bytes) -> bytes:
    """Return a block of JSON, gzipped in base64: smaller, and not parsed before it is needed."""
    return _block(
        block_id, "application/octet-stream", b64encode(gzip.compress(content, _LEVEL, mtime=0))
    )


def _block(block_id: str, media_type: str, content: bytes) -> bytes:
    """Return an element of data; the content must have no `<`."""
    return b"".join(
        (f'<script type="{media_type}" id="{escape(block_id)}">'.encode(), content, b"</script>\n")
    )


def as_json(value: Any) -> bytes:
    """Encode dataclasses and JSON values as UTF-8 JSON; lone surrogates become U+FFFD."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return orjson.dumps(scrub_all(json.loads(json.dumps(value, default=asdict))))


def document(
    *,
    title: str,
    body: str,
    styles: Sequence[Path],
    scripts: Sequence[Path] = (),
    data: Iterable[bytes] = (),
    sends_forms: bool = False,
    connects: bool = False,
) -> Iterator[bytes]:
    """Write a document in parts; `data` is read while it is written, to save memory.

    Args:
        title: the title, as text.
        body: markup with all texts escaped (`render`).
        styles: style sheets, after the one that all pages share: light and dark, phone width,
            focus rings.
        scripts: classic scripts, run in this order after everything else; each sees what earlier
            ones declare.
        data: blocks that the scripts read (`json_block`, `packed_block`).
        sends_forms: whether forms may be sent to the page's server.
        connects: whether scripts may send requests to the page's server.

    Raises:
        ValueError: a style or script would end its own element.
    """
    own_styles = [_own_text("style", path) for path in (_STATIC / "base.css", *styles)]
    own_scripts = [_own_text("script", path) for path in scripts]
    policy = "; ".join(
        (
            "default-src 'none'",
            f"style-src {_digests(own_styles)}",
            f"script-src {_digests(own_scripts)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'self'" if sends_forms else "form-action 'none'",
            *(["connect-src 'self'"] if connects else []),
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )
    yield (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(scrub(title).translate(_CONTROLS))}</title>\n"
    ).encode()
    yield "".join(f"<style>{style}</style>\n" for style in own_styles).encode()
    yield f"</head>\n<body>\n{scrub(body).translate(_CONTROLS)}\n".encode()
    yield from data
    yield "".join(f"<script>{script}</script>\n" for script in own_scripts).encode()
    yield b"</body>\n</html>\n"


def _own_text(element: str, path: Path) -> str:
    text = path.read_text(
        "utf-8"
    )  # text mode converts line ends, as browsers do before they compute the digest
    for end in (f"</{element}", "<!--"):
        if end in text.lower():
            raise ValueError(f"a {element} contains {end}, which would end it")
    return text


def _digests(texts: Sequence[str]) -> str:
    digests = [b64encode(sha256(text.encode()).digest()).decode() for text in texts]
    return " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"


def render(template: Path, **values: object) -> str:
    """Render a template, such as `TEMPLATES / "report.html"`; a missing value is an error."""
    return _environment(template.parent).get_template(template.name).render(**values)


@lru_cache
def _environment(folder: Path) -> Environment:
    from jinja2 import (
        Environment,
        FileSystemLoader,
        StrictUndefined,
    )  # late: only what writes a page needs it

    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def write_outputs(
    flags: argparse.Namespace,
    result: Any,
    html: Callable[[], Iterable[bytes]],
    show: Callable[[], None],
) -> None:
    """Write a result to the files of `--json` and `--html`, and print it unless JSON is printed.

    Args:
        flags: the command's flags; `--json -` is standard output.
        result: the content of the JSON.
        html: writes the page.
        show: prints the result.

    Raises:
        UserError: a file cannot be written.
    """
    content, is_shown = (
        wire.dumps_readable(result),
        flags.json == "-",
    )  # names of directories need not be UTF-8
    if is_shown:
        say(content.decode().rstrip("\n"))
    elif flags.json is not None:
        write_file(Path(flags.json), content)
    if flags.html is not None:
        write_file(flags.html, b"".join(html()))
    if not is_shown:
        show()


def write_file(path: Path, content: bytes) -> None:
    """Write a file as a whole, and report its path.

    Raises:
        UserError: the file cannot be written.
    """
    try:
        write_atomic(path, content)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from error
    warn(f"wrote {path}")
