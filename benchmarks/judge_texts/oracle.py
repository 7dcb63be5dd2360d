"""Checks of what the parsers read, by plain means that share no code with them.

Each check gives what is wrong with a parser's result for a text, or `None`. Slow and simple on
purpose: own text by a search from the end, objects by trying all pairs of braces, numbers by their
digits.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from benchmarks.judge_texts.kinds import MadeText
from benchmarks.judge_texts.texts import IDS, TAGS, TOKENS
from judgegym.judges.parsing.json_objects import prose_before
from judgegym.judges.parsing.labels import (
    arena_label,
    binary_verdict,
    choice_letter,
    choice_letter_official,
    verdict_reason,
)
from judgegym.judges.parsing.rubric_scores import (
    cut_feedback,
    feedback_score,
    feedback_text,
    is_strict_feedback,
    prometheus_result,
)
from judgegym.judges.parsing.scores import (
    bracketed_rating,
    listwise_scores,
    rating,
    rating_official,
    score_object,
)
from judgegym.judges.parsing.thinking import cut_thinking, split
from judgegym.judges.parsing.verdict_parser import ParsedVerdict, VerdictParser

_UPPER_TO_LOWER = {code: code + 32 for code in range(65, 91)}
_MIRRORED = {"B<<A": "A>>B", "B<A": "A>B", "B=A": "A=B", "A<B": "B>A", "A<<B": "B>>A"}
_LABEL_WORDS = ("VERDICT", "DECISION", "JUDGMENT")
_SCORE_WORDS = ("SCORE", "RATING", "GRADE", "VERDICT")
_YES, _NO = (
    ("1", "1.0", "1e0", "true", '"1"', '"yes"', '"true"'),
    ("0", "0.0", "false", '"0"', '"no"', '"false"'),
)
_DECODER = json.JSONDecoder(strict=False)


def _lower(text: str) -> str:
    return text.translate(_UPPER_TO_LOWER)


def own_text(text: str) -> str:
    """What follows the judge's last thinking, up to a line that begins some which never ends."""
    tags = list(_tags(text))
    for start in (0, *(end for _, end, _, begins in tags if not begins)):
        if tags and _is_an_object(
            text[start:]
        ):  # tags within an object that is all of the rest end no thinking
            return text[start:]
    start, opened, inner = 0, dict[str, int](), set[str]()
    for at, end, kind, begins in tags:
        lines = text[start:at].split("\n")
        if begins and not lines[-1].strip() and (len(lines) > 1 or not text[start:at].strip()):
            opened.setdefault(kind, at)
        elif begins:
            inner.add(kind)
        else:
            if kind in opened:
                opened = {name: place for name, place in opened.items() if place < opened[kind]}
            elif kind not in inner:
                opened = {}
            inner -= {kind}
            start = end
    until = min([*opened.values(), len(text)])
    return text[start:until] if until > start else ""


def _tags(text: str) -> Iterator[tuple[int, int, str, bool]]:
    """The tags that begin or end thinking, with their places, without quoted ones."""
    lower = _lower(text)
    for at in range(len(text)):
        for pair in TAGS:
            for tag in pair:
                if lower.startswith(tag, at) and not _is_quoted(text, at, at + len(tag)):
                    yield at, at + len(tag), pair[0], tag is pair[0]


def _is_quoted(text: str, at: int, end: int) -> bool:
    before, after = text[max(0, at - 120) : at], text[end : end + 120]
    if before.endswith(("'", '"', "`")) and after.lstrip("\\").startswith(("'", '"', "`")):
        return True
    codes = [
        part.replace("```", "").count("`")
        for part in (before.rpartition("\n")[2], after.partition("\n")[0])
    ]
    return codes[0] % 2 == 1 and codes[1] > 0


def _is_an_object(text: str) -> bool:
    body = _without_tokens(text).strip().removesuffix("```").rstrip()
    if body.startswith("```"):
        body = (
            body[3:]
            .lstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789")
            .lstrip()
        )
    try:
        return isinstance(json.loads(body, strict=False), dict)
    except (ValueError, RecursionError):
        return False


