"""Rows at random of the environments, each with its number in the question and in its `uid`."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from tests.conformance.equal_judgments.rows import Maker, Row, prompt_at_random, text_at_random

_ASPECTS = ("harmfulness", "maliciousness", "coherence", "correctness", "conciseness")


def _uid(number: int) -> str:
    return f"row-{number}"


def _asked(rng: Random, number: int) -> Row:
    row: Row = {
        "uid": _uid(number),
        "prompt": prompt_at_random(rng, number),
        "rubric": text_at_random(rng),
    }
    return {**row, "reference": text_at_random(rng)} if rng.random() < 0.5 else row


def _query(rng: Random, number: int) -> Row:
    text = prompt_at_random(rng, number)
    return {
        "uid": _uid(number),
        "prompt": text,
        "query": text,
        "category": rng.choice("ab"),
        "cluster": "c",
    }


def _baseline(rng: Random, number: int) -> Row:
    return {"uid": _uid(number), "model": "base", "answer": text_at_random(rng)}


def _instruction(rng: Random, number: int) -> Row:
    levels = {f"score{level}_description": text_at_random(rng, 4) for level in range(1, 6)}
    return {
        "uid": _uid(number),
        "instruction": prompt_at_random(rng, number),
        "response": text_at_random(rng),
        "reference_answer": text_at_random(rng),
        "rubric": {"criteria": text_at_random(rng, 4), **levels},
        "score": rng.randint(1, 5),
    }


def _question(rng: Random, number: int) -> Row:
    return {
        "uid": _uid(number),
        "question": prompt_at_random(rng, number),
        "reference": text_at_random(rng),
        "answer": text_at_random(rng),
        "verdicts": {name: rng.randint(0, 1) for name in _ASPECTS},
    }


def _health(rng: Random, number: int) -> Row:
    criteria = [{"criterion": f"Says {text_at_random(rng, 3)}.", "points": 5, "tags": ["axis:a"]}]
    criteria += [
        {
            "criterion": f"Has {text_at_random(rng, 3)}.",
            "points": rng.choice([-4, 2, 7]),
            "tags": ["level:example"],
        }
        for _ in range(rng.randint(0, 4))
    ]
    question = [{"role": "user", "content": prompt_at_random(rng, number)}]
    return {
        "prompt_id": _uid(number),
        "prompt": question,
        "rubrics": criteria,
        "answer": text_at_random(rng),
    }


def _health_judged(rng: Random, number: int) -> Row:
    row = _health(rng, number)
    return {**row, "verdicts": [place % 2 for place, _ in enumerate(row["rubrics"])]}


def _turns(rng: Random, number: int) -> Row:
    turns = [prompt_at_random(rng, number), f"{text_at_random(rng)} (case {number})"]
    return {
        "question_id": _uid(number),
        "category": rng.choice(["writing", "math", "coding"]),
        "turns": turns,
    }


def _writing(rng: Random, number: int) -> Row:
    """A question whose judge is shown no reference."""
    return {**_turns(rng, number), "category": "writing"}


def _answered(rng: Random, number: int) -> Row:
    turns = [text_at_random(rng), text_at_random(rng)]
    return {"question_id": _uid(number), "choices": [{"index": 0, "turns": turns}]}


def _preference(rng: Random, number: int) -> Row:
    rejected = [text_at_random(rng) for _ in range(rng.choice([1, 3]))]
    prompt = prompt_at_random(rng, number)
    return {
        "id": _uid(number),
        "prompt": prompt,
        "chosen": [text_at_random(rng)],
        "rejected": rejected,
    }


def _tie(rng: Random, number: int) -> Row:
    row = _preference(rng, number)
    chosen = [text_at_random(rng), text_at_random(rng)]
    return {**row, "id": f"tied:{row['id']}", "subset": "Ties", "chosen": chosen}


SHAPES: Mapping[str, Maker] = {
    "asked": _asked,
    "queries": _query,
    "baselines": _baseline,
    "instructions": _instruction,
    "questions": _question,
    "health": _health,
    "health_judged": _health_judged,
    "two_turns": _turns,
    "two_turns_writing": _writing,
    "two_turns_answered": _answered,
    "preferences": _preference,
    "ties": _tie,
}
"""The kinds of rows, by the names that settings give them."""
