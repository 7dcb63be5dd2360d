"""A self-contained HTML document: no network, and no script but its own.

Its content security policy names the digests of its styles and scripts, so that a browser runs nothing else: no other
`<script>`, no attribute such as `onclick` or `style`, no image but those inside the file. Browsers that know trusted
types refuse `innerHTML` and the like, too: text of a model can get on the page as text only.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from html import escape
from pathlib import Path

from judgegym.llm.wire import scrub
from judgegym.reports.pages.data import DataBlock

_STATIC = Path(__file__).parent / "static"
_CONTROLS = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127), "�")
_ENDS = {"style": ("</style", "<!--"), "script": ("</script", "<!--")}


def base_style() -> str:
    """The style that all pages share: light and dark, phone width, rings of the focus."""
    return (_STATIC / "base.css").read_text("utf-8")


def document(
    *,
    title: str,
    body: str,
    styles: Sequence[str],
    scripts: Sequence[str],
    data: Iterable[DataBlock] = (),
    sends_forms: bool = False,
) -> Iterator[bytes]:
    """Write a document, part by part: `data` is read while it is written, so that not all of it is in memory.

    Args:
        title: as text.
        body: as markup, with all texts escaped (`templates.render`).
        styles: style sheets.
        scripts: classic scripts, run in this order when everything else is there; what one declares the next ones see.
        data: blocks that the scripts read.
        sends_forms: whether forms may be sent to the server that the page came from.

    Raises:
        ValueError: a style or script would end its own element.
    """
    styles = [_own_text("style", style) for style in styles]
    scripts = [_own_text("script", script) for script in scripts]
    policy = _policy(styles, scripts, sends_forms=sends_forms)
    yield (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(scrub(title).translate(_CONTROLS))}</title>\n"
    ).encode()
    yield "".join(f"<style>{style}</style>\n" for style in styles).encode()
    yield f"</head>\n<body>\n{scrub(body).translate(_CONTROLS)}\n".encode()
    for block in data:
        yield _block(block)
    yield "".join(f"<script>{script}</script>\n" for script in scripts).encode()
    yield b"</body>\n</html>\n"


def _own_text(element: str, text: str) -> str:
    lowered = text.lower()
    for end in _ENDS[element]:
        if end in lowered:
            raise ValueError(f"a {element} contains {end}, which would end it")
    return text.replace("\r\n", "\n").replace("\r", "\n")  # browsers do, before they compute the digest


def _policy(styles: Sequence[str], scripts: Sequence[str], *, sends_forms: bool) -> str:
    forms = "'self'" if sends_forms else "'none'"
    directives = (
        "default-src 'none'",
        f"style-src {_digests(styles)}",
        f"script-src {_digests(scripts)}",
        "img-src data:",
        "base-uri 'none'",
        f"form-action {forms}",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
    return "; ".join(directives)


def _digests(texts: Sequence[str]) -> str:
    digests = [b64encode(sha256(text.encode()).digest()).decode() for text in texts]
    return " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"


def _block(block: DataBlock) -> bytes:
    if b"<" in block.content:
        raise ValueError(f"the data of {block.id} contain <, which could end them")
    start = f'<script type="{escape(block.media_type)}" id="{escape(block.id)}">'
    return b"".join((start.encode(), block.content, b"</script>\n"))
