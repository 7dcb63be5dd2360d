"""Each schema of preference data, recognised by its values."""

from typing import Any

import pytest

from judgegym.data.pairs import Preference, read_preferences
from judgegym.data.rows import Row
from judgegym.llm.errors import DataError

U, A, S = ("user", "assistant", "system")


def say(*turns: tuple[str, Any]) -> list[dict[str, Any]]:
    return [{"role": role, "content": content} for role, content in turns]


def read(**values: Any) -> Preference:
    (found,) = read_preferences([Row("data.jsonl", 1, {"id": "x", **values})]).rows
    return found


def texts(**values: Any) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    found = read(**values)
    return found.prompt, found.correct, found.wrong


def dropped(**values: Any) -> dict[str, int]:
    good = Row("data.jsonl", 1, {"prompt": "Q", "chosen": "good", "rejected": "bad"})
    found = read_preferences([good, Row("data.jsonl", 2, values)])
    assert len(found.rows) == 1
    return dict(found.dropped)


ONE = ("Q?", ("yes",), ("no",))


@pytest.mark.parametrize(
    "values",
    [
        {"prompt": "Q?", "chosen": "yes", "rejected": "no"},
        {"prompt": say((U, "Q?")), "chosen": say((A, "yes")), "rejected": say((A, "no"))},
        {"prompt": "Q?", "chosen": say((A, "yes")), "rejected": say((A, "no"))},
        {"prompt": say((U, "Q?")), "chosen": "yes", "rejected": "no"},
        {"prompt": "Q?", "chosen": say((A, "yes"))[0], "rejected": say((A, "no"))[0]},
        {"chosen": say((U, "Q?"), (A, "yes")), "rejected": say((U, "Q?"), (A, "no"))},
        {
            "prompt": None,
            "chosen": say((U, "Q?"), (A, "yes")),
            "rejected": say((U, "Q?"), (A, "no")),
        },
        {
            "prompt": say((U, "Q?")),
            "chosen": say((U, "Q?"), (A, "yes")),
            "rejected": say((U, "Q?"), (A, "no")),
        },
        {
            "prompt": "Q?",
            "chosen": say((U, "Q?"), (A, "yes")),
            "rejected": say((U, "Q?"), (A, "no")),
        },
        {"prompt": "\n\nHuman: Q?\n\nAssistant:", "chosen": "yes", "rejected": "no"},
        {
            "chosen": "\n\nHuman: Q?\n\nAssistant: yes",
            "rejected": "\n\nHuman: Q?\n\nAssistant: no",
        },
        {
            "prompt": [{"role": U, "content": [{"type": "text", "text": "Q?"}]}],
            "chosen": "yes",
            "rejected": "no",
        },
        {
            "prompt": "Q?",
            "chosen": [{"from": "gpt", "value": "yes"}],
            "rejected": [{"from": "gpt", "value": "no"}],
        },
    ],
    ids=[
        "texts",
        "messages",
        "text and messages",
        "messages and texts",
        "one message each",
        "implicit",
        "null prompt",
        "messages, said again",
        "text, said again",
        "transcript and texts",
        "transcripts",
        "parts",
        "ShareGPT",
    ],
)
def test_trl(values: dict[str, Any]) -> None:
    assert texts(**values) == ONE


def test_ultrafeedback_takes_the_conversations_and_heeds_the_scores() -> None:
    row = {
        "prompt": "Q?",
        "chosen": say((U, "Q?"), (A, "yes")),
        "rejected": say((U, "Q?"), (A, "no")),
        "messages": say((U, "Q?"), (A, "yes")),
        "score_chosen": 8.0,
        "score_rejected": 5.5,
    }
    assert texts(**row) == ONE
    assert texts(**row | {"score_rejected": None, "score_chosen": None}) == ONE
    assert dropped(**row | {"score_rejected": 8}) == {"equal scores": 1}
    assert dropped(**row | {"score_chosen": "5.50"}) == {"equal scores": 1}


def test_skywork_has_its_prompt_in_both_conversations() -> None:
    before = ((U, "Hello"), (A, "Hi!"), (U, "Q?"))
    found = texts(
        chosen=say(*before, (A, "yes")), rejected=say(*before, (A, "no")), source="some model"
    )
    assert found == ("user: Hello\n\nassistant: Hi!\n\nuser: Q?", ("yes",), ("no",))