def _plain(text: str) -> str:
    """In capitals, without full-width letters, white space, escapes, markdown and invisible signs."""
    normal = unicodedata.normalize("NFKC", text).upper().replace("&GT;", ">").replace("&LT;", "<")
    return "".join(sign for sign in normal if sign.isprintable() and sign not in " \\*_`")


def _behind(text: str, find: Callable[[str], ParsedVerdict[Any] | None]) -> str:
    """The own text behind the place from which the parser says that it has read the verdict."""
    found = find(text)
    assert found is not None and found.at is not None
    own = own_text(text)
    start = text.find(own, max(0, found.at[1] - len(own)))
    return _without_tokens(text[: start + len(own)] if 0 <= start <= found.at[0] else text)[
        found.at[1] :
    ]


def _said(behind: str, words: tuple[str, ...], allowed: tuple[str, ...]) -> str | None:
    """A value after one of these words with a colon that is none of the allowed ones, in a text after the verdict."""
    normal = unicodedata.normalize("NFKC", behind).upper()
    for sign in "*_`\\":
        normal = normal.replace(sign, " ")
    plain = ":".join(part.strip() for part in normal.split(":"))
    for word in words:
        before, *parts = plain.split(f"{word}:")
        for part in parts:
            value, is_a_word, before = part.lstrip("([\"'"), not before[-1:].isalnum(), part
            if is_a_word and value[:1].isdigit() and not value.startswith(allowed):
                return f"{word}: {value[:9]} follows"
    return None


def _object_behind(behind: str, name: str) -> str | None:
    """An object with this field, after the verdict."""
    later = [written for fields, written in objects(behind) if name in fields]
    return f"{later[0]} follows" if later else None


def _is_joined(text: str, at: tuple[int, int]) -> bool:
    """Whether nothing but a word or a sign that joins stands between a letter and another one in brackets."""
    before = _lower(_without_tokens(text)[: at[0]]).rstrip(" \n")
    for joint in (" or", " and", "\nor", "\nand", ",", "/"):
        if before.endswith("]" + joint):
            opened = before.rfind("[", 0, len(before) - len(joint))
            inside = before[opened + 1 : -len(joint)].rstrip("]")
            return (
                len(inside) == 1
                and inside in "abcd"
                and inside != _lower(text[slice(*at)]).strip("[]")
            )
    return False


def _in_either(check: Callable[[str, str], str | None]) -> Callable[[str], str | None]:
    """Check against all words, or those that are in no braces: words in an object of a verdict are none."""

    def either(text: str) -> str | None:
        own = own_text(text)
        return check(text, own) and check(text, _outside_braces(own))

    return either


def _outside_braces(text: str) -> str:
    kept, opened = [*text], list[int]()
    for place, sign in enumerate(text):
        if sign == "{":
            opened.append(place)
        elif sign == "}" and opened:
            start = opened.pop()
            kept[start : place + 1] = "\ufffd" * (place + 1 - start)
    return "".join(kept)


@_in_either
def _arena(text: str, own: str) -> str | None:
    label = arena_label(text)
    if label is None:
        return None
    behind = _behind(text, arena_label.find)
    plain = _plain(behind)
    mirror = next(key for key, value in _MIRRORED.items() if value == label)
    for other in {*_MIRRORED, *_MIRRORED.values()} - {label, mirror}:
        if f"[{other}]" in plain:
            return f"{label} read, {other} follows"
    for part in plain.split("[[")[1:]:
        inside, closed, _ = part.partition("]]")
        if (
            closed
            and 0 < len(inside) < 40
            and "[" not in inside
            and "\n" not in part
            and inside in ("A", "B", "AB", "TIE")[: 3 if label == "A=B" else 4]
        ):
            return f"{label} read, [[{inside}]] follows"
    if (later := _object_behind(behind, "verdict")) is not None:
        return later
    own = own.upper()
    for opening, closing in (("[[", "]]"), ("[", "]")):
        pieces = [piece.lstrip("[").partition(closing) for piece in own.split(opening)[1:]]
        labels = [
            inside for inside, found, _ in pieces if found and inside and not inside.strip("AB<>=")
        ]
        if labels:
            last = labels[-1]
            return (
                None
                if label == _MIRRORED.get(last, last)
                else f"{label} read, the last label is {last}"
            )
    return f"{label} read, and there is no label"


