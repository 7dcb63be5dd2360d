"""Texts that a setting holds or reads from a file."""

import re
from functools import partial
from pathlib import Path

import pytest

from judgegym.cli.commands import main
from judgegym.judges.aspects.prompt import AspectJudgeSettings
from judgegym.judges.config.explaining import read_any_text_or_file, read_text_or_file
from tests.command import called, clean_environment, write_lines


def test_a_text_is_taken_as_it_is_and_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rubric.md"
    path.write_text("Is it right?\n", "utf-8")
    assert read_text_or_file(f"@{path}") == "Is it right?\n"
    for text in ("Is it right?", "", "It is 1/2.", "and/or", "v1.2", f"See {path}.", "x." * 4000):
        assert read_text_or_file(text) == text


def test_the_name_of_a_file_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "rubric.md"
    path.write_text("Is it right?\n", "utf-8")
    with pytest.raises(ValueError, match=re.escape(f"write @{path}")):
        read_text_or_file(str(path))


@pytest.mark.parametrize(
    "text", ["no_such_file.md", "rubrics/nothere.txt", "~/judge.prompt", "../x/y.tmpl", "a\0b.md"]
)
def test_the_name_of_a_file_that_does_not_exist_is_no_text(text: str) -> None:
    with pytest.raises(ValueError, match=rf"{re.escape(text)}; .*@PATH"):
        read_text_or_file(text)
    assert read_any_text_or_file(text) == text


SCORED = {
    "rubric": "rubric",
    "judge_system_prompt": "peer",
    "aspects": "aspect",
    "criteria": "checklist",
}
"""Texts, and a judge that reads each."""
ENVIRONMENTS = {
    "rubric_absolute": (
        "judge_system_prompt",
        "default_rubric",
        "custom_system_prompt",
        "custom_thinking_prompt",
    ),
    "pairwise_judgement": ("judge_rating_prompt",),
    "mt_bench": ("judge_prompts",),
    "prompts": ("user_persona", "user_goal", "rubric"),
    "aspect_critique": ("aspects",),
    "rubric_checklist": ("criteria",),
}


def refused(*words: str) -> None:
    ended = called(partial(main, [*words, "rubrics/nothere.txt"]), clean_environment())
    said = rf"{words[-1]} \(command line\): .*no file rubrics/nothere\.txt; .*@PATH"
    assert ended.code == 2 and re.search(said, ended.err), (words, ended)


def test_no_text_of_score_is_the_name_of_a_file_that_does_not_exist(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "data.jsonl", [{"prompt": "Why?", "response": "So."}])
    for name, judge in SCORED.items():
        refused(
            "score",
            str(data),
            "--out",
            str(tmp_path / "scored.jsonl"),
            "--offline",
            "--judge",
            judge,
            f"--{name}",
        )
    assert not (tmp_path / "scored.jsonl").exists()


@pytest.mark.slow
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_no_text_of_an_environment_is_the_name_of_a_file_that_does_not_exist(
    environment: str,
) -> None:
    for name in ENVIRONMENTS[environment]:
        talks = ["--env.user_max_turns=1"] * name.startswith("user_")
        refused("evaluate", environment, "--offline", *talks, f"--env.{name}")


@pytest.mark.parametrize(
    "written",
    ["coherence,correctness", '["coherence", "correctness"]', "- coherence\n- correctness"],
)
def test_aspects_are_read_from_a_file(tmp_path: Path, written: str) -> None:
    path = tmp_path / "aspects.yaml"
    path.write_text(written, "utf-8")
    settings = AspectJudgeSettings.model_validate({"aspects": f"@{path}"})
    assert [aspect.name for aspect in settings.aspects] == ["coherence", "correctness"]