@pytest.mark.parametrize(
    ("preference", "correct", "wrong"),
    [
        (-3, "first", "second"),
        (-1, "first", "second"),
        (1, "second", "first"),
        (3, "second", "first"),
    ],
)
@pytest.mark.parametrize("kind", [int, float, str])
def test_helpsteer3_is_negative_where_the_first_response_is_better(
    preference: int, correct: str, wrong: str, kind: Any
) -> None:
    row = {
        "context": say((U, "Q?")),
        "response1": "first",
        "response2": "second",
        "domain": "code",
        "language": "en",
    }
    assert texts(**row, overall_preference=kind(preference)) == ("Q?", (correct,), (wrong,))
    assert read(**row, overall_preference=preference).category == "code"


def test_helpsteer3_without_a_preference_or_on_another_scale() -> None:
    row = {"context": say((U, "Q?")), "response1": "first", "response2": "second"}
    assert dropped(**row, overall_preference=0) == {"no preference": 1}
    for other in (4, -5, None, True, "nan", "inf", "much better"):
        with pytest.raises(DataError, match=r"overall_preference .*-3 to 3"):
            read(**row, overall_preference=other)


@pytest.mark.parametrize("name", ["response1", "response2"])
def test_helpsteer3_with_a_response_that_is_no_text_is_an_error(name: str) -> None:
    row = {
        "context": say((U, "Q?")),
        "response1": "first",
        "response2": "second",
        "overall_preference": 1,
    }
    with pytest.raises(DataError, match=r"overall_preference .*-3 to 3"):
        read(**{**row, name: 7})


def test_nectar_takes_the_best_rank_and_leaves_out_its_ties() -> None:
    ranks = [("worst", 3.0), ("best", 1.0), ("as good", 1.0), ("worse", 2.0)]
    answers = [{"answer": text, "rank": rank, "model": "m"} for text, rank in ranks]
    row = {
        "prompt": "\n\nHuman: Q?\n\nAssistant: ",
        "turns": 1,
        "answers": answers,
        "num_responses": 4,
    }
    assert texts(**row) == ("Q?", ("best", "as good"), ("worst", "worse"))
    assert texts(**row | {"prompt": "Q?"})[0] == "Q?"
    assert dropped(**row | {"answers": answers[1:3]}) == {"equal scores": 1}
    assert dropped(**row | {"answers": []}) == {"empty text": 1}


@pytest.mark.parametrize(("label", "correct", "wrong"), [("A>B", "a", "b"), ("B>A", "b", "a")])
def test_judgebench(label: str, correct: str, wrong: str) -> None:
    assert texts(question="Q?", response_A="a", response_B="b", label=label) == (
        "Q?",
        (correct,),
        (wrong,),
    )


@pytest.mark.parametrize("label", ["A=B", "", "A", "tie", "A>>B"])
def test_judgebench_without_a_preference(label: str) -> None:
    assert dropped(question="Q?", response_A="a", response_B="b", label=label) == {
        "no preference": 1
    }


def test_rewardbench_and_rm_bench() -> None:
    first = read(
        id=7, prompt="Q?", chosen="yes", rejected="no", chosen_model="m", subset="alpacaeval-easy"
    )
    assert (first.uid, first.correct, first.wrong, first.category) == (
        "7",
        ("yes",),
        ("no",),
        "alpacaeval-easy",
    )
    second = read(
        id="tied:3",
        prompt="Q?",
        chosen=["a", "b"],
        rejected=["c", "d", "e"],
        num_correct=2,
        num_incorrect=3,
        total_completions=5,
        models=["m"] * 5,
        subset="Ties",
        additional_metadata=None,
    )
    assert second == Preference("Q?", ("a", "b"), ("c", "d", "e"), "tied:3", "Ties")
    styles = read(
        prompt="Q?", chosen=["a", "aa", "# a"], rejected=["b", "bb", "# b"], domain="chat"
    )
    assert (styles.correct, styles.wrong, styles.category) == (
        ("a", "aa", "# a"),
        ("b", "bb", "# b"),
        "chat",
    )


