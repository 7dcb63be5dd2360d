"""The verdict in words, for each form of judgment, and the judge's texts."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from judgegym.engine.completions import Completion
from judgegym.engine.metrics import GoldLabel
from judgegym.engine.records import Sample
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.llm.wire import JSON
from judgegym.reports.run_page.rows import (
    describe_verdict,
    differs_from_gold,
    render_completions,
    render_judge_texts,
)


def sample(detail: Any = None, *gold: GoldLabel, label: str | None = None) -> Sample[JSON]:
    return Sample(
        "row",
        None,
        "q",
        judgment=Judgment(1.0, Status.OK, label, detail=detail),
        score=1.0,
        gold=gold,
    )


def games(*labels: str | None) -> dict[str, Any]:
    orders = ("model_is_a", "model_is_b")
    return {
        "games": [
            {"order": each, "label": label, "text": f"t{label}"}
            for each, label in zip(orders, labels, strict=True)
        ]
    }


@pytest.mark.parametrize(
    ("detail", "words"),
    [
        (games("B>A", "A>>B"), [r"Lost both: as A .* B \(B>A\); as B .* A \(A>>B\)\."]),
        (games("A>>B", "B>A"), [r"Won both: as A .* A \(A>>B\); as B .* B \(B>A\)\."]),
        (games("A=B", "A=B"), [r"Tied both: as A .* neither \(A=B\); as B .* neither \(A=B\)\."]),
        (games("A>B", "A>B"), [r"The orders disagree: as A .* A \(A>B\); as B .* A \(A>B\)\."]),
        (games("A>B", None), [r"Not both .*: as A .* A \(A>B\); as B .*no verdict\."]),
        (games(None, None), [r"No verdict: as A .*no verdict; as B .*no verdict\."]),
        ({"judgments": [{"score": 4, "expected": None}, {"score": None, "expected": None}]}, [r"Scores: 4, none\."]),
        ({"judgments": [{"score": None, "expected": 3.25}]}, [r"Score: 3\.25\."]),
        (
            {"aspects": [{"aspect": "safe", "yes": True, "votes": [{"yes": True}, {"yes": None}, {"yes": True}]}]},
            [r"safe: yes \(2 yes, 0 no, of 3 votes\)\."],
        ),
        (
            {"aspects": [{"aspect": "safe", "yes": None, "votes": [{}]}], "vetoed_by": "safe"},
            [r"safe: no majority\.", r"Vetoed by safe: .*0\."],
        ),
        ({"ratings": [9, 4, None], "num_correct": 1}, [r"Ratings .*right answers: 9; .*others: 4, –\."]),
        ({"own": [1, 2]}, []),
        ([1], []),
        ({"games": [3, {"order": 7}], "aspects": "x", "judgments": [{"score": "high"}]}, [r"Score: none\."]),
    ],
)  # fmt: skip
def test_verdict_in_words(detail: Any, words: list[str]) -> None:
    found = describe_verdict(sample(detail))
    assert len(found) == len(words) and all(map(re.fullmatch, words, found)), found
    assert describe_verdict(sample(detail, label="win")) == (found or ["The judgment is win."])


def test_gold_stands_beside_what_the_judge_says() -> None:
    same, other, none = (
        GoldLabel.from_labels("yes", "yes", "safe"),
        GoldLabel("", 5.0, 3.5, False),
        GoldLabel.from_labels("B", None),
    )
    found = describe_verdict(sample(None, same, other, none))
    words = (r"safe: .*says yes, .*gold\.", r".*says 3\.5, .*gold says 5\.", r"no verdict; .*B\.")
    assert len(found) == len(words) and all(map(re.fullmatch, words, found)), found
    cases = ([same], [same, other], [none], [same, none], [])
    differing = [differs_from_gold(sample(None, *labels)) for labels in cases]
    assert differing == [False, True, None, False, None]


def test_texts_of_the_judge_are_those_with_the_verdicts() -> None:
    first, second = render_judge_texts(sample(games("A>B", None)))
    assert first["title"].endswith("as A: A>B") and first["text"] == "tA>B"
    assert second["title"].endswith("as B") and second["text"] == "tNone"
    (explanation,) = render_judge_texts(sample({"explanation": "Because."}))
    assert "explanation" in explanation["title"]
    assert render_judge_texts(sample({"games": 1, "explanation": 3})) == []


@pytest.mark.parametrize(
    ("parts", "scores", "judged"),
    [
        ({"turn_1": 0.25, "turn_2": 1, "turn_x": 0}, [0.25, 1], 2),
        ({"turn_2": 0.5}, [None, 0.5], 1),
        ({}, [None] * 2, 2),
    ],
)
def test_turns_of_a_conversation_have_their_own_scores(
    parts: dict[str, float], scores: list[float | None], judged: int
) -> None:
    completions = (Completion("Cats."), Completion("Dogs.", follow_up="And dogs?"))
    first, second = render_completions(replace(sample({"parts": parts}), completions=completions))
    assert (first["title"], second["title"], first["asked"], second["asked"]) == (
        "turn 1",
        "turn 2",
        "",
        "And dogs?",
    )
    assert [first["turn_score"], second["turn_score"]] == scores
    assert [first["is_judged"], second["is_judged"]].count(True) == judged


def test_completions_of_several_conversations_are_no_turns() -> None:
    views = render_completions(
        replace(sample({}), completions=(Completion("A."), Completion("B.")))
    )
    assert [(view["title"], view["is_judged"]) for view in views] == [
        ("conversation 1", False),
        ("conversation 2", False),
    ]


TRACE = "assistant: [tool call: look({})]\n\ntool (look): 4\n\nassistant: It is 4."


def test_a_trace_is_shown_by_turns_and_a_text_that_looks_like_one_is_not() -> None:
    scored = sample({"components": {"step_0": 0.25, "step_2": 1.0, "raw": 3}})
    (trace,) = render_completions(replace(scored, completions=(Completion(TRACE, turns=3),)))
    assert [(turn["title"], turn["turn_score"], turn["is_folded"]) for turn in trace["turns"]] == [
        ("assistant", 0.25, False),
        ("tool (look)", None, True),
        ("assistant", 1.0, False),
    ]
    assert [turn["is_judged"] for turn in trace["turns"]] == [True, False, True]
    (forged,) = render_completions(replace(scored, completions=(Completion(TRACE),)))
    assert forged["turns"] == []
