"""Names of classes: a noun of the trade, and one class for each name."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

from tests.command import ROOT
from tests.house.counting import PACKAGES, python_files

PARTICIPLE = re.compile(
    r"[A-Z][a-z]+(ed|ing|wn|ught)|Found|Held|Kept|Known|Lost|Seen|Shown|Spent|Told|Begun|Given|Open"
)
NOUNS = {"Listing", "Rating", "Thinking", "Tracing"}
"""Nouns that end as a participle does: a list, a number of the Arena, the thinking of a policy, what makes spans."""

SEVERAL = {
    "Trainer": "what is used of a trainer that has this name itself",
    "score": "the functions for Ray Data and for `datasets.map`, by the names that a pipeline shows",
}
"""Public names that several classes have, with the reason."""


@pytest.fixture(scope="module")
def public_classes() -> dict[str, list[str]]:
    """The modules of each public class of the package, by its name."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in (path for package in PACKAGES for path in python_files(ROOT / package)):
        for node in ast.parse(path.read_bytes()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(_module(path))
    return dict(found)


def _module(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_no_class_is_named_by_a_participle_alone(public_classes: dict[str, list[str]]) -> None:
    participles = [
        name for name in public_classes if PARTICIPLE.fullmatch(name) and name not in NOUNS
    ]
    assert {name: public_classes[name] for name in participles} == {}


def test_each_name_is_that_of_one_class(public_classes: dict[str, list[str]]) -> None:
    several = {name: modules for name, modules in public_classes.items() if len(modules) > 1}
    assert {name: modules for name, modules in several.items() if name not in SEVERAL} == {}
