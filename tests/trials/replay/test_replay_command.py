"""`judgegym replay` on recorded scores: what juries are worth, what the sweep finds, what is said."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from tests.command import Ended, write_lines
from tests.trials.replay.recorded import replay, written_labels, written_run


def judges(
    folder: Path, accuracies: Sequence[float], *, rows: int = 400, is_scored: bool = False
) -> list[Path]:
    """Runs of independent judges, the first one the cheapest, and `labels.jsonl`."""
    draw = Random(3)
    labels = {f"row-{n + 1}": draw.choice([0.0, 1.0]) for n in range(rows)}
    written_labels(folder / "labels.jsonl", labels)
    found = []
    for number, accuracy in enumerate(accuracies, start=1):
        scores = {
            uid: label if draw.random() < accuracy else 1.0 - label for uid, label in labels.items()
        }
        found.append(
            written_run(folder / f"m{number}", scores, cost=float(number), is_scored=is_scored)
        )
    return found


def measured(folder: Path, *words: object) -> tuple[Ended, Mapping[str, Mapping[str, Any]]]:
    """The command with labels, and its candidates by name."""
    ended = replay(*words, "--labels", folder / "labels.jsonl", "--json", folder / "numbers.json")
    assert ended.code == 0, ended.said
    candidates = json.loads((folder / "numbers.json").read_bytes())["candidates"]
    return ended, {each["name"]: each for each in candidates}


@pytest.mark.slow
def test_a_majority_with_weak_members_harms_and_learned_weights_do_not(tmp_path: Path) -> None:
    runs = judges(tmp_path, [0.9, 0.55, 0.55])
    ended, found = measured(tmp_path, *runs, "--sweep", "--html", tmp_path / "page.html")
    assert found["majority (all)"]["value"] < found["m1"]["value"] - 0.1
    assert found["learned weights (all)"]["value"] >= found["m1"]["value"] - 0.01
    assert found["majority (all)"]["best"] == "m1" and found["majority (all)"]["cost"] == 6.0
    assert "can do harm" in ended.out
    page = (tmp_path / "page.html").read_text("utf-8")
    assert (
        page.count("<circle") == len(found)
        and "<script" not in page
        and "http" not in page.split("</head>")[1]
    )


def test_the_front_has_what_nothing_cheaper_is_worth(tmp_path: Path) -> None:
    _, found = measured(tmp_path, *judges(tmp_path, [0.7, 0.6, 0.85], rows=25), "--sweep")
    front = [each for each in found.values() if each["is_on_front"]]
    assert front[0]["name"] == "m1" and not found["m2"]["is_on_front"]
    for each in found.values():
        is_beaten = any(
            one["cost"] <= each["cost"] and one["value"] > each["value"] for one in found.values()
        )
        assert not (each["is_on_front"] and is_beaten)
    assert {each["kind"] for each in found.values()} == {
        "single",
        "jury",
    }  # 0 and 1 alone: all are equally sure


@pytest.mark.slow
def test_equal_independent_members_beat_the_best_and_one_strong_member_is_not_beaten(
    tmp_path: Path,
) -> None:
    auto = "--jury", "mean", "--jury_weights", "auto"
    ended, found = measured(tmp_path, *judges(tmp_path, [0.75] * 5), *auto)
    assert re.search(r"jury: mean beats .*member, m\d", ended.out)
    assert found["jury: mean"]["gain"][1] > 0 and found["jury: mean"]["value"] > 0.8
    (tmp_path / "other").mkdir()
    ended, found = measured(tmp_path / "other", *judges(tmp_path / "other", [0.9, 0.5, 0.5]), *auto)
    assert re.search("jury: mean is not known .*member, m1", ended.out)
    assert found["jury: mean"]["value"] == pytest.approx(found["m1"]["value"])


def test_a_preset_has_members_weights_and_the_sample_of_the_scale(tmp_path: Path) -> None:
    runs = judges(tmp_path, [0.95, 0.6, 0.6], rows=60, is_scored=True)
    words = (
        "--jury=mean",
        "--jury_weights=auto",
        "--jury_scale=standardised",
        "--out",
        tmp_path / "jury.yaml",
    )
    measured(tmp_path, *runs, *words)
    preset = yaml.safe_load((tmp_path / "jury.yaml").read_text("utf-8"))["env"]
    assert preset["judge"] == "jury" and list(preset["judges"]) == ["m1", "m2", "m3"]
    assert preset["judges"]["m2"] == {"judge": "rubric", "judge_model_name": "m2"}
    assert max(preset["jury_weights"], key=preset["jury_weights"].get) == "m1"
    assert {len(sample) for sample in preset["jury_sample"].values()} == {101}
    _, found = measured(tmp_path, *runs, "--jury", f"@{tmp_path / 'jury.yaml'}")
    assert found["jury: mean"]["members"] == ["m1", "m2", "m3"]


def test_without_labels_dawid_skene_weighs_the_members(tmp_path: Path) -> None:
    runs = judges(tmp_path, [0.9, 0.6, 0.8])
    ended = replay(*runs, "--jury=mean", "--jury_weights=dawid_skene", "--reference=m1")
    assert ended.code == 0 and "agreement with m1" in ended.out, ended.said
    assert "they err together" in ended.out


def test_a_failed_member_is_left_out_above_the_quorum(tmp_path: Path) -> None:
    scores = {f"row-{n + 1}": 1.0 for n in range(10)}
    missing = {**scores, "row-1": None, "row-2": None}
    runs = [
        written_run(tmp_path / name, of)
        for name, of in {"m1": scores, "m2": missing, "m3": missing}.items()
    ]
    written_labels(tmp_path / "labels.jsonl", scores)
    _, found = measured(tmp_path, *runs, "--jury=mean")
    assert found["jury: mean"]["value"] == pytest.approx(0.9)  # two rows without a score count half
    _, found = measured(tmp_path, *runs, "--jury=mean", "--jury_quorum=1")
    assert found["jury: mean"]["value"] == 1.0
    bounds = {
        "low": pytest.approx(10 / (10 + 1.96**2), abs=1e-4),
        "high": pytest.approx(1.0),
    }  # Wilson's for 10 of 10
    assert found["jury: mean"]["interval"] == bounds


@pytest.mark.parametrize(("share", "escalated"), [(0.0, 1.0), (1.0, 0.0)])
def test_a_confidence_at_the_threshold_is_at_it_whatever_its_last_digits(
    tmp_path: Path, share: float, escalated: float
) -> None:
    scores = dict.fromkeys(("row-1", "row-2"), 0.8)  # 2 · 0.8 − 1 is 0.6000000000000001
    runs = [written_run(tmp_path / name, scores) for name in ("small", "large")]
    settings = tmp_path / "cascade.yaml"
    settings.write_text(f"cascade_threshold: 0.6\ncascade_share: {share}\n", "utf-8")
    ended = replay(*runs, "--cascade", f"@{settings}", "--json", "-")
    assert ended.code == 0, ended.said
    assert [each["escalated"] for each in json.loads(ended.out)["candidates"]][-1] == escalated


def test_labels_of_other_responses_are_refused(tmp_path: Path) -> None:
    runs = judges(tmp_path, [0.8, 0.7], rows=40)
    lines = [{"uid": "row-3", "labeller": "a", "label": 1.0, "row": "of another run"}]
    labels = write_lines(tmp_path / "l.jsonl", lines)
    ended = replay(*runs, "--jury=mean", "--labels", labels)
    assert ended.code == 2
    assert f"{labels}: row 'row-3' has another response" in ended.err
    assert str(runs[0]) in ended.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "nothing to compute; .*--jury RULE, .*--sweep"),
        (["--jury=mean", "--keep=0.9"], "--keep: .*effect without --choose"),
        (["--sweep", "--jury_weights=m1=1"], "--jury_weights: .*effect without --jury"),
        (["--sweep", "--out=x.yaml"], "--out: a sweep .*--cascade RULE"),
        (["--cascade=margin"], "--cascade: expected two runs, .*found 3"),
        (["--jury=mean", "--jury_weights=auto"], "--jury_weights auto: expected --labels"),
        (["--jury=median", "--jury_weights=auto"], "expected --jury mean"),
        (["--jury=best"], "jury_rule"),
        (["--jury=mean", "--reference=m9"], "--reference: .*called m9, but m1, m2, m3"),
        (["--jury=mean", "--out=x.jsonl"], "one is of arena_hard, .*tables"),
        (["--jury=@none.yaml"], r"none\.yaml"),
        (
            ["--jury=mean", "--jury_weights=a=1"],
            "--jury: jury_weights, jury_sample: .*named 'a'; .*m1, m2, m3",
        ),
        (["--jury=mean", "--jury_weights=m1=0"], "jury_weights: .*all weights are 0"),
        (["--jury=mean", "--jury_quorum=4"], "jury_quorum: 4 of 3 members"),
        (
            ["--jury=@weights.yaml"],
            r"--jury @weights\.yaml: weights: unknown setting, did you mean jury_weights\?",
        ),
        (
            ["--jury=@other.yaml"],
            r"--jury @other\.yaml: zzz: unknown setting; expected one of jury_rule, jury_weights, ",
        ),
        (["--jury=@env.yaml"], r"--jury @env\.yaml: env: .*settings by name"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "weights": "weights: {m1: 1}",
        "other": "jury_rule: mean\nzzz: 1",
        "env": "env: 3",
    }.items():
        (tmp_path / f"{name}.yaml").write_text(text, "utf-8")
    ended = replay(*judges(tmp_path, [0.8, 0.7, 0.6], rows=40), *words)
    assert (ended.code, ended.err.count("\n")) == (2, 1), ended.said
    assert re.search(said, ended.err)


def test_what_out_cannot_be_is_said_before_anything_is_computed(tmp_path: Path) -> None:
    runs = judges(tmp_path, [0.8, 0.7], rows=10, is_scored=True)
    (tmp_path / "jury.yaml").write_text("theirs", "utf-8")
    (tmp_path / "rows.jsonl").write_text("theirs", "utf-8")
    for name, facts in {
        "jury.yaml": (f"--out: {tmp_path / 'jury.yaml'} exists",),
        "rows.jsonl": (f"--out: {tmp_path / 'rows.jsonl'} exists", "no run beside"),
        "rows.txt": ("--out: expected", ".parquet or .jsonl", "rows.txt"),
    }.items():
        ended = replay(*runs, "--jury=mean", "--out", tmp_path / name)
        assert (ended.code, ended.out) == (2, ""), ended.said
        assert all(fact in ended.err for fact in facts), ended.said
    assert {(tmp_path / name).read_text("utf-8") for name in ("jury.yaml", "rows.jsonl")} == {
        "theirs"
    }
