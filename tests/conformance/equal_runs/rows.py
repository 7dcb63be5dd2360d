"""The rows that the runs judge, and settings that do not fit on a command line."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]

_THINGS = ("a lighthouse", "the tide", "a prime number", "photosynthesis")
_RED_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"  # a PNG


def _question(thing: str) -> str:
    return f"How would you explain {thing} to a child?"


def _responses(thing: str) -> list[str]:
    return [
        f"You explain {thing} to a child by an example that the child knows, and then you name "
        f"{thing}.",
        "I do not know.",
        f"There is {thing}. It is simple, it is simple, it is simple, and 42 is its number.",
    ]


def _shown(thing: str) -> Row:
    return {
        "reference": f"There is {thing}, a child, and an example that explains it.",
        "rubric": f"Does a child understand {thing} afterwards?",
        "category": "nature" if thing[0] in "ta" else "science",
    }


def _answers() -> list[Row]:
    criteria = [
        {"criterion": "Gives an example.", "points": 5},
        {"criterion": "Is short.", "points": 2},
        {"criterion": "Says that a child cannot know.", "points": -3},
    ]
    return [
        {
            "prompt": _question(thing),
            "response": _responses(thing),
            "criteria": criteria,
            **_shown(thing),
        }
        for thing in _THINGS
    ]


def _prompts() -> list[Row]:
    return [
        {
            "uid": f"row-{number}",
            "prompt": _question(thing),
            "criteria": ["Gives an example.", "Is short."],
            **_shown(thing),
        }
        for number, thing in enumerate(_THINGS)
    ]


def _sums() -> list[Row]:
    """Rows enough to choose a cascade from."""
    words = ["It is", "some number,", "because", "7 is added", "again and again,"]
    return [
        {
            "prompt": f"How much is {number} * 7, and why?",
            "response": " ".join(words[: 2 + number % 4]),
        }
        for number in range(60)
    ]


def _call(name: str, number: int, **arguments: str) -> Row:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"call-{number}", "type": "function", "function": function}],
    }


def _result(number: int, text: str) -> Row:
    return {"role": "tool", "tool_call_id": f"call-{number}", "content": text}


def _traces() -> list[Row]:
    prompt = "Book a seat from Ulm to Bonn."
    booked = [
        _call("find_train", 1, origin="Ulm", destination="Bonn"),
        _result(1, "IC 12 leaves at 08:14"),
        _call("book_seat", 2, train="IC 12"),
        _result(2, "seat 7-41"),
        {
            "role": "assistant",
            "content": "You have seat 41 in coach 7 of the train IC 12 from Ulm to Bonn.",
        },
    ]
    deleted = [
        _call("delete_account", 1),
        _result(1, "error: forbidden"),
        {"role": "assistant", "content": "Done."},
    ]
    return [{"prompt": prompt, "response": booked}, {"prompt": prompt, "response": deleted}]


def _talks() -> list[Row]:
    tools = [
        {
            "type": "function",
            "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}},
        }
    ]
    long = "The weather in Rome is 18 degrees and sunny, with a light wind from the sea. " * 24
    talk = [
        {"role": "system", "content": "You are a guide."},
        {"role": "user", "content": "How warm is it in Rome?"},
        _call("weather", 1, city="Rome"),
        _result(1, long),
        {"role": "assistant", "content": "It is 18 degrees in Rome."},
    ]
    return [
        {"messages": talk, "tools": tools},
        {
            "messages": [
                {"role": "user", "content": "And in Oslo?"},
                {"role": "assistant", "content": "Colder."},
            ]
        },
    ]


def _pictures() -> list[Row]:
    url = f"data:image/png;base64,{_RED_PIXEL}"
    parts = [
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "text", "text": "Which colour is this?"},
    ]
    return [
        {"prompt": [{"role": "user", "content": parts}], "response": "This colour is red."},
        {"prompt": "Which colour is this?", "image": "red.png", "response": "Blue."},
    ]


def _labelled() -> list[Row]:
    return [
        {
            "uid": f"pair-{number}",
            "prompt": _question(thing),
            "responses": _responses(thing)[:2] if number % 2 else _responses(thing)[1::-1],
            "label": 1 if number % 2 else 2,
        }
        for number, thing in enumerate([*_THINGS, "the moon", "a bridge", "yeast", "a magnet"])
    ]


def _rows() -> Mapping[str, Sequence[Row]]:
    answers = _answers()
    return {
        "answers": answers,
        "prompts": _prompts(),
        "several_turns": [
            {
                "uid": "sky",
                "turns": ["Why is the sky blue?", "And red at sunset?"],
                "rubric": "Is it right?",
            },
            {
                "uid": "prime",
                "turns": ["Name a prime.", "Why is it one?", "And the next?"],
                "rubric": "Is it right?",
            },
        ],
        "games": [
            {"prompt": row["prompt"], "response": row["response"][0], "baseline": row["reference"]}
            for row in answers
        ],
        "grouped": [
            {"question_id": number, "prompt": row["prompt"], "response": response}
            for number, row in enumerate(answers)
            for response in row["response"]
        ],
        "gold": [
            {
                "prompt": row["prompt"],
                "response": row["response"][number % 2],
                "gold": "no" if number % 2 else "yes",
                "source": row["category"],
            }
            for number, row in enumerate(answers)
        ],
        "thoughts": [
            {
                "prompt": row["prompt"],
                "response": f"<think>A child asks.</think>{row['response'][0]}",
            }
            for row in answers
        ]
        + [{"prompt": "Why?", "response": "<think>It never ends"}],
        "bad": [
            *({"prompt": row["prompt"], "response": row["response"][0]} for row in answers),
            {"prompt": "Why?"},
        ],
        "numbers": [
            {
                "prompt": row["prompt"],
                "response": row["response"],
                "reference": "42",
                "rubric": row["rubric"],
            }
            for row in answers
        ],
        "sums": _sums(),
        "traces": _traces(),
        "talks": _talks(),
        "pictures": _pictures(),
        "labelled": _labelled(),
        "arena_answers": [
            {
                "uid": f"sample-{uid}",
                "answer": f"<think>It is about {uid}.</think>The answer is about {uid}.",
            }
            for uid in ("coding-01", "math-02", "planning-02", "writing-02")
        ],
    }


_SETTINGS: Mapping[str, object] = {
    "reward": {
        "brief": {"judge": "rule", "rule": "length", "rule_hard_limit": 100, "weight": 0.2},
        "style": {"judge": "rubric", "rubric": "Is it clear?", "weight": 0.5},
        "harmless": {"judge": "aspect", "aspects": "harmfulness", "penalty": 0.3},
        "measured": {"judge": "peer", "weight": 0, "on_failure": "leave_out"},
    },
    "trace_reward": {
        "safe": {
            "judge": "rule",
            "rule": "tool_not_called",
            "rule_expected": ["delete_*"],
            "gate": 1,
        },
        "ends": {"judge": "rule", "rule": "ends_with_answer"},
        "quality": {"judge": "rubric", "rubric": "Is the seat booked?", "weight": 2},
        "steps": {"judge": "steps", "steps_combine": "mean", "steps_judge": {"judge": "rubric"}},
    },
    "steps": {
        "judge": "aspect",
        "aspects": [
            {"name": "on_task", "definition": "Does the step serve what the user has asked for?"}
        ],
    },
}


_PROMPT_FILE = """\
prompt: |-
  Grade the response. Give your reasons, then the grade in double brackets: [[bad]], [[fair]] or [[good]].

  Question: {prompt}

  Response: {response}
scale: {bad: 0, fair: 0.4, good: 1}
verdict: {within: brackets}
"""


def write_rows(folder: Path) -> None:
    """Write every file that the runs read."""
    folder.mkdir(parents=True)
    for name, rows in _rows().items():
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    for name, settings in _SETTINGS.items():
        (folder / f"{name}.json").write_text(json.dumps(settings), encoding="utf-8")
    (folder / "judge.yaml").write_text(_PROMPT_FILE, encoding="utf-8")
    (folder / "red.png").write_bytes(base64.b64decode(_RED_PIXEL))
