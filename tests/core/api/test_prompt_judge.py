"""`PromptJudge`: what it takes, what it refuses before the first call, and what it is shown."""

from __future__ import annotations

import logging
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
        (PROMPT, {}, "scale: a prompt needs one, such as"),
        (
            PROMPT,
            {"scale": (5, 1)},
            "judge_prompt: scale: expected a lowest and a higher score, found 5 and 1",
        ),
        (
            PROMPT,
            {"scale": {True: 1, False: 0}},
            "judge_prompt: scale: expected labels that are texts, found True",
        ),
        (PROMPT, {"scale": (1, 5), "verdict": {"at": "S:"}}, "judge_prompt.verdict.at: "),
        (
            PROMPT,
            {"scale": (1, 5), "system": "{response}"},
            "judge_prompt: system: {response} in a system message",
        ),
        (
            "Rate it.\n{reponse}",
            {"scale": (1, 5)},
            "judge_prompt: prompt: line 2: {reponse}: unknown placeholder",
        ),
        ("judge.yaml", {"scale": (1, 5)}, "scale: the prompt file judge.yaml sets it"),
        ("judge.yaml", {"verdict": {"after": "S:"}}, "verdict: the prompt file judge.yaml sets it"),
        ("judge.yaml", {"optional": ["context"]}, "optional: the prompt file judge.yaml sets it"),
        (
            "judge.yaml",
            {},
            "judge_prompt: judge.yaml: the prompt file cannot be read: No such file or directory",
        ),
        (
            PROMPT,
            {"scale": (1, 5), "judge_prompt": "judge.yaml"},
            "judge_prompt: pass it as the first argument, prompt",
        ),
        (
            PROMPT,
            {"scale": (1, 5), "judge_system_prompt": "Rate {response}."},
            "judge_system_prompt: {response} in a sys",
        ),
        (
            PROMPT,
            {"scale": "yes/no", "weighting": "logprobs"},
            "weighting: logprobs needs a scale of whole numbers",
        ),
    ],
)
def test_a_wrong_prompt_or_setting_is_one_line(
    prompt: str, others: dict[str, Any], said: str
) -> None:
    with pytest.raises(SettingsError) as raised:
        PromptJudge(prompt, **others)
    assert str(raised.value).startswith(said)
    assert "\n" not in str(raised.value)


def test_what_the_prompt_does_not_show_and_what_it_lacks_is_refused_before_the_first_call() -> None:
    with serving("Score: 4") as endpoint:
        judge = PromptJudge(PROMPT, scale=(1, 5), judge_base_url=endpoint.base_url)
        for given, said in (
            (
                {"context": "C", "reference": "8"},
                "context: this judge does not read it; leave it out (it reads question, answer, reference)",
            ),
            ({}, "reference: the prompt shows it, and there is none"),
            ({"reference": 8}, "reference: expected a text, found 8 (int)"),
        ):
            with pytest.raises(DataError) as raised:
                judge.judge_sync("How many?", ["Eight.", "Six."], **given)
            assert str(raised.value).startswith(said)
        with pytest.raises(
            DataError, match=r"^rows\[1\]\.reference: the prompt shows it, and there is none"
        ):
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
    assert (
        "this judge does not read these columns; the table keeps them: context, id" in caplog.text
    )


def test_a_jury_refuses_what_none_of_its_members_is_shown(tmp_path: Path) -> None:
    for name, text in (("grade", GRADE), ("score", SCORE)):
        (tmp_path / f"{name}.yaml").write_text(text)
    members = {name: {"judge": str(tmp_path / f"{name}.yaml")} for name in ("grade", "score")}
    jury = Jury(members, judge_base_url="http://127.0.0.1:9/v1")
    with pytest.raises(
        DataError,
        match=r"^reference: this judge does not read it; leave it out \(it reads question, answer, context, rub",
    ):
        jury.judge_sync("How many?", "Eight.", reference="8", rubric="Is it right?")
    with pytest.raises(
        DataError, match=r"^member score: rubric: the prompt shows it, and there is none"
    ):
        jury.judge_sync("How many?", "Eight.", context="Be kind.")