@_in_either
def _choice(text: str, own: str) -> str | None:
    letter = choice_letter(text, "ABCD")
    if letter is not None:
        found = choice_letter.find(text, "ABCD")
        if found is not None and found.at is not None and _is_joined(text, found.at):
            return f"{letter} read, joined to another one"
        behind = _behind(text, choice_letter.bind("ABCD").find)
        for other in "ABCDEFG".replace(letter, ""):
            if f"[{other}]" in _plain(behind):
                return f"{letter} read, [{other}] follows"
        if "[[TIE]]" in _plain(behind) or _object_behind(behind, "verdict") is not None:
            return f"{letter} read, another one follows"
    last = max("ABCD", key=lambda shown: own.rfind(f"[[{shown}]]"))
    return (
        None
        if letter in (None, last) and (letter is None or f"[[{letter}]]" in own)
        else f"{letter} read"
    )


def _choice_official(text: str) -> str | None:
    letter = choice_letter_official(text)
    first = [shown for shown in "ABCD" if f"[[{shown}]]" in text][:1]
    return None if [letter] == (first or [None]) else f"{letter} read"


def _digits(text: str) -> list[str]:
    return "".join(character if character in "0123456789" else " " for character in text).split()


def _without_tokens(text: str) -> str:
    """The text without the tokens at its end, also those that a mutation has made of one."""
    text = text.rstrip()
    while True:
        start = max(text.rfind("<|"), text.rfind("<｜"))
        named = text[start:] if start >= 0 and text.endswith(("|>", "｜>")) else ""
        written = named if 4 < len(named) < 70 and not any(sign.isspace() for sign in named) else ""
        token = next((token for token in TOKENS if text.endswith(token)), written)
        if not token:
            return text
        text = text[: -len(token)].rstrip()


def _rating(text: str) -> str | None:
    value = rating(text)
    if value is None:
        return None
    lines = [line for line in _without_tokens(own_text(text)).splitlines() if line.strip()]
    while True:
        ending = "\n".join(lines).rstrip(" \n*_`)].")
        scale = ending.removesuffix("10").rstrip()
        before_of = scale.removesuffix("of")
        if scale != ending and (
            scale.endswith("/") or (before_of != scale and not before_of[-1:].isalpha())
        ):
            ending = scale
        if _digits(ending)[-1:] == [str(value)] and 1 <= value <= 10:
            return None
        # Behind a named rating, lines that name other numbers may follow.
        name = lines.pop().rpartition(":")[0].upper() if lines else ""
        named = any(
            word in line.upper()
            for line in lines
            for word in (*_SCORE_WORDS, "RESULT", "OVERALL", "TOTAL")
        )
        if (
            not name
            or not named
            or (any(word in name for word in _SCORE_WORDS) and "PREVIOUS" not in name)
        ):
            return f"{value} read"


def _rating_official(text: str) -> str | None:
    value = rating_official(text)
    return (
        None
        if value is None or (text.rstrip().endswith(str(value)) and 1 <= value <= 10)
        else f"{value} read"
    )


def objects(text: str) -> Iterator[tuple[Mapping[str, object], str]]:
    """The outermost objects of a text with what they are written as, the last one first."""
    found: list[tuple[Mapping[str, object], str]] = []
    start = text.find("{")
    while start >= 0:
        try:
            value, end = _DECODER.raw_decode(text, start)
        except ValueError:
            end = start + 1
        else:
            found.append(({name.lower(): each for name, each in value.items()}, text[start:end]))
        start = text.find("{", end)
    yield from reversed(found)


