"""`examples/own_judge/language.py:JUDGE` is a kind of judge as the built-in ones are, with a setting of its own."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path

import pytest

from examples.own_judge.language import LanguageJudge, LanguageJudgeSettings, same_language
from judgegym import OwnJudge, Status
from tests.command import ROOT, RunFiles, serving, write_lines
from tests.core.cli.command import judgegym
from tests.core.datasets.scoring import read_rows, score

FOLDER = ROOT / "examples" / "own_judge"
MODULE = FOLDER / "language.py"
JUDGE = f"--judge={MODULE}:JUDGE"
ROW = {
    "prompt": "Why is the sky blue?",
    "response": "The sky is blue because air scatters blue light.",
}


def test_it_is_a_file_of_100_lines_that_imports_one_module_of_the_project() -> None:
    lines = MODULE.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 100
    assert {line.split()[1] for line in lines if line.startswith("from judgegym")} == {
        "judgegym.judges"
    }


@pytest.mark.slow
def test_rows_are_scored_offline(tmp_path: Path) -> None:
    out = tmp_path / "judged.jsonl"
    ended = score(write_lines(tmp_path / "rows.jsonl", [ROW]), JUDGE, "--offline", "--out", out)
    assert ended.code == 0, ended.err
    (judged,) = read_rows(out)
    assert (judged["judge/status"], judged["judge/score"], judged["judge/label"]) == (
        "ok",
        1.0,
        "yes",
    )
    assert judged["judge/explanation"] == f'"{ROW["response"][:40]}"'


@pytest.mark.parametrize("flags", [(), ("--count_quotes",), ("--count_quotes=false",)])
def test_its_setting_is_a_flag_that_changes_the_prompt_and_stands_in_the_run(
    flags: tuple[str, ...], tmp_path: Path
) -> None:
    data, out = write_lines(tmp_path / "rows.jsonl", [ROW]), tmp_path / "judged.jsonl"
    with serving("So.\nLANGUAGE: same") as endpoint:
        url = f"--judge_base_url={endpoint.base_url}"
        score(data, JUDGE, *flags, url, "--out", out, "--write_report=False").successful()
        (body,) = endpoint.bodies
    counts = flags == ("--count_quotes",)
    assert ("quoted words in another language do not count" in body["messages"][0]["content"]) == (
        not counts
    )
    config = (tmp_path / "judged.run" / "config.yaml").read_text(encoding="utf-8")
    assert f"count_quotes: {str(counts).lower()}" in config and "judge_digest: sha256:" in config


def test_help_lists_its_setting_and_no_other_judge_has_it() -> None:
    assert "--count_quotes" in score(JUDGE, "--help").out
    assert "--count_quotes" not in score("--judge=rubric", "--help").out
    ended = score("rows.jsonl", "--judge=rubric", "--count_quotes")
    assert ended.code == 2 and len(ended.err.splitlines()) == 1 and "--count_quotes" in ended.err


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["evaluate", "process"])
def test_its_environment_asks_texts_and_conversations(tmp_path: Path, verb: str) -> None:
    folder = shutil.copytree(
        FOLDER, tmp_path / "copy", ignore=shutil.ignore_patterns("__pycache__", "runs", "data")
    )
    lines = (folder / "language_environment.py").read_text(encoding="utf-8").splitlines()
    modules = {line.split()[1] for line in lines if line.startswith(("from ", "import "))}
    assert len(lines) <= 40 and len(modules) <= 3
    to_make = {"evaluate": "--env.data_dir_to_save_evals=run", "process": "--env.total_steps=3"}[
        verb
    ]
    ended = judgegym(verb, "language_environment.py", "--offline", to_make, cwd=folder)
    assert ended.code == 0, ended.err
    if verb == "evaluate":
        samples = RunFiles(folder / "run").samples
        assert [sample["status"] for sample in samples] == ["ok"] * 3
        assert samples[2]["question"].startswith("user: Nenne eine Primzahl.\n\nassistant: Sieben.")
    else:
        groups = [
            json.loads(line)
            for line in (folder / "data" / "language.jsonl").read_text().splitlines()
        ]
        assert len(groups) == 3 and all(
            0.0 <= score <= 1.0 for group in groups for score in group["scores"]
        )


def test_it_judges_in_a_notebook() -> None:
    own = partial(LanguageJudge, LanguageJudgeSettings())
    with OwnJudge(own, offline=True, offline_prompts=[f"{MODULE}:PROMPT"]) as judge:
        table = judge.judge_sync(ROW["prompt"], [ROW["response"], ""])
    assert [judgment.status for judgment in table] == [Status.OK, Status.INVALID_COMPLETION]
    assert (table[0].score, table[0].label) == (1.0, "yes")


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ('"Der Himmel"\n\nLANGUAGE: other', False),
        ("LANGUAGE: other\n**LANGUAGE: same**", True),
        ("The answer says LANGUAGE: same, but", None),
        ("LANGUAGE: same\nor rather language = other", None),
        ("LANGUAGE: both", None),
    ],
)
def test_verdict_is_read_or_there_is_none(text: str, verdict: bool | None) -> None:
    assert same_language(text) == verdict
