"""`judgegym select` on scored files: what it writes, in each layout, and what it says of wrong input."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.core.datasets.select.scored import (
    Row,
    lines_file,
    rows_of,
    scored_row,
    select,
    table_file,
)

SYSTEM = {"role": "system", "content": "Be brief."}
TURNS = [
    SYSTEM,
    {"role": "user", "content": "One?"},
    {"role": "assistant", "content": "1"},
    {"role": "user", "content": "Two?"},
]
ROWS = [
    scored_row({"prompt": "Why?", "response": "Since."}, 0.75),
    scored_row({"prompt": TURNS, "response": "2"}, 1.0),
    scored_row({"prompt": "Why?", "response": "No."}, 0.25),
    scored_row({"prompt": TURNS, "response": "3"}, 0.5),
    scored_row({"prompt": "Why?", "response": "Because."}, "judge_failed"),
    scored_row({"prompt": "Alone?", "response": "Yes."}, 0.5),
]


def said(content: str, role: str = "assistant") -> list[dict[str, str]]:
    return [{"role": role, "content": content}]


@pytest.fixture
def scored(tmp_path: Path) -> Path:
    return lines_file(tmp_path / "scored.jsonl", ROWS)


def written(scored: Path, *words: object, name: str = "out.jsonl") -> list[Row]:
    out = scored.parent / f"selected {name}" / name
    ended = select(scored, "--out", out, *words)
    assert ended.code == 0, ended.err
    return rows_of(out)


@pytest.mark.parametrize("name", ["out.jsonl", "out.parquet"])
def test_best_of_rows_with_equal_prompts_wherever_they_stand(scored: Path, name: str) -> None:
    assert written(scored, "--best", name=name) == [
        {"prompt": said("Why?", "user"), "completion": said("Since.")},
        {"prompt": TURNS, "completion": said("2")},
        {"prompt": said("Alone?", "user"), "completion": said("Yes.")},
    ]
    assert len(written(scored, "--top=2", name=name)) == 5
    assert [row["completion"] for row in written(scored, "--threshold=0.75", name=name)] == [
        said("Since."),
        said("2"),
    ]


@pytest.mark.parametrize("name", ["out.jsonl", "out.parquet"])
def test_pairs(scored: Path, name: str) -> None:
    assert written(scored, "--pairs", name=name) == [
        {"prompt": said("Why?", "user"), "chosen": said("Since."), "rejected": said("No.")},
        {"prompt": TURNS, "chosen": said("2"), "rejected": said("3")},
    ]
    assert written(scored, "--pairs", "--layout=openrlhf-dpo") == written(scored, "--pairs")


IMAGE = "https://example.org/{}.png"
TOOL = {"type": "function", "function": {"name": "add"}}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"images": [IMAGE.format(1)]}, {"images": [IMAGE.format(2)]}),
        ({"tools": [TOOL]}, {}),
        ({"context": "Cats sleep."}, {"context": "Dogs bark."}),
    ],
)
def test_prompts_of_the_same_words_with_other_images_tools_or_contexts_are_others(
    tmp_path: Path, one: Row, other: Row
) -> None:
    rows = [
        scored_row({"prompt": "Q", "response": text, **more}, score)
        for more in (one, other)
        for text, score in (("good", 0.9), ("bad", 0.1))
    ]
    crossed = lines_file(tmp_path / "crossed.jsonl", [rows[0], rows[3]])
    ended = select(crossed, "--out", tmp_path / "o" / "out.jsonl", "--pairs")
    assert ended.code == 2 and "2 too_few" in ended.err
    assert len(written(lines_file(tmp_path / "scored.jsonl", rows), "--pairs")) == 2
    if "context" in one:  # a judge of groups need not read it
        assert len(written(crossed, "--pairs", "--group_by=prompt")) == 1


def test_what_is_left_out_is_counted_by_reason(scored: Path) -> None:
    ended = select(scored, "--out", scored.parent / "new" / "out.jsonl", "--pairs", "--margin=0.51")
    assert ended.code == 2
    assert "out.jsonl is not written" in ended.err
    assert "2 margin (" in ended.err and "1 too_few (" in ended.err
    ended = select(scored, "--out", scored.parent / "new" / "out.jsonl", "--pairs", "--margin=0.5")
    assert ended.code == 0
    assert "4 of 6 responses, to 2 of 3 prompts" in ended.out
    left = ended.out.partition("responses left out\n")[2].splitlines()
    assert left[0].split() == ["1", "judge_failed", "the", "judge", "failed"]
    assert left[1].split()[:2] == ["1", "too_few"]
    assert max(map(len, ended.out.splitlines()[1:])) <= 80


LAYOUTS: dict[str, tuple[list[str], Row]] = {
    "trl-sft": (["--best"], {"prompt": said("Q", "user"), "completion": said("good")}),
    "trl-sft-messages": (["--best"], {"messages": said("Q", "user") + said("good")}),
    "trl-dpo": (
        ["--pairs"],
        {"prompt": said("Q", "user"), "chosen": said("good"), "rejected": said("bad")},
    ),
    "trl-kto": (
        ["--pairs"],
        {"prompt": said("Q", "user"), "completion": said("good"), "label": True},
    ),
    "openrlhf-sft": (["--best"], {"input": said("Q", "user"), "output": said("good")}),
    "openrlhf-dpo": (
        ["--pairs"],
        {"prompt": said("Q", "user"), "chosen": said("good"), "rejected": said("bad")},
    ),
    "verl-sft": (["--best"], {"messages": said("Q", "user") + said("good")}),
    "verl-rl": (
        ["--best", "--data_source=ours"],
        {
            "data_source": "ours",
            "prompt": said("Q", "user"),
            "ability": "general",
            "reward_model": {"style": "judge", "ground_truth": "good"},
            "extra_info": {"split": "train", "index": 0, "prompt": said("Q", "user")},
        },
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str, tmp_path: Path) -> None:
    scored = table_file(
        tmp_path / "scored.parquet",
        [scored_row({"prompt": "Q", "responses": ["bad", "good"]}, [0.1, 0.9])],
    )
    words, row = LAYOUTS[layout]
    assert written(scored, *words, f"--layout={layout}", name="out.parquet")[0] == row
    if layout.startswith("verl"):
        return
    assert written(scored, *words, f"--layout={layout}")[0] == row
    if layout != "trl-sft-messages":
        texts = written(scored, *words, f"--layout={layout}", "--conversational=false")[0]
        assert texts == {
            name: value[0]["content"] if isinstance(value, list) else value
            for name, value in row.items()
        }


def test_labels_of_kto(scored: Path) -> None:
    labels = [
        (row["completion"][0]["content"], row["label"])
        for row in written(scored, "--threshold=0.5", "--layout=trl-kto")
    ]
    assert labels == [("Since.", True), ("No.", False), ("2", True), ("3", True), ("Yes.", True)]
    pairs = [
        (row["completion"][0]["content"], row["label"])
        for row in written(scored, "--pairs", "--layout=trl-kto")
    ]
    assert pairs == [("Since.", True), ("No.", False), ("2", True), ("3", False)]


def test_chosen_and_rejected_conversations_stay_messages(tmp_path: Path) -> None:
    turns = [SYSTEM, *said("Q", "user")]
    row = {
        "chosen": [*turns, *said("bad")],
        "rejected": [*turns, *said("good"), *said("More?", "user"), *said("Yes.")],
    }
    scored = lines_file(tmp_path / "scored.jsonl", [scored_row(row, [0.1, 0.9])])
    assert written(scored, "--pairs") == [
        {"prompt": turns, "chosen": row["rejected"][2:], "rejected": said("bad")},
    ]
    ended = select(scored, "--out", tmp_path / "texts.jsonl", "--pairs", "--conversational=false")
    assert (ended.code, "row 1: the prompt has the turns system, user" in ended.err) == (2, True)


def test_thinking_of_sampled_responses_is_left_out_unless_it_is_asked_for(tmp_path: Path) -> None:
    sampled = {
        "prompt": "Q",
        "policy/response": ["good", "bad", None],
        "policy/thinking": ["Let me see.", None, None],
        "policy/finish_reason": ["stop", "stop", None],
    }
    scored = lines_file(
        tmp_path / "scored.jsonl", [scored_row(sampled, [0.9, 0.1, "policy_failed"])]
    )
    assert written(scored, "--best")[0]["completion"] == said("good")
    assert written(scored, "--best", "--keep_thinking")[0]["completion"] == said(
        "<think>\nLet me see.\n</think>\n\ngood"
    )
    assert "- synthetic\n" in (tmp_path / "selected out.jsonl" / "README.md").read_text("utf-8")


def test_the_prompt_of_a_sampled_response_is_what_the_policy_was_asked(tmp_path: Path) -> None:
    sampled = {
        "prompt": TURNS,
        "response": "Not this.",
        "policy/response": ["good"],
        "policy/thinking": [None],
        "policy/finish_reason": ["stop"],
    }
    pair = {
        "chosen": [SYSTEM, *said("Q", "user"), *said("Yes.")],
        "rejected": [SYSTEM, *said("Q", "user"), *said("No.")],
    }
    policy = {name: value for name, value in sampled.items() if name.startswith("policy/")}
    rows = [scored_row(sampled, [0.9]), scored_row({**policy, **pair}, [0.8])]
    scored = lines_file(tmp_path / "scored.jsonl", rows)
    assert written(scored, "--best") == [
        {"prompt": TURNS, "completion": said("good")},
        {"prompt": [SYSTEM, *said("Q", "user")], "completion": said("good")},
    ]


def test_rows_are_grouped_by_a_column(tmp_path: Path) -> None:
    rows = [
        scored_row({"id": n % 2, "prompt": f"Q{n % 2}", "response": str(n)}, n / 10)
        for n in range(4)
    ]
    scored = lines_file(tmp_path / "scored.jsonl", rows)
    assert [
        row["completion"][0]["content"] for row in written(scored, "--best", "--group_by=id")
    ] == ["2", "3"]
    other = lines_file(
        tmp_path / "other.jsonl",
        [*rows, scored_row({"id": 0, "prompt": "Q", "response": "x"}, 1.0)],
    )
    ended = select(other, "--out", tmp_path / "x.jsonl", "--best", "--group_by=id")
    assert ended.code == 2
    assert "row 5: has the same id (--group_by) as row 1, and another prompt" in ended.err


def test_columns_are_those_with_which_it_was_judged(tmp_path: Path) -> None:
    row = {"prompt": "not this", "asked": "Q", "response": "not this", "said": "good"}
    scored = lines_file(tmp_path / "scored.jsonl", [scored_row(row, 0.9)])
    expected = [{"prompt": said("Q", "user"), "completion": said("good")}]
    assert written(scored, "--best", "--prompt_column=asked", "--response_column=said") == expected
    (tmp_path / "scored.run").mkdir()
    (tmp_path / "scored.run" / "config.yaml").write_text(
        "prompt_column: asked\nresponse_column: said\n"
    )
    assert written(scored, "--best") == expected
    assert written(scored, "--best", "--response_column=response")[0]["completion"] == said(
        "not this"
    )


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    rows = [
        scored_row({"prompt": f"Q{n // 6}", "response": "x" * (n % 5)}, (n % 3) / 2)
        for n in range(60)
    ]
    scored = lines_file(tmp_path / "scored.jsonl", rows)
    words = ["--pairs", "--pairs_per_prompt=all", "--length_balanced", "--max_pairs=9"]
    for ending in ("jsonl", "parquet"):
        files = [tmp_path / f"{ending}{number}" / f"out.{ending}" for number in range(3)]
        for file, seed in zip(files, (1, 1, 2), strict=True):
            assert select(scored, "--out", file, *words, f"--seed={seed}").code == 0
        one, same, other = (file.read_bytes() for file in files)
        assert one == same != other


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--best", "--pairs"], "not allowed with argument"),
        ([], "one of the arguments --best --top --threshold --pairs is required"),
        (["--top=0"], "--top: .*whole number from 1, found 0"),
        (["--threshold=2"], "--threshold: .*from 0 to 1, found 2"),
        (["--best", "--margin=0"], "--margin: .*needs --pairs"),
        (["--best", "--length_balanced"], "--length_balanced: .*needs --pairs"),
        (["--threshold=0.5", "--min_score=0.5"], "--min_score: --threshold"),
        (["--best", "--layout=trl-dpo"], "--layout=trl-dpo: expected --pairs"),
        (["--pairs", "--layout=trl-sft"], "--layout=trl-sft: expected --best, --top"),
        (
            ["--pairs", "--pairs_per_prompt=all", "--layout=trl-kto"],
            "--layout=trl-kto: .*one label",
        ),
        (["--top=2", "--layout=verl-rl"], "--layout=verl-rl: expected --best"),
        (
            ["--best", "--layout=verl-sft"],
            r"--layout=verl-sft: .*reads \.parquet, found .*out\.jsonl",
        ),
        (
            ["--best", "--layout=trl-sft-messages", "--conversational=false"],
            "leave out --conversational=false",
        ),
        (["--best", "--conversational=maybe"], "--conversational: .*true or false, .*maybe"),
        (["--best", "--layout=none"], "invalid choice: 'none'"),
        (["--best", "--data_source=x"], "--data_source: .*without --layout=verl-rl"),
        (["--best", "--private"], "--private: .*needs --push_to_hub"),
        (["--best", "--card=none", "--push_to_hub=a/b"], "--card=none: .*with its card"),
        (["--best", "--group_by=id"], r"expected a column id \(--group_by\)"),
        (["--best", "--keep_thinking"], r"a sampled policy, .*\(--keep_thinking\)"),
        (["--best", "--prompt_column=none"], "expected a prompt .* in none"),
        (["--best", "--min_score=1.0", "--response_column=prompt"], "expected a prompt"),
    ],
)
def test_wrong_flags_are_one_line(scored: Path, words: list[str], message: str) -> None:
    out = scored.parent / "out.jsonl"
    ended = select(scored, "--out", out, *words)
    assert (ended.code, ended.out) == (2, "")
    assert re.search(message, ended.err) and ended.err.count("\n") == 1, ended.err
    assert not out.exists() and not (scored.parent / "README.md").exists()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"prompt": "Q", "response": "A"}, "lacks judge/score"),
        (
            scored_row({"prompt": "Q", "responses": ["A", "B"]}, [0.5]),
            "row 1: has 2 responses, and judge/status has 1",
        ),
        (scored_row({"text": "Q"}, 0.5), "row 1: expected a prompt"),
    ],
)
def test_a_file_that_is_not_scored_is_one_line(row: Row, message: str, tmp_path: Path) -> None:
    scored = lines_file(tmp_path / "scored.jsonl", [row])
    ended = select(scored, "--out", tmp_path / "out.jsonl", "--best")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert message in ended.err


def test_places_that_cannot_be(scored: Path, tmp_path: Path) -> None:
    cases: list[tuple[Any, str]] = [
        ((scored, "--out", scored), f"--out: .*the scored one, .*{scored}"),
        ((scored, "--out", tmp_path / "out.csv"), r"--out: .*\.parquet or \.jsonl.*out\.csv"),
        (
            (tmp_path / "none.jsonl", "--out", tmp_path / "out.jsonl"),
            r"none\.jsonl: .*no such file",
        ),
        ((tmp_path, "--out", tmp_path / "out.jsonl"), r"SCORED: .*\.parquet or \.jsonl"),
        ((scored, "--out", scored / "under" / "out.jsonl"), "cannot be written: Not a directory"),
    ]
    for words, message in cases:
        ended = select(*words, "--best", "--card=none")
        assert (ended.code, ended.err.count("\n")) == (2, 1), ended.err
        assert re.search(message, ended.err), ended.err


def test_a_damaged_run_beside_the_file_is_one_line(scored: Path) -> None:
    run = scored.with_suffix(".run")
    run.mkdir()
    for text, message in (
        ("[", "cannot be read"),
        ("- a", "expected the settings"),
        ("group_by: [a]", "name no columns"),
    ):
        (run / "config.yaml").write_text(text)
        ended = select(scored, "--out", scored.parent / "out.jsonl", "--best")
        assert (ended.code, message in ended.err) == (2, True), ended.err


KEPT = [
    scored_row(
        {"id": 7, "source": "web", "tags": ["a"], "prompt": "Why?", "response": "Since."}, 0.75
    ),
    scored_row({"id": 8, "source": "book", "tags": [], "prompt": "Why?", "response": "No."}, 0.25),
]
WHY, SINCE, NO = said("Why?", "user"), said("Since."), said("No.")
OF_PAIR = {"score_chosen": 0.75, "score_rejected": 0.25, "margin": 0.5}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ["--best", "--keep_columns=id,tags"],
            [{"prompt": WHY, "completion": SINCE, "id": 7, "tags": ["a"]}],
        ),
        (["--best", "--keep_scores"], [{"prompt": WHY, "completion": SINCE, "score": 0.75}]),
        (
            ["--pairs", "--keep_scores"],
            [{"prompt": WHY, "chosen": SINCE, "rejected": NO, **OF_PAIR}],
        ),
        (
            ["--pairs", "--keep_columns=source", "--keep_scores", "--layout=trl-kto"],
            [
                {"prompt": WHY, "completion": SINCE, "label": True, "source": "web", "score": 0.75},
                {"prompt": WHY, "completion": NO, "label": False, "source": "web", "score": 0.25},
            ],
        ),
    ],
)
def test_columns_of_the_source_and_scores_are_written_on_request(
    tmp_path: Path, words: list[str], expected: list[Row]
) -> None:
    scored = lines_file(tmp_path / "scored.jsonl", KEPT)
    assert written(scored, *words) == expected
    as_text = {"id": "7", "tags": '["a"]'}
    in_table = [{name: as_text.get(name, value) for name, value in row.items()} for row in expected]
    assert written(scored, *words, name="out.parquet") == in_table


def test_all_columns_but_those_of_the_layout_are_kept(tmp_path: Path) -> None:
    (row,) = written(
        lines_file(tmp_path / "scored.jsonl", KEPT), "--best", "--keep_columns=all", "--keep_scores"
    )
    assert row["prompt"] == WHY and row["score"] == 0.75
    assert {name: row[name] for name in ("id", "source", "tags", "response")} == {
        "id": 7,
        "source": "web",
        "tags": ["a"],
        "response": "Since.",
    }


@pytest.mark.parametrize(
    ("name", "words", "error"),
    [
        ("o.jsonl", ["--conversational=false"], "the prompt .*user with images"),
        ("o.parquet", [], "images, .*Parquet"),
    ],
)
def test_images_are_not_left_out_of_texts_and_tables(
    tmp_path: Path, name: str, words: list[str], error: str
) -> None:
    row = scored_row({"prompt": "Q", "response": "A", "images": [IMAGE.format(1)]}, 1.0)
    ended = select(
        lines_file(tmp_path / "scored.jsonl", [row]), "--out", tmp_path / name, "--best", *words
    )
    assert ended.code == 2 and re.search(f"row 1: .*{error}", ended.err)


@pytest.mark.parametrize("words", [[], ["--keep_columns=tools"]])
def test_tools_that_are_not_written_are_named(tmp_path: Path, words: list[str]) -> None:
    row = {"prompt": "Q", "response": "A", "tools": [TOOL]}
    ended = select(
        lines_file(tmp_path / "scored.jsonl", [scored_row(row, 1.0)]),
        "--out",
        tmp_path / "o.jsonl",
        "--best",
        *words,
    )
    assert ("--keep_columns tools" in ended.err) == (not words)


@pytest.mark.parametrize("words", ["all", "origin"])
def test_a_column_that_the_first_row_lacks_is_kept(tmp_path: Path, words: str) -> None:
    later = scored_row({"prompt": "How?", "response": "So.", "origin": "web"}, 1.0)
    kept = written(
        lines_file(tmp_path / "scored.jsonl", [*KEPT, later]), "--best", f"--keep_columns={words}"
    )
    assert [row["origin"] for row in kept] == [None, "web"]


@pytest.mark.parametrize(
    ("name", "words"),
    [("idd", "no column idd"), ("prompt", "--keep_columns: prompt is a column")],
)
def test_a_column_that_cannot_be_kept_is_an_error(tmp_path: Path, name: str, words: str) -> None:
    scored = lines_file(tmp_path / "scored.jsonl", KEPT)
    ended = select(
        scored, "--out", tmp_path / "o" / "out.jsonl", "--best", f"--keep_columns={name}"
    )
    assert ended.code == 2
    assert words in ended.err


CALL = {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2}'}}
CALLED = {"role": "assistant", "content": "", "tool_calls": [CALL]}
SUM = [{"role": "tool", "content": "4", "tool_call_id": "1"}, *said("It is 4.")]
ITEMS = [
    {"type": "function_call", "name": "add", "arguments": '{"a": 2}', "call_id": "1"},
    {"type": "function_call_output", "call_id": "1", "output": "4"},
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "It is 4."}],
    },
]


@pytest.mark.parametrize(
    ("row", "completion"),
    [
        ({"prompt": "Why?", "response": [CALLED]}, [CALLED]),
        ({"messages": [*said("Why?", "user"), CALLED, SUM[0], CALLED]}, [CALLED]),
        (
            {
                "responses_create_params": {"input": said("Why?", "user")},
                "response": {"output": ITEMS},
            },
            [CALLED, *SUM],
        ),
        (
            {
                "nodes": [
                    {"message": turn, "parent": place - 1 if place else None, "sampled": place > 0}
                    for place, turn in enumerate([*said("Why?", "user"), CALLED, *SUM])
                ],
                "task": {},
            },
            [CALLED, *SUM],
        ),
    ],
)
def test_calls_of_a_response_are_written_as_calls_and_never_in_the_words_of_a_judge(
    tmp_path: Path, row: Row, completion: list[Row]
) -> None:
    (written_row,) = written(
        lines_file(tmp_path / "scored.jsonl", [scored_row(row, 1.0)]), "--best"
    )
    assert written_row["completion"] == completion


def test_tool_calls_are_kept_in_lines_and_refused_in_a_table(tmp_path: Path) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    talk = [
        {"role": "user", "content": "Q"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "4", "tool_call_id": "1"},
    ]
    scored = lines_file(
        tmp_path / "scored.jsonl", [scored_row({"prompt": talk, "response": "4"}, 1.0)]
    )
    assert written(scored, "--best") == [{"prompt": talk, "completion": said("4")}]
    ended = select(scored, "--out", tmp_path / "t" / "out.parquet", "--best")
    assert ended.code == 2
    assert re.search(r"row 1: .*tool_calls, .*Parquet .*\.jsonl", ended.err)
