"""Audits beside labels with errors: a faultless judge is not accused of length bias, a judge with one is found.

Better responses are longer in 72 % of the pairs. With labels held fixed, length then stands in for
what they miss.
"""

from __future__ import annotations

import math
import random
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.audit_planted import LONGER, ONE, OWN, REQUIRED, STATED, TWO, share_found
from judgegym.reports.results.run import SavedRun
from judgegym_trials.audit.command import FAULT, main
from judgegym_trials.labelling.session import LabelPlan
from tests.trials.audit.made import Row, audited, written
from tests.trials.labelling.made import run_of, session_of

PROMISE = "at most 1 % of audits"


def noisy(
    count: int = 300, *, noise: float = 0.15, sway: float = 0.0, kappa: float = 1.45, seed: int = 0
) -> list[Row]:
    """Pairs whose labels are wrong in this share, judged in both orders by a judge that length sways so far."""
    numbers = random.Random(seed)

    def first(linear: float) -> int:
        return 1 if numbers.random() < 1 / (1 + math.exp(-linear)) else 2

    rows = []
    for number in range(count):
        apart, usual = numbers.gauss(0, 1), 60 * math.exp(numbers.gauss(0, 0.3))
        truth = first(kappa * apart)
        labels = [3 - truth if numbers.random() < noise else truth for _ in range(2)]
        words = (usual * math.exp(0.4 * apart), usual * math.exp(-0.4 * apart))
        rows.append(
            {
                "uid": f"row-{number}",
                "prompt": f"Question {number}?",
                "responses": ["word " * max(1, int(each)) for each in words],
                "label": labels[0],
                "second_label": labels[1],
                "verdict": [first(2.5 * (3 - 2 * truth) + sway * apart) for _ in range(2)],
            }
        )
    return rows


def without(rows: list[Row], *names: str) -> list[Row]:
    return [{name: value for name, value in row.items() if name not in names} for row in rows]


def notes(found: dict[str, Any]) -> str:
    return " ".join(found["notes"])


def test_with_one_label_a_row_nobody_can_tell_how_much_length_sways(tmp_path: Path) -> None:
    found = audited(written(tmp_path / "rows.jsonl", without(noisy(), "second_label")))
    check = found["by_name"]["length_bias"]
    assert check["word"] == "cannot tell" and 0.02 <= check["tipping_noise"] < 0.2
    noise, rows = 100 * check["tipping_noise"], check["rows_to_label_twice"]
    assert re.search(rf"With {noise:.0f} % .*no bias.* about {rows:,} rows", check["sentence"])
    assert PROMISE not in notes(found) and "Nobody has said" in notes(found)


