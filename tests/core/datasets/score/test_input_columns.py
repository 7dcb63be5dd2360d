"""What a judge is shown of a row, through the real command: no column, tool call or part of a message is lost."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from judgegym.llm.wire import JSON
from tests.command import serving, write_lines
from tests.core.datasets.scoring import Scoring, rated, response_in, score
from tests.scripted import Json, ScriptedEndpoint

_INSTRUCTION = re.compile(r"### Instruction(?: [0-9a-f]{12})?\n\n(.*?)\n\n###", re.DOTALL)
USER, ANSWER = (
    {"role": "user", "content": "How warm?"},
    {"role": "assistant", "content": "18 degrees."},
)
CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city": "Rome"}'},
}
CALLED: Json = {"role": "assistant", "tool_calls": [CALL]}
RESULT = {
    "role": "tool",
    "tool_call_id": "c1",
    "content": [{"type": "text", "text": "18"}, {"type": "text", "text": "C"}],
}
WRITTEN = (
    'assistant: [tool call: weather({"city":"Rome"})]\n\ntool (weather): 18C\n\nassistant: 18 '
    "degrees."
)
SHAREGPT = [{"from": "human", "value": "How warm?"}, {"from": "gpt", "value": "18 degrees."}]
PICTURE = [
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {}},
        ],
    }
]
GOOD: dict[str, Json] = {
    "prompt": {"prompt": "Q", "response": "A"},
    "messages": {"messages": [USER, ANSWER]},
}


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Scoring]:
    with serving(rated(lambda response: 3)) as judge:
        yield Scoring(tmp_path, judge)


def shown(judge: ScriptedEndpoint) -> list[tuple[str, str]]:
    """Instruction and response of each request, in the order of the texts."""
    found = []
    for body in judge.bodies:
        asked = _INSTRUCTION.search(body["messages"][-1]["content"])
        assert asked is not None
        found.append((asked[1], response_in(body)))
    return sorted(found)


ROWS = {
    "chat": ({"messages": [USER, ANSWER]}, [("How warm?", "18 degrees.")]),
    "ShareGPT": ({"conversations": SHAREGPT}, [("How warm?", "18 degrees.")]),
    "tool calls in the response": (
        {"prompt": [USER], "completion": [CALLED, RESULT, ANSWER]},
        [("How warm?", WRITTEN)],
    ),
    "a tool call alone": (
        {"prompt": "How warm?", "completion": [CALLED]},
        [("How warm?", '[tool call: weather({"city":"Rome"})]')],
    ),
    "tool calls in the prompt": (
        {"messages": [USER, CALLED, RESULT, ANSWER]},
        [(f"user: How warm?\n\n{WRITTEN.rpartition(chr(10) * 2)[0]}", "18 degrees.")],
    ),
    "system": (
        {"system": "Be brief.", "prompt": "Q", "response": "A"},
        [("system: Be brief.\n\nuser: Q", "A")],
    ),
    "system of messages": (
        {"messages": [{"role": "system", "content": "Be brief."}, USER, ANSWER]},
        [("system: Be brief.\n\nuser: How warm?", "18 degrees.")],
    ),
    "Alpaca": (
        {"instruction": "Translate", "input": "Haus", "output": "house"},
        [("Translate\n\nHaus", "house")],
    ),
    "Alpaca without input": (
        {"instruction": "Sing", "input": "", "output": "La"},
        [("Sing", "La")],
    ),
    "Dolly": (
        {"instruction": "Who?", "context": "Ann left.", "response": "Ann"},
        [("Who?\n\nAnn left.", "Ann")],
    ),
    "UltraFeedback": (
        {
            "instruction": "Q",
            "completions": [{"model": "a", "response": "1"}, {"model": "b", "response": "2"}],
        },
        [("Q", "1"), ("Q", "2")],
    ),
    "Nectar": (
        {"prompt": "Q", "answers": [{"answer": "1", "rank": 2}, {"answer": "2", "rank": 1}]},
        [("Q", "1"), ("Q", "2")],
    ),
    "names": (
        {
            "messages": [
                {**USER, "name": "Ann"},
                ANSWER,
                {"role": "user", "content": "user (Ann): Hi"},
                ANSWER,
            ]
        },
        [
            (
                "user (Ann): How warm?\n\nassistant: 18 degrees.\n\nuser: user (Ann)¦: Hi",
                "18 degrees.",
            )
        ],
    ),
}


@pytest.mark.parametrize(("row", "expected"), ROWS.values(), ids=ROWS.keys())
def test_all_that_a_row_says_is_shown(
    command: Scoring, row: Json, expected: list[tuple[str, str]]
) -> None:
    ended = command(rows=[row])
    assert ended.code == 0, ended.said
    assert shown(command.judge) == expected
    assert "not read" not in ended.said


@pytest.mark.parametrize("where", ["prompt", "response", "messages"])
def test_a_row_with_an_image_that_is_not_there_is_refused(command: Scoring, where: str) -> None:
    good = GOOD["messages" if where == "messages" else "prompt"]
    row = {**good, where: [*PICTURE, ANSWER] if where == "messages" else PICTURE}
    ended = command(rows=[good, row])
    assert (ended.code, command.judge.requests) == (2, [])
    assert re.search(r"data\.jsonl, row 2: .*type image, .*no judge", ended.said)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "words", "named"),
    [
        ({"question": "Q", "context": "C", "response": "A"}, (), "context"),
        (
            {
                "prompt": "Q",
                "input": "I",
                "response": "A",
                "answer": "gold",
                "video": {"path": "x"},
            },
            (),
            "answer, input, video",
        ),
        (
            {"instruction": "Q", "input": "I", "output": "A"},
            ("--prompt_column=instruction",),
            "input",
        ),
        ({"prompt": "Q", "response": "A", "rubric": 5}, (), "rubric"),
        ({"prompt": "Q", "response": "A", "baseline": "B"}, (), "baseline"),
        (
            {"prompt": "Q", "response": "A", "context": "C"},
            ("--context_column=context",),
            "context",
        ),
    ],
)
def test_a_known_column_that_nobody_reads_is_named(
    command: Scoring, row: Json, words: tuple[str, ...], named: str
) -> None:
    ended = command(*words, rows=[row])
    assert ended.code == 0, ended.said
    assert f"nobody is shown: {named}\n" in ended.said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "cell", "responses"),
    [
        ("responses", '["7", "8"]', ["7", "8"]),
        ("responses", ' ["7"] ', ["7"]),
        (
            "responses",
            json.dumps(
                [[{"role": "assistant", "content": "7"}], [{"role": "assistant", "content": "8"}]]
            ),
            ["7", "8"],
        ),
        ("completions", '[{"response": "7"}, {"response": "8"}]', ["7", "8"]),
        ("responses", "[Seven] it is", ["[Seven] it is"]),
        ("responses", "[Seven]", ["[Seven]"]),
        ("response", '["7", "8"]', ['["7", "8"]']),
        ("response", '[{"role": "assistant", "content": "7"}]', ["7"]),
        ("response", '[{"a": 1}]', ['[{"a": 1}]']),
    ],
)
@pytest.mark.parametrize("ending", [".csv", ".tsv"])
def test_a_list_in_a_cell_is_a_list(
    command: Scoring, ending: str, column: str, cell: str, responses: list[str]
) -> None:
    pytest.importorskip("datasets")
    command.data = command.data.with_suffix(ending)
    separator, quoted = {".csv": ",", ".tsv": "\t"}[ending], cell.replace('"', '""')
    command.data.write_text(f'prompt{separator}{column}\nQ{separator}"{quoted}"\n')
    ended = command()
    assert ended.code == 0, ended.said
    assert [response for _, response in shown(command.judge)] == responses
    assert command.column(column) == [cell]


def test_a_list_in_the_words_of_python_is_refused(command: Scoring) -> None:
    pytest.importorskip("datasets")
    command.data = command.data.with_suffix(".csv")
    command.data.write_text("prompt,responses\nQ,\"['7', '8']\"\n")
    ended = command()
    assert ended.code == 2
    assert re.search(r"data\.csv, row 1: .*JSON in responses", ended.said)


def judge_yes(request: Json, number: int) -> str:
    return '{"reason": "r", "verdict": 1}'


ASPECT = {"name": "polite", "definition": "Is the submission polite?"}


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".jsonl", ".csv"])
def test_the_aspects_of_a_row_are_those_it_is_judged_by(tmp_path: Path, ending: str) -> None:
    given: list[JSON] = [["correctness"], [ASPECT], None]
    rows: list[Json] = [
        {"prompt": "Q", "response": f"A{n}", "aspects": aspects} for n, aspects in enumerate(given)
    ]
    if ending == ".csv":
        pytest.importorskip("datasets")
        cells = ["correctness", json.dumps([ASPECT]).replace('"', '""'), ""]
        text = "".join(f'Q,A{n},"{cell}"\n' for n, cell in enumerate(cells))
        data = tmp_path / "data.csv"
        data.write_text(f"prompt,response,aspects\n{text}")
    else:
        data = write_lines(tmp_path / "data.jsonl", rows)
    with serving(judge_yes) as judge:
        words = (f"--judge_base_url={judge.base_url}", "--judge=aspect", "--aspects=conciseness")
        ended = score(data, "--out", tmp_path / "o.jsonl", *words)
        texts = [body["messages"][-1]["content"] for body in judge.bodies]
    assert ended.code == 0, ended.said
    asked = {n: [text for text in texts if f"A{n}" in text] for n in range(3)}
    assert [len(asked[n]) for n in range(3)] == [1, 1, 1]
    assert "factually accurate" in asked[0][0]
    assert "Is the submission polite?" in asked[1][0]
    assert "unnecessary" in asked[2][0]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"aspects": ["kindness"]}, "row 1: aspects: .*no aspect 'kindness'"),
        ({"aspects": [{"name": "kind"}]}, r"row 1: aspects\.0\.definition: Field required"),
        ({"aspects": []}, "row 1: aspects: "),
        ({"rubric": {"score1_description": "Bad."}}, "row 1: rubric: .*object with criteria"),
        ({"rubric": {"criteria": "C", "score9_description": "x"}}, "row 1: rubric: .*score 9"),
    ],
)
def test_a_field_that_cannot_be_read_is_an_error(
    command: Scoring, fields: Json, words: str
) -> None:
    ended = command(rows=[{"prompt": "Q", "response": "A", **fields}])
    assert (ended.code, command.judge.requests) == (2, [])
    assert re.search(words, ended.said)


@pytest.mark.slow
def test_levels_of_a_rubric_and_lists_of_contexts_are_shown(
    command: Scoring, tmp_path: Path
) -> None:
    levels = {
        "criteria": "Is it kind?",
        "score1_description": "Very rude.",
        "score5_description": None,
    }
    assert command(rows=[{"prompt": "Q", "response": "A", "rubric": levels}]).code == 0
    assert "Is it kind?" in str(command.judge.bodies[0]) and "Very rude." in str(
        command.judge.bodies[0]
    )
    with serving(judge_yes) as other:
        command.judge, command.out = other, tmp_path / "b.jsonl"
        rows = [{"prompt": "Q", "response": "A", "context": ["One.", "Two."]}]
        assert command("--judge=aspect", "--aspects=correctness", rows=rows).code == 0
    assert "One.\nTwo." in other.bodies[0]["messages"][-1]["content"]
