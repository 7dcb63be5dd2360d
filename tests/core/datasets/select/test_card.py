"""The card of what was selected: what it says, that nothing can break it, and whose README.md it overwrites."""

from __future__ import annotations

import shlex
from pathlib import Path

import datasets
import pytest
import yaml
from huggingface_hub import DatasetCard
from hypothesis import given
from hypothesis import strategies as st

from judgegym.datasets.select.card import format_code, format_table
from tests.command import serving, write_lines
from tests.core.datasets.scoring import rated, score
from tests.core.datasets.select.scored import Row, lines_file, scored_row, select
from tests.scripted import Reply

SECRET = "sk-very-secret-key"


def head_of(card: str) -> Row:
    _, head, _ = card.split("---\n", 2)
    found = yaml.safe_load(head)
    assert isinstance(found, dict)
    return found


def cell(card: str, name: str) -> str:
    """What stands in the second column of the row of a table."""
    (line,) = (line for line in card.splitlines() if line.startswith(f"| {name} |"))
    return line.split(" | ")[1].removesuffix(" |")


def cell_about(card: str, words: str) -> str:
    """The same of the only row whose name has these words."""
    (name,) = (
        name
        for line in card.splitlines()
        if line.startswith("| ") and words in (name := line.split(" | ")[0].removeprefix("| "))
    )
    return cell(card, name)


def test_scores_beyond_0_and_1_are_on_the_card_on_their_own_scale(tmp_path: Path) -> None:
    rows = [
        scored_row({"prompt": "Q", "response": f"{score}"}, score) for score in (-3.0, 0.5, 7.0)
    ]
    assert (
        select(
            lines_file(tmp_path / "scored.jsonl", rows),
            "--out",
            tmp_path / "o" / "o.jsonl",
            "--best",
        ).code
        == 0
    )
    card = (tmp_path / "o" / "README.md").read_text("utf-8")
    assert [cell(card, bounds) for bounds in ("-3.0 to -2.0", "0.0 to 1.0", "6.0 to 7.0")] == [
        "1",
        "1",
        "1",
    ]


@pytest.mark.slow
def test_a_card_says_how_the_file_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {"prompt": f"Q{n // 3}", "response": f"{n % 3 + 1} points {n}", "source": "PRIVATE"}
        for n in range(9)
    ]
    rows.append({"prompt": "Q0", "response": "9 fails", "source": "PRIVATE"})
    data, scored, out = (
        write_lines(tmp_path / "data.jsonl", rows),
        tmp_path / "scored.jsonl",
        tmp_path / "x" / "o.jsonl",
    )
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)

    def rating(response: str) -> int | Reply:
        return Reply(status=400) if response.startswith("9") else int(response[0])

    with serving(rated(rating)) as judge:
        words = [
            f"--judge_base_url={judge.base_url}",
            f"--judge_api_key={SECRET}",
            *(
                "--rubric=Count\nthe `points` | exactly",
                "--judge_model_name=a-model",
                "--max_judge_error_rate=1",
            ),
            *("--judge_price_input=1000", "--judge_price_output=1000", "--judge_max_retries=0"),
        ]
        assert score(data, "--out", scored, *words).code == 0
    ended = select(scored, "--out", out, "--pairs", "--margin=0.5", "--seed=3")
    assert ended.code == 0, ended.err
    card = (tmp_path / "x" / "README.md").read_text("utf-8")
    head = head_of(card)
    assert head["size_categories"] == ["n<1K"]
    assert head["task_categories"] == ["text-generation"]
    assert set(head["tags"]) == {"judgegym", "trl", "dpo", "preference", "llm-as-a-judge"}
    assert head["configs"] == [
        {"config_name": "default", "data_files": [{"split": "train", "path": "o.jsonl"}]}
    ]
    assert cell(card, "judge") == "`rubric`"
    assert cell(card, "model") == "`a-model`"
    assert "data.jsonl`, 10 rows, `sha256:" in cell(card, "data")
    assert cell_about(card, "(`judge_system_prompt`)").startswith("`sha256:")
    assert cell(card, "setting `rubric`").startswith("`sha256:")
    assert cell(card, "cost of the judge").endswith("US dollars")
    assert cell(card, "tokens of the judge").endswith(" received")
    assert (
        "| all | 10 |" in card
        and "| selected | 6 |" in card
        and "| left out: the judge failed | 1 |" in card
    )
    assert (cell(card, "`ok`"), cell(card, "`judge_failed`")) == ("9", "1")
    assert [cell(card, f"{n / 10:.1f} to {(n + 1) / 10:.1f}") for n in (0, 2, 5)] == ["3", "3", "3"]
    assert f"judgegym select {scored} --out {out} --pairs --margin=0.5 --seed=3" in card
    assert (
        "--judge=rubric" in card
        and "--rubric=rubric.txt" in card
        and "--judge_model_name=a-model" in card
    )
    assert SECRET not in card and "PRIVATE" not in card and "points 4" not in card


