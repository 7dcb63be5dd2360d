"""Verdict of a judge's text: the last of all candidates in it, or none.

Everything that could be a verdict of its kind is a candidate, in the order of the text: JSON
objects, also malformed and nested ones; labels and tags as the parser takes them; and near misses
of them, such as `Score: 2`, `[B>A]`, `[[ a ]]` or full-width letters. The last candidate counts if
the parser takes it, or if all it does is repeat the one before; otherwise the text has no verdict,
and the judge is asked again. No parser falls back to an earlier candidate, because that may be
quoted from the text under judgment.

Where verdicts disagree, the last one may be quoted: it does not count in quotation marks, or after
words that announce what the judged text says. An object is read less readily, because a judged text
may end with one: after another object it counts only on lines of its own at the end, and after a
statement in the judge's own words not at all.

Verdicts in words that no parser takes (`Score: 2`, `**Verdict:** no`, `[[ a ]]`, full-width or
escaped signs) are candidates, too: a judge's own verdict in such a form must not leave an earlier
one to be read, which may be quoted. What they state is only compared with what has been read.

Guarantees: never raises. The work is bounded: only the end of a long text is read. Words within an
object are no verdicts (an object after a verdict that has some makes it none), and where a
malformed object may extend there is no verdict.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Generic, TypeVar, cast

from judgegym.judges.parsing.json_objects import (
    CHARACTERS_READ,
    NAMES_OF_FIELDS,
    USUAL_SIGNS,
    ObjectSigns,
    OutermostObject,
    blank_objects,
    brace_depths,
    decode_object,
    find_outermost_objects,
    find_text_end,
    find_whole_object,
    is_on_its_own_line,
)
from judgegym.judges.parsing.unchosen import Mention, is_unchosen
from judgegym.judges.parsing.verdict_parser import ParsedVerdict, Place
from judgegym.llm.wire import JSON

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class VerdictCandidate(Generic[T]):
    """Part of a text that could be a verdict.

    Attributes:
        at: its place.
        value: the verdict that it states; `None` if that is no verdict or ambiguous.
        is_exact: it is written exactly as the parser accepts it.
        is_statement: it is a statement in words; a later object must not contradict it.
        is_object: it is one.
        is_full: the parser would accept it at the end of the text.
    """

    at: Place
    value: T | None = None
    is_exact: bool = False
    is_statement: bool = False
    is_object: bool = False
    is_full: bool = False


@dataclass(frozen=True, slots=True)
class VerdictKind(Generic[T]):
    """How verdicts of one kind look.

    Attributes:
        name: the field of an object that holds the verdict.
        parse_fields: returns the verdict of an object's fields. Their names are in lower case; a
            repeated name has no value.
        find_in_words: finds the candidates in words, in order; objects in them are replaced by
            `BLANK`.
        has_text_form: the usual form is text; an object counts only on its own lines at the end.
        characters_read: number of characters read at the end of a text.
        decode: returns the fields of an object as it is written, `None` if they are no verdict.
        options: the verdicts in the order in which a prompt lists them; without it, lists of
            options are not recognised.
        signs: recognise a malformed object.
        headings: pattern of the prompt's own headings: an invented next task may begin with one.
    """

    name: str
    parse_fields: Callable[[Mapping[str, JSON]], T | None]
    find_in_words: Callable[[str], Iterable[VerdictCandidate[T]]]
    has_text_form: bool = False
    characters_read: int = CHARACTERS_READ
    decode: Callable[[str], Mapping[str, JSON] | None] = decode_object
    options: Sequence[T] = ()
    signs: ObjectSigns = USUAL_SIGNS
    headings: re.Pattern[str] | None = None


MOST_COMPARED = 20
"""Most objects and tags at the end of a text that are candidates; earlier ones mislead nobody."""
_MOST_MENTIONS = 200
_NAME = re.compile(rf"(?:\w+[_ ])?(?:{NAMES_OF_FIELDS}|value|points|answer|output)", re.IGNORECASE)
_FENCE = re.compile(r"```\w*\s*\Z")
# What announces a quotation: it names what is judged and what that says, and nothing of the judge's
# own follows.
_ANNOUNCED = re.compile(
    r"(?:\b(?:submission|response|answer|output|input|text|completion|candidate|assistant|student"
    r"|user|model|author|"
    r"it|which|that|who)\b[^.!?]{0,80}\b(?:says?|said|ends?|ended|claims?|contains?|includes?"
    r"|reads?|quotes?|states?|"
    r"writes?|wrote)\b(?:(?!\b(?:so|therefore|hence|thus|my|i|verdict)\b)[^.!?]){0,60}|"
    r"\b(?:submission|candidate|assistant|student|user|input|text|quot\w+)\W{0,9})\Z",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?](?=\s)")
_QUOTATION = '"\u201c\u201d\u201e\u00ab\u00bb'
_LONGEST_SENTENCE = 200


def last_candidate(own_text: str, kind: VerdictKind[T]) -> ParsedVerdict[T] | None:
    """Return the verdict of a judge's own text: that of the last candidate."""
    unread = max(0, len(own_text) - kind.characters_read)
    whole = None
    if own_text.lstrip().startswith(("{", "`")):
        whole = find_whole_object(own_text)
    if whole is not None:  # nothing else can be a candidate
        value = _parse_value(kind.decode(own_text[slice(*whole)]), kind)
        if value is None:
            return None
        return ParsedVerdict(value, whole)
    text = own_text[unread:]
    objects, doubtful = find_outermost_objects(text, kind.signs)
    if not kind.has_text_form and not any(
        json_object.fields and kind.name in json_object.fields for json_object in objects
    ):
        return None
    words = text
    if objects:
        words = blank_objects(text, [outermost.at for outermost in objects])
    candidates = _drop_overlaps([*kind.find_in_words(words)])
    if objects or doubtful:
        candidates = [_apply_doubt(candidate, doubtful) for candidate in candidates]
        candidates += _object_candidates(text, objects, doubtful, kind)
    candidates.sort(key=attrgetter("at"))
    number = next(
        (number for number in range(len(candidates) - 1, -1, -1) if candidates[number].is_exact),
        None,
    )
    if number is None:
        return None
    last, earlier, later = candidates[number], candidates[:number], candidates[number + 1 :]
    if last.value is None or any(follower.value != last.value for follower in later):
        return None
    if last.is_object and not _is_judges_object(last, earlier, words):
        return None
    contradicting = [
        candidate for candidate in earlier if candidate.value not in (None, last.value)
    ]
    if any(candidate.is_statement or candidate.is_object for candidate in contradicting):
        at_the_end = last.at[1] == find_text_end(text) and is_on_its_own_line(text, last.at[0])
        if _is_quoted(text, last.at) or (last.is_object and not at_the_end):
            return None
    mentions = [
        _mention(mentioned, last, kind, words) for mentioned in (*earlier[-_MOST_MENTIONS:], last)
    ]
    if is_unchosen(words, mentions[-1], mentions[:-1], kind.headings):
        return None
    return ParsedVerdict(last.value, last.at).shift(unread)