def _binary(text: str) -> str | None:
    verdict = binary_verdict(text)
    if verdict is None:
        return None
    problem = _said(
        _behind(text, binary_verdict.find),
        ("VERDICT",),
        ("1", "YES", "TRUE") if verdict else ("0", "NO"),
    )
    if problem is not None:
        return problem
    for fields, written in objects(own_text(text)):
        if "verdict" in fields:
            value = fields["verdict"]
            shown = json.dumps(value.strip() if isinstance(value, str) else value).lower()
            allowed = _YES if verdict else _NO
            literal = shown in allowed and any(
                word.strip('"') in written.lower() for word in allowed
            )
            return None if literal else f"{verdict} read of {value!r}"
    return f"{verdict} read, and there is no object"


def _score(text: str) -> str | None:
    found = score_object(text)
    if found is None:
        return None
    problem = _said(_behind(text, score_object.find), _SCORE_WORDS, (str(found.score),))
    if problem is not None:
        return problem
    for fields, written in objects(own_text(text)):
        value = fields.get("score")
        whole = (
            isinstance(value, int | float) and not isinstance(value, bool) and value == found.score
        )
        shown = isinstance(value, str) and _digits(value)[:1] == [str(found.score)]
        if whole or shown:
            literal = str(found.score) in written or "e" in written.lower()
            return (
                None
                if literal and 0 <= found.score <= 100
                else f"{found.score} read of {written!r}"
            )
        if "score" in fields:
            return f"{found.score} read, the last score is {value!r}"
    return f"{found.score} read, and there is no object"


def _listwise(text: str) -> str | None:
    found = listwise_scores(text, IDS)
    if found is None:
        return None
    written = next(
        (written for fields, written in objects(own_text(text)) if "scores" in fields), None
    )
    if written is None:
        return f"{found} read, and there is no object"
    entries = [
        [(name.lower(), value) for name, value in entry]
        for entry in dict(_pairs(written))["scores"]
    ]
    names = [sorted(name for name, _ in entry) for entry in entries]
    if any(len(set(each)) < len(each) for each in names) or sorted(found) != sorted(IDS):
        return f"{found} read of {written!r}"
    given = [(dict(entry)["id"], dict(entry)["score"]) for entry in entries]
    in_range = all(
        isinstance(value, int | float) and value is not True and 0 <= value <= 1
        for _, value in given
    )
    same = sorted(given) == sorted((own, entry.score) for own, entry in found.items())
    return None if same and in_range else f"{found} read of {written!r}"


def _pairs(written: str) -> list[tuple[str, Any]]:
    """An object as pairs, also those within it; names that are there twice are there twice."""
    pairs = json.JSONDecoder(strict=False, object_pairs_hook=list).decode(written)
    return [(name.lower(), value) for name, value in pairs]


def _tagged(tag: str, parse: VerdictParser[..., int]) -> Callable[[str], str | None]:
    @_in_either
    def check(text: str, own: str) -> str | None:
        value = parse(text)
        if value is None:
            return None
        behind = _behind(text, parse.find)
        problem = _said(behind, _SCORE_WORDS, (str(value),)) or _object_behind(behind, "score")
        later = [
            part for each in ("[SCORE]", "[RESULT]") for part in _plain(behind).split(each)[1:]
        ]
        if problem is not None or any(
            not part.lstrip(":([").startswith(str(value)) for part in later
        ):
            return problem or f"{value} read, a tag follows"
        fields, written = next(objects(own), ({}, "-"))
        if fields.get("score") in (value, str(value)) and _without_tokens(text).rstrip(
            "` \r\n"
        ).endswith(written):
            return None
        lines = own[_last(own, tag) + len(tag) :].replace("\r", "\n").split("\n")
        line = next(
            (line for line in lines if line.strip(" \t:*_`")), ""
        )  # the number may stand on the next line
        if _last(own, tag) < 0 and own.strip(" *_`#\r\n\t").upper().startswith(
            ("[FEEDBACK]", "FEEDBACK:")
        ):
            ending = own.rstrip().replace("\r", "\n").rpartition("\n")[2].strip("*_# \t")
            named = ending.upper().startswith(("SCORE", "RESULT")) and _digits(ending)[:1] == [
                str(value)
            ]
            return None if named else f"{value} read of {ending!r}"
        at_most = _digits(line)
        literal = _last(own, tag) >= 0 and at_most[:1] == [str(value)] and 1 <= value <= 5
        return None if literal else f"{value} read of {line!r}"

    return check


