"""A session of labelling: the draw, who gets which row, undo, when it is enough, and going on after its end."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from judgegym.llm.errors import SettingsError, UserError
from judgegym.reports.labels.file import assign_strata, read_labels
from judgegym.reports.results.run import SavedRun
from judgegym_trials.labelling.session import PILOT, LabelPlan, Session
from tests.trials.labelling.made import lines_of, run_of, session_of

VALUES = tuple(float(number % 3 == 0) for number in range(60))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return run_of(tmp_path / "run", VALUES)


def label(session: Session, labeller: str, keys: str | None = "a") -> str:
    """Label the next row; returns its id."""
    uid = session.next_row(labeller)
    assert uid is not None
    session.save(uid, labeller, keys, "")
    return uid


def label_all(session: Session, labeller: str) -> list[str]:
    found = []
    while session.next_row(labeller) is not None:
        found.append(label(session, labeller, "t"))
    return found


def test_the_draw_is_written_first_and_more_rows_extend_it(run: Path) -> None:
    with session_of(run, LabelPlan(5)) as session:
        first = label_all(session, "ann")
    with session_of(run, LabelPlan(9)) as session:
        assert len(first) == 5 and len(first + label_all(session, "ann")) == 9
        assert session.order[:5] == first
    assert "drawn" in lines_of(run / "labels.jsonl")[0]
    other = run_of(run.parent / "other", VALUES[::-1])
    with session_of(other, LabelPlan(5), seed=1) as session:
        assert label_all(session, "ann") != first


def test_the_order_does_not_depend_on_the_judge(run: Path, tmp_path: Path) -> None:
    again = run_of(tmp_path / "again", [1.0 - value for value in VALUES])
    with session_of(run) as session, session_of(again) as other:
        assert session.order == other.order and session.draw == other.draw


def test_by_score_the_first_rows_of_the_draw_have_each_value_as_often_as_the_run(run: Path) -> None:
    with session_of(run, how="by_score") as session:
        values = [session.values[uid] for uid in session.order]
        assert Counter(values[:4]) == {0.0: 2, 1.0: 2}, "two of each stratum come first"
        assert Counter(values[:30]) == {0.0: 20, 1.0: 10}
        assert sorted(session.order) == sorted(session.values)
        uid = label(session, "ann")
        assert (
            read_labels(run / "labels.jsonl").by_row_and_labeller[uid, "ann"].stratum
            == f"to {session.values[uid]:g}"
        )


@pytest.mark.parametrize(
    ("values", "sizes"),
    [
        ([0.0] * 30 + [0.5] * 4 + [1.0] * 30, {"to 0": 30, "to 1": 34}),
        (
            [number / 100 for number in range(100)],
            {f"to 0.{number}9": 20 for number in (1, 3, 5, 7, 9)},
        ),
        ([0.0] * 50 + [1.0] * 3, {"to 1": 53}),
    ],
)
def test_strata_are_values_or_fifths_and_none_is_tiny(
    values: list[float], sizes: dict[str, int]
) -> None:
    found = assign_strata({str(number): value for number, value in enumerate(values)})
    assert Counter(found.values()) == sizes


def test_the_overlap_goes_to_every_labeller_and_each_further_row_to_one(run: Path) -> None:
    with session_of(run, LabelPlan(20, overlap=4)) as session:
        ann = [label(session, "ann") for _ in range(10)]
        ben = label_all(session, "ben")
        assert {*ann} & {*ben} == {*session.order[:4]}
        assert {*ann} | {*ben} == {*session.order[:20]}
        assert label_all(session, "ann") == []


def test_two_who_label_at_once_get_different_rows_until_none_is_left(run: Path) -> None:
    with session_of(run, LabelPlan(2)) as session:
        first, second = session.next_row("ann"), session.next_row("ben")
        assert first is not None and second is not None and first != second
        assert session.next_row("ann") == first, "it stays until it is labelled"
        label(session, "ben")
        assert session.next_row("ben") == first, "rather than wait for ann, who may have left"


def test_undo_gives_the_row_again_and_who_cannot_tell_leaves_it_to_others(run: Path) -> None:
    with session_of(run, LabelPlan(3)) as session:
        first = label(session, "ann")
        second = label(session, "ann", None)
        session.undo("ann")
        assert label(session, "ann", "t") == second
        session.undo("ann")
        session.undo("ann")
        session.undo("ann")
        assert [*session.labels.by_row_and_labeller] == []
        assert label(session, "ann", None) == first
        assert label(session, "ben") == first
    labels = read_labels(run / "labels.jsonl")
    assert [(uid, who) for uid, who in labels.by_row_and_labeller] == [
        (first, "ann"),
        (first, "ben"),
    ]
    assert len(lines_of(run / "labels.jsonl")) == 9, "nothing is overwritten"


def test_the_order_of_the_responses_is_mixed_and_the_same_each_time(run: Path) -> None:
    with session_of(run) as session:
        sides = {
            who: [session.is_first(uid, who) for uid in session.order] for who in ("ann", "ben")
        }
        again = [session.is_first(uid, "ann") for uid in session.order]
    assert 15 < sum(sides["ann"]) < 45 and sides["ann"] != sides["ben"] and again == sides["ann"]


def test_a_half_width_is_reached_by_ten_more_labels_at_a_time(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", [float(number % 2) for number in range(400)])
    with session_of(run, LabelPlan(1, half_width=0.1)) as session:
        count = 0
        while (uid := session.next_row("ann")) is not None:
            says = session.values[uid] if count % 5 else 1 - session.values[uid]  # right in 4 of 5
            session.save(uid, "ann", "ab"[(says == 1.0) != session.is_first(uid, "ann")], "")
            count += 1
        found = session.precision().half_width
        assert isinstance(found, float) and found <= 0.1 and count > PILOT and count % 10 == 0
    with session_of(run, LabelPlan(1, half_width=0.1)) as session:
        assert session.next_row("ann") is None, "a later start knows it, too"


@pytest.mark.parametrize(
    ("draw", "reason"),
    [({"seed": 7}, "--seed=0, not 7"), ({"how": "by_score"}, "--sampling=random, not by_score")],
)
def test_another_draw_in_the_same_file_is_refused(
    run: Path, draw: dict[str, object], reason: str
) -> None:
    with session_of(run) as session:
        label(session, "ann")
    with (
        pytest.raises(SettingsError, match=f"was drawn with {reason}; choose another --out"),
        session_of(run, **draw),
    ):
        pass


def test_labels_of_other_responses_or_of_no_draw_are_not_gone_on_with(
    run: Path, tmp_path: Path
) -> None:
    with session_of(run) as session:
        label(session, "ann")
    other = run_of(tmp_path / "other", VALUES, answer="another answer")
    (other / "labels.jsonl").write_bytes((run / "labels.jsonl").read_bytes())
    with (
        pytest.raises(SettingsError, match=r"labels\.jsonl .*another run"),
        session_of(other),
    ):
        pass
    (other / "labels.jsonl").write_text('{"uid": "zeta-policy/1", "labeller": "ann", "label": 1}\n')
    with pytest.raises(SettingsError, match=r"labels\.jsonl: .*random sample"), session_of(other):
        pass


def test_a_line_cut_off_by_a_crash_is_removed_by_the_next_label(run: Path) -> None:
    with session_of(run) as session:
        first = label(session, "ann")
    with (run / "labels.jsonl").open("ab") as file:
        file.write(b'{"uid": "b", "lab')
    with session_of(run) as session:
        second = label(session, "ann")
    assert [uid for uid, _ in read_labels(run / "labels.jsonl").by_row_and_labeller] == [
        first,
        second,
    ]


def test_a_disk_that_refuses_is_one_message(run: Path) -> None:
    plan, path = LabelPlan(1), run / "none" / "labels.jsonl"
    with pytest.raises(UserError, match=r"none/labels\.jsonl cannot be written.*: No such file"):
        Session(SavedRun.open(run), path, plan, how=None, seed=None)