def test_agreement_of_orders_where_it_is_known(tmp_path: Path) -> None:
    rows = [
        scored_row({"prompt": "Q", "responses": ["a", "b"]}, [1.0, 0.0], '{"orders_agree":0.5}'),
        scored_row({"prompt": "R", "responses": ["a", "b"]}, [1.0, 0.0], '{"orders_agree":1.0}'),
    ]
    scored = lines_file(tmp_path / "scored.jsonl", rows)
    scored.with_suffix(".run").mkdir()
    (scored.with_suffix(".run") / "config.yaml").write_text("judge: listwise\ndata: d.jsonl\n")
    assert select(scored, "--out", tmp_path / "o.jsonl", "--best").code == 0
    card = (tmp_path / "README.md").read_text("utf-8")
    assert cell_about(card, "both orders") == "75.0 % of the pairs"
    assert "cost" not in card and "tokens" not in card


def test_a_file_without_a_run_has_a_card_that_claims_nothing(tmp_path: Path) -> None:
    scored = lines_file(
        tmp_path / "scored.jsonl", [scored_row({"prompt": "Q", "response": "a"}, 1.0)]
    )
    assert select(scored, "--out", tmp_path / "o.jsonl", "--best").code == 0
    card = (tmp_path / "README.md").read_text("utf-8")
    assert "is not known." in card
    assert "llm-as-a-judge" not in head_of(card)["tags"]
    assert "judgegym score" not in card


@pytest.mark.parametrize("name", ["o.jsonl", "o.parquet"])
def test_the_hubs_own_libraries_read_the_card(name: str, tmp_path: Path) -> None:
    rows = [
        scored_row({"prompt": f"Q{number}", "responses": ["a", "b"]}, [1.0, 0.0])
        for number in range(3)
    ]
    scored = lines_file(tmp_path / "scored.jsonl", rows)
    folder = tmp_path / "selected"
    assert select(scored, "--out", folder / name, "--pairs").code == 0
    head = DatasetCard.load(folder / "README.md").data.to_dict()
    assert (head["size_categories"], head["task_categories"]) == (["n<1K"], ["text-generation"])
    found = datasets.load_dataset(str(folder), split="train", cache_dir=str(tmp_path / "cache"))
    assert (len(found), found.column_names) == (3, ["prompt", "chosen", "rejected"])
    assert found[0]["chosen"] == [{"role": "assistant", "content": "a"}]


@pytest.mark.slow
def test_shards_that_are_merged_and_a_policy_that_was_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "data.jsonl", [{"prompt": f"Question {number}?"} for number in range(4)])
    words = [
        "data.jsonl",
        "--out=scored.jsonl",
        "--offline",
        "--responses_per_prompt=2",
        "--rubric=Is it right?",
    ]
    for more in ("--shard=1/2", "--shard=2/2"):
        assert score(*words, more).code == 0
    merged = score(*words, "--merge=2")
    assert merged.code == 0, merged.said
    assert select("scored.jsonl", "--out=x/o.jsonl", "--best").code == 0
    card = (tmp_path / "x" / "README.md").read_text("utf-8")
    assert "The judge and the policy are an offline stand-in" in card
    assert {"synthetic", "best-of-n"} <= set(head_of(card)["tags"])
    (command,) = (line for line in card.splitlines() if line.startswith("judgegym score "))
    given = {
        "--out=scored.jsonl",
        "--judge=rubric",
        "--offline=true",
        "--responses_per_prompt=2",
    }
    assert (
        set(shlex.split(command))
        == {"judgegym", "score", "data.jsonl", "--rubric=Is it right?"} | given
    )
    assert cell(card, "tokens of the policy").endswith(" received")