def _last(text: str, tag: str) -> int:
    return _lower(text).rfind(tag.lower())


def _split(text: str) -> str | None:
    parts = split(text)
    opens, closes = text.count("<think>"), text.count("</think>")
    after = text.rpartition("</think>")[2].strip()
    is_valid = (
        opens == closes == 1 and text.index("<think>") < text.index("</think>") and after != ""
    )
    if parts.valid is not is_valid or (parts.valid and parts.answer != after):
        return f"{parts}"
    return None if parts.answer in text and parts.thinking in text else "not in the text"


def _strict(text: str) -> str | None:
    if not is_strict_feedback(text, "feedback_score"):
        return None
    return None if feedback_score(text) is not None else "strict, and without a score"


def _is_in(parse: Callable[[str], str | None]) -> Callable[[str], str | None]:
    def check(text: str) -> str | None:
        found = parse(text)
        return None if found is None or found in text else f"{found!r} is not in the text"

    return check


def _reason(text: str) -> str | None:
    reason = verdict_reason(text)
    known = [fields.get("reason") for fields, _ in objects(own_text(text)) if "verdict" in fields]
    if reason is None or not known or not isinstance(known[0], str):
        return None if reason is None else f"{reason!r} read"
    return (
        None
        if reason
        == "".join("\ufffd" if "\ud800" <= each <= "\udfff" else each for each in known[0])
        else reason
    )


def _score_before(text: str) -> str | None:
    return prose_before(text, "score")


CHECKS: Mapping[str, Callable[[str], str | None]] = {
    "arena_label": _arena,
    "choice_letter": _choice,
    "choice_letter_official": _choice_official,
    "rating": _rating,
    "rating_official": _rating_official,
    "binary_verdict": _binary,
    "verdict_reason": _reason,
    "score_object": _score,
    "listwise_scores": _listwise,
    "feedback_score": _tagged("[SCORE]", feedback_score),
    "prometheus_result": _tagged("[RESULT]", prometheus_result),
    "feedback_text": _is_in(feedback_text),
    "cut_feedback": _is_in(cut_feedback),
    "is_strict_feedback": _strict,
    "prose_before": _is_in(_score_before),
    "cut_thinking": _is_in(cut_thinking),
    "thinking.split": _split,
}
"""What is wrong with a parser's result, by the parser's name."""

PARSERS: Mapping[str, Callable[[str], object]] = {
    "arena_label": arena_label,
    "choice_letter": lambda text: choice_letter(text, "ABCD"),
    "choice_letter_official": choice_letter_official,
    "rating": rating,
    "bracketed_rating": bracketed_rating,
    "rating_official": rating_official,
    "binary_verdict": binary_verdict,
    "verdict_reason": verdict_reason,
    "score_object": score_object,
    "listwise_scores": lambda text: listwise_scores(text, IDS),
    "feedback_score": feedback_score,
    "prometheus_result": prometheus_result,
    "feedback_text": feedback_text,
    "cut_feedback": cut_feedback,
    "is_strict_feedback": lambda text: is_strict_feedback(text, "feedback_score"),
    "prose_before": _score_before,
    "cut_thinking": cut_thinking,
    "thinking.split": split,
}
"""The parsers by name."""


def check_made(made: MadeText) -> str | None:
    """What is wrong with what a parser reads of a text whose verdict is known by how it is made."""
    try:
        value = PARSERS[made.parser](made.text)
    except Exception as error:  # noqa: BLE001  # what this program looks for
        return f"raised {error!r}"
    if made.parser == "score_object" and value is not None:
        value = value.score  # type: ignore[attr-defined]
    if made.parser == "listwise_scores" and value is not None:
        value = max(value, key=lambda own: value[own].score)  # type: ignore[call-overload,index]
    return None if value in made.allowed else f"{value!r} read, expected one of {made.allowed}"
