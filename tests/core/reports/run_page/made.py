"""Pages of made-up runs."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from pathlib import Path

from judgegym.reports.run_page.items import Item, View, completion_view, titled_text
from judgegym.reports.run_page.page import render_page

HEAD: View = {
    "kind": "rows",
    "title": "arena_hard: a policy",
    "headline": "win rate 48.1 [44.0, 52.3]",
    "first_facts": [],
    "facts": [("judge", "a judge")],
    "notices": [],
    "charts": [],
    "total": 0,
    "tables": [],
}
SVG = (
    b'<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20"><rect width="40" height="20" '
    b'fill="%s"/></svg>'
)
CHART = {
    "title": "Scores",
    "light": SVG % b"teal",
    "dark": SVG % b"orange",
    "description": "how many rows have which score",
}
WORDS = [
    "the",
    "answer",
    "of",
    "a",
    "model",
    "is",
    "compared",
    "with",
    "another",
    "and",
    "judged",
    "by",
    "how",
]


def replace(value: View, /, **changes: object) -> View:
    return {**value, **changes}


def summary(uid: str, **changes: object) -> View:
    plain = {
        "id": uid,
        "category": "math",
        "status": "ok",
        "label": "win",
        "failed": False,
        "score": 1.0,
        "value": 1.0,
        "orders_disagree": False,
        "length": 120,
        "seconds": 1.5,
        "judge_cost": 0.001,
        "start": f"The question of {uid}",
        "gold_differs": None,
    }
    return replace(plain, **changes)


def call(name: str = "game_1", **changes: object) -> View:
    answer = "My final verdict is: [[A>B]]"
    plain = {
        "name": name,
        "vote": 0,
        "model": "judge-model",
        "messages": [
            titled_text("system", "You are a judge."),
            titled_text("user", "Compare these two."),
        ],
        "answer": answer,
        "reasoning": None,
        "verdict_at": (answer.index("[["), len(answer)),
        "has_verdict": True,
        "finish_reason": "stop",
        "prompt_tokens": 1200,
        "cached_prompt_tokens": 100,
        "completion_tokens": 300,
        "cost": 0.0012,
        "seconds": 2.34,
        "attempts": 2,
    }
    return replace(plain, **changes)


def detail(uid: str, **changes: object) -> View:
    plain = {
        "id": uid,
        "error": None,
        "conversation": [titled_text("user", f"The question of {uid}")],
        "texts": [
            titled_text("baseline", f"The baseline's answer to {uid}"),
            titled_text("rubric", "Be exact."),
        ],
        "completions": [completion_view("answer", f"The answer to {uid}")],
        "calls": [call("game_1"), call("game_2")],
        "judgment": {"games": [{"verdict": "A>B", "score": 1}, {"verdict": "B>A", "score": 0}]},
        "critique": None,
        "comparison": "",
        "verdict": [],
        "said": [],
    }
    return replace(plain, **changes)


def written(path: Path, items: Iterable[Item], head: View = HEAD) -> Path:
    with path.open("wb") as file:
        for part in render_page(head, items):
            file.write(part)
    return path


def prose(chance: random.Random, characters: int) -> str:
    """Words that compress about as well as answers of models do."""
    words: list[str] = []
    length = 0
    while length < characters:
        word = chance.choice(WORDS) if chance.random() < 0.5 else f"{chance.getrandbits(28):x}"
        words.append(word)
        length += len(word) + 1
        if chance.random() < 0.02:
            words.append("\n\n")
    return " ".join(words)[:characters]


def arena_like(count: int, characters: int = 18_000, seed: int = 1) -> Iterator[Item]:
    """Rows with about so many characters of texts each: question, answer, baseline, and what two games said."""
    chance = random.Random(seed)
    for number in range(count):
        uid = f"row-{number:05}"
        question, answer, baseline = (
            prose(chance, characters * part // 100) for part in (10, 30, 30)
        )
        games = [
            call(
                name,
                messages=[titled_text("user", f"{question}\n\n{first}\n\n{second}")],
                answer=f"{prose(chance, characters * 15 // 100)} [[A>B]]",
                verdict_at=None,
            )
            for name, first, second in (("game_1", answer, baseline), ("game_2", baseline, answer))
        ]
        label = chance.choice(["win", "loss", "tie"])
        score = {"win": 1.0, "tie": 0.5, "loss": 0.0}[label]
        row = summary(
            uid,
            category=f"category {number % 5}",
            label=label,
            score=score,
            value=score,
            length=len(answer),
            seconds=chance.random() * 30,
            judge_cost=chance.random() / 100,
            orders_disagree=chance.random() < 0.2,
            start=question[:200],
        )
        texts, completions = (
            [titled_text("baseline", baseline)],
            [completion_view("answer", answer)],
        )
        asked = [titled_text("user", question)]
        plain = {"conversation": asked, "texts": texts, "completions": completions, "calls": games}
        yield row, detail(uid, **plain, judgment={"games": [1, 2]})
