"""The tables of metrics on the pages of environments: all that a run writes, nothing else, and within the ranges."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from judgegym.engine.metrics import slug
from judgegym.engine.runs.directory import locate_run_directory
from judgegym.engine.settings import SAMPLES
from judgegym.eval_environments.rewardbench import SUBSETS
from judgegym.judges.aspects.prompt import SUPPORTED_ASPECTS
from tests.command import RunFiles, write_lines
from tests.core.datasets.scoring import score
from tests.core.environments.rollouts_of import group, recorder, two_turns
from tests.core.environments.words import Word
from tests.docs.runs import (
    ARENA,
    ASPECTS,
    CANDIDATES,
    CHECKLIST,
    CONFIGURED,
    MT_BENCH,
    PAIRWISE,
    PEERS,
    PROMPTS,
    RUBRIC,
    Finished,
    Runs,
)
from tests.docs.tables import DOCS, Documented, left_out_together, metrics_of

SHARED, SCORED = "environments/metrics.md", "datasets/score.md"
OF_SHARED = (
    "arena",
    "arena-groups",
    "arena-together",
    "pairwise-dropped",
    "conversations",
    "conversations-groups",
)
OF_SHARED += ("rubric-jury", "aspects-jury-groups", "rubric-signal")
"""Runs that write each shared metric between them."""
_MODELS = [f"offline-policy-{number}" for number in (1, 2, 3)]


def _in_samples(column: str) -> list[str]:
    rows = (
        json.loads(line)
        for path in SAMPLES.glob("*.jsonl")
        for line in path.read_text("utf-8").splitlines()
    )
    return list({slug(row[column]): None for row in rows if row.get(column)})


def _tags() -> set[str]:
    """The tags of the bundled checklists, those of rows and of criteria."""
    lines = (SAMPLES / "rubric_checklist.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return {
        tag
        for row in rows
        for each in (row["example_tags"], *(one["tags"] for one in row["rubrics"]))
        for tag in each
    }


PLACEHOLDERS: Mapping[str, Sequence[str]] = {
    "category": [*_in_samples("category"), *_in_samples("subset"), *SUPPORTED_ASPECTS],
    "cluster": _in_samples("cluster"),
    "aspect": list(SUPPORTED_ASPECTS),
    "k": ["2", "4", "8", "16"],
    "criterion": ["polite"],
    "tag": sorted({slug(tag) for tag in _tags()}),
    "level": [str(level) for level in range(1, 6)],
    "gold": [str(level) for level in range(1, 6)],
    "letter": list("ABCD"),
    "rating": [str(rating) for rating in range(1, 11)],
    "subset": [slug(subset) for subset in SUBSETS],
    "candidate": _MODELS,
    "judge": [*_MODELS, "offline-judge"],
    "other_judge": _MODELS,
    "model": _MODELS,
    "one": _MODELS,
    "other": [*_MODELS, "baseline"],
    "role": ["policy", "judge", "user", "signal"],
    "turn": list("123"),
    "member": list("ab"),
    "reason": [
        "no_signal",
        "judge_failed",
        "policy_failed",
        "nothing_to_compare",
        "pass_rate",
        "too_long",
        "timed_out",
    ],
}


def documented(page: str) -> dict[str, Documented]:
    """The metrics of a page by their names, with what placeholders stand for."""
    return {name: metric for metric in metrics_of(page) for name in metric.expanded(PLACEHOLDERS)}


def check(
    found: Finished, known: Mapping[str, Documented], left_out_together: Collection[str]
) -> None:
    """Each metric of a run is on the page, and its value within the range."""
    assert sorted(found.metrics.keys() - known.keys()) == [], "metrics that no page explains"
    assert sorted(found.left_out - known.keys() - {*left_out_together}) == [], (
        "metrics that no page explains"
    )
    outside = {
        name: value
        for name, value in found.metrics.items()
        if value is not None and not known[name].low - 1e-9 <= value <= known[name].high + 1e-9
    }
    assert outside == {}, "values beyond the documented ranges"


def written(found: Sequence[Finished]) -> set[str]:
    return {name for run in found for name in run.metrics}


def never_written(page: str, found: Sequence[Finished], beside: Sequence[str] = ()) -> list[str]:
    """The metrics of a page of which no run has written one."""
    names = {*written(found), *beside}
    return [
        metric.name for metric in metrics_of(page) if not names & set(metric.expanded(PLACEHOLDERS))
    ]


@pytest.mark.parametrize(
    "page", [ARENA, CANDIDATES, PAIRWISE, ASPECTS, CHECKLIST, RUBRIC, PEERS, MT_BENCH, PROMPTS]
)
def test_each_metric_of_an_environment_is_explained_and_each_that_is_explained_is_written(
    page: str, runs: Runs
) -> None:
    found = [runs(name) for name, configured in CONFIGURED.items() if configured.page == page]
    known = {**documented(SHARED), **documented(page)}
    for run in found:
        check(run, known, left_out_together(page))
    assert never_written(page, found) == []


def test_each_metric_of_a_scored_data_set_is_explained_and_each_that_is_explained_is_written(
    tmp_path: Path,
) -> None:
    rows = [
        {
            "prompt": "Name a prime.",
            "chosen": "Eleven is prime.",
            "rejected": "Nine.",
            "subset": "Precise IF",
        },
        {
            "prompt": "Name a fruit.",
            "chosen": "A fruit is a pear.",
            "rejected": " ",
            "subset": "Precise IF",
        },
    ]
    data, out = write_lines(tmp_path / "data.jsonl", rows), tmp_path / "scored.jsonl"
    assert score(data, "--out", out, "--offline", "--category_column=subset").code == 0
    aspects, criteria = tmp_path / "aspects.jsonl", tmp_path / "criteria.jsonl"
    assert score(data, "--out", aspects, "--offline", "--judge=aspect").code == 0
    polite = json.dumps([{"name": "polite", "text": "Is polite.", "tags": [sorted(_tags())[0]]}])
    assert (
        score(data, "--out", criteria, "--offline", "--judge=checklist", "--criteria", polite).code
        == 0
    )
    found = [
        Finished(RunFiles(locate_run_directory(path)), None) for path in (out, aspects, criteria)
    ]
    for run in found:
        check(run, {**documented(SHARED), **documented(SCORED)}, left_out_together(SCORED))
    assert never_written(SCORED, found) == []


def test_each_shared_metric_is_written(runs: Runs) -> None:
    of_serve = recorder()
    of_serve.groups_maybe_double = 0
    of_serve.flat_rows = (1, 2)
    judged = group([1.0, 0.0], [20, 30])
    of_serve.record_group(Word("w"), replace(judged, rollouts=(judged.rollouts[0], two_turns())))
    beside = of_serve.flush(max_token_len=100).values
    assert never_written(SHARED, [runs(name) for name in OF_SHARED], [*beside]) == []


def test_names_of_a_page_are_explained_once() -> None:
    for page in (ARENA, CANDIDATES, PAIRWISE, ASPECTS, CHECKLIST, RUBRIC, PEERS, MT_BENCH, SHARED):
        together = {"train/mean_reward", "train/winrate", "train/position_agreement_rate"}
        names = [metric.name for metric in metrics_of(page)]
        twice = {name for name in names if names.count(name) > 1} - together
        assert twice == set(), page


OF_DATA = ("category", "cluster", "aspect", "candidate", "judge", "model", "one")


def test_no_name_of_the_data_makes_a_metric_that_a_page_explains() -> None:
    """Whatever of ours stands where a name may stand is no name's slug."""
    pages = sorted(
        path.relative_to(DOCS).as_posix() for path in (DOCS / "environments").glob("*.md")
    )
    patterns = {metric.name for page in [*pages, SCORED] for metric in metrics_of(page)}
    stems = {
        name[: name.index("{" + kind)]
        for name in patterns
        for kind in OF_DATA
        if "{" + kind + "}" in name
    }
    plain = {re.sub(r"{\w+}", "x", name) for name in patterns}
    met = {
        (stem, name)
        for stem in stems
        for name in plain
        if name.startswith(stem)
        and name != f"{stem}x"
        and slug(name.removeprefix(stem)) == name.removeprefix(stem)
    }
    of_another = (
        "eval/mean_score_",
        "eval/mean_score_turn_x",
    )  # candidates and turns are of different environments
    pairs = ("eval/spearman_", "eval/spearman_x_x")
    assert stems and met == {pairs, of_another}, "pairs of models are checked with their settings"
