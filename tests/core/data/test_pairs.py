"""Rows as questions: which answers are shown, in which order, and which of them is right."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgegym.data.pairs import (
    PairTask,
    Preference,
    Shuffle,
    check_choices,
    choice_task,
    is_ties,
    ties_task,
)
from judgegym.llm.errors import DataError

SHUFFLES: tuple[Shuffle, ...] = ("permutation", "official_swap")


def preference(
    uid: str = "row", *, correct: int = 1, wrong: int = 3, category: str | None = "Math"
) -> Preference:
    return Preference(
        f"Question of {uid}",
        tuple(f"right {number}" for number in range(correct)),
        tuple(f"wrong {number}" for number in range(wrong)),
        uid,
        category,
    )


def ask(
    uid: str = "row", *, seed: int = 0, shuffle: Shuffle = "permutation", wrong: int = 3
) -> PairTask:
    return choice_task(preference(uid, wrong=wrong), num_choices=None, seed=seed, shuffle=shuffle)


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_the_order_is_a_function_of_seed_and_id(shuffle: Shuffle) -> None:
    uids = [f"row-{number}" for number in range(50)]
    forwards = {uid: ask(uid, shuffle=shuffle) for uid in uids}
    backwards = {uid: ask(uid, shuffle=shuffle) for uid in reversed(uids)}
    other_seed = {uid: ask(uid, shuffle=shuffle, seed=1) for uid in uids}
    assert forwards == backwards
    assert forwards != other_seed
    assert len({task.answers for task in forwards.values()}) > 1, "another id, another order"


def test_other_texts_do_not_change_the_order() -> None:
    plain = preference()
    other = Preference("Another question", ("R",), ("x", "y", "z"), plain.uid)
    tasks = [
        choice_task(row, num_choices=4, seed=3, shuffle="permutation") for row in (plain, other)
    ]
    names = dict(zip((*plain.correct, *plain.wrong), (*other.correct, *other.wrong), strict=True))
    assert tuple(names[answer] for answer in tasks[0].answers) == tasks[1].answers


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_the_right_answer_comes_to_every_place_about_as_often(shuffle: Shuffle) -> None:
    """With a seed of our own, so that the counts are always the same: 400 ids, four places."""
    places = Counter(ask(f"row-{number}", shuffle=shuffle).gold for number in range(400))
    assert set(places) == set("ABCD")
    assert min(places.values()) > 60


def test_a_permutation_reaches_every_order() -> None:
    assert len({ask(f"row-{number}").answers for number in range(400)}) == 24


def test_the_official_order_only_swaps_the_right_answer_with_another() -> None:
    seen = {ask(f"row-{number}", shuffle="official_swap").answers for number in range(100)}
    assert seen == {
        ("right 0", "wrong 0", "wrong 1", "wrong 2"),
        ("wrong 0", "right 0", "wrong 1", "wrong 2"),
        ("wrong 1", "wrong 0", "right 0", "wrong 2"),
        ("wrong 2", "wrong 0", "wrong 1", "right 0"),
    }


@given(
    uid=st.text(max_size=8),
    seed=st.integers(-(2**40), 2**40),
    correct=st.integers(1, 4),
    wrong=st.integers(1, 30),
    num_choices=st.one_of(st.none(), st.integers(2, 26)),
    shuffle=st.sampled_from(SHUFFLES),
)
def test_the_gold_letter_points_at_a_correct_answer(
    uid: str, seed: int, correct: int, wrong: int, num_choices: int | None, shuffle: Shuffle
) -> None:
    row = preference(uid, correct=correct, wrong=wrong)
    task = choice_task(row, num_choices=num_choices, seed=seed, shuffle=shuffle)
    for each in (task, task.swap()):
        assert each.answers[each.letters.index(each.gold)] in row.correct
        assert len(set(each.answers) & set(row.correct)) == len(each.correct) == 1
        assert len(set(each.answers)) == len(each.answers) == min(num_choices or 26, 1 + wrong, 26)
        assert set(each.answers) <= {*row.correct, *row.wrong}


def test_the_twin_has_the_answers_in_reverse_and_the_right_one_still() -> None:
    task = ask()
    twin = task.swap()
    assert twin.answers == task.answers[::-1]
    assert twin.uid == f"{task.uid}/swapped"
    assert (twin.question, twin.category, twin.mode) == (task.question, task.category, task.mode)
    assert twin.answers[twin.correct[0]] == task.answers[task.correct[0]] == "right 0"
    assert twin.gold == "ABCD"[::-1]["ABCD".index(task.gold)]


@pytest.mark.parametrize(
    ("correct", "wrong", "most", "kept", "truncated"),
    [
        (2, 3, 100, (2, 3), False),
        (2, 3, 5, (2, 3), False),
        (2, 3, 4, (2, 2), True),
        (4, 4, 3, (2, 1), True),
        (9, 9, 2, (1, 1), True),
        (1, 9, 2, (1, 1), True),
        (9, 1, 2, (1, 1), True),
        (1, 1, 2, (1, 1), False),
    ],
)
def test_ties_keep_one_correct_and_one_wrong(
    correct: int, wrong: int, most: int, kept: tuple[int, int], truncated: bool
) -> None:
    row = preference(correct=correct, wrong=wrong)
    task = ties_task(row, max_answers=most)
    assert task.mode == "ties"
    assert task.answers == (*row.correct[: kept[0]], *row.wrong[: kept[1]])
    assert task.correct == tuple(range(kept[0]))
    assert task.truncated is truncated


@pytest.mark.parametrize(
    ("uid", "category", "expected"),
    [
        ("ref:1", None, True),
        ("tied:1", None, True),
        ("row", "Ties", True),
        ("row", "ties", True),
        ("row", "Math", False),
        ("row", None, False),
        ("reference", None, False),
    ],
)
def test_which_rows_are_ties(uid: str, category: str | None, expected: bool) -> None:
    assert is_ties(preference(uid, category=category)) is expected


def test_rows_with_too_few_answers_are_named_with_the_way_out() -> None:
    rows = [
        preference("long", wrong=4),
        preference("short", wrong=2),
        preference("shorter", wrong=1),
    ]
    with pytest.raises(
        DataError,
        match=r"^the-data: 2 of 3 rows .*4 answers, .*'short' with 3; .*--env.num_choices.*auto",
    ):
        check_choices(rows, 4, "the-data")