def _mention(
    candidate: VerdictCandidate[T], last: VerdictCandidate[T], kind: VerdictKind[T], words: str
) -> Mention:
    is_bracketed = words[candidate.at[0]] in "[\\"
    is_label = candidate.is_exact or candidate.is_object or candidate.is_full or is_bracketed
    rank = next(
        (rank for rank, option in enumerate(kind.options) if option == candidate.value), None
    )
    is_verdict = is_label and candidate.value is not None
    return Mention(candidate.at, candidate.value != last.value, is_label, is_verdict, rank)


def _is_judges_object(
    last: VerdictCandidate[T], earlier: list[VerdictCandidate[T]], words: str
) -> bool:
    """Return whether an object is the judge's own verdict.

    It is in no malformed object and contradicts no statement in words.
    """
    stated = [candidate for candidate in earlier if candidate.is_statement]
    if stated and stated[-1].value != last.value:
        return False
    before = max((previous.at[1] for previous in earlier if previous.is_object), default=0)
    return not _is_closed_once_more(words[before : last.at[0]], words[last.at[1] :])


def _is_quoted(text: str, at: Place) -> bool:
    """Return whether a verdict is quoted.

    It is in quotation marks, or after words that announce what the judged text says.
    """
    start, end = at
    if (
        text[start - 1 : start] in _QUOTATION
        and text[end : end + 1] in _QUOTATION
        and start > 0
        and end < len(text)
    ):
        return True
    before = _FENCE.sub("", text[max(0, start - _LONGEST_SENTENCE) : start])
    return _ANNOUNCED.search(_SENTENCE_END.split(before)[-1]) is not None


