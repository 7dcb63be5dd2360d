"""A run directory alone says what each row adds to the result, which texts it was about, and how each order ended."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from judgegym.engine.records import SampleRun
from judgegym.reports.results.run import SavedRun
from tests.conformance.lab import Lab, Undisturbed, row_of_sample, slow_with_several_models
from tests.conformance.subjects import Subject
from tests.scripted import Reply

TEXTS = {
    "arena_hard": {"baseline"},
    "arena_hard-candidates": {"baseline"},
    "mt_bench": {"reference_1", "reference_2"},
    "pairwise_judgement": {"answer A", "answer B", "answer C", "answer D"},
    "aspect_critique-policy": set[str](),
    "aspect_critique-judge": {"aspect", "answer"},
    "rubric_absolute-policy": {"rubric", "reference"},
    "rubric_absolute-judge": {"rubric", "reference", "response"},
    "rubric_checklist-policy": {"criteria"},
    "rubric_checklist-judge": {"criteria", "answer"},
    "prompts": set[str](),
    "prompts-conversations": set[str](),
    "self_critique": {"rubric"},
    "example-constitution": set[str](),
}
"""The texts of the first row of each subject, by title."""
ORDERS = {
    "arena_hard": {"model_is_a", "model_is_b"},
    "pairwise_judgement": {"as_shown", "reversed"},
}


def test_shares_make_the_headline_where_policy_and_judge_fail(lab: Lab) -> None:
    """Rows that do not count have no share; rows that count as wrong have one."""
    refused = Reply(status=400, body={"error": {"message": "no"}})
    lab.policy.disturb({"row-1": refused}.get)
    lab.judge.disturb({"row-3": refused}.get)
    lab.evaluate("--env.max_judge_error_rate=1")
    run = SavedRun.open(lab.files().path)
    samples = list(run.samples())
    assert run.headline is not None and len(samples) > len(lab.files().samples)
    assert (run.headline.words, run.environment) == (
        lab.subject.headline[1],
        lab.subject.env_type.spec.name,
    )
    shares = [sample.headline for sample in samples if sample.headline is not None]
    assert run.headline.value == pytest.approx(
        sum(share.total for share in shares) / sum(share.weight for share in shares), abs=1e-12
    )
    for sample in samples:
        counts = sample.finished or (not lab.subject.has_judge and sample.status == "policy_failed")
        assert (sample.headline is not None) is counts, sample.status


def test_each_row_has_its_texts_and_its_orders(subject: Subject, undisturbed: Undisturbed) -> None:
    for sample in SavedRun.open(undisturbed.files.path).samples():
        titles = {title.removesuffix(" (right)") for title in sample.texts}
        if (
            row_of_sample({"uid": sample.uid}) != "row-4" or subject.title != "pairwise_judgement"
        ):  # of the Ties subset
            assert titles == TEXTS[subject.title]
            assert set(sample.orders) == ORDERS.get(subject.title, set())
        assert all(0 <= points <= 1 for points in sample.orders.values())
        assert all(sample.texts.values())


@slow_with_several_models
def test_rows_of_before_these_fields_get_them_when_their_run_is_resumed(
    lab: Lab, undisturbed: Undisturbed
) -> None:
    """Else the headline of the run would be of rows of which only some say what they add to it."""
    path = lab.finished().path
    lines = (path / "samples.jsonl").read_bytes().splitlines(keepends=True)
    former = [json.loads(line) for line in lines[:3]]
    for line in former:
        for name in ("headline", "texts", "orders"):
            del line[name]
    (path / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in former))
    assert lab.finished("--resume").metrics["total_samples"] == len(lines)
    run, whole = SavedRun.open(path), SavedRun.open(undisturbed.files.path)
    assert run.headline == whole.headline
    assert [replace(sample, run=SampleRun(0.0)) for sample in run.samples()] == [
        replace(sample, run=SampleRun(0.0)) for sample in whole.samples()
    ]
