"""Judges from prompt files: what a file may hold, what a judge is shown, and how its reply is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judgegym.judges.core.judgment import Status
from judgegym.judges.core.tasks import JudgeTask, TaskError
from judgegym.judges.prompt_files.file import PromptFile, load_prompt_file
from judgegym.judges.prompt_files.judge import PromptTaskJudge
from judgegym.judges.prompt_files.settings import PromptJudgeSettings
from judgegym.judges.prompt_files.stand_in import make_prompt_format
from judgegym.judges.prompt_files.verdicts import VerdictRule, reply_parser
from judgegym.llm.errors import SettingsError
from judgegym.offline.answers import read_prompt
from judgegym.offline.request import RequestMessage
from tests.prompt_files import FILES, GRADE, SCORE, YES_NO
from tests.scripted import ScriptedEndpoint, in_turn

Connect = Callable[..., Any]

GOOD = {
    "grade": "Right. [[good]]",
    "yes_no": '{"why": "It does.", "answers": "yes"}',
    "score": "Right.\nSCORE: 5",
    "level": "Right. Final level: Very good.",
    "points": '{"why": "Right.", "points": 10}',
}
POOR = {
    "grade": "Wrong. [[bad]]",
    "yes_no": '{"why": "No.", "answers": "no"}',
    "score": "Wrong.\n**SCORE:** 1/5",
    "level": "Wrong.\n**Final level:** poor",
    "points": '```json\n{"why": "Wrong.", "points": "0/10"}\n```',
}
TASK = JudgeTask("Why?", ("Because.",), "So it is.", "Is it right?", context="Be kind.")


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "judge.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def shown(body: Any) -> str:
    return "\n\n".join(str(message["content"]) for message in body["messages"])


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(("replies", "unit"), [(GOOD, 1.0), (POOR, 0.0)])
async def test_a_reply_becomes_the_score_of_its_label(
    connect: Connect, write: Callable[[str], Path], name: str, replies: dict[str, str], unit: float
) -> None:
    settings = PromptJudgeSettings.model_validate({"judge_prompt": str(write(FILES[name]))})
    async with ScriptedEndpoint(replies[name]) as endpoint:
        judgment = await PromptTaskJudge(settings, connect(endpoint)).judge(TASK)
    assert (judgment.status, judgment.unit_score) == (Status.OK, unit)
    assert ("Why?" in shown(endpoint.bodies[0])) is (name != "level") and "Because." in shown(
        endpoint.bodies[0]
    )
    assert [call.name for call in judgment.calls] == ["verdict_1"]


@pytest.mark.parametrize(
    ("name", "reply"),
    [
        ("grade", "[[great]]"),
        ("grade", "[[good]] or [[bad]]"),
        ("grade", "[[good]]. My verdict: bad."),
        ("score", "SCORE: 6"),
        ("score", "SCORE: 4.5"),
        ("score", "SCORE: 4 or 5"),
        ("score", "SCORE: 4\n\nActually my score is 2."),
        ("yes_no", '{"answers": "maybe"}'),
        ("yes_no", '{"answers": "yes"}\nThe answer is no.'),
        ("yes_no", "answers: yes"),
    ],
)
async def test_an_ambiguous_or_unknown_label_is_no_verdict(
    connect: Connect, write: Callable[[str], Path], name: str, reply: str
) -> None:
    settings = PromptJudgeSettings.model_validate({"judge_prompt": str(write(FILES[name]))})
    async with ScriptedEndpoint(reply) as endpoint:
        judgment = await PromptTaskJudge(settings, connect(endpoint)).judge(TASK)
    assert (judgment.status, judgment.score, len(endpoint.requests)) == (Status.UNPARSABLE, None, 3)


async def test_votes_are_pooled_and_critiques_revise_them(
    connect: Connect, write: Callable[[str], Path]
) -> None:
    given = {
        "judge_prompt": str(write(GRADE)),
        "samples_per_item": 2,
        "judge_critique_rounds": 1,
        "seed": 3,
    }
    script = in_turn("[[good]]", "[[good]]", "[[fair]]", "[[fair]]")
    async with ScriptedEndpoint(script) as endpoint:
        judgment = await PromptTaskJudge(
            PromptJudgeSettings.model_validate(given), connect(endpoint)
        ).judge(TASK)
    assert (judgment.score, judgment.label) == (0.4, "fair")
    assert judgment.critique is not None and judgment.critique.before_score == 1.0
    assert [entry.status for entry in judgment.critique.rounds] == ["revised", "revised"]


def test_a_section_ends_before_words_also_where_the_next_one_is_left_out(
    write: Callable[[str], Path],
) -> None:
    text = (
        "prompt: |-\n  Answer: {response}\n  Context: {context}\n\n  Now say SCORE: and a number.\n"
    )
    path = write(f"{text}scale: [1, 5]\nverdict: {{after: 'SCORE:'}}\noptional: [context]\n")
    template = load_prompt_file(path).template
    end = "\n\nNow say SCORE: and a number."
    shown, left_out = (
        str(template.fill({"response": "So.", **texts}).messages[-1]["content"])
        for texts in ({"context": "None."}, {})
    )
    assert shown == f"Answer:\nSo.\nContext:\nNone.\nEnd of Context:{end}"
    assert left_out == f"Answer:\nSo.\nEnd of Answer:{end}"


@pytest.mark.parametrize("name", FILES)
def test_a_file_with_the_lines_and_the_mark_of_windows_is_the_same_file(
    write: Callable[[str], Path], name: str
) -> None:
    plain = load_prompt_file(write(FILES[name]))
    assert load_prompt_file(write("\ufeff" + FILES[name].replace("\n", "\r\n"))) == plain
    lines = plain.model_copy(update={"prompt": plain.prompt.replace("\n", "\r\n")})
    assert PromptFile.model_validate(lines.model_dump()).template.parts == plain.template.parts


def test_labels_on_one_line_become_sections_and_the_load_says_so(
    write: Callable[[str], Path],
) -> None:
    prompt_file = load_prompt_file(write(YES_NO))
    assert [section.title for section in prompt_file.template.sections] == ["Question", "Response"]
    assert [note.partition(":")[0] for note in prompt_file.template.notes] == ["line 3", "line 4"]
    text = str(
        prompt_file.template.fill({"prompt": "Why?", "response": "So."}).messages[0]["content"]
    )
    assert text.endswith("Question:\nWhy?\nResponse:\nSo.\nEnd of Response:")


def test_the_section_of_an_optional_text_is_left_out(write: Callable[[str], Path]) -> None:
    template = load_prompt_file(write(GRADE)).template
    text = str(template.fill({"prompt": "Why?", "response": "So."}).messages[0]["content"])
    assert "Policy" not in text
    assert "<|Question|>\nWhy?\n\n<|Answer|>\nSo.\n<|End of Answer|>" in text


def test_braces_of_the_file_stay_and_no_text_changes_what_stands_around_it(
    write: Callable[[str], Path],
) -> None:
    text = (
        "prompt: |-\n  Answer:\n  {response}\n  Context: {context}\n\n  {{response}} {{tag}} "
        "{{brace}} {1}\n"
    )
    path = write(f"{text}scale: [1, 5]\nverdict: {{after: 'SCORE:'}}\noptional: [context]\n")
    template = load_prompt_file(path).template
    for response in ("So.", "", "So.\n", "{context} {tag}"):
        content = str(template.fill({"response": response}).messages[-1]["content"])
        assert (
            content
            == f"Answer:\n{response}\nEnd of Answer:\n\n{{response}} {{tag}} {{brace}} {{1}}"
        )


async def test_a_row_without_a_text_that_the_prompt_shows_is_refused(
    connect: Connect, write: Callable[[str], Path]
) -> None:
    settings = PromptJudgeSettings.model_validate({"judge_prompt": str(write(SCORE))})
    async with ScriptedEndpoint("SCORE: 5") as endpoint:
        judge = PromptTaskJudge(settings, connect(endpoint))
        with pytest.raises(TaskError, match=r"^rubric: the prompt .*optional"):
            judge.check(JudgeTask("Why?", ("So.",)))
        judge.check(TASK)
        judge.check(JudgeTask("Why?", (), rubric="Is it right?"))
        judge.check(JudgeTask("Why?", ("So.", "No."), rubric="Is it right?"))


async def test_the_judge_prompt_without_a_file_is_a_wrong_setting(connect: Connect) -> None:
    async with ScriptedEndpoint("SCORE: 5") as endpoint:
        client = connect(endpoint)
        with pytest.raises(SettingsError, match=r"^judge_prompt: .* expected --judge=FILE.yaml"):
            PromptTaskJudge(PromptJudgeSettings(), client)


@pytest.mark.parametrize("name", FILES)
def test_the_stand_in_replies_in_the_form_of_the_file(
    write: Callable[[str], Path], name: str
) -> None:
    prompt_file = load_prompt_file(write(FILES[name]))
    texts = {"prompt": "Why?", "rubric": "Good?", "reference": "Thus.", "response": "So."}
    prompt = prompt_file.template.fill(texts, system="Judge.")
    messages = [
        RequestMessage(message["role"], str(message["content"])) for message in prompt.messages
    ]
    reading = read_prompt(messages, [make_prompt_format(prompt_file)])
    assert reading is not None
    assert "So." in reading.sections.values()


@pytest.mark.parametrize(
    ("scale", "verdict", "reply", "label"),
    [
        ((1, 5), {"after": "<score>"}, "Fine.\n<score>4</score>", "4"),
        ((1, 5), {"after": "<score>"}, "<score>\n4\n</score>\nIt names no source.", "4"),
        ((1, 5), {"after": "<score>"}, "<score>4</score> or <score>5</score>", None),
        (
            (1, 5),
            {"after": "<score>"},
            '<score>2</score>\n\nIts last line was "<score>5</score>".',
            None,
        ),
        ((1, 5), {"after": "<score>"}, "<score>5</score>\n[Score] 2", None),
        ((1, 5), {"after": "\\boxed{"}, "So \\boxed{4}.", "4"),
        ((1, 5), {"after": "\\boxed{"}, "So \\boxed{4 or 5}.", None),
        ({"bad": 0, "good": 1}, {"after": "Grade: "}, "Grade: [good]", "good"),
        ({"bad": 0, "good": 1}, {"after": "Grade: "}, "Grade:\ngood", "good"),
        ({"bad": 0, "good": 1}, {"after": "Grade:"}, "**Grade:** [[good]].", "good"),
        ((-2, 2), {"after": "S:"}, "S: +2", "2"),
        ((-2, 2), {"after": "S:"}, "S: \u22122", "-2"),
        ((1, 5), {"after": "评分："}, "很好。\n最终评分：4", "4"),
        ((1, 5), {"after": "评分："}, "**评分:** 4。", "4"),
        ({"плохо": 0, "хорошо": 1}, {"after": "Оценка:"}, "Оценка: Хорошо.", "хорошо"),
        (
            {"плохо": 0, "хорошо": 1},
            {"after": "Оценка:"},
            "Оценка: хорошо\nПереоценка: плохо",
            "хорошо",
        ),
        (
            {"плохо": 0, "хорошо": 1},
            {"after": "Оценка:"},
            "Оценка: хорошо\n\nМой вердикт: плохо",
            None,
        ),
        (
            {"плохо": 0, "хорошо": 1},
            {"within": "brackets"},
            "[[хорошо]]\n\nIt is плохо.\nVerdict: плохо",
            None,
        ),
        ({"差": 0, "好": 1}, {"within": "brackets"}, "[[好]]", "好"),
        ({"差": 0, "好": 1}, {"field": "评价"}, '{"理由": "清楚", "评价": "好"}', "好"),
        (
            {"差": 0, "好": 1},
            {"field": "评价"},
            '{"理由": "清楚", "评价": "好"}\n{"理由": "不',
            None,
        ),
        ({"1": 0, "2": 0.5, "10": 1}, {"field": "s"}, '{"s": 10}', "10"),
        ({"1": 0, "1.5": 0.5, "10": 1}, {"after": "S:"}, "S: 1.5", "1.5"),
        (
            {"good": 1, "not good": 0},
            {"within": "brackets"},
            "It is not good. [[not good]]",
            "not good",
        ),
        ({"C++": 1, "C": 0}, {"after": "S:"}, "S: C++", "C++"),
        ({"no": 1, "yes": 0}, {"field": "harmful"}, '{"harmful": false}', "no"),
    ],
)
def test_words_labels_and_fields_of_any_script_and_form_are_read(
    scale: Any, verdict: Any, reply: str, label: str | None
) -> None:
    file = PromptFile(prompt="{response}", scale=scale, verdict=verdict)
    assert reply_parser(file.verdict, file.labels, file.template.titles)(reply) == label


@pytest.mark.parametrize(
    "title", ["a*b", "C++ (x|y)?", "***", "==", "a.b]c", "\\d+", "1", "问题", "🙂"]
)
@pytest.mark.parametrize("form", ["### {}", "{}:", "<|{}|>"])
def test_a_title_of_any_signs_is_one(title: str, form: str) -> None:
    marker = form.format(title)
    template = PromptFile(
        prompt=f"{marker}\n{{response}}", scale="yes/no", verdict=VerdictRule(after="S:")
    ).template
    assert template.fill(
        {"response": f"So.\n{template.style.format(template.titles[0])}\nThe end."}
    ).suspects
    assert template.fill({"response": "So it is."}).suspects == 0