def _parse_value(fields: Mapping[str, JSON] | None, kind: VerdictKind[T]) -> T | None:
    if fields is None or fields.get(kind.name) is None:
        return None
    return kind.parse_fields(fields)


def _drop_overlaps(in_words: list[VerdictCandidate[T]]) -> list[VerdictCandidate[T]]:
    """Drop near misses that are part of an exact candidate."""
    taken = sorted(exact.at for exact in in_words if exact.is_exact)
    starts = [start for start, _ in taken]
    remaining = []
    for candidate in in_words:
        before = bisect(starts, candidate.at[1] - 1)
        if candidate.is_exact or not before or taken[before - 1][1] <= candidate.at[0]:
            remaining.append(candidate)
    return remaining


def _apply_doubt(candidate: VerdictCandidate[T], doubtful: list[Place]) -> VerdictCandidate[T]:
    """Return a candidate without a value where a malformed object may extend."""
    inside = any(start <= candidate.at[0] < end for start, end in doubtful)
    if not inside:
        return candidate
    return replace(candidate, value=None, is_exact=False, is_statement=False)


def _object_candidates(
    text: str, objects: list[OutermostObject], doubtful: list[Place], kind: VerdictKind[T]
) -> Iterator[VerdictCandidate[T]]:
    text_end = find_text_end(text)
    number, furthest = 0, 0
    is_open = any(not skipped.is_closed for skipped in objects[:-MOST_COMPARED])
    for json_object in objects[-MOST_COMPARED:]:
        start, end = json_object.at
        is_open = is_open or not json_object.is_closed
        if json_object.fields is not None and kind.name not in json_object.fields:
            if (
                _could_be_verdict(json_object.fields)
                or next(iter(kind.find_in_words(text[start:end])), None) is not None
            ):
                yield VerdictCandidate(json_object.at, is_object=True)
            continue
        fields = None
        if json_object.fields is not None:
            fields = kind.decode(text[start:end])
        ends = end == text_end and (not kind.has_text_form or is_on_its_own_line(text, start))
        while number < len(doubtful) and doubtful[number][0] < start:
            number, furthest = number + 1, max(furthest, doubtful[number][1])
        is_within = start < furthest and (is_open or not ends)
        taken = fields is not None and (ends or not kind.has_text_form) and not is_within
        yield VerdictCandidate(json_object.at, _parse_value(fields, kind), taken, is_object=True)


def _could_be_verdict(value: JSON) -> bool:
    """Return whether an object without the field could be a verdict.

    It has a verdict's name somewhere, or a number.
    """
    if isinstance(value, Mapping):
        return any(
            _NAME.fullmatch(name) or _could_be_verdict(inner) for name, inner in value.items()
        )
    if isinstance(value, list):
        return any(map(_could_be_verdict, value))
    return isinstance(value, bool | int | float)


