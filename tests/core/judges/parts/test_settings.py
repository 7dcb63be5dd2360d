"""What is wrong with the settings of a judge of judges is one line with its place, as a command says it."""

from __future__ import annotations

import json
import re

import pytest
from pydantic import ValidationError

from judgegym.judges.scorers.settings import AnyJudgeSettings

WRONG = [
    # A jury.
    ('{"judges": "a"}', "judges: .*two members .*found 1"),
    ('{"judge": "jury"}', "judges: expected judges"),
    ('{"judges": [3, 4]}', "settings .*model, found 3"),
    (
        '{"judges": [{"judge": "listwise"}, "b"]}',
        "judges.listwise.judge: expected one .*found 'listwise'",
    ),
    ('{"judges": {"a/b": {}, "c": {}}}', "'a/b': expected a name .*/"),
    (
        '{"judges": "a,b", "jury_weights": "a=1,c=2"}',
        "named 'c'; the members are a, b",
    ),
    ('{"judges": "a,b", "jury_weights": "a=1,b"}', "'b': expected NAME=NUMBER"),
    (
        '{"judges": "a,b", "jury_weights": "a=-1,b=1"}',
        "jury_weights: a: Input should be greater than or equal",
    ),
    (
        '{"judges": "a,b", "jury_weights": "a=0"}',
        "jury_weights: .*weights are 0",
    ),
    (
        '{"judges": "a,b", "jury_weights": "a=1,b=2", "jury_rule": "trimmed_mean"}',
        "jury_rule=trimmed_mean .*same weight",
    ),
    (
        '{"judges": "a,b", "jury_weights": "a=1", "jury_quorum": 2}',
        "jury_quorum: 2 of 1 members that count",
    ),
    (
        '{"judges": "a,b", "jury_scale": "rank", "jury_sample": {"a": [0, 1]}}',
        "jury_scale=rank needs scores of b",
    ),
    (
        '{"judges": "a,b", "jury_sample": {"a": [0, 1]}}',
        "jury_sample: .* with jury_scale=own",
    ),
    (
        '{"judges": "a,b", "jury_scale": "standardised", "jury_sample": {"a": [1, 1], "b": [0, '
        "1]}}",
        "jury_sample: .*scores of a are equal",
    ),
    # A cascade.
    ('{"cascade": "a"}', "cascade: .*two judges.* found 1"),
    (
        '{"cascade": [{"judge": "cascade"}, "b"]}',
        "cascade.cascade.cascade: expected judges",
    ),
    (
        '{"cascade": [{"judge": "choice"}, "b"]}',
        "cascade.choice.judge: expected one .*found 'choice'",
    ),
    (
        '{"cascade": "a,b", "cascade_confidence": "orders"}',
        "orders needs arena_hard; .*judge is rubric",
    ),
    (
        '{"cascade": "a,b", "cascade_confidence": "votes"}',
        "votes needs samples_per_item .*2 or more",
    ),
    (
        '{"cascade": "a,b", "cascade_confidence": "probability"}',
        "probability .*weighting=logprobs",
    ),
    (
        '{"cascade": [{"judge": "reward_model", "reward_scale": "raw"}, "b"]}',
        "margin .*0 to 1: .*reward_scale=sigmoid",
    ),
    # The steps of an agent.
    (
        '{"judge": "steps", "steps_judge": ["a", "b"]}',
        "steps_judge: step: Input should be a valid dictionary",
    ),
    (
        '{"judge": "steps", "steps_judge": {"judge": "listwise"}}',
        "steps_judge.step.judge: expected one .*found 'listwise'",
    ),
    (
        '{"judge": "steps", "steps_most": 1}',
        "steps_most: Input should be greater than or equal to 2",
    ),
    # The parts of a reward.
    ('{"judge": "composite"}', r"reward: .*the parts .*\{NAME: "),
    (
        '{"judge": "composite", "reward": "rubric=0,peer=0"}',
        "reward: .*weights are all 0",
    ),
    ('{"judge": "composite", "reward": "rubric,rubric"}', "two parts .*'rubric'"),
    (
        '{"judge": "composite", "reward": "rubric=much"}',
        "'rubric=much': expected a number .*rubric=0.5",
    ),
    (
        '{"judge": "composite", "reward": "rubrik"}',
        r"reward.rubrik.judge: .*'rubrik', did you mean rubric\?",
    ),
    (
        '{"judge": "composite", "reward": {"a": {"judge": "listwise"}}}',
        "reward.a.judge: expected one .*found 'listwise'",
    ),
    (
        '{"judge": "composite", "reward": {"a": {"judge": "composite"}}}',
        r"reward.a.reward: .*the parts .*\{NAME: ",
    ),
    (
        '{"judge": "composite", "reward": {"a": {"judge": "peer", "gate": true}}}',
        "reward.a.gate: .*a number, found True",
    ),
    (
        '{"judge": "composite", "reward": {"a": {"judge": "peer", "gate": 0.5}}}',
        "reward: .*gates or penalties",
    ),
    (
        '{"judge": "composite", "reward": {"a": {"judge": "peer", "weight": 1, "gate": 0.5}}}',
        "reward.a.gate: expected one .*found weight and gate",
    ),
    (
        '{"judge": "composite", "reward": {"a": {"judge": "peer", "otherwise": 0.5}}}',
        "reward.a.otherwise: .*without a gate",
    ),
    (
        '{"judge": "composite", "reward": {"a": {"judge": "peer", "weight": -1}}}',
        "reward.a.weight: ",
    ),
    (
        '{"judge": "composite", "reward": {"a": {"judge": "peer", "weight": 2}}, "combine": '
        '"product"}',
        "reward.a.weight: .*combine=product",
    ),
    (
        '{"judge": "composite", "reward": {"a": {"judge": "peer", "wieght": 2}}}',
        "reward.a.wieght: unknown setting .*did you mean weig",
    ),
    (
        '{"judge": "composite", "reward": {"a b": {"judge": "peer"}, "a_b": {"judge": "peer"}}}',
        "the same name: 'a b', 'a_b'",
    ),
    (
        '{"judge": "composite", "reward": {"a": {"judge": "peer", "judge_api_key": "k"}}}',
        "reward.a.judge_api_key: a secret",
    ),
    (
        '{"judge": "composite", "reward": {"a": {"judge": "peer", "judge_cache": "c"}}}',
        "reward.a.judge_cache: .*the whole judge",
    ),
    (
        '{"judge": "composite", "reward": {"a": {"judge": "peer", "judge_base_url": '
        '"http://u:p@h/v1"}}}',
        "reward.a.judge_base_url: a secret",
    ),
]


@pytest.mark.parametrize(("given", "said"), WRONG)
def test_wrong_settings_are_one_line(given: str, said: str) -> None:
    with pytest.raises(ValidationError) as raised:
        AnyJudgeSettings.model_validate(json.loads(given))
    error = raised.value.errors()[0]
    message = "".join(f"{part}: " for part in error["loc"]) + error["msg"]
    assert re.search(said, message), message
    assert "\n" not in error["msg"]
