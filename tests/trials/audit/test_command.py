"""`judgegym audit` as a user calls it: tables, files, exit codes, and bad input in one line."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

from judgegym.cli.commands import main as judgegym
from judgegym.reports.compare.__main__ import main as compare
from judgegym_trials.audit.command import FAULT, main
from judgegym_trials.audit.reading import NO_GOLD, NO_JUDGMENT
from tests.trials.audit.made import audited, pairs, written


def said_of(error: str) -> str:
    lines = error.strip().splitlines()
    assert len(lines) == 1 and "Traceback" not in error, error
    return lines[0]


def test_the_table_fits_80_columns_and_says_what_is_not_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(written(tmp_path / "rows.jsonl", pairs())), "--label_noise=0"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    text = " ".join(out.split())
    for said in (
        "on 120 labelled rows, checks: 0 fail",
        "several times: repeatability.",
        "(Holm)",
        "at most 1 % of audits",
    ):
        assert said in text, said
    assert re.search(r"accuracy +│ +\d\d\.\d % │", out) and re.search(
        r"code: of \d+ rows right: \d+ in given", text
    )


def test_a_check_that_fails_is_exit_code_4_and_in_the_overview(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path / "rows.jsonl", pairs(300, first=0.6))
    found = audited(path, code=FAULT)["by_name"]["first_place_advantage"]
    assert (
        found["word"] == "fails"
        and found["value"] == pytest.approx(0.6, abs=0.12)
        and found["p_corrected"] < 1e-6
    )
    assert "fails: The first response wins" in capsys.readouterr().out
    assert judgegym(["--help"]) == 0
    overview = capsys.readouterr().out
    assert "; 4 a check" in overview and "  audit DATA " in overview


def test_a_whole_interval_beyond_the_threshold_is_suspect_where_the_test_does_not_fail_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = pairs(120, right=0.95)
    for number in range(36):
        rows[number]["verdict"] = [1, 2] if number % 2 else [2, 1]
    found = audited(written(tmp_path / "rows.jsonl", rows))["by_name"]["position_consistency"]
    assert found["interval"]["high"] < found["threshold"] == 0.8 and found["p_corrected"] > 0.01
    assert found["word"] == "suspect" and found["rows_needed"] > 120
    out = " ".join(capsys.readouterr().out.split())
    assert "1 suspect" in out and "suspect: " in out and "beyond the threshold" in out


def test_json_on_standard_output_is_all_that_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(written(tmp_path / "rows.jsonl", pairs())), "--json=-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["audit"] == 1 and len(found["judgments"]) == 120 and found["rows"] == 120


def test_verdicts_of_csv_are_those_of_json_lines(tmp_path: Path) -> None:
    rows = pairs(60)
    lines = audited(written(tmp_path / "a" / "rows.jsonl", rows))
    path = tmp_path / "b" / "rows.csv"
    path.parent.mkdir()
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            ["uid", "prompt", "responses", "label", "first", "verdict_swapped", "category"]
        )
        for row in rows:
            first, swapped = row["verdict"]
            cells = (row["uid"], row["prompt"], json.dumps(row["responses"]), row["label"])
            writer.writerow([*cells, "AB"[first - 1], swapped, row["category"]])
    table = audited(path, "--verdict_column=first")
    assert table["checks"] == lines["checks"] and table["judgments"] == lines["judgments"]


def test_rows_without_gold_or_a_verdict_are_counted_and_null_is_a_wrong_verdict(
    tmp_path: Path,
) -> None:
    rows = pairs(40, right=1.0)
    rows[0]["label"], rows[1]["verdict"] = None, [None, rows[1]["label"]]
    del rows[2]["verdict"]
    found = audited(written(tmp_path / "rows.jsonl", rows))
    assert found["left_out"] == {NO_GOLD: 1, NO_JUDGMENT: 1} and found["rows"] == 38
    assert found["by_name"]["accuracy"]["value"] == pytest.approx(75 / 76)
    assert found["by_name"]["failure_rate"]["value"] == pytest.approx(1 / 76)


@pytest.mark.parametrize(
    "written_as",
    [
        (str, int),
        (int, "{:.1f}".format),
        ("{}.0".format, str),
    ],
)
def test_gold_and_scores_as_texts_are_the_numbers_that_they_say(
    tmp_path: Path, written_as: Any
) -> None:
    gold, said = written_as
    rows = [
        {"prompt": f"Q {n}", "response": "r", "gold": gold(n % 5), "score": said(n % 5)}
        for n in range(40)
    ]
    found = audited(written(tmp_path / "rows.jsonl", rows))
    assert (found["kind"], found["by_name"]["exact_rate"]["value"]) == ("score", 1.0)
    assert found["by_name"]["weighted_kappa"]["value"] == 1.0


def test_shares_have_no_levels_that_they_could_be_nearest_to(tmp_path: Path) -> None:
    rows = [
        {"prompt": f"Q {n}", "response": "r", "gold": n % 5 / 4, "score": (n + n % 2) % 5 / 4}
        for n in range(40)
    ]
    found = audited(written(tmp_path / "rows.jsonl", rows))
    assert (
        found["by_name"]["exact_rate"]["value"]
        == sum(row["gold"] == row["score"] for row in rows) / 40
        == 0.5
    )
    binary = [{**row, "gold": n % 2, "score": n % 2 * 0.4 + 0.3} for n, row in enumerate(rows)]
    assert (
        audited(written(tmp_path / "binary.jsonl", binary))["by_name"]["exact_rate"]["value"] == 1.0
    )


def test_a_gold_label_that_is_no_number_is_none_and_a_bool_is_yes_or_no(tmp_path: Path) -> None:
    rows = [{"prompt": f"Q {n}", "response": "r", "gold": n % 5, "score": n % 5} for n in range(40)]
    rows[0]["gold"], rows[1]["score"], rows[2]["score"] = "NaN", "nan", None
    found = audited(written(tmp_path / "rows.jsonl", rows))
    assert (found["kind"], found["rows"], found["left_out"][NO_GOLD]) == (
        "score",
        39,
        1,
    )
    assert [found["by_name"][name]["value"] for name in ("failure_rate", "exact_rate")] == [
        2 / 39,
        37 / 39,
    ]
    words = ("no", "yes")
    rows = [
        {"prompt": f"Q {n}", "response": "r", "gold": n % 2 == 0, "score": words[n % 3 > 0]}
        for n in range(40)
    ]
    found = audited(written(tmp_path / "bools.jsonl", rows))
    right = sum((n % 2 == 0) == (n % 3 > 0) for n in range(40)) / 40
    assert (found["kind"], found["by_name"]["accuracy"]["value"]) == ("label", right)


def test_rows_that_a_file_of_verdicts_lacks_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = pairs(40, right=1.0)
    winners = {row["uid"]: row["label"] if number else None for number, row in enumerate(rows[:30])}
    lines = [{"judge": "one", "prompt": prompt, "winner": winners} for prompt in ("p", "q")]
    flags = (
        f"--verdicts={written(tmp_path / 'verdicts.jsonl', lines)}",
        "--prompt=q",
        "--paraphrases=all",
    )
    found = audited(written(tmp_path / "rows.jsonl", rows), *flags)
    assert found["left_out"] == {NO_JUDGMENT: 10} and found["judge"] == "one"
    assert found["by_name"]["failure_rate"]["value"] == pytest.approx(1 / 30)
    assert found["by_name"]["paraphrase_agreement"]["value"] == 1.0
    capsys.readouterr()
    assert (
        main([str(tmp_path / "rows.jsonl"), flags[0], "--prompt=q", "--verdict_column=verdict"])
        == 2
    )
    assert re.search("--verdict_column: .*file of --verdicts", capsys.readouterr().err)


def test_rows_of_one_prompt_are_one_cluster(tmp_path: Path) -> None:
    rows = pairs(60)
    for number, row in enumerate(rows):
        row["prompt"] = f"Question {number // 6}"
    found = audited(written(tmp_path / "rows.jsonl", rows))
    assert (found["rows"], found["clusters"]) == (60, 10)
    alone = audited(tmp_path / "rows.jsonl", "--cluster_column=uid")
    assert alone["clusters"] == 60


@pytest.mark.parametrize(
    ("change", "flags", "said"),
    [
        ({"label": 3}, (), "row 2: .*from 1 to 2, found label 3"),
        ({"verdict": "neither"}, (), "row 2: verdict: .*or null, found 'neither'"),
        ({"verdict": [1, 2, 1]}, (), r"row 2: verdict: .*two orders, found \[1, 2, 1\]"),
        ({"probability": 1.5}, (), r"row 2: probability: .*from 0 to 1, found 1\.5"),
        ({"time": "soon"}, (), "row 2: time: Value error, Invalid isoformat"),
        ({"uid": "row-0"}, (), "row 2: the id 'row-0' is also"),
        ({}, ("--label_column=labels",), "--label_column: no row of"),
        ({}, ("--prompt=CoT",), "--prompt and --paraphrases .*add --verdicts FILE"),
        ({"scores": [0.5, 0.25, 0.0, 1.0]}, (), "row 2: scores: .*found 4 scores"),
        ({"scores": [1.0]}, (), "row 2: scores: .*found 1 scores"),
        ({}, ("--sttings=x",), "unrecognized arguments: --sttings=x"),
        ({}, ("--judge=choice", "--offline"), "judgegym audit: --offline .*add --out FOLDER"),
        ({}, ("--judge=choice", "--limit", "5"), "--limit .*add --out FOLDER"),
        (
            {},
            ("--settings=nowhere.yaml",),
            "--settings: nowhere.yaml cannot be read: No such file or directory",
        ),
    ],
)
def test_bad_input_is_one_line(
    change: dict[str, Any],
    flags: tuple[str, ...],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = pairs(12)
    rows[1] |= change
    try:
        code = main([str(written(tmp_path / "rows.jsonl", rows)), *flags], prog="judgegym audit")
    except SystemExit as error:
        code = int(error.code or 0)
    assert code == 2
    assert re.search(said, said_of(capsys.readouterr().err))


def test_data_without_judgments_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(written(tmp_path / "rows.jsonl", [{"prompt": "q", "answer": "a"}]))]) == 2
    assert re.search(
        "nothing to audit: .*--verdict_column.*--gold_column.*prompt, answer",
        said_of(capsys.readouterr().err),
    )
    verdicts = written(
        tmp_path / "v.jsonl",
        [{"judge": name, "prompt": "p", "winner": {}} for name in ("one", "two")],
    )
    rows = str(written(tmp_path / "rows.jsonl", pairs(12)))
    for flags, said in (
        ((), "--judge: "),
        (("--judge=tow",), "did you mean two?"),
        (("--judge=two", "--prompt=q"), "--prompt: "),
    ):
        assert main([rows, f"--verdicts={verdicts}", *flags]) == 2
        assert said in said_of(capsys.readouterr().err)


def test_settings_of_ones_own_change_what_they_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, settings = written(tmp_path / "rows.jsonl", pairs(200)), tmp_path / "own.yaml"
    settings.write_text(
        "checks: {accuracy: {at_least: 0.99}, position_consistency: {at_least: null}}"
    )
    found = audited(path, f"--settings={settings}", code=FAULT)["by_name"]
    assert (found["accuracy"]["word"], found["position_consistency"]["word"]) == ("fails", "shown")
    capsys.readouterr()
    for text, said in (
        ("checks: {acuracy: {at_least: 0.9}}", "no check 'acuracy', did you mean accuracy?"),
        (
            "checks: {accuracy: {at_least: 0.9, at_most: 1}}",
            "expected one of at_least, at_most, within",
        ),
        ("alpha: 2", "alpha: Input should be less than 1"),
        ("alfa: 0.1", "alfa: unknown setting, did you mean alpha?"),
        (
            "zzz: 0.1",
            "zzz: unknown setting; expected one of alpha, level, power, label_noise_bound, checks",
        ),
        (
            "checks: {accuracy: {at_lest: 0.9}}",
            "checks.accuracy.at_lest: unknown setting, did you mean at_least?",
        ),
        ("- 1", "expected settings of"),
    ):
        settings.write_text(text)
        assert main([str(path), f"--settings={settings}"]) == 2
        assert said in said_of(capsys.readouterr().err)


def test_a_tie_counts_half_in_a_comparison_as_in_the_audits(tmp_path: Path) -> None:
    rows = pairs(60, right=1.0)
    said = []
    for name, ties in (("a", 0), ("b", 24), ("c", 40)):
        judged = [
            row | {"verdict": ["tie", "tie"]} if n < ties else row for n, row in enumerate(rows)
        ]
        found = audited(written(tmp_path / name / "rows.jsonl", judged), code=4 if ties > 24 else 0)
        said.append(found["by_name"]["accuracy"]["value"])
    files = [str(tmp_path / name) for name in "abc"]
    assert compare([*files, "--rounds=100", f"--json={tmp_path / 'c.json'}"]) == 0
    gold = json.loads((tmp_path / "c.json").read_bytes())["gold"]
    assert [run["accuracy"] for run in gold["runs"]] == said == [1.0, 0.8, pytest.approx(2 / 3)]
    first, second = (each["test"] for each in gold["differences"])
    assert first["corrected"] == first["test"]["p"], "the larger of two, by Holm"
    assert second["corrected"] == 2 * second["test"]["p"]


def test_two_audits_are_compared_on_shared_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = pairs(200, right=0.9)
    for name, share in (("a", 0.0), ("b", 0.7)):
        worse = [row | {"verdict": [3 - v if number < share * 100 else v for v in row["verdict"]]}
                 for number, row in enumerate(rows)]  # fmt: skip
        audited(
            written(tmp_path / name / "rows.jsonl", worse[: 190 if name == "b" else 200]),
            code=4 if share else 0,
        )
    capsys.readouterr()
    files = [str(tmp_path / "a"), str(tmp_path / "b" / "audit.json")]
    assert compare([*files, "--rounds=400", f"--json={tmp_path / 'c.json'}"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "gold on 380 labels of 190 rows" in out and "B: κ −" in out
    (difference,) = json.loads((tmp_path / "c.json").read_bytes())["gold"]["differences"]
    right = [sum(v == row["label"] for v in row["verdict"]) / 2 for row in rows[:190]]
    expected = (
        sum(1 - each if n < 70 else each for n, each in enumerate(right)) - sum(right)
    ) / 190
    assert difference["accuracy"]["value"] == pytest.approx(expected)
    for what in ("accuracy", "kappa"):
        interval = difference[what]["interval"]
        assert interval["low"] < difference[what]["value"] < interval["high"] < 0
    changed = json.loads((tmp_path / "a" / "audit.json").read_bytes())
    changed["judgments"][3]["gold"] = 1 - changed["judgments"][3]["gold"]
    (tmp_path / "other.json").write_text(json.dumps(changed))
    (tmp_path / "cut.json").write_text(json.dumps(changed)[:200])
    for words, said in (
        ([files[0], str(tmp_path / "other.json")], "gold label of row-3 is another"),
        ([files[0]], "expected two audits"),
        ([*files, "--html=c.html"], "--html: a comparison"),
        ([str(tmp_path / "a" / "rows.jsonl"), files[1]], "rows.jsonl is no audit"),
        ([files[0], str(tmp_path)], f"{tmp_path} is no audit"),
        (
            [files[0], str(tmp_path / "none.json")],
            "none.json cannot be read: No such file or directory",
        ),
        ([files[0], str(tmp_path / "cut.json")], "cut.json: a damaged audit: "),
    ):
        assert compare(words) == 2
        assert said in said_of(capsys.readouterr().err)
