"""Pages of made-up runs."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from judgegym.reports.run_page.items import (
    CallView,
    Chart,
    CompletionView,
    Fact,
    ItemDetail,
    ItemSummary,
    NamedText,
    PageHead,
)
from judgegym.reports.run_page.page import page

Item = tuple[ItemSummary, ItemDetail]
HEAD = PageHead("rows", "arena_hard: a policy", "win rate 48.1 [44.0, 52.3]", [Fact("judge", "a judge")], [], [], 0)
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20"><rect width="40" height="20" fill="%s"/></svg>'
CHART = Chart("Scores", SVG % b"teal", SVG % b"orange", "how many rows have which score")
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
    "it",
    "explains",
]


def summary(uid: str, **changes: object) -> ItemSummary:
    plain = ItemSummary(uid, "math", "ok", "win", False, 1.0, 1.0, False, 120, 1.5, 0.001, f"The question of {uid}")
    return replace(plain, **changes)  # type: ignore[arg-type]


def call(name: str = "game_1", **changes: object) -> CallView:
    answer = "My final verdict is: [[A>B]]"
    plain = CallView(
        name=name,
        vote=0,
        model="judge-model",
        messages=[NamedText("system", "You are a judge."), NamedText("user", "Compare these two.")],
        answer=answer,
        reasoning=None,
        verdict_at=(answer.index("[["), len(answer)),
        has_verdict=True,
        finish_reason="stop",
        prompt_tokens=1200,
        cached_prompt_tokens=100,
        completion_tokens=300,
        cost=0.0012,
        seconds=2.34,
        attempts=2,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def detail(uid: str, **changes: object) -> ItemDetail:
    plain = ItemDetail(
        uid,
        None,
        [NamedText("user", f"The question of {uid}")],
        [NamedText("baseline", f"The baseline's answer to {uid}"), NamedText("rubric", "Be exact.")],
        [CompletionView("answer", f"The answer to {uid}", "", [])],
        [call("game_1"), call("game_2")],
        {"games": [{"verdict": "A>B", "score": 1}, {"verdict": "B>A", "score": 0}]},
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def written(path: Path, items: Iterable[Item], head: PageHead = HEAD) -> Path:
    with path.open("wb") as file:
        for part in page(head, items):
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
        question, answer, baseline = (prose(chance, characters * part // 100) for part in (10, 30, 30))
        games = [
            call(
                name,
                messages=[NamedText("user", f"{question}\n\n{first}\n\n{second}")],
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
        texts = [NamedText("baseline", baseline)]
        completions: Sequence[CompletionView] = [CompletionView("answer", answer, "", [])]
        yield row, ItemDetail(uid, None, [NamedText("user", question)], texts, completions, games, {"games": [1, 2]})
