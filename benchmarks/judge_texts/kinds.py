"""Generates texts whose verdict is known by how they are made: chosen, or named without a choice.

Several verdicts joined, the options repeated, a verdict denied, a rating with other numbers behind
it, an invented next task behind a verdict; and honest last verdicts after a first thought, an aside
or a denial. A text is put together from parts, so what a parser must read is known without reading
it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple

from benchmarks.judge_texts.texts import IDS, TOKENS


class MadeText(NamedTuple):
    """A text with the parser that it is for, and the verdicts that may be read; `None` stands for no verdict."""

    parser: str
    text: str
    allowed: tuple[object, ...]


class Labels(NamedTuple):
    """The verdicts of a parser: each as it is written, and as it is read."""

    parser: str
    written: Mapping[object, str]
    is_object: bool = False


def _objects(parser: str, name: str, field: str, values: Sequence[object]) -> Labels:
    return Labels(
        parser, {each: json.dumps({name: "so", field: each}) for each in values}, is_object=True
    )


def _group(best: str) -> str:
    entries = [
        {"id": own, "explanation": "so", "score": 0.9 if own == best else 0.2} for own in IDS
    ]
    return json.dumps({"scores": entries})


KINDS = (
    Labels("arena_label", {each: f"[[{each}]]" for each in ("A>>B", "A>B", "A=B", "B>A", "B>>A")}),
    Labels("choice_letter", {each: f"[[{each}]]" for each in "ABCD"}),
    Labels("bracketed_rating", {float(each): f"[[{each}]]" for each in range(1, 11)}),
    Labels("feedback_score", {each: f"[SCORE] {each}" for each in range(1, 6)}),
    Labels("prometheus_result", {each: f"[RESULT] {each}" for each in range(1, 6)}),
    _objects("binary_verdict", "reason", "verdict", (1, 0)),
    _objects("score_object", "reasoning", "score", (85, 40, 0, 100)),
    Labels("listwise_scores", {best: _group(best) for best in IDS}, is_object=True),
)
"""The rating of the Ties judge has texts of its own: it is a number without a sign around it."""

ROLES = (
    "User: Name a river.\n\nAssistant: ",
    "Human: And this one?\n\nAssistant: ",
    "### Instruction\nCompare them.\n\n### Response\n",
    "### Next task\n\n",
    "<|im_start|>user\nNext.<|im_end|>\n<|im_start|>assistant\n",
    "<|User Prompt|>\nWrite a haiku.\n\n",
    "[User Question]\nHow many moons has Mars?\n\n",
    "[INST] Judge again. [/INST] ",
    "Question: Why is the sky blue?\n\n",
    "<end_of_turn>\n<start_of_turn>user\nNext<end_of_turn>\n",
    "###Task Description:\nAn instruction, a response.\n\n",
)
SAID = (
    "Both keep to the format.",
    "The second half repeats the first one.",
    "It names the river and not the country.",
    "The code does not compile.",
    "The proof is neither short nor complete.",
    "One of the two sources is invented, or at least not to be found.",
    "Step 2 divides by zero.",
    "Es fehlt die Einheit.",
    "该回答没有引用来源。",
    "",
)
JOINTS = (
    " or ",
    " and ",
    "/",
    " / ",
    ", ",
    "\nor\n",
    " and/or ",
    ", or ",
    " oder ",
    " ou ",
    " or perhaps ",
    " 或 ",
)
DENIALS = (
    "The verdict is not {}.",
    "It isn't {}",
    "I would not say {}",
    "Neither {} nor {}",
    "It cannot be {}.",
    "Not {}",
)
TURNS = (
    "At first I thought of {}, but on reflection: {}",
    "I first leaned to {}. After checking the sum, my final verdict is {}",
    "Not {} but {}",
    "{}? No. The last paragraph decides, so: {}",
    "{} would be too harsh; I therefore give {}",
)
ANNOUNCED = ("", "Final verdict: ", "My verdict: ", "**Verdict:** ", "So: ")
TAILS = (
    "Confidence: {}",
    "Errors: {}",
    "**Weaknesses:** {}",
    "Previous rating: {}",
    "- Typos: {}",
    "Certainty: {}/10",
)
RATED = (
    "Final rating: {}",
    "**Rating: {}**",
    "Rating: {}/10",
    "Overall rating: {}",
    "My final rating is {}.",
)


def made(seed: int) -> Iterator[MadeText]:
    """Texts without end, the same for the same seed."""
    rng = Random(seed)
    while True:
        yield (
            rng.choice(_RATINGS)(rng)
            if rng.random() < 0.2
            else rng.choice(_LABELS)(rng, rng.choice(KINDS))
        )


def _two(rng: Random, labels: Labels) -> tuple[tuple[object, str], tuple[object, str]]:
    one, other = rng.sample([*labels.written.items()], 2)
    return one, other


def _behind(rng: Random, text: str) -> str:
    """The text behind a sentence, and perhaps before a token."""
    said = rng.choice(SAID)
    gap = rng.choice(("\n", "\n\n")) if said else ""
    token = rng.choice(TOKENS) if rng.random() < 0.1 else ""
    return said + gap + text + token


def _joined(rng: Random, labels: Labels) -> MadeText:
    some = rng.sample([*labels.written.values()], min(rng.choice((2, 2, 3)), len(labels.written)))
    joint = rng.choice(JOINTS)
    return MadeText(labels.parser, _behind(rng, rng.choice(ANNOUNCED) + joint.join(some)), (None,))


def _listed(rng: Random, labels: Labels) -> MadeText:
    marker = rng.choice(("- ", "* ", "{}. ", "({}) "))
    lines = [
        marker.format(number) + each for number, each in enumerate(labels.written.values(), start=1)
    ]
    return MadeText(labels.parser, _behind(rng, "\n".join(lines)), (None,))


def _denied(rng: Random, labels: Labels) -> MadeText:
    (_, one), (_, other) = _two(rng, labels)
    return MadeText(labels.parser, _behind(rng, rng.choice(DENIALS).format(one, other)), (None,))


def _run_on(rng: Random, labels: Labels) -> MadeText:
    (_, one), (_, other) = _two(rng, labels)
    return MadeText(
        labels.parser,
        _behind(rng, f"{one}\n\n{rng.choice(ROLES)}{rng.choice(SAID)}\n{other}"),
        (None,),
    )


def _last(rng: Random, labels: Labels) -> MadeText:
    """A first thought and another verdict: the last one is read, unless it is an object, which may be quoted."""
    (_, one), (value, other) = _two(rng, labels)
    text = _behind(rng, rng.choice(TURNS).format(one, other))
    return MadeText(labels.parser, text, (value, None) if labels.is_object else (value,))


def _alone(rng: Random, labels: Labels) -> MadeText:
    value, written = rng.choice([*labels.written.items()])
    announced = "" if labels.is_object else rng.choice(ANNOUNCED)
    return MadeText(labels.parser, _behind(rng, announced + written), (value,))


def _two_ratings(rng: Random) -> tuple[int, int]:
    one, other = rng.sample(range(1, 11), 2)
    return one, other


def _joined_ratings(rng: Random) -> MadeText:
    one, other = rng.sample(range(1, 10), 2)  # of 10 every number may be
    return MadeText(
        "rating", _behind(rng, f"{rng.choice(ANNOUNCED)}{one}{rng.choice(JOINTS)}{other}"), (None,)
    )


def _denied_rating(rng: Random) -> MadeText:
    one, other = _two_ratings(rng)
    return MadeText("rating", _behind(rng, rng.choice(DENIALS).format(one, other)), (None,))


def _rating_with_tail(rng: Random) -> MadeText:
    one, _ = _two_ratings(rng)
    tails = [each.format(rng.randint(1, 10)) for each in rng.sample(TAILS, rng.choice((1, 1, 2)))]
    return MadeText(
        "rating", _behind(rng, "\n".join([rng.choice(RATED).format(one), "", *tails])), (one,)
    )


def _rating_with_remark(rng: Random) -> MadeText:
    one, other = _two_ratings(rng)
    remark = rng.choice(
        (
            "Let me know if you want more on point {}.",
            "See step {}",
            "I can also explain question {}",
        )
    )
    return MadeText(
        "rating",
        _behind(rng, f"{rng.choice(RATED).format(one)}\n\n{remark.format(other)}"),
        (one, None),
    )


def _rating_run_on(rng: Random) -> MadeText:
    one, other = _two_ratings(rng)
    return MadeText(
        "rating", _behind(rng, f"{one}\n\n{rng.choice(ROLES)}{rng.choice(SAID)}\n{other}"), (None,)
    )


def _rating_alone(rng: Random) -> MadeText:
    one, other = _two_ratings(rng)
    earlier = rng.choice(
        (
            "",
            "",
            f"Strengths: {other}\n",
            f"It meets {other} of the criteria.\n",
            f"Confidence: {other}\n",
        )
    )
    written = rng.choice(("{}", "**{}**", *RATED)).format(one)
    return MadeText("rating", _behind(rng, f"{earlier}\n{written}"), (one,))


_LABELS: tuple[Callable[[Random, Labels], MadeText], ...] = (
    _joined,
    _listed,
    _denied,
    _run_on,
    _last,
    _last,
    _alone,
)
_RATINGS: tuple[Callable[[Random], MadeText], ...] = (
    _joined_ratings,
    _denied_rating,
    _rating_with_tail,
    _rating_with_remark,
    _rating_run_on,
    _rating_alone,
)
