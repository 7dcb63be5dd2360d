"""What an item of a page opens to, in a real browser: texts, calls with their verdicts, trees, groups, Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from judgegym.reports.run_page.items import Item, completion_view, titled_text, turn_view
from tests.chromium import Watched, needs_chromium, watched
from tests.core.reports.run_page.made import HEAD, call, detail, replace, summary, written

pytestmark = needs_chromium

MARKDOWN = """# Title
Some **bold *and inner*** and `code **not bold**` and \\*stars\\* and a_b_c and 2 * 3 * 4
second line

- one
- two
  1. inner
  2. second

3. third
4. fourth

| a | b |
|---|:-:|
| 1 | **2** |

```html
<script>window.ran = true</script>
```

> quote <b onclick="window.ran = true">no markup</b>

[link](javascript:window.ran=true) ![image](https://example.org/x.png) <https://example.org> ~~gone~~
***
"""


def opened(
    browser: Any, path: Path, item: Item, *, kind: str = "rows", query: str = "", **options: Any
) -> Any:
    written(path, [item], replace(HEAD, kind=kind, total=1))
    return watched(browser, f"{path.as_uri()}#{item[0]['id']}{query}", **options)


def text_of(seen: Watched, title: str, nth: int = 0) -> str:
    return str(
        seen.page.locator(f".text-box[aria-label='{title}'] .text-body").nth(nth).text_content()
    )


def unfold(seen: Watched) -> None:
    """Open whatever is folded, also what comes to light by that."""
    seen.page.wait_for_selector(".item-facts")
    while seen.page.locator("#detail details:not([open])").count():
        seen.page.locator("#detail details:not([open]) > summary").first.click()
        seen.until(
            "[...document.querySelectorAll('#detail details')].every(e => !e.open || "
            "e.children.length > 1)"
        )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "report.html"


def test_answer_and_baseline_are_side_by_side_and_stacked_on_a_phone(
    browser: Any, path: Path
) -> None:
    places = {}
    for width in (1200, 375):
        with opened(browser, path, (summary("a"), detail("a")), width=width) as seen:
            seen.page.wait_for_selector(".column")
            assert text_of(seen, "answer").endswith("answer to a")
            assert text_of(seen, "baseline") == "The baseline's answer to a"
            places[width] = [column.bounding_box() for column in seen.page.locator(".column").all()]
            seen.assert_clean()
    (answer, baseline), (answer_on_phone, baseline_on_phone) = places[1200], places[375]
    assert answer["y"] == baseline["y"]
    assert answer["x"] + answer["width"] < baseline["x"]
    assert answer_on_phone["x"] == baseline_on_phone["x"]
    assert answer_on_phone["y"] + answer_on_phone["height"] <= baseline_on_phone["y"]


def test_the_verdict_is_marked_where_it_stands_in_code_points(browser: Any, path: Path) -> None:
    for answer, verdict in {
        "so: [[A>B]] it is": "[[A>B]]",
        "🙂🙂 é 漢字: [[B]]": "[[B]]",
        "👨‍👩‍👧 5": "5",
        "[[A]]": "[[A]]",
        "\u200b\u202e🙂 x": "x",
    }.items():
        start = answer.index(verdict)
        judged = call(answer=answer, verdict_at=(start, start + len(verdict)))
        with opened(browser, path, (summary("a"), detail("a", calls=[judged]))) as seen:
            unfold(seen)
            assert seen.page.locator(".text-box mark").all_text_contents() == [verdict]
            assert seen.page.locator("summary mark").all_text_contents() == [verdict]
            seen.assert_clean()


def test_a_call_shows_what_it_was_asked_and_what_it_took(browser: Any, path: Path) -> None:
    calls = [
        call(reasoning="Let me think.", finish_reason="length"),
        call(
            "game_2",
            vote=1,
            messages=None,
            verdict_at=None,
            has_verdict=False,
            attempts=0,
            cost=None,
            prompt_tokens=None,
        ),
    ]
    with opened(browser, path, (summary("a"), detail("a", calls=calls))) as seen:
        seen.page.wait_for_selector("#detail summary")
        first, second = (
            seen.page.inner_text(f"summary:has-text('{name}')") for name in ("game_1", "game_2")
        )
        assert (
            "judge-model · 1,200 (100 cached) + 300 tokens · 2.34 s · 2 attempts · $0.0012" in first
        )
        assert "finish reason length" in first
        assert "game_2, vote 2 no verdict" in " ".join(second.split())
        assert "from the judgment cache" in second
        assert seen.page.locator(".text-box[aria-label='system']").count() == 0
        unfold(seen)
        assert text_of(seen, "system") == "You are a judge."
        assert text_of(seen, "reasoning") == "Let me think."
        assert "the run's ledger" in seen.page.inner_text("#detail")
        seen.assert_clean()


def test_turns_follow_each_other_with_their_scores_and_tools_are_folded(
    browser: Any, path: Path
) -> None:
    turns = [
        turn_view("assistant", "Let me look."),
        turn_view("tool (search)", "<b>two cats</b>" * 3),
    ]
    completions = [
        completion_view("turn 1", "Cats.", is_judged=True, turn_score=0.25),
        completion_view("turn 2", "Dogs.", asked="And <i>dogs</i>?", turns=turns),
    ]
    with opened(
        browser, path, (summary("a"), detail("a", completions=completions, texts=[]))
    ) as seen:
        seen.page.wait_for_selector(".text-box.judged")
        titles = seen.page.locator(".column .text-box").evaluate_all(
            "boxes => boxes.map(e => e.ariaLabel)"
        )
        assert titles == ["turn 1", "user", "assistant"]
        assert seen.page.locator(".text-box.judged").count() == 1
        assert "judged, score 0.25" in seen.page.inner_text(".text-box.judged .note")
        assert text_of(seen, "user", 1) == "And <i>dogs</i>?"  # after the question
        unfold(seen)
        assert text_of(seen, "tool (search)") == "<b>two cats</b>" * 3
        seen.assert_clean()


def test_thinking_is_folded_and_judgments_are_trees(browser: Any, path: Path) -> None:
    completions = [completion_view("answer", "Yes.", "I wonder.", ["cut off"])]
    critique = {
        "rounds": [{"text": "better\nnow"}],
        "none": None,
        "empty": [],
        "many": list(range(500)),
    }
    item = (
        summary("a"),
        detail("a", completions=completions, texts=[], critique=critique, error="it broke"),
    )
    with opened(browser, path, item) as seen:
        seen.page.wait_for_selector(".tree")
        assert "I wonder." not in seen.page.inner_text("#detail")
        assert "cut off" in seen.page.inner_text("#detail")
        assert "it broke" in seen.page.inner_text("#detail .error")
        unfold(seen)
        assert text_of(seen, "thinking") == "I wonder."
        shown = seen.page.inner_text("#detail")
        assert "verdict A>B" in shown
        assert "better\nnow" in shown
        assert "(empty list)" in shown
        assert seen.page.locator(".tree-value", has_text="499").count() == 0
        seen.page.click("text=Show 300 more")
        assert seen.page.locator(".tree-value", has_text="499").count() == 1
        seen.assert_clean()


def test_a_group_shows_its_rollouts_with_rewards_and_how_they_were_compared(
    browser: Any, path: Path
) -> None:
    rollouts = [
        completion_view(
            f"rollout {number}",
            f"text {number}",
            score=reward,
            status=status,
            label="better",
            explanation="well argued",
            calls=[call(f"judge_{number}")],
        )
        for number, (reward, status) in enumerate(
            [(0.5, "ok"), (-1.0, "ok"), (None, "judge_failed")]
        )
    ]
    hostile = "place 1 of 2: <img src=x onerror='window.ran = true'>"
    rollouts[0]["seen"], compared = (
        hostile,
        "Ranked in one list, in 2 calls.",
    )
    item = (
        summary("7", label=None),
        detail("7", completions=rollouts, texts=[], calls=[], comparison=compared),
    )
    with opened(browser, path, item, kind="groups") as seen:
        seen.page.wait_for_selector(".rollout")
        assert seen.page.inner_text("h1#detail-title") == "Group 7"
        summaries = [
            " ".join(text.split())
            for text in seen.page.locator(".rollout > summary").all_inner_texts()
        ]
        assert summaries[0].startswith("rollout 0 reward 0.5 · better")
        assert summaries[2].startswith("rollout 2 no reward")
        assert compared in seen.page.inner_text("section[aria-label='Rollouts'] > .note")
        unfold(seen)
        assert f"Seen by the judge: {hostile}" in seen.page.locator(".rollout").first.inner_text()
        shown = seen.page.inner_text("#detail")
        assert "Status of the judgment: judge_failed" in shown
        assert text_of(seen, "explanation of the judge", 1) == "well argued"
        assert shown.count("You are a judge.") == 3
        seen.page.keyboard.press("Escape")
        seen.page.wait_for_selector(".row-link")
        assert " ".join(seen.page.inner_text(".row-score").split()) == "0.5 -1 –"
        assert seen.page.inner_text("#count") == "1 group"
        seen.assert_clean()


def test_markdown_is_rendered_to_elements_that_can_do_nothing(browser: Any, path: Path) -> None:
    completions = [completion_view("answer", MARKDOWN, "", [])]
    with opened(
        browser, path, (summary("a"), detail("a", completions=completions, texts=[]))
    ) as seen:
        seen.page.locator(".column button", has_text="Rendered").click()
        page, shown = seen.page, seen.page.locator(".markdown")
        assert shown.locator("h3").inner_text() == "Title"
        assert shown.locator("strong").first.inner_text() == "bold and inner"
        assert shown.locator("strong em").inner_text() == "and inner"
        assert shown.locator("p code").inner_text() == "code **not bold**"
        assert (
            "*stars* and a_b_c and 2 * 3 * 4\nsecond line" in shown.locator("p").first.inner_text()
        )
        assert shown.locator("ul > li").all_inner_texts()[0] == "one"
        assert shown.locator("ul ol > li").all_inner_texts() == ["inner", "second"]
        assert shown.locator("> ol").get_attribute("start") == "3"
        assert shown.locator("> ol > li").all_inner_texts() == ["third", "fourth"]
        assert shown.locator("td").all_inner_texts() == ["1", "2"]
        assert shown.locator("pre").inner_text() == "<script>window.ran = true</script>"
        assert (
            'quote <b onclick="window.ran = true">no markup</b>'
            in shown.locator("blockquote").inner_text()
        )
        assert (
            "link (javascript:window.ran=true) image: image (https://example.org/x.png)"
            in shown.inner_text()
        )
        assert shown.locator("del").inner_text() == "gone"
        assert shown.locator("hr").count() == 1
        assert shown.locator("a, img, script, iframe, b, [onclick], [href], [src]").count() == 0
        page.locator(".column button", has_text="Rendered").click()
        assert text_of(seen, "answer") == MARKDOWN
        assert page.evaluate("window.ran") is None
        seen.assert_clean()


def test_markdown_takes_no_more_time_than_its_length(browser: Any, path: Path) -> None:
    """Each delimiter looks for its counterpart at most once; what that takes is counted, not timed."""
    units = [
        "**",
        "*a ",
        "[",
        "[a](",
        "`",
        "``a",
        "> ",
        "- ",
        "_",
        "|a|\n|-|\n",
        "1. ",
        "~~a",
        "\\",
        "#",
        "\n",
    ]
    for unit in units:  # none hangs
        answer = completion_view("answer", unit * (60_000 // len(unit)))
        with opened(browser, path, (summary("a"), detail("a", completions=[answer]))) as seen:
            seen.page.locator(".column button", has_text="Rendered").first.click()
            seen.page.wait_for_selector(".markdown")
            seen.assert_clean()
    steps = """(text) => {
      let steps = 0;
      for (const [of, name] of [[String.prototype, "indexOf"], [RegExp.prototype, "test"]]) {
        const own = of[name];
        of[name] = function (...words) { steps += 1; return own.apply(this, words); };
      }
      markdownOf(text);
      return steps;
    }"""
    for text in ("x " + "* " * 24_000 + "y*", "x " + "~~ " * 16_000 + "y~~"):
        with opened(browser, path, (summary("a"), detail("a"))) as seen:
            assert seen.page.evaluate(steps, text) < 10 * len(text)


def test_searched_words_are_highlighted_and_folded_places_say_so(browser: Any, path: Path) -> None:
    calls = [call("game_1", answer="here is the Needle [[A>B]]", verdict_at=None), call("game_2")]
    with opened(browser, path, (summary("a"), detail("a", calls=calls)), query="?q=needle") as seen:
        seen.page.wait_for_selector(".found")
        assert seen.page.locator(".found").count() == 1
        assert seen.page.evaluate("CSS.highlights.get('searched').size") == 0
        unfold(seen)
        assert seen.page.evaluate("[...CSS.highlights.get('searched')].map(String)") == ["Needle"]
        seen.assert_clean()


def test_a_megabyte_of_answer_is_shown_in_parts_and_can_be_copied(browser: Any, path: Path) -> None:
    text = "0123456789" * 100_000 + "the end"
    item = (
        summary("a"),
        detail("a", completions=[completion_view("answer", text, "", [])], texts=[]),
    )
    with opened(browser, path, item, permissions=["clipboard-read", "clipboard-write"]) as seen:
        seen.page.wait_for_selector(".column pre")
        assert seen.page.locator(".column pre").evaluate("e => e.textContent.length") == 50_000
        while seen.page.locator("text=Show more").count():
            seen.page.click("text=Show more")
        assert seen.page.locator(".column pre").evaluate("e => e.textContent") == text
        seen.page.locator(".column button", has_text="Copy").click()
        seen.page.wait_for_selector("text=Copied")
        assert seen.page.evaluate("navigator.clipboard.readText()") == text
        seen.assert_clean()


def test_a_browser_that_cannot_unpack_says_so_and_still_lists(browser: Any, path: Path) -> None:
    written(path, [(summary("a"), detail("a"))], replace(HEAD, total=1))
    with watched(browser, path, script="delete window.DecompressionStream") as seen:
        seen.page.wait_for_selector(".row-link")
        assert "no DecompressionStream" in seen.page.inner_text("#told")
        seen.page.click(".row-link")
        seen.page.wait_for_selector("#detail-parts .error")
        assert "no DecompressionStream" in seen.page.inner_text("#detail-parts .error")
        assert "score 1" in seen.page.inner_text(".item-facts")
        seen.assert_clean()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 375])
def test_nothing_scrolls_sideways_on_a_phone(
    browser: Any, path: Path, width: int, scheme: str
) -> None:
    wide = "w" * 5000
    texts = [titled_text("baseline", wide), titled_text(wide, wide)]
    calls = [call(wide, model=wide)]
    item = (
        summary("a" * 300, category=wide, label=wide, start=wide, orders_disagree=True),
        detail("a" * 300, texts=texts, calls=calls, error=wide, judgment={wide: [wide]}),
    )
    with opened(browser, path, item, width=width, color_scheme=scheme) as seen:
        unfold(seen)
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
        seen.page.keyboard.press("Escape")
        seen.page.wait_for_selector(".row-link")
        seen.page.locator("#filters > summary").click()
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
        background = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (background == "rgb(255, 255, 255)") == (scheme == "light")
        seen.assert_clean()


def test_controls_have_names_and_the_focus_is_seen(browser: Any, path: Path) -> None:
    with opened(browser, path, (summary("a", orders_disagree=True), detail("a"))) as seen:
        page = seen.page
        page.wait_for_selector(".text-box")
        assert page.get_by_role("navigation", name="Sample").count() == 1
        assert page.get_by_role("heading", name="a", exact=True).count() == 1
        for name in ("All samples", "Previous", "Next", "Copy link"):
            assert page.get_by_role("button", name=name, exact=True).count() == 1
        assert page.get_by_role("region", name="baseline", exact=True).count() == 1
        page.keyboard.press("Escape")
        page.wait_for_selector(".row-link")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        assert page.get_by_role("searchbox", name="Search in all texts").count() == 1
        for role, name in (
            ("combobox", "Sort"),
            ("spinbutton", "Score from"),
            ("spinbutton", "to"),
        ):
            assert page.get_by_role(role, name=name, exact=True).count() == 1
        assert page.get_by_role("list", name="Samples").get_by_role("link").count() == 1
        seen.assert_clean()


def test_a_printed_item_is_whole_and_without_controls(browser: Any, path: Path) -> None:
    with opened(browser, path, (summary("a"), detail("a"))) as seen:
        seen.page.wait_for_selector(".text-box")
        seen.page.emulate_media(media="print")
        assert not seen.page.is_visible("#item-bar")
        assert seen.page.is_visible("text=answer to a")


@pytest.mark.parametrize("is_scored", [False, True])
def test_parts_of_a_reward_have_bars(browser: Any, tmp_path: Path, is_scored: bool) -> None:
    parts = {
        "style": 0.75,
        "style.raw": 4.0,
        "length": 1.0,
        "length.raw": 1.0,
        "x.y": 3,
        "bad": "1",
        "bad.raw": 1,
    }
    judgment = (
        parts if is_scored else {"parts": parts, "contributions": {"style": 0.375, "length": 0.0}}
    )
    with opened(
        browser, tmp_path / "page.html", (summary("a"), detail("a", judgment=judgment))
    ) as seen:
        rows = seen.page.locator("[aria-label='Parts of the reward'] tr")
        seen.page.wait_for_selector("meter")
        texts = [row.locator("td").all_text_contents() for row in rows.all()]
        bars = [meter.get_attribute("value") for meter in seen.page.locator("meter").all()]
    adds = ["", ""] if is_scored else ["adds 0.375", "adds 0.000"]
    assert texts == [["style", "", "0.750", adds[0]], ["length", "", "1.000", adds[1]]]
    assert bars == ["0.75", "1"]


def test_criteria_are_a_table_with_all_votes(browser: Any, tmp_path: Path) -> None:
    line = {
        "name": "cites",
        "text": "Cites.",
        "points": -4,
        "verdict": "met",
        "votes": ["met", "unmet", "met"],
    }
    said = {**line, "quote": "see [1]", "reason": "<b>It</b> does."}
    item = summary("a"), detail("a", judgment={"criteria": [said, 7, {"votes": "x"}]})
    with opened(browser, tmp_path / "page.html", item) as seen:
        seen.page.wait_for_selector("[aria-label='Criteria'] table")
        cells = seen.page.locator("[aria-label='Criteria'] td").all_text_contents()
    assert cells == ["met (met, unmet, met)", "-4", "cites: Cites.", "see [1]", "<b>It</b> does."]
