"""`judgegym replay --choose` on recorded scores whose harm is known."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from judgegym_trials.replay.threshold import fewest_rows
from tests.trials.replay.recorded import choose, written_labels, written_run

Scores = Mapping[str, float]


def planted(rows: int, *, wrong: float = 0.4) -> tuple[Scores, Scores]:
    """Scores of a strong judge, and of a cheap one that differs only where it is unsure, in this share of those."""
    draw = Random(7)
    strong = {f"row-{n + 1}": draw.choice([0.0, 1.0]) for n in range(rows)}
    cheap = {}
    for uid, score in strong.items():
        sure = draw.random() < 0.6
        differs = not sure and draw.random() < wrong
        cheap[uid] = abs((1.0 - score if differs else score) - (0.05 if sure else 0.3))
    return cheap, strong


def runs(folder: Path, cheap: Scores, strong: Scores) -> tuple[Path, Path]:
    return written_run(folder / "small", cheap, cost=1.0), written_run(
        folder / "large", strong, cost=10.0
    )


def chosen(folder: Path, *words: object) -> dict[str, Any]:
    ended = choose(*words, "--json", folder / "numbers.json")
    assert ended.code == 0, ended.said
    found: dict[str, Any] = json.loads((folder / "numbers.json").read_bytes())
    return found


def test_the_threshold_keeps_the_rows_that_are_sure_and_says_what_they_save(tmp_path: Path) -> None:
    found = chosen(tmp_path, *runs(tmp_path, *planted(400)))
    held_out = found["held_out"]
    assert found["chosen"]["cascade_threshold"] == pytest.approx(0.9) and found["harm"] == 0.02
    assert held_out["rows"] + found["chosen"]["rows"] == 400
    assert held_out["harmed"] == 0 and held_out["agreement"] == 1.0
    assert held_out["escalated"] == pytest.approx(0.42, abs=0.08)
    assert held_out["cost"] == pytest.approx(
        1.0 + 10.0 * (held_out["escalated"] + 0.02 * (1 - held_out["escalated"]))
    )
    assert [each["escalated"] for each in found["thresholds"]] == sorted(
        (each["escalated"] for each in found["thresholds"]), reverse=True
    )


def test_what_it_costs_is_of_the_same_rows_as_the_strong_judge_alone(tmp_path: Path) -> None:
    found = chosen(tmp_path, *runs(tmp_path, *planted(400)))["held_out"]
    assert found["cost_alone"] == pytest.approx(10.0)


def test_with_labels_only_what_the_strong_judge_gets_right_is_harmed(tmp_path: Path) -> None:
    cheap, strong = planted(400)
    labels = {
        uid: float(score > 0.5) for uid, score in cheap.items()
    }  # where both differ, the cheap one is right
    both = runs(tmp_path, cheap, strong)
    found = chosen(tmp_path, *both, "--labels", written_labels(tmp_path / "labels.jsonl", labels))
    assert found["held_out"]["escalated"] == 0.0 and found["held_out"]["accuracy"] == 1.0
    assert found["held_out"]["agreement"] < 0.9


def test_too_few_rows_certify_nothing_and_the_message_says_how_many_it_takes(
    tmp_path: Path,
) -> None:
    ended = choose(*runs(tmp_path, *planted(100)), "--json", tmp_path / "numbers.json")
    assert ended.code == 4
    needed = fewest_rows(0.02, level=0.95)
    assert (
        "not enough rows: 100, of which" in ended.out
        and f"takes {needed}, so {2 * needed} in all" in ended.out
    )
    assert json.loads((tmp_path / "numbers.json").read_bytes())["chosen"] is None


def test_a_cheap_judge_that_is_wrong_where_it_is_sure_is_refused(tmp_path: Path) -> None:
    _, strong = planted(600)
    opposite = {uid: 1.0 - score for uid, score in strong.items()}
    ended = choose(*runs(tmp_path, opposite, strong))
    assert ended.code == 4 and "escalate all" in ended.out


def test_orders_are_a_confidence_of_comparisons(tmp_path: Path) -> None:
    cheap, strong = planted(400)
    orders = {
        uid: (score, score if abs(score - 0.5) > 0.4 else 1.0 - score)
        for uid, score in cheap.items()
    }
    small = written_run(tmp_path / "small", cheap, orders=orders)
    found = chosen(tmp_path, small, written_run(tmp_path / "large", strong), "--confidence=orders")
    assert found["chosen"]["cascade_threshold"] == 1.0 and found["held_out"]["harmed"] == 0


def test_graded_scores_agree_within_the_tolerance(tmp_path: Path) -> None:
    strong = {f"row-{n + 1}": 0.45 for n in range(400)}
    both = runs(tmp_path, dict.fromkeys(strong, 0.55), strong)
    assert choose(*both).code == 4
    assert chosen(tmp_path, *both, "--tolerance=0.1")["held_out"]["escalated"] == 0.0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--confidence=votes"], "small knows margin, and not votes"),
        (["--cascade=margin"], "argument --choose: not allowed with argument --cascade"),
        (["--sweep"], "--sweep: .*effect with --choose"),
        (["--reference=small"], "--reference: .*effect with --choose"),
        (["--html=page.html"], "--html: .*effect with --choose"),
        (["--jury_weights=auto"], "--jury_weights: .*effect without --jury"),
        (["--keep=1"], "--keep, --certainty: .*between 0 and 1"),
        (["--out=rows.jsonl"], r"--out: rows\.jsonl: .*expected FILE\.yaml"),
        (["--out=preset.yaml"], "one is of arena_hard, .*tables"),
    ],
)
def test_what_cannot_be_done_is_one_line(tmp_path: Path, words: list[str], said: str) -> None:
    ended = choose(*runs(tmp_path, *planted(400)), *words)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert re.search(said, ended.err)


def test_it_takes_two_runs_and_overwrites_no_preset(tmp_path: Path) -> None:
    small, large = (
        written_run(tmp_path / name, scores, is_scored=True)
        for name, scores in zip(("small", "large"), planted(400), strict=True)
    )
    for given in ([small], [small, large, small]):
        ended = choose(*given)
        assert ended.code == 2
        assert re.fullmatch(f"expected two runs, .*found {len(given)}\n", ended.err)
    preset = tmp_path / "cascade.yaml"
    preset.write_text("theirs", "utf-8")
    ended = choose(small, large, "--out", preset)
    assert (ended.code, ended.out) == (2, "") and f"--out: {preset} exists" in ended.err
    assert preset.read_text("utf-8") == "theirs"
