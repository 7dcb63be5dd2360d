import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgegym.data.pairs import Preferences, read_preferences
from judgegym.data.rows import Row, load_rows
from judgegym.llm.errors import DataError


def pair(
    prompt: Any = "Q?", chosen: Any = "yes", rejected: Any = "no", **more: Any
) -> dict[str, Any]:
    return {"prompt": prompt, "chosen": chosen, "rejected": rejected, **more}


def read(*rows: dict[str, Any]) -> Preferences:
    return read_preferences(
        [Row("data.jsonl", number, values) for number, values in enumerate(rows, start=1)]
    )


def uids(*rows: dict[str, Any]) -> list[str]:
    return [row.uid for row in read(*rows).rows]


def test_what_is_left_out_is_counted_by_reason() -> None:
    found = read(
        pair(),
        pair(chosen=" no\n"),
        pair(chosen="no"),
        pair(chosen=""),
        pair(rejected=" \n"),
        pair(prompt=""),
        pair(chosen=[], rejected=["no"]),
        pair(score_chosen=1, score_rejected=1),
        {"question": "Q?", "response_A": "a", "response_B": "b", "label": "A=B"},
    )
    assert [row.prompt for row in found.rows] == ["Q?"]
    assert found.dropped == {
        "identical texts": 2,
        "empty text": 4,
        "equal scores": 1,
        "no preference": 1,
    }
    assert read(pair()).dropped == {}


def test_answers_that_cannot_be_compared_are_left_out_of_a_list() -> None:
    found = read(
        pair(chosen=["yes", ""], rejected=["no", "yes ", "", "never"]),
        pair(chosen=["a"], rejected=["b"]),
    )
    assert [(row.correct, row.wrong) for row in found.rows] == [
        (("yes",), ("no", "never")),
        (("a",), ("b",)),
    ]


def test_texts_are_kept_as_they_are() -> None:
    (row,) = read(pair(" Q?\n", " yes ", "\nno\ud7ff")).rows
    assert (row.prompt, row.correct, row.wrong) == (" Q?\n", (" yes ",), ("\nno\ud7ff",))


def test_nothing_usable_is_an_error_that_says_why() -> None:
    with pytest.raises(
        DataError, match=r"^data\.jsonl: none of the 3 .*: 2 for identical texts, 1 for empty text$"
    ):
        read(pair(chosen="no"), pair(chosen="no"), pair(chosen=""))
    with pytest.raises(DataError, match="no rows"):
        read()


@pytest.mark.parametrize(
    ("columns", "category"),
    [
        ({}, None),
        ({"subset": "Math", "category": "x", "domain": "y"}, "Math"),
        ({"subset": None, "category": "x"}, "x"),
        ({"subset": "", "domain": "y"}, "y"),
        ({"category": 3}, None),
    ],
)
def test_category(columns: dict[str, Any], category: str | None) -> None:
    assert read(pair(**columns)).rows[0].category == category


def test_a_row_has_its_own_id() -> None:
    assert uids(pair(uid="a"), pair(id=7), pair(question_id="q"), pair(uid=None, id="b")) == [
        "a",
        "7",
        "q",
        "b",
    ]


def test_rows_without_an_id_are_known_by_their_content_wherever_they_stand() -> None:
    rows = [pair(f"Q{number}") for number in range(5)]
    there = dict(zip(range(5), uids(*rows), strict=True))
    order = random.Random(3).sample(range(5), 5)
    assert uids(*(rows[number] for number in order)) == [there[number] for number in order]
    assert len(set(there.values())) == 5
    assert all(uid.startswith("row-") for uid in there.values())


def test_an_id_that_several_rows_have_is_told_apart_by_content() -> None:
    first, second, other = pair(id="a"), pair("Q2", id="a"), pair(id="b")
    one, two, three = uids(first, second, other)
    assert one.startswith("a-") and two.startswith("a-") and three == "b"
    assert uids(other, second, first) == [three, two, one]


def test_rows_that_are_the_same_in_everything_get_a_number() -> None:
    base, *copies = uids(pair(), pair(), pair())
    assert copies == [f"{base}-2", f"{base}-3"]


@given(
    st.lists(
        st.tuples(st.sampled_from([None, "a", "a-2", "b"]), st.sampled_from("xy")),
        min_size=1,
        max_size=8,
    )
)
def test_uids_are_unique(rows: list[tuple[str | None, str]]) -> None:
    found = uids(*(pair(id=own, chosen=text) for own, text in rows))
    assert len(set(found)) == len(rows)


def test_the_usual_files_can_be_read(tmp_path: Path) -> None:
    table = tmp_path / "pairs.csv"
    table.write_text(
        "prompt,chosen,rejected,score_chosen,score_rejected\nQ?,yes,no,3,1\nQ?,yes,no,2,2.0\n"
    )
    found = read_preferences(load_rows(str(table), split="train"))
    assert [row.correct for row in found.rows] == [("yes",)]
    assert found.dropped == {"equal scores": 1}
