"""A judge as a section of a file, nested to any depth, in every file of settings that has a judge."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from judgegym.cli.commands import main
from tests.command import serving, write_lines
from tests.scripted import Json

NESTED = {
    "kind": "cascade",
    "cascade_threshold": 1.0,
    "cascade_share": 0.0,
    "cheap": {
        "kind": "jury",
        "members": {"a": {}, "b": {"cheap": {"endpoint": {"model": "deep"}}, "strong": {}}},
    },
    "strong": {"kind": "rubric", "endpoint": {"model": "strong"}},
}


def jury(member: Json) -> Json:
    """A judge whose jury's jury has this member."""
    return {
        "kind": "jury",
        "members": {"a": {}, "b": {"kind": "jury", "members": {"x": member, "y": {}}}},
    }


def score(judge: Json, folder: Path, *words: str) -> int:
    """Score one row with a judge of a file; returns the exit code."""
    data = write_lines(folder / "data.jsonl", [{"prompt": "Why?", "response": "Because."}])
    (folder / "score.yaml").write_text(yaml.safe_dump({"judge": judge}))
    return main(
        [
            "score",
            str(data),
            f"--out={folder / 'out.jsonl'}",
            f"--config={folder / 'score.yaml'}",
            *words,
        ]
    )


def evaluate(judge: Json, folder: Path, *words: str) -> int:
    data = write_lines(folder / "data.jsonl", [{"prompt": "Why?"}])
    env = {"judge": judge, "eval_dataset": str(data), "data_dir_to_save_evals": str(folder / "run")}
    (folder / "env.yaml").write_text(yaml.safe_dump({"env": env}))
    words = tuple(word.replace("--judge", "--env.judge") for word in words)
    return main(["evaluate", "prompts", f"--config={folder / 'env.yaml'}", *words])


def mount(judge: Json, folder: Path, *words: str) -> int:
    return _serve({"mounts": {"m": judge}}, folder, *words)


def gold(judge: Json, folder: Path, *words: str) -> int:
    return _serve({"run_dir": str(folder / "run"), "gold_judge": judge}, folder, *words)


def _serve(settings: Json, folder: Path, *words: str) -> int:
    (folder / "server.yaml").write_text(yaml.safe_dump(settings))
    return main(["judge-server", "--port=0", f"--config={folder / 'server.yaml'}", *words])


@pytest.mark.slow
def test_a_section_of_nested_judges_asks_each_at_its_own_model(tmp_path: Path) -> None:
    with serving("[FEEDBACK] So. [SCORE] 3") as endpoint:
        words = (f"--judge_base_url={endpoint.base_url}", "--judge_model_name=usual")
        assert score(NESTED, tmp_path, *words) == 0
        models = [body["model"] for body in endpoint.bodies]
    assert {*models} == {"usual", "deep", "strong"} and models.count("usual") == 2


WRONG: list[tuple[Json, str]] = [
    (
        jury({"kind": "aspect", "samples_per_item": 2}),
        "judges.b.judges.x.samples_per_item: nothing reads it",
    ),
    (
        jury({"kind": "nonsense"}),
        "judges.b.judges.x.judge: .*no judge 'nonsense'; expected one of rubric",
    ),
    (
        jury({"kind": "listwise"}),
        "judges.b.judges.x.judge: expected one .*found 'listwise'",
    ),
    (jury({"votes": 3}), "judges.b.judges.x.votes: unknown setting"),
    (
        jury({"samples_per_item": 0}),
        "judges.b.judges.x.samples_per_item: input should be greater than or equal to 1",
    ),
    (jury({"endpoint": {"modell": "m"}}), "judges.b.judges.x.endpoint.modell: unknown setting"),
    (
        jury({"endpoint": {"api_key": "SECRET"}}),
        "judges.b.judges.x.judge_api_key: a secret",
    ),
    (
        jury({"judge_api_key": "SECRET"}),
        "judges.b.judges.x.judge_api_key: a secret",
    ),
    (
        jury({"endpoint": {"extra_headers": {"X-Key": "SECRET"}}}),
        "judges.b.judges.x.judge_extra_headers: a secret",
    ),
    (
        jury({"endpoint": {"base_url": "http://me:SECRET@127.0.0.1:1/v1"}}),
        "judges.b.judges.x.judge_base_url: a secret",
    ),
    (
        jury({"endpoint": {"extra_body": {"auth": {"password": "SECRET"}}}}),
        "judges.b.judges.x.judge_extra_body: a secret",
    ),
]


@pytest.mark.parametrize(
    ("host", "judge", "message"),
    [
        *((score, *wrong) for wrong in WRONG),
        *((host, *WRONG[-1]) for host in (evaluate, mount, gold)),
    ],
)
def test_what_is_wrong_in_a_nested_judge_is_one_line_before_the_first_call(
    host: Callable[..., int],
    judge: Json,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with serving("[FEEDBACK] So. [SCORE] 3") as endpoint:
        assert host(judge, tmp_path, f"--judge_base_url={endpoint.base_url}") == 2
        assert not endpoint.requests
    told = capsys.readouterr()
    (line,) = told.err.splitlines()
    assert re.search(message, line) and "SECRET" not in line
    assert not any("SECRET" in path.read_text() for path in tmp_path.rglob("*.jsonl"))


@pytest.mark.parametrize(
    ("judge", "line"),
    [
        (
            {"kind": "aspect", "scale_min": 0},
            "--judge.scale_min: .*judge=rubric",
        ),
        ({"cheap": {}, "strong": {}, "middle": {}}, "--judge.middle: unknown setting"),
        (
            {"endpoint": {"modell": "m"}},
            r"--judge.endpoint.modell: unknown setting, did you mean model\?",
        ),
        (
            {"endpoint": "m"},
            r"--judge.endpoint: .*\{model: NAME\}, found 'm'",
        ),
    ],
)
def test_what_is_wrong_in_the_section_itself_is_one_line(
    judge: Any, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert score(judge, tmp_path) == 2
    place = re.escape(f"({tmp_path / 'score.yaml'})")
    assert re.fullmatch(f"{line} {place}\n", capsys.readouterr().err)
    assert evaluate(judge, tmp_path) == 2
    assert re.search(line.replace("--", r"--env\."), capsys.readouterr().err)
