"""Two runs of one configuration are the same, whatever runs at once and whatever goes wrong on the way."""

from __future__ import annotations

import json
from collections import Counter

from judgegym.engine.runs.recorded_calls import read_calls
from tests.conformance.lab import Lab, Undisturbed, slow_with_several_models
from tests.conformance.subjects import uids


def test_undisturbed_run_has_each_row_once_and_in_order(undisturbed: Undisturbed) -> None:
    """And rows differ, so that what the other tests compare is not the same everywhere."""
    files = undisturbed.files
    rows = [sample["uid"].partition(":")[0] for sample in files.samples]
    assert list(dict.fromkeys(rows)) == uids()
    assert files.failures == []
    assert len({sample["score"] for sample in files.samples}) > 1


def test_samples_and_metrics_are_the_same_whatever_the_limits(
    lab: Lab, undisturbed: Undisturbed
) -> None:
    narrow = lab.finished(*lab.subject.limits(1))
    undisturbed.same_results(narrow)


@slow_with_several_models
def test_judge_cache_answers_a_second_run(lab: Lab, undisturbed: Undisturbed) -> None:
    """With the same verdicts; the policy, whose samples are independent, is asked again."""
    cache = f"--env.judge_cache={lab.path / 'cache.sqlite'}"
    lab.finished(cache)
    lab.restore()
    again = lab.finished(cache, run="again")
    assert again.without_run() == undisturbed.files.without_run()
    assert lab.judge.answered == Counter()
    assert lab.policy.answered == undisturbed.policy


def test_ledger_has_all_that_was_asked_and_said(lab: Lab) -> None:
    """Also the words of a judge whose detail does not hold them."""
    files = lab.finished()
    calls = list(read_calls(files.path))
    asked, said = Counter[str](), Counter[str]()
    for side in (lab.policy, lab.judge):
        asked += Counter(json.dumps(body["messages"]) for body in side.endpoint.bodies)
        said += Counter(text for uid in uids() for text in side.texts(uid))
    assert Counter(json.dumps(call.messages) for call in calls) == asked
    assert Counter(choice.text for call in calls for choice in call.answer.choices) == said
    assert {call.row.partition(":")[0] for call in calls} == set(uids())
    assert all(call.answer.usage.prompt_tokens > 0 for call in calls)
