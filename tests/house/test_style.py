"""Names hold what they say, and a line does one thing: counts, with limits in `budget.toml`."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.command import ROOT
from tests.gate import BUDGET
from tests.house.counting import PACKAGES
from tests.house.style import Style, find_places, style_of

NEVER = (
    *("of_in_function", "preposition_first"),
    *("nested_conditional", "conditional_over_lines"),
)
WRITTEN_FIELDS = {
    "judgegym/data/rubric_rows.py: asked",
    "judgegym/judges/core/group.py: own",
    "judgegym/judges/rules/judge.py: found",
    "judgegym/reports/results/groups.py: own",
    "judgegym_trials/attacks/results.py: said",
    "judgegym_trials/replay/replay.py: said",
    "judgegym_trials/replay/threshold.py: kept",
}
"""Names without content that stand in files of runs, or in their digests, and keep their form."""


@pytest.fixture(scope="module", params=PACKAGES)
def package(request: pytest.FixtureRequest) -> str:
    """The name of a package."""
    return str(request.param)


@pytest.fixture(scope="module")
def style(package: str) -> Style:
    """What the rules name in the package."""
    return style_of(ROOT / package)


@pytest.fixture(scope="module")
def counts(style: Style) -> Counter[str]:
    """How often they do."""
    return style.counts


def test_names_have_content(counts: Counter[str]) -> None:
    assert (
        counts["empty_name"] <= BUDGET["style"]["empty_names_per_cent"] / 100 * counts["bindings"]
    )


def test_public_names_have_content(package: str, style: Style) -> None:
    names = {
        f"{path.relative_to(ROOT).as_posix()}: {place.text}"
        for path, places in style.places.items()
        for place in places
        if place.rule == "public_empty_name"
    }
    assert names == {name for name in WRITTEN_FIELDS if name.startswith(f"{package}/")}


def test_what_never_occurs(counts: Counter[str]) -> None:
    assert {rule: counts[rule] for rule in NEVER if counts[rule]} == {}


def test_conditional_expressions(package: str, counts: Counter[str]) -> None:
    per_thousand = 1_000 * counts["conditional"] / counts["lines"]
    assert per_thousand <= BUDGET["style"]["conditionals_per_1000_lines"][package]


@pytest.mark.parametrize(
    ("source", "rules"),
    [
        ("found = 1", ["empty_name", "public_empty_name"]),
        ("def f():\n    found = 1", ["empty_name"]),
        ("def kind_of(): ...", ["of_in_function"]),
        ("def without_x(): ...", ["preposition_first"]),
        ("def from_x(): ...", []),
        ("x = a if b else c", ["conditional"]),
        ("x = a if b else c if d else e", ["conditional", "nested_conditional", "conditional"]),
        ("x = [a for b in c for a in b]", ["nested_comprehension"]),
        ("x = [a for a in b if a and c]", ["condition_in_comprehension"]),
        ('x = f"{len(a)}"', ["call_in_f_string"]),
        ('x = f"{a}"', []),
    ],
)
def test_rules(source: str, rules: list[str]) -> None:
    assert sorted(place.rule for place in find_places(source)) == sorted(rules)
