"""Hostile texts in every field of a page, in a real browser: nothing runs, nothing is requested, all is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from judgegym.reports.run_page.items import Item, View, completion_view, titled_text
from tests.chromium import Watched, needs_chromium, watched
from tests.core.reports.run_page.hostile import ATTACK, attacked, paths
from tests.core.reports.run_page.made import CHART, HEAD, call, detail, replace, summary, written
from tests.core.reports.run_page.test_browser_detail import unfold

pytestmark = needs_chromium

NOT_SHOWN = {
    "rows": {
        "completions.status", "completions.label", "completions.explanation", "completions.calls", "completions.seen",
        "detail.id",
    },
    "groups": {"detail.id"},
}  # fmt: skip
"""Rows have one judgment, which is shown as a whole; only rollouts have one each."""


def attack(kind: str) -> tuple[View, Item]:
    text = titled_text("a", "b")
    of_rollout = {"status": "s", "label": "l", "explanation": "e", "seen": "s", "calls": [call()]}
    filled = completion_view("t", "t", "t", ["n"], 0.25, **of_rollout)
    head = replace(
        HEAD,
        first_facts=[("a", "b")],
        notices=["a"],
        charts=[CHART],
        tables=[{"title": "t", "header": ["a", "b"], "rows": [["c", "d"]]}],
    )
    full = detail("a", error="e", completions=[filled], calls=[call(reasoning="r")], critique={})
    full |= {"comparison": "c", "verdict": ["v"], "said": [text]}
    full["judgment"] = {
        "criteria": [{"name": "n", "text": "t", "verdict": "v", "quote": "q", "reason": "r"}]
    }
    item = attacked(summary("a"), "summary"), attacked(full, "detail")
    item[1]["id"] = item[0]["id"]
    return replace(attacked(head, "head"), kind=kind, total=2), item


def everything_opened(seen: Watched) -> str:
    """All texts of list and item, with everything unfolded, and once with Markdown rendered."""
    page = seen.page
    page.wait_for_selector(".row-link")
    shown = page.evaluate("document.body.textContent")
    page.click(".row-link >> nth=0")
    unfold(seen)
    shown += page.evaluate("document.getElementById('detail').textContent")
    page.evaluate(
        "document.querySelectorAll('#detail [aria-pressed]').forEach(button => button.click())"
    )
    assert page.locator(".markdown").count() > 3
    page.keyboard.press("Escape")
    page.wait_for_selector(".row-link")
    return str(shown)


@pytest.mark.parametrize("kind", ["rows", "groups"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_hostile_text_in_every_field_runs_nothing_and_is_shown(
    browser: Any, tmp_path: Path, kind: str, scheme: str
) -> None:
    head, item = attack(kind)
    path = written(tmp_path / "report.html", [item, (summary("plain"), detail("plain"))], head)
    with watched(browser, path, color_scheme=scheme) as seen:
        shown = everything_opened(seen)
        missing = {
            field
            for field in {
                *paths(head, "head"),
                *paths(item[0], "summary"),
                *paths(item[1], "detail"),
            }
            if field not in shown and not any(hidden in field for hidden in NOT_SHOWN[kind])
        }
        assert missing <= {"head.kind", "head.charts.description"}
        for name in ("q", "category", "outcome", "status"):
            assert seen.page.locator(f"#{name}").count() == 1
        seen.page.fill("#q", '<script>window.ran = true; alert(1)</script><img src="x')
        seen.until("!document.getElementById('count').textContent.includes('searching')")
        seen.page.wait_for_timeout(200)
        assert seen.page.evaluate("window.ran") is None
        assert (
            seen.page.locator(
                "#detail script, #detail img, #detail iframe, #detail svg, #detail style"
            ).count()
            == 0
        )
        seen.assert_clean()
        assert (
            seen.page.locator("img")
            .first.get_attribute("alt")
            .startswith("head.charts.description;</script>")
        )


def test_a_hostile_id_is_opened_by_its_link(browser: Any, tmp_path: Path) -> None:
    head, item = attack("rows")
    path = written(tmp_path / "report.html", [item], head)
    with watched(browser, path) as seen:
        seen.page.click(".row-link")
        seen.page.wait_for_selector(".item-facts")
        with watched(browser, seen.page.url) as again:
            again.page.wait_for_selector(".item-facts")
            again.assert_clean()


def test_no_direction_leaks_and_what_cannot_be_seen_has_a_sign(
    browser: Any, tmp_path: Path
) -> None:
    text = "safe \u202e txet \u202c\u200b\u200b\u200b\x00 fam: 👨‍👩‍👧 می‌خواهم a\u200db"
    item = (
        summary("\u202eid", start=text, category="\u202ecat"),
        detail("\u202eid", completions=[completion_view(text, text, "", [])]),
    )
    with watched(
        browser, written(tmp_path / "report.html", [item], replace(HEAD, title=text, total=1))
    ) as seen:
        page = seen.page
        page.wait_for_selector(".row-link")
        assert page.locator("h1 .sign").all_text_contents() == [
            "RLO",
            "PDF ZWSP ZWSP ZWSP",
            "ZWJ",
        ]  # NUL: no document may hold it
        assert page.locator(".row-start .sign").all_text_contents() == [
            "RLO",
            "PDF ZWSP ZWSP ZWSP +1",
            "ZWJ",
        ]
        page.click(".row-link")
        page.wait_for_selector(".column")
        assert "\u202e" not in page.evaluate("document.getElementById('detail').textContent")
        assert "👨‍👩‍👧 می‌خواهم" in page.evaluate("document.getElementById('detail').textContent")
        seen.assert_clean()


@pytest.mark.parametrize("unit", ["\u200b", "\u200ba", "<", "\n", "🙂", "\u202e🙂", "a"])
def test_a_megabyte_of_one_kind_in_every_text_does_not_hang(
    browser: Any, tmp_path: Path, unit: str
) -> None:
    text = unit * (1_000_000 // len(unit))
    completions = [completion_view("answer", text, text, [])]
    item = (
        summary("a"),
        detail(
            "a", completions=completions, texts=[titled_text("baseline", text)], error=text[:1000]
        ),
    )
    with watched(
        browser, written(tmp_path / "report.html", [item], replace(HEAD, total=1))
    ) as seen:
        seen.page.click(".row-link")
        seen.page.wait_for_selector(".column pre")
        seen.page.locator(".column button", has_text="Rendered").first.click()
        seen.page.wait_for_selector(".markdown")
        seen.page.keyboard.press("Escape")
        seen.page.fill("#q", "nowhere")
        seen.until("document.getElementById('count').textContent === '0 of 1 sample'")
        seen.assert_clean()


def test_a_script_that_is_put_into_the_file_is_blocked(browser: Any, tmp_path: Path) -> None:
    path = written(tmp_path / "report.html", [(summary("a"), detail("a"))], HEAD)
    injected = (
        b"<script>window.ran = true</script><p onclick='window.ran = true' id=injected>injected</p>"
    )
    path.write_bytes(path.read_bytes().replace(b"</body>", injected + b"</body>"))
    with watched(browser, path) as seen:
        seen.page.wait_for_selector(".row-link")
        seen.page.evaluate("document.getElementById('injected').click()")
        seen.page.evaluate(
            "document.body.append(Object.assign(document.createElement('script'), {async: true}))"
        )
        assert seen.page.evaluate("window.ran") is None
        assert len(seen.refusals) >= 2
        assert {directive[:10] for directive in seen.refusals} == {"script-src"}


def test_the_attack_is_one_where_it_is_not_guarded_against(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "naive.html"
    path.write_bytes(f"<!DOCTYPE html><title>t</title><p>{ATTACK}</p>".encode("utf-8", "replace"))
    with watched(
        browser, path, is_blank=True
    ) as seen:  # its dialog may come before the first paint
        assert seen.page.evaluate("window.ran") is True
        assert seen.dialogs == ["1"]
