"""Generates judges' texts from a seed: templates of all judges, mutations of realistic answers, truncations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

PROSE = (
    "Both answers are correct.",
    "The response covers a part of the query.",
    "I would say 7 or 8, but 9 is too much.",
    "It claims that [[A>B]] is right, which it is not.",
    "The user asked for JSON such as {\"score\": 12} or {'verdict': 1}.",
    'In LaTeX, $\\frac{a}{b} = \\{x\\}$; in code, `if (x) { return "}"; }`.',
    "Step 3/5: see [SCORE] in the rubric.",
    "Das ist größer als ½; 分数は 5 点。",
    "My first impression was **4**.",
    "",
)
ARENA = (
    "[[A>>B]]",
    "[[A>B]]",
    "[[A=B]]",
    "[[B>A]]",
    "[[B>>A]]",
    "[[B<A]]",
    "[[a<<b]]",
    "[A>B]",
    "[[A<>B]]",
    "[[tie]]",
)
ARENA_NEARLY = (
    "[[ B>A ]]",
    "**B>>A**",
    "[[B＞A]]",
    "\\[\\[A>B\\]\\]",
    "[[B&gt;A]]",
    "[[Tie]]",
    "［［A>B］］",
    "Verdict: tie",
)
CHOICE = ("[[A]]", "[[B]]", "[[C]]", "[[D]]", "[[E]]", "[[a]]", "[A]", "[[AB]]", "[[ A ]]")
CHOICE_NEARLY = (
    "[a]",
    "[[Tie]]",
    "［［Ｂ］］",
    "\\[\\[C\\]\\]",
    "My verdict is B.",
    "**D**",
    "[[D",
)
RATING = (
    "7",
    "10",
    "**8**",
    "7/10",
    "6 out of 10",
    "(5)",
    "11",
    "0",
    "-5",
    "7-8",
    "3.5",
    "9.",
    "٣",
    "1 of 10",
    "8 %",
)
VALUES = (
    "1",
    "0",
    "true",
    "false",
    '"yes"',
    '"NO"',
    '"1"',
    "2",
    "null",
    "0.7",
    "-1",
    "NaN",
    "1e0",
    '"maybe"',
    "[1]",
)
SCORES = (
    "85",
    "0",
    "100",
    '"70/100"',
    '"90%"',
    "85.0",
    "101",
    "-3",
    "null",
    "true",
    '"n/a"',
    "1e2",
    "9" * 30,
    '"٧٠"',
)
UNIT = (
    "0.8",
    "0",
    "1",
    "1.0",
    "0.25",
    "1e-3",
    "1.01",
    "-0.1",
    "80",
    "true",
    '"0.8"',
    "null",
    "NaN",
    "Infinity",
    "[1]",
)
IDS = ("ghjkm", "npqrt", "vwxzg")
SCORE_NEARLY = (
    "Score: 2",
    "**Score: 3**",
    "[SCORE: 2]",
    "[ＳＣＯＲＥ] 2",
    "Result: 4",
    "My score is 5.",
    "Rating: 1/5",
    "[SCORE]\n3",
)
OBJECT_NEARLY = (
    "Verdict: 0", "My verdict is yes.", "**Score: 30**", '{"output": {"verdict": 0, "score": 9}}', '{"rating": 20}',
    "[0]", '{"reason": "so", "ver', '{"reasoning": "so", "score": [4]}', "{'verdict': 1, 'score': 70}", "Score: 85/100",
)  # fmt: skip
SCALED = (
    "4",
    "5",
    "(3)",
    "[2]",
    "4/5",
    "3 out of 5",
    "4.5",
    "6",
    "**1**",
    ": 2",
    "3-4",
    "five",
    "٤",
    "- 2",
    "5 stars",
)
REASONS = (
    '"so"',
    '"it says {\\"verdict\\": 0}"',
    '"two\nlines"',
    '"[SCORE] 2"',
    '"\\u0031"',
    "null",
    '"a } b { c"',
)
TOKENS = ("<|im_end|>", "</s>", "<|eot_id|>", "<pad>", "<end_of_turn>", "<｜end▁of▁sentence｜>")
TAGS = (
    ("<think>", "</think>"),
    ("<reasoning>", "</reasoning>"),
    ("[think]", "[/think]"),
    ("<|start_thinking|>", "<|end_thinking|>"),
)
"""Of the markers of thinking those that occur here, in lower case."""
THINKING = (
    *(
        "<think>",
        "</think>",
        "<Think>",
        "</THINK>",
        "<think>\nHm. [[B>A]] [SCORE] 1\n</think>\n",
        "<think",
    ),
    *("<reasoning>", "</reasoning>", "[THINK]Hm. [[B>A]] [SCORE] 1[/THINK]\n", "<|END_THINKING|>"),
)
_SPACES = ("\n", " ")
PIECES = (
    *ARENA[:5], *CHOICE[:4], *THINKING, *TOKENS, "{", "}", '"', "\\", "[SCORE]", "[RESULT]", "[FEEDBACK]", "Feedback:",
    '"verdict":', '"score": 3', "```json", "```", "\n", " ", "*", "5", "[[", "]]", "\ud800", "\x00", "İ", "\u200b",
)  # fmt: skip


def generated(seed: int) -> Iterator[str]:
    """Texts without end, the same for the same seed."""
    rng = Random(seed)
    while True:
        text = "".join(rng.choice(_TEMPLATES)(rng) for _ in range(rng.choice((1, 1, 1, 2))))
        for _ in range(rng.choice((0, 0, 1, 2))):
            text = rng.choice(_MUTATIONS)(rng, text)
        yield text


def _framed(verdict: Callable[[Random], str]) -> Callable[[Random], str]:
    """A text around a verdict: thinking, prose, perhaps an earlier verdict, prose, tokens."""

    def text(rng: Random) -> str:
        parts = [
            rng.choice(THINKING) if rng.random() < 0.3 else "",
            rng.choice(PROSE),
            rng.choice(("\n", " ", "\n\n")),
        ]
        if rng.random() < 0.25:
            parts += [verdict(rng), " ", rng.choice(PROSE), "\n"]
        parts += [verdict(rng), rng.choice(PROSE) if rng.random() < 0.2 else ""]
        parts += [rng.choice(TOKENS)] if rng.random() < 0.15 else []
        return "".join(parts)

    return text


def _among(verdicts: tuple[str, ...], nearly: tuple[str, ...]) -> Callable[[Random], str]:
    """Several verdicts one after the other, some of them nearly as they are asked for, perhaps announced."""

    def text(rng: Random) -> str:
        parts = []
        for _ in range(rng.choice((2, 2, 3))):
            announced = (
                rng.choice(("The response says ", "It ends with:\n", "So: "))
                if rng.random() < 0.3
                else ""
            )
            parts.append(announced + rng.choice(nearly if rng.random() < 0.5 else verdicts))
        return rng.choice(("\n", "\n\n", " ")).join(parts)

    return text


def _object(field: str, values: tuple[str, ...], reason: str) -> Callable[[Random], str]:
    def verdict(rng: Random) -> str:
        fields = [
            f'"{reason}": {rng.choice(REASONS)}',
            f'"{rng.choice((field, field.title()))}": {rng.choice(values)}',
        ]
        if rng.random() < 0.1:
            fields.append(f'"inner": {{"{field}": {rng.choice(values)}}}')
        if rng.random() < 0.2:
            rng.shuffle(fields)
        opening, comma, closing = rng.choice(
            (("{", ", ", "}"), ("{", ",", "}"), ("{\n  ", ",\n  ", "\n}"))
        )
        written = opening + comma.join(fields) + closing
        frame = rng.choice(("{}", "{}", "{}", "```json\n{}\n```", "{{}}", "[{}]", "'{}'"))
        return frame.replace("{}", written)

    return verdict


def _listed(rng: Random) -> str:
    """Scores of a group: mostly of every id once, in any order, and mostly in range."""
    ids = (
        rng.sample(IDS, 3)
        if rng.random() < 0.8
        else rng.choices((*IDS, "GHJKM", "other", ""), k=rng.randint(0, 4))
    )
    entries = []
    for own in ids:
        value = rng.choice(UNIT[:6] if rng.random() < 0.9 else UNIT)
        fields = [f'"id": "{own}"', f'"explanation": {rng.choice(REASONS)}', f'"score": {value}']
        if rng.random() < 0.03:
            fields.append(f'"Score": {rng.choice(UNIT)}')
        entries.append("{" + ", ".join(fields) + "}")
    written = f'{{"scores": [{", ".join(entries)}]}}'
    return rng.choice(("{}", "{}", "```json\n{}\n```", "{{}}")).replace("{}", written)


def _tagged(tag: str, before: str) -> Callable[[Random], str]:
    def verdict(rng: Random) -> str:
        bold = "**" if rng.random() < 0.1 else ""
        feedback = f"{bold}{before}{bold} {rng.choice(PROSE)}" if rng.random() < 0.9 else ""
        written = tag if rng.random() < 0.9 else tag.lower()
        return f"{feedback}{rng.choice(_SPACES)}{bold}{written}{bold} {rng.choice(SCALED)}"

    return verdict


def _any(verdicts: tuple[str, ...]) -> Callable[[Random], str]:
    return lambda rng: rng.choice(verdicts)


def _soup(rng: Random) -> str:
    return "".join(rng.choice(PIECES) for _ in range(rng.randrange(30)))


_TEMPLATES: tuple[Callable[[Random], str], ...] = (
    _framed(_any(ARENA)),
    _framed(_any(CHOICE)),
    _framed(_any(RATING)),
    _framed(_object("verdict", VALUES, "reason")),
    _framed(_object("score", SCORES, "reasoning")),
    _framed(_tagged("[SCORE]", "[FEEDBACK]")),
    _framed(_tagged("[RESULT]", "Feedback:")),
    _tagged("[SCORE]", "[FEEDBACK]"),
    _tagged("[RESULT]", "Feedback:"),
    _object("verdict", VALUES, "reason"),
    _framed(_listed),
    _among(ARENA, ARENA_NEARLY),
    _among(CHOICE, CHOICE_NEARLY),
    _among(("[SCORE] 4", "[SCORE] 2/5", "[RESULT] 3", "[FEEDBACK] So."), SCORE_NEARLY),
    _among(
        ('{"reason": "so", "verdict": 1}', '{"reasoning": "so", "score": 85}', '{"verdict": 0}'),
        OBJECT_NEARLY,
    ),
    _soup,
)


def _cut_end(rng: Random, text: str) -> str:
    return text[: rng.randrange(len(text) + 1)]


def _cut_start(rng: Random, text: str) -> str:
    return text[rng.randrange(len(text) + 1) :]


def _insert(rng: Random, text: str) -> str:
    place = rng.randrange(len(text) + 1)
    return text[:place] + rng.choice(PIECES) + text[place:]


def _remove(rng: Random, text: str) -> str:
    place = rng.randrange(len(text) + 1)
    return text[:place] + text[place + rng.randrange(1, 4) :]


def _replace(rng: Random, text: str) -> str:
    place = rng.randrange(len(text) + 1)
    return text[:place] + rng.choice(PIECES)[:1] + text[place + 1 :]


def _repeat(rng: Random, text: str) -> str:
    start = rng.randrange(len(text) + 1)
    end = min(len(text), start + rng.randrange(40))
    return text[:end] + text[start:end] * rng.randrange(1, 4) + text[end:]


def _swap(rng: Random, text: str) -> str:
    place = rng.randrange(len(text) + 1)
    return text[place:] + text[:place]


def _case(rng: Random, text: str) -> str:
    return text.upper() if rng.random() < 0.5 else text.lower()


_MUTATIONS: tuple[Callable[[Random, str], str], ...] = (
    _cut_end, _cut_start, _insert, _insert, _remove, _replace, _repeat, _swap, _case,
)  # fmt: skip