def test_names_cannot_break_the_card(tmp_path: Path) -> None:
    name = 'a: "[b]\n---\n# c `d` | <script>.jsonl'
    scored = lines_file(
        tmp_path / "```\n# scored.jsonl", [scored_row({"prompt": "Q", "response": "a"}, 1.0)]
    )
    out = tmp_path / "folder" / name
    assert select(scored, "--out", out, "--best").code == 0
    card = (out.parent / "README.md").read_text("utf-8")
    assert head_of(card)["configs"][0]["data_files"][0]["path"] == name
    body = card.split("-->\n", 1)[1]
    before, _, commands = body.partition("## Make it again")
    titles = [line for line in before.splitlines() if line.startswith("# ")]
    assert titles == ['# ``a: "[b] --- # c `d` | <script>.jsonl``']
    assert commands.strip().startswith("````sh\n") and commands.strip().endswith("\n````")
    assert select(scored, "--out", out, "--best").code == 0  # it is known again


def test_a_readme_of_somebody_else_is_not_overwritten(tmp_path: Path) -> None:
    scored = lines_file(
        tmp_path / "scored.jsonl", [scored_row({"prompt": "Q", "response": "a"}, 1.0)]
    )
    readme = tmp_path / "README.md"
    readme.write_text("# My project\n")
    ended = select(scored, "--out", tmp_path / "o.jsonl", "--best")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "README.md was not written" in ended.err
    assert readme.read_text() == "# My project\n" and not (tmp_path / "o.jsonl").exists()
    assert (
        select(scored, "--out", tmp_path / "o.jsonl", "--best", "--card", tmp_path / "CARD.md").code
        == 0
    )
    for name, code_expected in (("o.jsonl", 0), ("other.jsonl", 2)):
        ended = select(scored, "--out", tmp_path / name, "--best", "--card", tmp_path / "CARD.md")
        assert ended.code == code_expected
    assert "CARD.md is the card" in ended.err
    (tmp_path / "data.jsonl").write_text("{}\n")
    ended = select(scored, "--out", tmp_path / "data.jsonl", "--best", "--card=none")
    assert ended.code == 2 and "data.jsonl exists" in ended.err and "no card" in ended.err
    assert (tmp_path / "data.jsonl").read_text() == "{}\n"
    ended = select(scored, "--out", tmp_path / "o.jsonl", "--best", "--card", tmp_path)
    assert (ended.code, "cannot be read: Is a directory" in ended.err) == (2, True)


@given(st.text("ab|\\` \n"))
def test_a_cell_stays_one(text: str) -> None:
    line = format_table(("a", "b"), [(format_code(text), "1")]).splitlines()[-1]
    cells = line.replace("\\|", "").split("|")
    assert len(cells) == 4


@pytest.mark.slow
def test_a_threshold_on_scores_of_a_judge_that_compares_responses_is_doubted(
    tmp_path: Path,
) -> None:
    rows = [
        {
            "prompt": "Name a prime above ten.",
            "responses": ["A prime above ten is eleven.", "Nine."],
        }
    ]
    data, scored = lines_file(tmp_path / "data.jsonl", rows), tmp_path / "scored.jsonl"
    assert score(data, "--out", scored, "--judge=listwise", "--offline").code == 0
    said = {}
    for rule in ("--threshold=0", "--best", "--best --min_score=0"):
        out = tmp_path / rule / "out.jsonl"
        ended = select(scored, "--out", out, *rule.split())
        assert ended.code == 0, ended.err
        words = "The judge (listwise) compares"
        said[rule] = (words in ended.err, words in (out.parent / "README.md").read_text("utf-8"))
    assert said == {
        "--threshold=0": (True, True),
        "--best": (False, False),
        "--best --min_score=0": (True, True),
    }
