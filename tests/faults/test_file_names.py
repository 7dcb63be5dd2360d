"""Names and settings that a run's files cannot hold are refused before the first call; all others are read back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from judgegym.engine.runs.directory import read_settings
from judgegym.engine.runs.disk import remove_unfinished, write_atomic
from tests.command import as_process, in_process, serving, write_lines
from tests.core.datasets.scoring import score
from tests.scripted import ScriptedEndpoint

ROWS = [{"prompt": "Why?", "response": "Because."}]
VERDICT = "[FEEDBACK] So. [SCORE] 4"
BAD = os.fsdecode(b"name-\xff")


def scored(
    folder: Path,
    judge: ScriptedEndpoint,
    *,
    data: str = "rows.jsonl",
    out: str = "out.jsonl",
    rubric: str = "Good?",
) -> int:
    """The exit code of `score`, which must say where the bytes are if it ends with 2."""
    write_lines(folder / data, ROWS)
    ended = score(
        folder / data,
        f"--out={folder / out}",
        f"--rubric={rubric}",
        f"--judge_base_url={judge.base_url}",
        "--judge_model_name=m",
    )
    assert "Traceback" not in ended.said
    if ended.code == 2:
        assert "is not UTF-8" in ended.err, ended.said
    return ended.code


@pytest.mark.parametrize(
    "kwargs",
    [{"data": f"{BAD}.jsonl"}, {"out": f"{BAD}.jsonl"}, {"rubric": f"Good {BAD}?"}],
    ids=lambda kwargs: next(iter(kwargs)),
)
def test_bytes_that_are_no_text_are_refused_before_the_first_call(
    kwargs: dict[str, str], tmp_path: Path
) -> None:
    with serving(VERDICT) as judge:
        assert scored(tmp_path, judge, **kwargs) == 2
        assert not judge.requests
        assert scored(tmp_path, judge, out="other.jsonl") == 0


@pytest.mark.parametrize(
    "flag", ["--env.data_dir_to_save_evals={folder}/name-{bad}", "--env.custom_system_prompt={bad}"]
)
def test_so_are_those_of_an_evaluation(flag: str, tmp_path: Path) -> None:
    words = (
        f"--env.data_dir_to_save_evals={tmp_path / 'run'}",
        flag.format(folder=tmp_path, bad=BAD),
    )
    ended = in_process("evaluate", "--offline", *words)
    assert ended.code == 2, ended.said
    assert "is not UTF-8" in ended.err


@pytest.mark.parametrize("text", ["a\x85b", "a\u2028b", "ﬀ 𝒳 é", "a\tb\n c: d", "'\"#"])
def test_a_setting_is_read_back_as_it_was_given(text: str, tmp_path: Path) -> None:
    flags = (
        f"--env.custom_system_prompt={text}",
        f"--env.data_dir_to_save_evals={tmp_path}",
        "--limit=1",
    )
    ended = in_process("evaluate", "--offline", *flags)
    assert ended.code == 0, ended.said
    settings = read_settings(tmp_path)["env"]
    assert isinstance(settings, dict)
    assert settings["custom_system_prompt"] == text
    assert in_process("evaluate", "--offline", *flags, "--resume").code == 0


@pytest.mark.parametrize("stem", ["a" * 238, "a" * 239, "é" * 119, "é" * 120, "語" * 79, "語" * 80])
def test_a_long_name_is_written_or_refused_before_the_first_call(stem: str, tmp_path: Path) -> None:
    write_lines(tmp_path / "rows.jsonl", ROWS)
    out = tmp_path / f"{stem}.jsonl"
    with serving(VERDICT) as judge:
        flags = f"--judge_base_url={judge.base_url}", "--judge_model_name=m", "--rubric=Good?"
        ended = score(tmp_path / "rows.jsonl", f"--out={out}", *flags)
    if len(os.fsencode(stem)) <= 238:
        assert ended.code == 0, ended.said
        assert out.exists()
    else:
        assert ended.code == 2
        assert "--out: the name" in ended.err and "expected at most 238" in ended.err
        assert not judge.requests


@pytest.mark.parametrize("size", [10, 245, 246, 255])
def test_a_file_with_a_name_of_any_length_is_replaced_as_a_whole(size: int, tmp_path: Path) -> None:
    path, other = tmp_path / ("a" * size), tmp_path / ("a" * (size - 1) + "b")
    for text in (b"one", b"two"):
        write_atomic(path, text)
        assert path.read_bytes() == text
    seen: list[str] = []

    def killed() -> list[bytes]:
        seen.extend(entry.name for entry in tmp_path.iterdir())
        return [b"three"]

    write_atomic(other, killed)
    (temporary,) = set(seen) - {path.name, other.name}
    (tmp_path / temporary).write_bytes(b"half")
    remove_unfinished(path)
    assert (tmp_path / temporary).exists(), "it is another file's"
    remove_unfinished(other)
    assert not (tmp_path / temporary).exists()


@pytest.mark.slow
def test_output_survives_a_locale_without_the_characters(tmp_path: Path) -> None:
    """Under the locale C without Python's UTF-8 mode, a terminal is shown question marks."""
    env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    run = tmp_path / "run"
    ended = as_process(
        "evaluate",
        "--offline",
        "--limit=2",
        f"--env.data_dir_to_save_evals={run}",
        env=env,
        fresh=True,
    )
    assert ended.code == 0, ended.said
    for words in (
        ("list",),
        ("evaluate", "arena_hard", "--help"),
        ("report", str(run), "--all_metrics"),
    ):
        ended = as_process("judgegym", *words, script="-m", env=env, fresh=True)
        assert "Traceback" not in ended.said
        assert ended.code in (0, 2), ended.said
