"""The HTML page of scored groups."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from environments.training.page import write_page

EVIL = "</pre><script>alert(1)</script> {{ 7 * 7 }} <img src=x onerror=alert(1)> \"'&amp; <|im_end|>"
TAGS = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "h1",
    "h3",
    "p",
    "details",
    "summary",
    "span",
    "article",
    "pre",
}


class Page(HTMLParser):
    """The tags, the attributes and the text of a page, read as a browser does."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.pre: list[str] = []
        self.text = ""
        self._in_pre = False
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag == "pre":
            self._in_pre = True
            self.pre.append("")

    def handle_endtag(self, tag: str) -> None:
        self._in_pre = self._in_pre and tag != "pre"

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._in_pre:
            self.pre[-1] += data


def rollout(text: str, explanation: str, label: str | None = "win") -> list[dict[str, Any]]:
    judgment = {"status": "ok", "label": label, "explanation": explanation}
    return [{"role": "user", "content": text}, {"role": "assistant", "content": text, "judgment": judgment}]


def page(tmp_path: Path, *groups: dict[str, Any]) -> Page:
    path = tmp_path / "groups.jsonl"
    path.write_text("".join(json.dumps(group) + "\n" for group in groups))
    written = write_page(path)
    assert written == tmp_path / "groups.html"
    return Page(written)


def test_model_text_is_text_wherever_it_stands(tmp_path: Path) -> None:
    shown = page(tmp_path, {"scores": [1.0, -1.0], "messages": [rollout(EVIL, EVIL, EVIL)] * 2})
    assert set(shown.tags) <= TAGS
    assert {name for name, _ in shown.attributes} <= {"lang", "charset", "name", "content", "class", "open"}
    assert shown.pre == [EVIL] * 5, "the prompt, and of each rollout the text and what the judge said"
    assert shown.text.count(EVIL) == 7, "and the labels"


@given(text=st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1))
def test_any_text_is_shown_as_it_is(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    shown = page(tmp_path_factory.mktemp("page"), {"scores": [1.0], "messages": [rollout(text, "because")]})
    assert shown.pre == [text, text, "because"]


def test_scores_of_every_group_and_which_stand_in_for_a_failed_judge(tmp_path: Path) -> None:
    messages = [rollout("text", "because"), rollout("text", "it broke", None)]
    whole = {"scores": [1.0, 0.5], "messages": messages}
    shown = page(tmp_path, whole, {**whole, "overrides": [{}, {"set_advantage_to_zero": True}]})
    assert shown.text.count("1, 0.5") == 2
    assert shown.text.count("The judge failed") == 1
    assert shown.tags.count("article") == 4
    assert "2 groups" in shown.text


def test_only_a_score_of_zero_is_called_a_tie(tmp_path: Path) -> None:
    """Arena-Hard's label is a tie unless both games were won, or both lost."""
    messages = [rollout("text", "because", "tie") for _ in range(3)]
    shown = page(tmp_path, {"scores": [0.5, -0.5, 0.0], "messages": messages})
    titles = [
        f"{number}: {what}"
        for number, what in enumerate(("0.5 (better than a tie)", "-0.5 (worse than a tie)", "0.0 (tie)"), 1)
    ]
    assert [title for title in titles if f"Rollout {title}" not in shown.text] == []


def test_groups_without_messages_show_their_scores(tmp_path: Path) -> None:
    shown = page(tmp_path, {"scores": [1.0, -0.25], "tokens": [[1], [2]]})
    assert "1, -0.25" in shown.text
    assert "article" not in shown.tags


def test_no_groups(tmp_path: Path) -> None:
    assert "0 groups" in page(tmp_path).text