def _is_closed_once_more(gap: str, behind: str) -> bool:
    """Return whether a brace after an object closes nothing that was opened.

    The object is then within a malformed one.
    """
    opened, closed = re.sub(r"\s", "", gap), re.sub(r"\s", "", behind)
    # Some models write doubled braces; they belong to the object.
    doubled = min(len(opened) - len(opened.rstrip("{")), len(closed) - len(closed.lstrip("}")))
    return any(depth < 0 for depth, _ in brace_depths(closed, doubled))


_ALIKE = {
    **dict.fromkeys("【〔〖〚⟦⟨❲「『", "["),
    **dict.fromkeys("】〕〗〛⟧⟩❳」』", "]"),
    **dict.fromkeys("›≻≫»❯➤→", ">"),
    **dict.fromkeys("‹≺≪«❮←", "<"),
    **dict.fromkeys("≈≡∼", "="),
    **dict.fromkeys("−‐‑‒–—", "-"),
    **dict(
        zip(
            "АВСЕНІКМОРЅТХаеісорѕхуΑΒΕΗΙΚΜΝΟΡΤΧοιν",
            "ABCEHIKMOPSTXaeicopsxyABEHIKMNOPTXoiv",
            strict=True,
        )
    ),
}


class _Folding(dict[int, str]):
    """Map of characters to the plain ones that they look like, computed on first use."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        plain = _ALIKE.get(character) or unicodedata.normalize("NFKC", character)
        if len(plain) != 1 or unicodedata.category(plain)[0] in "CZ":
            plain = " " if unicodedata.category(character)[0] in "CZ" else character
        digit = unicodedata.digit(plain, None)
        self[code] = plain if digit is None or plain.isascii() else str(digit)
        return self[code]


_FOLDING = _Folding({code: chr(code) for code in (*range(32, 127), *b"\n\r\t")})
_UNUSUAL = re.compile(r"[^\n\r\t\x20-\x7e]")


def fold_characters(words: str) -> str:
    """Replace each character by the plain one that it looks like; positions stay."""
    if _UNUSUAL.search(words) is None:
        return words
    return words.translate(_FOLDING)


_DECORATED = r"[\"'*_`)\]\s]{0,6}"
_LINK = (
    rf"{_DECORATED}(?::|=>?|-+>|\s[->]\s|\b(?:is|was|are|(?:should|would|must)\sbe)\b)"
    r"[\"'*_`(\[\s:]{0,6}(?:(?:a|an|now|still|therefore)\s)?[*_`(\[]{0,4}"
)
_OWN = (
    r"(?:(?:so|therefore|hence|thus|in|summary|conclusion|and|my|the|this|final|overall|own|revised"
    r"|total|is)[\W_]+)"
)
_LINE = r"(?m:^)[*_#>|<`\- \t]{0,8}"
_FIRST_PERSON = (
    r"\bI(?:['’]d|\swould|\swill)?(?:\s(?:therefore|thus|also|still))?"
    r"\s(?:give|rate|assign|award|choose|pick|prefer|select|answer|say|go\swith)\b[^.!?\n]{0,40}?\b"
)
_FILLER = re.compile(rf"[\W_]*{_OWN}*\Z", re.IGNORECASE)
_SENTENCE = re.compile(r"[.!?\n]")
_ENDED = re.compile(r"[\"'*_`)\]]*\s*(?:[.!?,;\n]|\Z)")
_LONGEST_BEFORE = 80
BETWEEN = r"[\s\\*_`]{0,4}"
"""What may stand between the signs of a label: white space, escapes and markdown."""
DOUBLE_BRACKETED = rf"\\?\[{BETWEEN}\[(?:[^\[\]\n]{{1,60}}|[^\[\]]{{1,12}})\](?:{BETWEEN}\])?"
"""Anything short in double brackets, also escaped; the last one may be missing."""
NUMBER = r"[-+]?\d{1,9}(?:[.,]\d{1,9})?(?:\s?(?:/|out of|of)\s?\d{1,9}|\s?%)?"
"""A number as a value, perhaps with its scale."""
_NUMBER_WORD = r"(?:zero|one|two|three|four|five|six|seven|eight|nine|ten)\b"
NUMBERS = rf"{NUMBER}|{_NUMBER_WORD}|(?:none|null|n/?a)\b"
"""What stands in the place of a number."""
# "the result is 5" may be about a sum.
SCORE = r"score|rating|grade|verdict|result(?=\W{0,6}[:=])"
"""The names of a score in words."""


_LIST = re.compile(
    r"(?m)^[ \t]*\[\s*-?\d[\d.eE+-]{0,12}(?:\s*,\s*-?\d[\d.eE+-]{0,12})*\s*\][ \t]*$"
)
"""Numbers on lines of their own, which a judge may have written in place of an object."""


class NamedValues:
    """Pattern of stated verdicts: `Score: 2`, "my verdict is no", "I choose B", a lone value."""

    def __init__(self, names: str, values: str, field: str | None = None) -> None:
        """Compile the patterns.

        Args:
            names: the names, as a pattern.
            values: the values, as a pattern without groups.
            field: the name of a field; after it in quotes, any value counts.
        """
        forms = [
            rf"\b(?P<named>{names})\b{_LINK}(?P<value>{values})",
            rf"{_LINE}{_OWN}{{0,3}}(?:{names})\b(?:\s?\([^()\n]{{0,20}}\))?"
            rf"[\W_]{{1,12}}?(?P<titled>{values})",
            rf"{_LINE}{_OWN}{{0,3}}(?:{names})\b[*_`\t ]{{0,4}}:[*_`\t ]{{0,4}}(?P<any>[^\s*_`]+)",
            rf"{_LINE}final\b[*_`\t ]{{0,4}}[:=][*_`\t ]{{0,4}}(?P<final>{values})(?!\s?[<>=&])",
            rf"{_FIRST_PERSON}(?P<given>{values})(?=[^\w\n]*(?:[.!?,;\n]|\Z))",
            rf"(?m:^)(?:[^\w\n]|_|\\\w{{1,9}}\{{){{0,6}}(?P<alone>{values})[^\w\n]{{0,6}}(?m:$)",
        ]
        if field is not None:
            forms.append(rf"[\"'“‘]{field}[\"'”’]\s*:\s*(?P<quoted>[^\s\"'“”‘’,}}]+|\S)")
        self._pattern = re.compile("|".join(forms), re.IGNORECASE)

    def find_in_words(
        self, words: str, meaning: Callable[[str], T | None]
    ) -> Iterator[VerdictCandidate[T]]:
        """Yield the candidates; `meaning` returns a value's verdict, or `None` if it has none."""
        for match in self._pattern.finditer(words):
            form = cast("str", match.lastgroup)
            value = meaning(match[form].strip(".,;*_`"))
            is_stated = form in ("value", "titled", "any", "given") and _is_whole_sentence(
                words, match, form
            )
            yield VerdictCandidate(
                match.span(form), value, is_statement=value is not None and is_stated
            )

    def find_with_lists(
        self, words: str, meaning: Callable[[str], T | None]
    ) -> Iterator[VerdictCandidate[T]]:
        """Yield the candidates in folded words, and lists of numbers, which state no value."""
        plain = fold_characters(words)
        yield from (VerdictCandidate(match.span()) for match in _LIST.finditer(plain))
        yield from self.find_in_words(plain, meaning)


def _is_whole_sentence(words: str, match: re.Match[str], form: str) -> bool:
    """Return whether a sentence says nothing else.

    "My verdict is 0." does; "Its score: 3 for style" does not.
    """
    if _ENDED.match(words, match.end()) is None:
        return False
    before = words[max(0, match.start() - _LONGEST_BEFORE) : match.start()]
    return form != "value" or _FILLER.match(_SENTENCE.split(before)[-1]) is not None
