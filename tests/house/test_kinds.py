"""How often code names a kind of judge outside that kind's own module: what it needs to know, the definition says."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from judgegym.judges.scorers.registry import JUDGES
from tests.command import ROOT
from tests.house.counting import PACKAGES, python_files

MOST = 10
"""Left are: what environments are (`EnvSpec.judge`, their group judges, and the runs of before that do not say their
judge), the usual kind of a part, and the judge of verifiers' groups."""
REGISTRY = "judgegym/judges/scorers/registry.py"
NO_KINDS: Mapping[str, tuple[str, ...]] = {
    "judgegym/api/results.py": ("aspect",),  # the first word of a column
    "judgegym/cli/judge_cards/openai_graders.py": ("rule",),  # a setting
    "judgegym/data/pairs.py": ("choice",),  # of a benchmark: one right answer, or ties
    "judgegym/datasets/rows/questions.py": ("aspect",),  # a kind of question
    "judgegym/datasets/score/verdicts.py": ("aspect",),  # a kind of question
    "judgegym/datasets/score/command.py": ("rule",),  # a flag
    "judgegym/datasets/select/layouts.py": ("reward_model",),  # verl's column
    "judgegym/environments/aspect_critique_environment.py": ("aspect",),  # a text that a page shows
    "judgegym/eval_environments/arena/candidates_environment.py": (
        "tournament",
    ),  # how candidates play
    "judgegym/eval_environments/arena/environment.py": (
        "arena_hard",
        "tournament",
    ),  # the benchmark, how one plays
    "judgegym/eval_environments/pairwise.py": ("choice",),  # of a benchmark
    "judgegym/eval_environments/pairwise_judgement_environment.py": ("choice",),  # of a benchmark
    "judgegym/judges/checklists/judge.py": ("choice",),  # a type of question to a decision model
    "judgegym/judges/config/removed_values.py": ("cascade",),  # a setting
    "judgegym/judges/parsing/decisions.py": ("choice",),  # a type of question, a field of an answer
    "judgegym/judges/parsing/labels.py": ("choice",),  # a form of structured output
    "judgegym/judges/prompt_files/card.py": ("rule",),  # a setting
    "judgegym/judges/tournament/schedule.py": ("choice",),  # a kind of game
    "judgegym/llm/providers/decisions.py": ("choice",),  # a type of question, a field of an answer
    "judgegym/monitoring/monitor.py": ("cascade",),  # an entry of a file
    "judgegym/reports/compare/audits.py": ("choice",),  # what a label is
    "judgegym/reports/results/run.py": ("arena_hard",),  # the benchmark
    "judgegym/reports/run_page/rows.py": ("aspect",),  # a field of a sample
    "judgegym_trainers/verl/dataset.py": ("reward_model",),  # verl's column
    "judgegym_trainers/verl/rewards.py": ("reward_model",),  # verl's column
    "judgegym_trials/attacks/command.py": ("rule",),  # a flag
    "judgegym_trials/audit/bias.py": ("choice",),  # what a label is
    "judgegym_trials/audit/checks.py": ("choice",),  # what a label is
    "judgegym_trials/audit/judgments.py": ("choice",),  # what a label is
    "judgegym_trials/audit/noise.py": ("choice",),  # what a label is
    "judgegym_trials/replay/command.py": ("jury", "cascade"),  # flags
    "judgegym_trials/replay/table.py": ("cascade",),  # which random numbers are drawn
}
"""Words that are no kind of judge where they stand, unless they are given or compared as one."""
COLUMNS = ("prompt", "rubric")
"""Kinds that are columns, placeholders and fields nearly everywhere."""
HOLDS_KIND = ("judge", "judge_kind", "usual")
"""Names that hold a kind of judge."""
_QUOTED = re.compile(rf"""["'](?:{"|".join(JUDGES)})["']""")


@cache
def _modules(kind: str) -> tuple[str, ...]:
    """The kind's own file, or its own folder."""
    paths = [
        Path(inspect.getfile(each)).relative_to(ROOT)
        for each in (JUDGES[kind].settings, JUDGES[kind].judge)
    ]
    shared = ("judges", "parts")
    return tuple(str(path if path.parent.name in shared else path.parent) for path in paths)


def _last_name(node: ast.AST) -> str:
    return (
        node.attr
        if isinstance(node, ast.Attribute)
        else node.id
        if isinstance(node, ast.Name)
        else ""
    )


def _named_kinds(tree: ast.AST) -> Iterator[ast.AST]:
    """The expressions that are given or compared as a kind of judge."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in HOLDS_KIND:
            yield node.value
        elif isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            yield from (
                value
                for key, value in pairs
                if isinstance(key, ast.Constant) and key.value in (*HOLDS_KIND, "kind")
            )
        elif isinstance(node, ast.Compare) and _last_name(node.left) in HOLDS_KIND:
            yield from node.comparators
        elif (
            isinstance(node, ast.AnnAssign)
            and _last_name(node.target) in HOLDS_KIND
            and node.value is not None
        ):
            yield node.value
        elif isinstance(node, ast.Subscript) and _last_name(node.value) == "JUDGES":
            yield node.slice


def kinds_in(path: Path, source: str) -> list[str]:
    """Where a file names kinds of judges that are not its own."""
    tree, name = ast.parse(source), path.as_posix()
    named = {id(inner) for expression in _named_kinds(tree) for inner in ast.walk(expression)}
    found = list[str]()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or node.value not in JUDGES:
            continue
        is_word = node.value in COLUMNS or node.value in NO_KINDS.get(name, ())
        if not name.startswith(_modules(str(node.value))) and (id(node) in named or not is_word):
            found.append(f"{name}:{node.lineno} {node.value}")
    return found


@pytest.fixture(scope="module")
def places() -> list[str]:
    """Where the three packages name kinds of judges."""
    paths = [path for package in PACKAGES for path in python_files(ROOT / package)]
    sources = {path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in paths}
    return [
        place
        for path, source in sources.items()
        if path.as_posix() != REGISTRY and _QUOTED.search(source)
        for place in kinds_in(path, source)
    ]


def test_kinds_are_named_in_their_own_modules(places: list[str]) -> None:
    assert len(places) <= MOST, "\n".join(places)


def test_words_that_are_no_kinds_are_in_those_files() -> None:
    for name, words in NO_KINDS.items():
        found = {
            match[1:-1] for match in _QUOTED.findall((ROOT / name).read_text(encoding="utf-8"))
        }
        assert {*words} <= found, name


def test_count_sees_kinds_and_not_columns() -> None:
    path = Path("judgegym/somewhere.py")
    assert kinds_in(path, "row['rubric'], row['prompt'], settings.rule == 'number'") == []
    for source in (
        "settings.judge == 'rubric'",
        "f(judge='prompt')",
        "{'judge': 'rubric'}",
        "JUDGES['rubric']",
        "x = 'jury'",
    ):
        assert len(kinds_in(path, source)) == 1, source
    assert kinds_in(Path("judgegym/judges/parts/jury.py"), "x = 'jury', 'cascade'") == [
        "judgegym/judges/parts/jury.py:1 cascade"
    ]
