"""Pages in a real headless Chromium: every error, dialog, request and refusal of the security policy is noted.

A test module marks its tests with `needs_chromium`, takes the fixture `browser`
(`tests/conftest.py`), and opens pages with `watched(browser, …)`. Such tests must not be `async`:
Playwright's loop runs in their thread.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
REASON = (
    "playwright (the extra `browser`) is not installed"
    if find_spec("playwright") is None
    else "there is no Chromium"
)
MISSING = CHROMIUM is None or find_spec("playwright") is None
REQUIRED = bool(os.environ.get("REQUIRE_BROWSER"))
"""A machine that must run these tests says so; without Chromium they fail there, and are skipped elsewhere."""
needs_chromium = pytest.mark.skipif(MISSING and not REQUIRED, reason=REASON)

_COUNT_REFUSALS = """
window.refusals = [];
document.addEventListener("securitypolicyviolation", (event) => window.refusals.push(event.violatedDirective));
"""


@dataclass
class Watched:
    """A page, and what happened on it that should not."""

    page: Any
    console: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    @property
    def refusals(self) -> list[str]:
        """The directives of the security policy that were violated."""
        return list(self.page.evaluate("window.refusals"))

    def until(self, expression: str, seconds: float = 20.0) -> None:
        """Wait for an expression to be true; Playwright's own way of doing so is refused by the security policy."""
        end = time.monotonic() + seconds
        while not self.page.evaluate(expression):
            assert time.monotonic() < end, f"never became true: {expression}"
            self.page.wait_for_timeout(20)

    def until_painted(self) -> None:
        """Wait for the page to be seen; before, Chromium drops keys."""
        self.until("performance.getEntriesByType('paint').length > 0")

    def until_refused(self, directive: str, seconds: float = 20.0) -> None:
        """Wait for the security policy to refuse something by this directive."""
        end = time.monotonic() + seconds
        while directive not in " ".join([*self.refusals, *self.console]):
            assert time.monotonic() < end, f"never refused by {directive}"
            self.page.wait_for_timeout(20)

    def assert_clean(self) -> None:
        """No console error or warning, no exception, no dialog, no refusal; nothing was requested but the document."""
        assert self.console == []
        assert self.errors == []
        assert self.dialogs == []
        assert self.refusals == []
        assert self.requests == [self.page.url.partition("#")[0]] * len(self.requests)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    assert not MISSING, REASON
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        launched = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@contextmanager
def watched(
    browser: Any,
    target: Path | str,
    *,
    width: int = 1200,
    height: int = 900,
    script: str = "",
    is_blank: bool = False,
    **options: Any,
) -> Iterator[Watched]:
    """Open a file or a URL in a context of its own.

    Args:
        browser: the fixture.
        target: the file or the URL.
        width: of the window.
        height: of the window.
        script: runs before those of the page.
        is_blank: the page shows nothing, so that there is no first paint to wait for.
        options: of a Playwright context, such as `color_scheme`.
    """
    context = browser.new_context(viewport={"width": width, "height": height}, **options)
    context.set_default_timeout(60_000)
    context.add_init_script(_COUNT_REFUSALS + script)
    seen = Watched(context.new_page())
    page = seen.page
    page.on(
        "console",
        lambda message: (
            seen.console.append(message.text) if message.type in ("error", "warning") else None
        ),
    )
    page.on("pageerror", lambda error: seen.errors.append(str(error)))
    page.on("dialog", lambda dialog: (seen.dialogs.append(dialog.message), dialog.dismiss()))
    page.on(
        "request",
        lambda request: (
            seen.requests.append(request.url) if not request.url.startswith("data:") else None
        ),
    )
    page.goto(target.as_uri() if isinstance(target, Path) else target)
    if not is_blank:
        seen.until_painted()
    try:
        yield seen
    finally:
        context.close()
