"""A document runs its own scripts, and nothing else, in a real browser; its data come through unchanged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from judgegym.reports.document import document, json_block, packed_block
from tests.chromium import needs_chromium, watched

HOSTILE = (
    "</script><script>alert(1)</script><!-- <script> {{ 7 * 7 }} \u202e \u2028 \x00 ' \" & é 漢 🙂"
)
SHOW = """"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const shown = document.createElement("p");
shown.id = "shown";
shown.textContent = data.text;
document.body.append(shown);
"""
UNPACK = """"use strict";
(async () => {
  const coded = document.getElementById("packed").textContent;
  const bytes = Uint8Array.from(atob(coded), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  window.unpacked = JSON.parse(await new Response(stream).text());
})();
"""


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Elsewhere:
    url: str
    asked: list[str]


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    """A server that notes who asks it for something."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(404)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield Elsewhere(f"http://127.0.0.1:{server.server_port}", asked)
        server.shutdown()


def file(folder: Path, text: str) -> Path:
    """A style sheet or a script of a document."""
    path = folder / f"{len(list(folder.iterdir()))}.txt"
    path.write_bytes(text.encode())
    return path


def written(path: Path, scripts: Sequence[str] = (), **parts: Any) -> Path:
    given = {"title": "A page", "body": "", "styles": [], "data": [], **parts}
    path.write_bytes(
        b"".join(document(**given, scripts=[file(path.parent, script) for script in scripts]))
    )
    return path


@needs_chromium
def test_its_scripts_run_and_hostile_data_are_text(browser: Any, tmp_path: Path) -> None:
    path = written(
        tmp_path / "page.html",
        title=HOSTILE,
        data=[json_block("data", Text(HOSTILE))],
        scripts=[SHOW],
    )
    with watched(browser, path) as seen:
        assert seen.page.evaluate("document.getElementById('shown').textContent") == HOSTILE
        assert seen.page.evaluate("data.text") == HOSTILE
        assert "</script><script>alert(1)" in seen.page.title()
        seen.assert_clean()


@needs_chromium
def test_packed_data_come_through(browser: Any, tmp_path: Path) -> None:
    block = packed_block("packed", b'["<!-- \xc3\xa9"]')
    with watched(
        browser, written(tmp_path / "page.html", data=[block], scripts=[UNPACK]), is_blank=True
    ) as seen:
        seen.until("window.unpacked !== undefined")
        assert seen.page.evaluate("unpacked") == ["<!-- é"]
        seen.assert_clean()


@needs_chromium
@pytest.mark.parametrize(
    ("body", "refused"),
    [
        ("<script>window.ran = true</script>", "script-src-elem"),
        ("<p id=p onmouseover='window.ran = true' onclick=0>p</p>", "script-src-attr"),
        ("<p style='color: red'>p</p>", "style-src-attr"),
        ("<img src='ELSEWHERE/x.png' onerror='window.ran = true'>", "img-src"),
        ("<iframe srcdoc='<script>parent.ran = true</script>'></iframe>", "script-src"),
        ("<script src='ELSEWHERE/x.js'></script>", "script-src-elem"),
    ],
)
def test_markup_that_got_into_it_is_refused(
    browser: Any, tmp_path: Path, elsewhere: Elsewhere, body: str, refused: str
) -> None:
    path = written(tmp_path / "page.html", body=body.replace("ELSEWHERE", elsewhere.url))
    with watched(browser, path, is_blank=True) as seen:
        seen.page.evaluate(
            "document.querySelectorAll('p').forEach((p) => p.click())"
        )  # Chromium refuses at the event
        seen.until_refused(refused)
        assert seen.page.evaluate("window.ran") is None
    assert elsewhere.asked == []


@needs_chromium
def test_a_script_of_its_own_cannot_write_markup(browser: Any, tmp_path: Path) -> None:
    path = written(
        tmp_path / "page.html", scripts=['"use strict"; document.body.innerHTML = "<b>markup</b>";']
    )
    with watched(browser, path, is_blank=True) as seen:
        assert seen.page.query_selector("b") is None
        assert "TrustedHTML" in "".join(seen.errors)


def test_lone_surrogates_and_control_characters_are_replaced() -> None:
    parts = b"".join(
        document(
            title="a\ud800\x00\x1b",
            body="b\udfff\x00",
            styles=[],
            data=[json_block("d", {"\ud800": ["\ud800"]})],
        )
    ).decode()
    assert "<title>a���</title>" in parts
    assert "\nb��\n" in parts
    assert '{"�":["�"]}' in parts


@pytest.mark.parametrize(
    ("kind", "text"),
    [("styles", "a{} </STYLE x"), ("scripts", "'</script>'"), ("scripts", "'<!--'")],
)
def test_a_style_or_script_that_would_end_its_element_is_an_error(
    kind: str, text: str, tmp_path: Path
) -> None:
    parts: dict[str, Any] = {"styles": [], "scripts": []} | {kind: [file(tmp_path, text)]}
    with pytest.raises(ValueError, match="would end it"):
        list(document(title="", body="", **parts))


def test_data_cannot_end_their_element() -> None:
    for block in (json_block('d"><b', Text(HOSTILE)), packed_block("<d", HOSTILE.encode("utf-8"))):
        start, _, content = block.partition(b">")
        assert start.startswith(b"<script type=") and start.count(b"<") == 1
        assert content.endswith(b"</script>\n") and content.count(b"<") == 1


def test_windows_line_ends_are_those_of_the_digest(tmp_path: Path) -> None:
    documents = []
    for end in ("\n", "\r\n", "\r"):
        styles, scripts = ([file(tmp_path, text + end)] for text in ("a{}", "0;"))
        documents.append(b"".join(document(title="", body="", styles=styles, scripts=scripts)))
    assert documents[0] == documents[1] == documents[2]


def test_forms_are_sent_only_where_asked_for() -> None:
    policies = [
        b"".join(document(title="", body="", styles=[], sends_forms=forms)).decode()
        for forms in (False, True)
    ]
    assert "form-action 'none'" in unescape(policies[0])
    assert "form-action 'self'" in unescape(policies[1])
