"""The list of a page in a real browser: filters, order, search, keys, and links that show the same again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from judgegym.reports.run_page.items import Item, completion_view
from tests.chromium import Watched, needs_chromium, watched
from tests.core.reports.run_page.made import (
    HEAD,
    arena_like,
    call,
    detail,
    replace,
    summary,
    written,
)

pytestmark = needs_chromium

ODD = 'a/b?c=d&e#f%20"<b> \u202eé🙂 ..'
"""An id with whatever an address or a document might take for something else."""

ITEMS: list[Item] = [
    (
        summary(
            "one", category="math", score=0.25, value=0.25, label="loss", length=30, seconds=3.0
        ),
        detail("one"),
    ),
    (
        summary("two", category="code", score=1.0, length=20, seconds=1.0, judge_cost=None),
        detail("two"),
    ),
    (
        summary(
            "three",
            category=None,
            score=None,
            value=None,
            label=None,
            status="judge_failed",
            failed=True,
        ),
        detail("three", error="the judge was away", completions=[]),
    ),
    (
        summary(
            "four",
            score=0.5,
            value=0.5,
            label="tie",
            orders_disagree=True,
            length=10,
            judge_cost=0.5,
        ),
        detail("four", calls=[call(answer="A rare Word of the judge [[A=B]]", verdict_at=None)]),
    ),
    (
        summary(ODD, status="invalid_completion", label="loss", score=0.0, value=0.0, seconds=9.0),
        detail(ODD, completions=[completion_view("answer", "word by word", "a rare thought", [])]),
    ),
]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(
        tmp_path_factory.mktemp("page") / "report.html", ITEMS, replace(HEAD, total=len(ITEMS))
    )


@pytest.fixture
def seen(browser: Any, path: Path) -> Iterator[Watched]:
    with watched(browser, path) as opened:
        opened.page.wait_for_selector(".row-link")
        yield opened
        opened.assert_clean()


def ids(seen: Watched) -> list[str]:
    return [
        text.strip()
        for text in seen.page.locator(".row-id").evaluate_all("all => all.map(e => e.textContent)")
    ]


def until_ids(seen: Watched, *wanted: str) -> None:
    for _ in range(100):
        if ids(seen) == list(wanted):
            break
        seen.page.wait_for_timeout(20)
    assert ids(seen) == list(wanted)


def open_row(seen: Watched, uid: str) -> None:
    seen.page.click(f".row-id bdi:text-is('{uid}')")


def heading(seen: Watched) -> str:
    return str(seen.page.locator("#detail-title").text_content())


SHOWN_ODD = ODD.replace("\u202e", "RLO")


def test_a_filter_shows_its_items_and_their_count(seen: Watched) -> None:
    for control, value, wanted in (
        ("#category", "=math", ["one", "four", SHOWN_ODD]),
        ("#category", "=", ["three"]),
        ("#outcome", "=loss", ["one", SHOWN_ODD]),
        ("#status", "=!failed", ["three"]),
        ("#status", "=invalid_completion", [SHOWN_ODD]),
    ):
        seen.page.select_option(control, value)
        until_ids(seen, *wanted)
        assert seen.page.inner_text("#count") == f"{len(wanted)} of 5 samples"
        seen.page.select_option(control, "*")
        until_ids(seen, "one", "two", "three", "four", SHOWN_ODD)
        assert seen.page.inner_text("#count") == "5 samples"


def test_filters_are_combined_and_one_that_all_pass_is_in_the_links_of_the_rows(
    seen: Watched,
) -> None:
    seen.page.fill("#min", "0.2")
    until_ids(seen, "one", "two", "four")
    seen.page.fill("#max", "0.5")
    until_ids(seen, "one", "four")
    seen.page.check("#orders")
    until_ids(seen, "four")
    seen.page.select_option("#category", "=code")
    until_ids(seen)
    assert seen.page.is_visible("#none")
    seen.page.click("#clear")
    until_ids(seen, "one", "two", "three", "four", SHOWN_ODD)
    seen.page.fill("#q", "question")
    seen.until("location.hash === '#?q=question'")
    open_row(seen, "two")
    seen.page.wait_for_selector(".text-box")
    assert seen.page.url.endswith("#two?q=question")


def test_rows_where_the_judge_is_not_gold_are_listed_if_there_is_gold(
    browser: Any, tmp_path: Path
) -> None:
    differs = {"one": True, "two": False, "three": None}
    items = [(summary(name, gold_differs=known), detail(name)) for name, known in differs.items()]
    page = written(tmp_path / "gold.html", items, replace(HEAD, total=3))
    with watched(browser, f"{page.as_uri()}#?gold=1") as seen:
        until_ids(seen, "one")
        seen.page.uncheck("#gold")
        until_ids(seen, "one", "two", "three")
        seen.assert_clean()
    without = written(
        tmp_path / "none.html", [(summary("one"), detail("one"))], replace(HEAD, total=1)
    )
    with watched(browser, without.as_uri()) as seen:
        until_ids(seen, "one")
        assert not seen.page.is_visible("#gold")


def test_an_order_puts_unknown_values_last(seen: Watched) -> None:
    for order, forwards, backwards in (
        (
            "worst",
            ["three", SHOWN_ODD, "one", "four", "two"],
            ["two", "four", "one", SHOWN_ODD, "three"],
        ),
        (
            "score",
            [SHOWN_ODD, "one", "four", "two", "three"],
            ["two", "four", "one", SHOWN_ODD, "three"],
        ),
        (
            "length",
            ["four", "two", "one", "three", SHOWN_ODD],
            ["three", SHOWN_ODD, "one", "two", "four"],
        ),
        (
            "cost",
            ["one", "three", SHOWN_ODD, "four", "two"],
            ["four", "one", "three", SHOWN_ODD, "two"],
        ),
        (
            "seconds",
            ["two", "three", "four", "one", SHOWN_ODD],
            [SHOWN_ODD, "one", "three", "four", "two"],
        ),
        (
            "",
            ["one", "two", "three", "four", SHOWN_ODD],
            [SHOWN_ODD, "four", "three", "two", "one"],
        ),
    ):
        seen.page.select_option("#sort", order)
        until_ids(seen, *forwards)
        seen.page.check("#reverse")
        until_ids(seen, *backwards)
        seen.page.uncheck("#reverse")
    badges = seen.page.locator(".row-outcome .badge")
    classes = badges.evaluate_all("all => all.map(e => e.className.replace('badge ', ''))")
    assert classes == ["plain", "won", "failed", "plain", "lost"], "the colour of an outcome"


def test_a_search_looks_through_all_texts(seen: Watched) -> None:
    searches = {
        "rare": ["four", SHOWN_ODD],  # what a judge said, what a policy thought
        "RARE word": ["four", SHOWN_ODD],
        '"rare word"': ["four"],
        "away": ["three"],
        '"question of two"': ["two"],
        "nowhere-at-all": [],
    }
    for query, wanted in searches.items():
        seen.page.fill("#q", query)
        until_ids(seen, *wanted)
        assert seen.page.inner_text("#count") == f"{len(wanted)} of 5 samples"


def test_keys_walk_open_and_close(seen: Watched) -> None:
    page = seen.page
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.querySelector('.row-id').textContent") == "two"
    page.keyboard.press("k")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector(".text-box")
    assert heading(seen) == "two"
    assert page.evaluate("document.activeElement.id") == "detail-title"
    page.keyboard.press("j")
    seen.until("document.getElementById('detail-title').textContent === 'three'")
    page.keyboard.press("k")
    page.keyboard.press("k")
    seen.until("document.getElementById('detail-title').textContent === 'one'")
    page.keyboard.press("k")
    assert heading(seen) == "one"
    page.keyboard.press("Escape")
    page.wait_for_selector("#overview:not([hidden])")
    assert page.evaluate("document.activeElement.querySelector('.row-id').textContent") == "one"
    page.keyboard.press("/")
    page.keyboard.type("jk?/")
    assert page.input_value("#q") == "jk?/"
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert page.is_visible("#help")
    page.keyboard.press("Escape")
    assert not page.is_visible("#help")


def test_the_search_key_leads_from_an_item_back_to_the_search(seen: Watched) -> None:
    open_row(seen, "three")
    seen.page.wait_for_selector(".item-facts")
    seen.page.keyboard.press("/")
    seen.until("document.activeElement.id === 'q'")
    assert not seen.page.is_visible("#detail")


def test_the_walk_stays_within_what_the_filters_show(seen: Watched) -> None:
    seen.page.select_option("#outcome", "=loss")
    until_ids(seen, "one", SHOWN_ODD)
    open_row(seen, "one")
    seen.page.wait_for_selector(".text-box")
    assert seen.page.inner_text("#place") == "1 of 2"
    assert seen.page.is_disabled("#previous")
    seen.page.click("#next")
    seen.until(f"document.getElementById('detail-title').textContent.startsWith('{SHOWN_ODD[:4]}')")
    assert seen.page.is_disabled("#next")
    seen.page.go_back()
    until_ids(seen, "one", SHOWN_ODD)
    assert not seen.page.is_visible("#detail")


def test_a_link_reproduces_item_filters_and_order(browser: Any, path: Path, seen: Watched) -> None:
    seen.page.select_option("#outcome", "=loss")
    seen.page.select_option("#sort", "length")
    seen.page.check("#reverse")
    seen.page.fill("#q", "word")
    until_ids(seen, SHOWN_ODD)
    seen.page.click(".row-link")
    seen.page.wait_for_selector(".text-box")
    with watched(browser, seen.page.url) as again:
        again.page.wait_for_selector(".text-box")
        assert heading(again) == SHOWN_ODD
        seen.until("document.getElementById('place').textContent === '1 of 1'")
        again.page.keyboard.press("Escape")
        until_ids(again, SHOWN_ODD)
        controls = {
            name: again.page.input_value(name) for name in ("#q", "#outcome", "#sort", "#category")
        }
        assert controls == {"#q": "word", "#outcome": "=loss", "#sort": "length", "#category": "*"}
        assert again.page.is_checked("#reverse")
        again.assert_clean()


def test_a_link_that_is_made_of_the_id_alone_opens_its_item_and_one_that_means_nothing_breaks_nothing(
    browser: Any, path: Path
) -> None:
    for item, _ in ITEMS:
        with watched(browser, f"{path.as_uri()}#{quote(item['id'], safe='')}") as seen:
            seen.page.wait_for_selector(".item-facts")
            assert heading(seen).replace("RLO", "\u202e") == item["id"]
            seen.assert_clean()
    for fragment in (
        "no-such-row",
        "%",
        "%E0%A4%A",
        "detail",
        "q",
        "?min=word&category=nothing&x=1",
    ):
        with watched(browser, f"{path.as_uri()}#{fragment}") as seen:
            if fragment.startswith("?"):
                seen.until("document.getElementById('count').textContent === '0 of 5 samples'")
            else:
                assert "no sample with this id" in seen.page.inner_text("#detail-parts .error")
            seen.page.keyboard.press("Escape")
            seen.page.wait_for_selector("#controls")
            seen.assert_clean()


def test_the_copied_link_is_the_one_of_what_is_shown(browser: Any, path: Path) -> None:
    with watched(browser, path, permissions=["clipboard-read", "clipboard-write"]) as seen:
        seen.page.select_option("#outcome", "=loss")
        until_ids(seen, "one", SHOWN_ODD)
        open_row(seen, "one")
        seen.page.wait_for_selector(".text-box")
        seen.page.click("text=Copy link")
        seen.page.wait_for_selector("text=Copied")
        assert (
            seen.page.evaluate("navigator.clipboard.readText()")
            == f"{path.as_uri()}#one?outcome=loss"
        )


def test_of_two_thousand_rows_only_those_in_view_are_in_the_document(
    browser: Any, tmp_path: Path
) -> None:
    path = written(tmp_path / "report.html", arena_like(2000, 400), replace(HEAD, total=2000))
    with watched(browser, path) as seen:
        page = seen.page
        page.wait_for_selector(".row-link")
        assert page.inner_text("#count") == "2,000 samples"
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        page.wait_for_selector("text=row-01999")
        assert page.locator(".row").count() < 60
        assert page.locator(".row").last.get_attribute("aria-posinset") == "2000"
        open_row(seen, "row-01999")
        page.wait_for_selector(".text-box")
        page.keyboard.press("Escape")
        page.wait_for_selector("text=row-01999")
        assert (
            page.evaluate("document.activeElement.querySelector('.row-id').textContent")
            == "row-01999"
        )
        page.keyboard.press("j")
        page.keyboard.press("k")
        assert (
            page.evaluate("document.activeElement.querySelector('.row-id').textContent")
            == "row-01998"
        )
        seen.assert_clean()


def test_a_page_of_a_part_of_the_run_says_so_and_one_of_no_rows_is_an_empty_list(
    browser: Any, tmp_path: Path
) -> None:
    path = written(tmp_path / "report.html", ITEMS, replace(HEAD, total=100_000))
    with watched(browser, path.as_uri() + "#elsewhere") as seen:
        assert "It holds 5 of 100,000." in seen.page.inner_text("#detail-parts")
        seen.page.keyboard.press("Escape")
        seen.until(
            "document.getElementById('count').textContent === '5 samples (the run has 100,000)'"
        )
    with watched(browser, written(tmp_path / "empty.html", [])) as seen:
        assert seen.page.inner_text("#count") == "0 samples"
        seen.page.keyboard.press("j")
        seen.assert_clean()


def test_long_labels_are_shown_from_where_they_differ(browser: Any, tmp_path: Path) -> None:
    labels = [
        "harmful=no coherent=yes correct=no",
        "harmful=no coherent=yes correct=yes",
        "harmful=no coherent=no",
    ]
    many = [(summary(str(n), label=label), detail(str(n))) for n, label in enumerate(labels)]
    with watched(browser, written(tmp_path / "report.html", many, HEAD)) as seen:
        seen.page.wait_for_selector(".row-link")
        shown = seen.page.locator(".row-outcome .badge").evaluate_all(
            "all => all.map(e => e.textContent)"
        )
        assert shown == ["… coherent=yes correct=no", "… coherent=yes correct=yes", labels[2]], (
            "a short one stays whole"
        )
        seen.page.locator(".row-link").first.click()
        seen.page.wait_for_selector(".item-facts")
        assert labels[0] in seen.page.inner_text(".item-facts")
        seen.assert_clean()


def test_what_stands_first_is_seen_and_the_rest_is_folded(browser: Any, tmp_path: Path) -> None:
    head = replace(HEAD, first_facts=[("rows", "5 selected")], facts=[("protocol", "a long one")])
    with watched(browser, written(tmp_path / "report.html", ITEMS, head)) as seen:
        seen.page.wait_for_selector(".row-link")
        assert "5 selected" in seen.page.inner_text(".first-facts")
        assert not seen.page.is_visible("#about dd")
        seen.page.click("#about summary")
        assert seen.page.inner_text("#about dd") == "a long one"
        seen.assert_clean()