def test_labels_that_are_stated_to_be_exact_are_held_fixed(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.jsonl", without(noisy(), "second_label"))
    found = audited(path, "--label_noise=0", code=FAULT)
    assert found["by_name"]["length_bias"]["word"] == "fails" and PROMISE in notes(found)
    assert "gold held fixed" in found["by_name"]["length_bias"]["sentence"]


def test_at_a_stated_noise_the_truth_is_held_fixed(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.jsonl", without(noisy(), "second_label"))
    found = audited(path, "--label_noise=0.15")
    check = found["by_name"]["length_bias"]
    assert (
        check["word"] == "underpowered"
        and abs(check["value"]) < 0.08
        and "truth held fixed" in check["sentence"]
    )
    assert re.search("15 % .*wrong, as stated", notes(found)) and PROMISE not in notes(found)


@pytest.mark.parametrize(("sway", "word"), [(0.0, "underpowered"), (2.5, "fails")])
def test_second_labels_tell_how_many_are_wrong(tmp_path: Path, sway: float, word: str) -> None:
    rows = noisy(noise=0.12, sway=sway)
    found = audited(written(tmp_path / "rows.jsonl", rows), code=FAULT if word == "fails" else 0)
    assert found["by_name"]["length_bias"]["word"] == word
    differ = sum(row["label"] != row["second_label"] for row in rows)
    share = (1 - math.sqrt(1 - 2 * differ / 300)) / 2
    assert re.search(rf"\b300 rows .*differ on {differ}: {100 * share:.1f} %", notes(found))
    assert PROMISE in notes(found)


def test_an_effect_that_stands_at_every_noise_fails_with_one_label_a_row(tmp_path: Path) -> None:
    rows = without(noisy(noise=0.05, sway=3.0, kappa=0.2), "second_label")
    found = audited(written(tmp_path / "rows.jsonl", rows), code=FAULT)
    assert found["by_name"]["length_bias"]["word"] == "fails"


def test_labels_of_which_many_are_wrong_promise_nothing(tmp_path: Path) -> None:
    found = audited(written(tmp_path / "rows.jsonl", noisy(noise=0.32)))
    assert PROMISE not in notes(found) and "too many to" in notes(found)


def test_labels_of_a_file_are_the_second_labels(tmp_path: Path) -> None:
    rows = noisy(120)
    by_column = audited(written(tmp_path / "rows.jsonl", rows))
    lines: list[Row] = [{"drawn": {"how": "random", "seed": 0, "rows": 120, "run": ""}}]
    for who, name in (("ann", "label"), ("ben", "second_label")):
        lines += [{"uid": row["uid"], "labeller": who, "label": 2 - row[name]} for row in rows]
    bare = written(tmp_path / "bare.jsonl", without(rows, "label", "second_label"))
    by_file = audited(bare, f"--labels={written(tmp_path / 'labels.jsonl', lines)}")
    assert by_file["checks"] == by_column["checks"] and by_file["notes"] == by_column["notes"]
    own = written(tmp_path / "own.jsonl", without(rows, "second_label"))
    second = [line for line in lines if line.get("labeller") != "ann"]
    by_both = audited(own, f"--labels={written(tmp_path / 'second.jsonl', second)}")
    assert by_both["checks"] == by_column["checks"]


def test_a_run_is_audited_by_what_two_people_say_of_it_on_the_page(tmp_path: Path) -> None:
    numbers = random.Random(1)
    truth = [numbers.choice([0.0, 1.0]) for _ in range(40)]
    run = run_of(
        tmp_path / "run", [1 - each if n % 10 == 0 else each for n, each in enumerate(truth)]
    )
    with session_of(run, LabelPlan(40, overlap=40)) as session:
        for who in ("ann", "ben"):
            while (uid := session.next_row(who)) is not None:
                number = int(uid.partition("/")[2])
                is_better = truth[number] == 1.0
                is_wrong = who == "ben" and number % 8 == 0
                key = "a" if (is_better != is_wrong) is session.is_first(uid, who) else "b"
                session.save(uid, who, key, "")
    found = audited(run, f"--labels={run / 'labels.jsonl'}")
    assert found["kind"] == "choice" and found["rows"] == 40
    assert found["by_name"]["accuracy"]["value"] == pytest.approx(0.9)
    assert re.search(r"\b40 rows .*differ on 5: 6\.7 %", notes(found))
    assert SavedRun.open(run).is_complete


def test_yes_and_no_of_a_run_are_labels(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", [float(n % 2) for n in range(30)], texts={}, environment="own")
    lines = [
        {
            "uid": f"zeta-policy/{n}",
            "labeller": who,
            "label": n % 2 if n != 3 or who == "ben" else 0,
        }
        for n in range(30)
        for who in ("ann", "ben")
    ]
    found = audited(run, f"--labels={written(tmp_path / 'labels.jsonl', lines)}")
    assert found["kind"] == "label" and found["by_name"]["accuracy"]["value"] == pytest.approx(
        29 / 30
    )
    assert re.search(r"\b30 rows .*two people, .*differ on 1\b", notes(found))


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--label_noise=8",), r"--label_noise: .*below 0\.45, found 8; 8 % is 0\.08"),
        (("--label_noise=-0.1",), r"--label_noise: .*below 0\.45, found -0\.1"),
        (("--label_noise=nan",), r"--label_noise: .*below 0\.45, found nan"),
        (("--labels=none.jsonl",), r"none\.jsonl: .*no such file"),
        ({"uid": "row-99", "labeller": "a", "label": 1}, "row 'row-99' is not in"),
        (
            {"uid": "row-1", "labeller": "a", "label": 0.25},
            r"row 'row-1': .*first response .*found 0\.25",
        ),
        ({"second_label": 3}, "second label .*1 to 2, found 3"),
    ],
)
def test_bad_labels_are_one_line(
    flags: Any, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = noisy(12)
    if isinstance(flags, dict) and "uid" in flags:
        flags = (f"--labels={written(tmp_path / 'labels.jsonl', [flags])}",)
    elif isinstance(flags, dict):
        rows[1] |= flags
        flags = ()
    assert main([str(written(tmp_path / "rows.jsonl", rows)), *flags]) == 2
    error = capsys.readouterr().err
    assert re.search(said, error) and len(error.strip().splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("known", "beta", "required"), [line for line in REQUIRED if line[2]])
@pytest.mark.parametrize("longer", LONGER)
def test_the_table_of_the_benchmark(known: str, beta: float, required: Any, longer: str) -> None:
    for noise, wanted in zip((0.0, 0.1, 0.2), required, strict=False):
        share = share_found(
            known, range(60), rows=400, kappa=LONGER[longer], beta=beta, noise=noise
        )
        allowed = 3 * math.sqrt(wanted * (1 - wanted) / 60)
        assert share >= wanted - allowed if beta else share <= wanted + allowed, (noise, share)


@pytest.mark.slow
@pytest.mark.parametrize("known", [ONE, STATED, TWO])
def test_a_faultless_judge_is_not_accused_of_preferring_its_own(known: str) -> None:
    assert (
        share_found(known, range(40), rows=300, kappa=0.94, beta=0.0, noise=0.2, check=OWN) <= 0.1
    )


@pytest.mark.parametrize("known", [ONE, TWO])
def test_four_audits_of_the_benchmark_accuse_no_faultless_judge(known: str) -> None:
    assert share_found(known, range(4), rows=300, kappa=1.45, beta=0.0, noise=0.1) == 0.0
    assert share_found(TWO, range(2), rows=400, kappa=0.85, beta=1.5, noise=0.1) == 1.0
