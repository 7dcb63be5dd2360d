"""In `shared_first` the prompts about a row's completions differ in the completion alone, and it comes last."""

from __future__ import annotations

import pytest

from judgegym.judges.config.composed import expand_choices
from tests.conformance.lab import Lab
from tests.conformance.subjects import uids

SETTING = "judge_prompt_layout"
LONGEST_END = 60
"""Characters of the line that ends a completion."""


def test_prompts_about_the_completions_of_a_row_differ_after_what_they_share_only(lab: Lab) -> None:
    if not lab.subject.has_judge:
        pytest.skip(
            "the policy is the judge: its prompts are the row's, for all completions the same"
        )
    if lab.subject.turns > 1:
        pytest.skip(
            "what follows a first turn is the rest of its conversation, in which rollouts share "
            "nothing"
        )
    config_type = expand_choices(lab.subject.env_type.config_type)
    is_read = SETTING in config_type.model_fields and SETTING not in getattr(
        config_type, "setting_verbs", {}
    )
    layout = [f"--env.{SETTING}=shared_first"] if is_read else []
    lab.process("--env.group_size=2", f"--env.total_steps={len(uids())}", *layout).successful()
    for uid in uids():
        one, other = lab.policy.texts(uid)
        before: dict[str, set[str]] = {one: set(), other: set()}
        for body in lab.judge.endpoint.bodies:
            shown = "\n\n".join(message["content"] for message in body["messages"])
            for text in (one, other):
                prefix, found, suffix = shown.partition(text)
                if found:
                    before[text].add(prefix)
                    is_critique = "critique" in suffix
                    assert is_critique or len(suffix) <= LONGEST_END, (
                        "nothing that completions share comes after one"
                    )
        assert before[one] == before[other] != set(), uid
