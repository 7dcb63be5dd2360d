"""The file of labels: what is written is read, a torn end is left out, anything else wrong names file and line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judgegym.llm.errors import DataError, UserError
from judgegym.reports.labels.file import Draw, Label, Stratum, read_labels, row_digest
from tests.core.engine.samples_of import sample

DRAW = Draw("by_score", 3, 10, "00", (Stratum("0", 4), Stratum("1", 6)))


def written(path: Path, *lines: Label | Draw) -> Path:
    with path.open("ab") as file:
        file.writelines(line.to_line() for line in lines)
    return path


def refused(path: Path, *lines: Any) -> str:
    path.write_text(
        "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    )
    with pytest.raises(DataError) as error:
        read_labels(path)
    return str(error.value)


def test_draw_and_labels_are_read_as_they_were_written(tmp_path: Path) -> None:
    full = Label(
        "a",
        "ann",
        0.5,
        "0",
        "a note\nof two lines",
        "2026-11-26T10:00:00+00:00",
        "ff",
        {"part": 1.0},
    )
    labels = read_labels(written(tmp_path / "labels.jsonl", DRAW, full, Label("b", "ben", None)))
    assert labels.draw == DRAW
    assert [*labels.by_row_and_labeller.values()] == [full, Label("b", "ben", None)]
    assert labels.labellers == ["ann", "ben"]
    assert labels.means() == {"a": 0.5}, "who cannot tell gives no value"


def test_the_last_line_of_a_row_and_labeller_counts_and_several_labellers_are_averaged(
    tmp_path: Path,
) -> None:
    lines = [
        Label("a", "ann", 0.0),
        Label("a", "ben", 1.0),
        Label("a", "ann", 0.5),
        Label("b", "ann", 1.0),
    ]
    labels = read_labels(written(tmp_path / "l", *lines, Label("b", "ann", None, undone=True)))
    assert labels.draw is None
    assert labels.means() == {"a": 0.75}
    assert ("b", "ann") not in labels.by_row_and_labeller, "it was taken back"


def test_a_line_cut_off_by_a_crash_is_left_out(tmp_path: Path) -> None:
    path = written(tmp_path / "l", Label("a", "ann", 1.0))
    with path.open("ab") as file:
        file.write(b'{"uid": "b", "lab')
    assert [*read_labels(path).by_row_and_labeller] == [("a", "ann")]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"uid": "b", "labeller": "ann"}, "label: Field required"),
        ({"uid": "b", "labeller": "ann", "label": True}, "label: Input should be a valid number"),
        ({"uid": "b", "labeller": "ann", "label": "1"}, "label: Input should be a valid number"),
        ({"uid": "b", "labeller": " ", "label": 1}, "labeller: String should match pattern"),
        (
            {"uid": "b", "labeller": "ann", "label": 1, "lable": 1},
            "lable: Unexpected keyword argument",
        ),
        (
            {"drawn": {"how": "random", "seed": 0, "rows": 4, "run": "00"}},
            "the first line",
        ),
    ],
)
def test_any_other_line_is_refused_with_its_number(tmp_path: Path, line: Any, reason: str) -> None:
    message = refused(tmp_path / "l", {"uid": "a", "labeller": "ann", "label": 1}, line)
    assert f"{tmp_path / 'l'}, line 2: " in message and reason in message


def test_a_draw_whose_strata_do_not_sum_up_or_whose_kind_is_unknown_is_refused(
    tmp_path: Path,
) -> None:
    draw = {
        "how": "by_score",
        "seed": 0,
        "rows": 9,
        "run": "00",
        "strata": [{"name": "0", "rows": 4}],
    }
    message = refused(tmp_path / "l", {"drawn": draw})
    assert "strata" in message and message.endswith(" 9")
    assert "how: Input should be 'random' or 'by_score'" in refused(
        tmp_path / "l", {"drawn": draw | {"how": "best"}}
    )


_GIVEN = {"uid": "a", "labeller": "ann", "label": 1}


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [{"drawn": {"how": "random", "seed": 0, "rows": 4, "run": "00"}}],
        [_GIVEN, {**_GIVEN, "undone": True}],
    ],
)
def test_a_file_without_a_label_is_refused_where_labels_are_used(
    tmp_path: Path, lines: list[Any]
) -> None:
    path = tmp_path / "l"
    message = refused(path, *lines)
    assert message.startswith(f"{path}: ")
    assert "no label" in message and "judgegym label" in message
    assert not read_labels(path, may_be_empty=True).by_row_and_labeller


def test_a_missing_file_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        read_labels(tmp_path / "none.jsonl")


def test_agreement_is_of_the_rows_with_two_labels(tmp_path: Path) -> None:
    ann = {"a": 1.0, "b": 0.0, "c": 0.5, "d": 1.0, "e": 1.0}
    ben = {"a": 1.0, "b": 0.0, "c": 1.0, "d": 0.0, "f": 0.0}
    both = [
        Label(uid, name, value)
        for name, of in (("ann", ann), ("ben", ben))
        for uid, value in of.items()
    ]
    found = read_labels(written(tmp_path / "l", *both)).agreement()
    assert (found.rows, found.same) == (4, 0.5)
    # Computed by hand: Σ(x−y)² = 1.25 over 4 pairs; by chance, over all 16 pairs, 7 / 16.
    assert found.kappa == pytest.approx(1 - (1.25 / 4) / (7 / 16)) and isinstance(
        found.alpha, float
    )
    third = read_labels(written(tmp_path / "l", Label("a", "eve", 1.0))).agreement()
    assert "there are 3" in str(third.kappa) and isinstance(third.alpha, float)
    alone = read_labels(written(tmp_path / "one", Label("a", "ann", 1.0))).agreement()
    assert (alone.rows, alone.same) == (0, None) and "two labellers" in str(alone.alpha)


def test_a_row_has_another_digest_where_its_completion_or_its_texts_are_others() -> None:
    digests = [
        row_digest(sample("a")),
        row_digest(sample("b")),
        row_digest(sample("a", texts={"baseline": "b"})),
    ]
    assert len({*digests}) == 3 and row_digest(sample("a", score=0.0, category="x")) == digests[0]
