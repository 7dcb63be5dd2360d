"""A data set of any size for `judgegym score`: prompts and responses of the shared data, or made up where it is absent.

No two rows are equal, since equal rows are judged once: from the second round on, a prompt begins
    with its round.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import count, islice
from pathlib import Path

import orjson

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
_ARENA = SHARED / "arena_hard_v0.1"
_PAIRS = SHARED / "pairwise" / "autoj_pairs.jsonl"


def write_rows(path: Path, rows: int) -> None:
    """Write so many rows as JSON lines."""
    with path.open("wb") as file:
        for row in islice(_rounds(_texts()), rows):
            file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))


def is_shared() -> bool:
    """Whether the texts are those of the shared data."""
    return _PAIRS.exists()


def _texts() -> Sequence[tuple[str, str, str]]:
    """The source, the prompt and the response of each row of a round."""
    if not is_shared():
        return list(_made_up(2000))
    prompts = {row["uid"]: row["prompt"] for row in _read(_ARENA / "prompts.jsonl")}
    found = [
        (row["model"], prompts[row["uid"]], row["answer"])
        for path in sorted(_ARENA.glob("answers_*.jsonl"))
        for row in _read(path)
    ]
    for row in _read(_PAIRS):
        found += [
            ("autoj", row["prompt"], text) for name in ("chosen", "rejected") for text in row[name]
        ]
    return [texts for texts in dict.fromkeys(found) if texts[2].strip()]


def _rounds(texts: Sequence[tuple[str, str, str]]) -> Iterator[dict[str, str | int]]:
    for turn in count():
        for number, (source, prompt, response) in enumerate(texts):
            shown = f"({turn}) {prompt}" if turn else prompt
            yield {
                "number": turn * len(texts) + number,
                "source": source,
                "prompt": shown,
                "response": response,
            }


def _made_up(rows: int) -> Iterator[tuple[str, str, str]]:
    numbers = random.Random(rows)
    words = [
        "".join(numbers.choices("abcdefghijklmnopqrstuvwxyz", k=numbers.randint(2, 10)))
        for _ in range(5000)
    ]
    for _ in range(rows):
        yield (
            "made up",
            " ".join(numbers.choices(words, k=70)),
            " ".join(numbers.choices(words, k=250)),
        )


def _read(path: Path) -> Iterator[dict[str, str]]:
    with path.open("rb") as lines:
        yield from map(orjson.loads, lines)
