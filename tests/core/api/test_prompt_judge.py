"""`PromptJudge`: what it takes, what it refuses before the first call, and what it is shown."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest

from judgegym import Jury, PromptJudge
from judgegym.llm.errors import DataError, SettingsError
from tests.command import serving
from tests.prompt_files import GRADE, SCORE

PROMPT = "Question: {prompt}\nReference: {reference}\nAnswer: {response}"
ROW = {"question": "How many?", "answer": "Eight.", "reference": "8"}


@pytest.mark.parametrize(
    ("prompt", "others", "said"),
    [
        (PROMPT, {}, r"scale: .*\(1, 5\).* or 'yes/no'"),
        (
            PROMPT,
            {"scale": (5, 1)},
            "judge_prompt: scale: .*lowest.*higher score, found 5 and 1",
        ),
        (
            PROMPT,
            {"scale": {True: 1, False: 0}},
            "judge_prompt: scale: expected labels .*texts, found True",
        ),
        (PROMPT, {"scale": (1, 5), "verdict": {"at": "S:"}}, r"judge_prompt\.verdict\.at: "),
        (
            PROMPT,
            {"scale": (1, 5), "system": "{response}"},
            "judge_prompt: system: {response} .*system message",
        ),
        (
            "Rate it.\n{reponse}",
            {"scale": (1, 5)},
            "judge_prompt: prompt: line 2: {reponse}: unknown placeholder",
        ),
        ("judge.yaml", {"scale": (1, 5)}, "scale: the prompt file judge.yaml sets it"),
        ("judge.yaml", {"verdict": {"after": "S:"}}, "verdict: the prompt file judge.yaml sets it"),
        ("judge.yaml", {"optional": ["context"]}, "optional: the prompt file judge.yaml sets it"),
        ("judge.yaml", {}, r"judge_prompt: judge\.yaml: .*cannot be read: No such file"),
        (
            PROMPT,
            {"scale": (1, 5), "judge_prompt": "judge.yaml"},
            "judge_prompt: .*first argument, prompt",
        ),
        (
            PROMPT,
            {"scale": (1, 5), "judge_system_prompt": "Rate {response}."},
            "judge_system_prompt: {response} .*system message",
        ),
        (
            PROMPT,
            {"scale": "yes/no", "weighting": "logprobs"},
            "weighting: logprobs .*whole numbers",
        ),
    ],
)
def test_a_wrong_prompt_or_setting_is_one_line(
    prompt: str, others: dict[str, Any], said: str
) -> None:
    with pytest.raises(SettingsError) as raised:
        PromptJudge(prompt, **others)
    assert re.match(said, str(raised.value))
    assert "\n" not in str(raised.value)


def test_what_the_prompt_does_not_show_and_what_it_lacks_is_refused_before_the_first_call() -> None:
    with serving("Score: 4") as endpoint:
        judge = PromptJudge(PROMPT, scale=(1, 5), judge_base_url=endpoint.base_url)
        for given, said in (
            (
                {"context": "C", "reference": "8"},
                r"context: .*\(it reads question, answer, reference\)",
            ),
            ({}, "reference: .*prompt shows it"),
            ({"reference": 8}, r"reference: expected a text, .*8 \(int\)"),
        ):
            with pytest.raises(DataError) as raised:
                judge.judge_sync("How many?", ["Eight.", "Six."], **given)
            assert re.match(said, str(raised.value))
        with pytest.raises(DataError, match=r"^rows\[1\]\.reference: .*prompt shows it"):
            judge.many_sync([ROW, {**ROW, "reference": None}], progress=False)
        assert endpoint.requests == []
        assert judge.judge_sync("How many?", "Eight.", reference="8").scores == [4.0]
        judge.close()


def test_columns_that_the_prompt_does_not_show_come_back_and_one_line_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with serving("Score: 4") as endpoint, caplog.at_level(logging.WARNING, "judgegym"):
        judge = PromptJudge(PROMPT, scale=(1, 5), judge_base_url=endpoint.base_url)
        table = judge.many_sync([{**ROW, "context": "C", "id": 7}], progress=False)
        judge.close()
    assert (table.scores, table.records()[0]["context"], table.records()[0]["id"]) == (
        [4.0],
        "C",
        7,
    )
    assert "these columns; " in caplog.text and "keeps them: context, id" in caplog.text


def test_a_jury_refuses_what_none_of_its_members_is_shown(tmp_path: Path) -> None:
    for name, text in (("grade", GRADE), ("score", SCORE)):
        (tmp_path / f"{name}.yaml").write_text(text)
    members = {name: {"judge": str(tmp_path / f"{name}.yaml")} for name in ("grade", "score")}
    jury = Jury(members, judge_base_url="http://127.0.0.1:9/v1")
    with pytest.raises(
        DataError,
        match=r"^reference: .*\(it reads question, answer, context, rub",
    ):
        jury.judge_sync("How many?", "Eight.", reference="8", rubric="Is it right?")
    with pytest.raises(DataError, match=r"^member score: rubric: .*prompt shows it"):
        jury.judge_sync("How many?", "Eight.", context="Be kind.")
