"""The page of a run shows of every environment each row, what was asked for it, and what the judge said."""

from __future__ import annotations

import pytest

from judgegym.engine.runs.recorded_calls import read_calls
from judgegym.reports.run_page.groups import read_group_page
from judgegym.reports.run_page.rows import read_run_page
from tests.conformance.lab import Lab, Undisturbed
from tests.conformance.subjects import Subject
from tests.conformance.test_resume_process import FLAGS
from tests.core.reports.objects import objects


def test_each_row_is_on_the_page_with_all_that_was_asked_and_said(
    subject: Subject, undisturbed: Undisturbed
) -> None:
    head, read_items = read_run_page(undisturbed.files.path)
    items = objects([[*each] for each in read_items()])
    samples = {sample["uid"]: sample for sample in undisturbed.files.samples}
    assert head["total"] == len(items) == len(samples)
    assert [summary.id for summary, _ in items] == list(samples)
    recorded = list(read_calls(undisturbed.files.path))
    for summary, detail in items:
        sample = samples[summary.id]
        headline = sample["headline"]
        assert (summary.score, summary.status, summary.category) == (
            sample["score"],
            "ok",
            sample["category"],
        )
        assert summary.value == headline["total"] / headline["weight"]
        assert (
            detail.conversation
            and detail.completions
            and all(each.text for each in detail.completions)
        )
        assert {text.title: text.text for text in detail.texts} == sample["texts"]
        of_row = [call for call in recorded if call.row == summary.id]
        assert [(call.answer, call.vote) for call in detail.calls] == [
            (call.answer.first.text, call.vote) for call in of_row
        ]
        for shown, call in zip(detail.calls, of_row, strict=True):
            assert shown.messages is not None and call.messages is not None
            assert [message.text for message in shown.messages] == [
                message["content"] for message in call.messages
            ]
            if shown.verdict_at is not None:
                start, end = shown.verdict_at
                assert 0 <= start < end <= len(shown.answer)
    judged = [
        call for _, detail in items for call in detail.calls if not call.name.endswith("policy")
    ]
    assert bool(judged) is subject.has_judge
    assert all(call.verdict_at is not None for call in judged if call.has_verdict)


@pytest.mark.slow
def test_each_group_is_on_the_page_with_the_calls_of_its_rollouts(lab: Lab) -> None:
    assert lab.process(*FLAGS).code == 0
    items = objects([[*each] for each in read_group_page(lab.groups_path())[1]()])
    calls = list(read_calls(lab.groups_path().with_suffix(".run")))
    assert len(items) == len({call.group for call in calls})
    shown = [call for _, detail in items for view in detail.completions for call in view.calls]
    shown += [call for _, detail in items for call in detail.calls]
    assert sorted(call.answer for call in shown if not call.name.startswith("policy")) == sorted(
        call.answer.first.text for call in calls if not call.is_policy_call
    )
    assert len(shown) == sum(len(call.answer.choices) for call in calls), (
        "the policy's further turns, too"
    )
    for _, detail in items:
        assert detail.conversation and len(detail.completions) == 2
