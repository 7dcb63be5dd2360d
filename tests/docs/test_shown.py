"""Code that pages show from `examples/`: each link to it leads to code that is there."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from docs.tools.shown import SHOWN, named, shown
from tests.docs.blocks import PAGES, name_of
from tests.forking import ROOT

SHOWING = {page: [*SHOWN.finditer(page.read_text(encoding="utf-8"))] for page in PAGES}
CONSTITUTION = ROOT / "examples" / "own_environment" / "constitution_environment.py"


@pytest.mark.parametrize("page", [page for page, links in SHOWING.items() if links], ids=name_of)
def test_code_of_a_page_is_there(page: Path) -> None:
    for link in SHOWING[page]:
        found = shown((page.parent / link["path"]).resolve(), link["names"] or "")
        assert found.markdown.startswith("```") or found.pictures, link[0]


def test_names_are_shown_in_the_order_of_the_file_with_decorators_and_comments() -> None:
    code = named(CONSTITUTION, ["PROMPT", "broken_principles"])
    assert code.startswith("@verdict_parser\ndef broken_principles(")
    assert "\n# What the offline stand-in says" in code and code.count("\n\n") == 1
    ast.parse(code)


def test_method_is_shown_without_its_class() -> None:
    assert named(CONSTITUTION, ["ConstitutionEnv.tasks"]).startswith("def tasks(self")


def test_name_that_is_not_in_the_file_is_told() -> None:
    with pytest.raises(ValueError, match=r"constitution_environment\.py defines no Env\.nothing and no no_such"):
        named(CONSTITUTION, ["Env.nothing", "PROMPT", "no_such"])


def test_line_that_says_more_than_the_link_stays_a_link() -> None:
    link = "[code](../examples/one.py#name)"
    assert SHOWN.search(f"Text.\n\n{link}\n\nText.") and SHOWN.search(f"Text.\n\n{link}\n")
    assert not SHOWN.search(f"See {link}\n\n") and not SHOWN.search(f"Text.\n\n{link} has it.\n\n")