@pytest.mark.parametrize(
    ("turns", "shown"),
    [
        (((U, " as it is\n"),), " as it is\n"),
        (((S, "Be brief."), (U, "Q?")), "system: Be brief.\n\nuser: Q?"),
        (((U, "1"), (A, "2"), (U, "3")), "user: 1\n\nassistant: 2\n\nuser: 3"),
        (((U, "1"), (A, None), ("tool", "2"), (U, "3")), "user: 1\n\ntool: 2\n\nuser: 3"),
    ],
)
def test_a_prompt_of_several_turns_names_the_roles(
    turns: tuple[tuple[str, str], ...], shown: str
) -> None:
    assert read(prompt=say(*turns), chosen="yes", rejected="no").prompt == shown
    assert read(chosen=say(*turns, (A, "yes")), rejected=say(*turns, (A, "no"))).prompt == shown
    assert (
        read(context=say(*turns), response1="yes", response2="no", overall_preference=-1).prompt
        == shown
    )


def test_a_system_message_in_the_prompt_goes_before_a_question_in_both_conversations() -> None:
    found = texts(
        prompt=say((S, "Be brief.")),
        chosen=say((U, "Q?"), (A, "yes")),
        rejected=say((U, "Q?"), (A, "no")),
    )
    assert found == ("system: Be brief.\n\nuser: Q?", ("yes",), ("no",))


def test_conversations_that_part_early_keep_the_rest_in_the_answers() -> None:
    found = texts(
        chosen=say((U, "Q?"), (A, "yes"), (U, "Sure?"), (A, "quite")),
        rejected=say((U, "Q?"), (A, "no")),
    )
    assert found == ("Q?", ("assistant: yes\n\nuser: Sure?\n\nassistant: quite",), ("no",))


def test_a_row_with_an_image_is_left_out_and_counted() -> None:
    picture = [{"role": U, "content": [{"type": "text", "text": "Q?"}, {"type": "image"}]}]
    ((reason, count),) = dropped(prompt=picture, chosen="yes", rejected="no").items()
    assert "no text" in reason and count == 1


def test_conversations_without_a_common_prompt_are_left_out() -> None:
    assert dropped(chosen=say((U, "Q1"), (A, "yes")), rejected=say((U, "Q2"), (A, "no"))) == {
        "no shared prompt": 1
    }


def test_the_last_turn_is_an_answer_even_where_both_are_the_same() -> None:
    same = say((U, "Q?"), (A, "yes"))
    assert dropped(chosen=same, rejected=same) == {"identical texts": 1}
    assert dropped(prompt="Q?", chosen=same[1:], rejected=same[1:]) == {"identical texts": 1}


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"prompt": "Q?"},
        {"chosen": "yes", "rejected": "no"},
        {"prompt": "Q?", "chosen": "yes"},
        {"prompt": "Q?", "chosen": "yes", "rejected": None},
        {"prompt": None, "chosen": "yes", "rejected": "no"},
        {"prompt": 3, "chosen": "yes", "rejected": "no"},
        {"prompt": "Q?", "chosen": 1, "rejected": 2},
        {"prompt": "Q?", "chosen": ["yes", 1], "rejected": ["no"]},
        {"chosen": say((A, "yes")), "rejected": say((A, "no"))},
        {"chosen": say((U, "Q?"), (A, 1)), "rejected": say((U, "Q?"), (A, 2))},
        {"prompt": "Q?", "answers": [{"answer": "yes", "rank": None}]},
        {"prompt": "Q?", "answers": "yes"},
        {"question": "Q?", "response_A": "a", "response_B": "b", "label": None},
    ],
)
def test_a_row_of_no_known_schema_is_an_error_that_says_where(values: dict[str, Any]) -> None:
    good = Row("some/data", 1, {"prompt": "Q", "chosen": "good", "rejected": "bad"})
    with pytest.raises(DataError) as raised:
        read_preferences([good, Row("some/data", 2, values)])
    message = str(raised.value)
    assert message.startswith("some/data, row 2: expected a preference")
    assert message.endswith(f"columns found: {', '.join(values) or 'none'}")
    for column, value in values.items():
        assert ("null here" in message and column in message) or value is not None
