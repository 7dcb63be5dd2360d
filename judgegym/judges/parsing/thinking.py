"""Thinking and answer in a model's text, split at the markers of each model family.

`thinking_markers.json` has the markers; settings add to them (`thinking_markers`). Thinking is
begun and ended. Or it is only ended, since the template has begun it in the prompt. Or it never
ends, and then there is no answer. Where a server leaves out special tokens, some markers leave a
trace (`assistantfinal`), which is read, too. A marker in quotation marks or in inline code, or in a
JSON object that is all of the text, does not count.

`split_thinking` is the one function for the texts of policies and judges. From a completion the
thinking at its start is removed; the answer is what follows, whatever it contains. Of a judge's
text only what follows its last thinking is read, since a verdict before that is a draft. It ends
before thinking that a later line begins, and before the chat-template tokens that some endpoints
and trainers leave at the end.

`split` has another rule, for valid thinking of a policy in thinking mode: exactly one `<think>` and
one `</think>`, in that order, and after them an answer that is not empty. Text before `<think>` is
allowed, and is no part of the answer. Tags are matched in lower case: `<Think>` is text. Where the
chat template has opened the thinking, `</think>` alone is valid, too. A completion that breaks the
rule has a reason that can be counted.

Guarantees: linear time on any text. `split` strips only the white space around the answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, islice
from pathlib import Path
from string import ascii_lowercase
from typing import Literal, NamedTuple, TypeAlias

from judgegym.llm.template_tokens import strip_trailing_tokens

OPEN = "<think>"
CLOSE = "</think>"

AddedMarkers: TypeAlias = tuple[tuple[str, str], ...]
"""What begins thinking and what ends it, beside the built-in markers."""

_FILE = Path(__file__).with_name("thinking_markers.json")
_TO_OBJECT = re.compile(r"\s*(?:```\w*\s*)?(?=\{)")
_MOST_TRIED = 4
_DECODER = json.JSONDecoder(strict=False)
_QUOTES = frozenset("\"'`\u2018\u2019\u201c\u201d\u00ab\u00bb")
_NEAR = 120
"""Characters around a marker in which it is looked for what quotes it."""
_GOES_ON = re.compile(r"[ \t]+[a-z]|[ \t]*[,;:.)]")
_FENCE = "```"
_GLUED = r"(?=[A-Z][\w'\u2019]*[,.:]?\s[\w\"'(\[{]|[\"(\[{]|[^\x00-\x7f])"
"""What a sentence begins with, unlike the rest of a name such as `analysisResults`."""

ThinkingFault = Literal[
    "no_open_tag",
    "no_close_tag",
    "several_open_tags",
    "several_close_tags",
    "close_before_open",
    "empty_answer",
]


@dataclass(frozen=True, slots=True)
class Thinking:
    """A completion, split into thinking and answer.

    Attributes:
        valid: the format is right and the answer is not empty.
        thinking: the text between the tags, stripped; empty if the completion is invalid.
        answer: the text after `</think>`, stripped; the whole text, stripped, if the completion is
            invalid.
        reason: what is wrong; `None` if valid.
    """

    valid: bool
    thinking: str
    answer: str
    reason: ThinkingFault | None = None


def split(text: str, *, opened_by_template: bool = False) -> Thinking:
    """Split a completion into thinking and answer.

    Args:
        text: the completion as the policy wrote it.
        opened_by_template: the chat template ends the prompt with `<think>` (as those of Qwen3 and
            DeepSeek-R1 do), so that a lone `</think>` is valid too.

    Returns:
        The parts; never raises.
    """
    opens, closes = text.count(OPEN), text.count(CLOSE)
    fault = _find_fault(text, opens, closes, opened_by_template=opened_by_template)
    if fault is not None:
        return Thinking(valid=False, thinking="", answer=text.strip(), reason=fault)
    head, _, tail = text.partition(CLOSE)
    answer = tail.strip()
    if not answer:
        return Thinking(valid=False, thinking="", answer=text.strip(), reason="empty_answer")
    return Thinking(
        valid=True, thinking=head.partition(OPEN)[2 if opens else 0].strip(), answer=answer
    )


def _find_fault(
    text: str, opens: int, closes: int, *, opened_by_template: bool
) -> ThinkingFault | None:
    if opens > 1:
        return "several_open_tags"
    if closes > 1:
        return "several_close_tags"
    if opens == 0 and not (opened_by_template and closes):
        return "no_open_tag"
    if closes == 0:
        return "no_close_tag"
    if opens and text.index(CLOSE) < text.index(OPEN):
        return "close_before_open"
    return None


class ThinkingParts(NamedTuple):
    """Place of a text's answer, and the thinking before it.

    Attributes:
        start: position at which the answer begins.
        end: position at which it ends; the answer is empty if the thinking never ends.
        thinking: the thinking at the start of the text, without its markers.
        is_found: there is thinking before the answer.
        is_ended: the thinking ends; true for a text without thinking.
        mentioned: position at which a judge's answer first mentions a marker that begins thinking;
            `None` if it does not.
    """

    start: int
    end: int
    thinking: str = ""
    is_found: bool = False
    is_ended: bool = True
    mentioned: int | None = None


class _Mark(NamedTuple):
    """A marker in a text: its place, its family, and whether it begins thinking."""

    at: int
    until: int
    family: int
    begins: bool


class ThinkingMarkers:
    """Markers of all families, compiled for searches.

    Markers that begin with a letter are words: their case counts, and they begin thinking only at
    the start of a text. The others are tags, which are matched in any case.
    """

    def __init__(self, added: AddedMarkers = ()) -> None:
        """Read the built-in markers, and add others."""
        families = json.loads(_FILE.read_text(encoding="utf-8"))["families"]
        families += [{"begin": [begin], "end": [end]} for begin, end in added]
        begins, ends, around = list[str](), list[str](), list[str]()
        self._families: dict[tuple[str, bool], int] = {}
        self._later: dict[int, re.Pattern[str]] = {}
        """End markers of families whose ends count only after their beginning."""
        for number, family in enumerate(families):
            stripped = family.get("stripped", {"begin": [], "end": []})
            beginnings, endings = (
                [*family["begin"], *stripped["begin"]],
                [*family["end"], *stripped["end"]],
            )
            self._families |= {(_marker_key(text), True): number for text in beginnings}
            self._families |= {(_marker_key(text), False): number for text in endings}
            begins += beginnings
            around += family.get("answer", ())
            if family.get("alone", True):
                ends += endings
            else:
                self._later[number] = re.compile(_join_patterns(endings))
        self._words = [text for text in ends if _is_word_marker(text)]
        self._ending_words = re.compile(_join_patterns(self._words))
        tags = [text for text in begins if not _is_word_marker(text)]
        tagged = [*tags, *(text for text in ends if not _is_word_marker(text))]
        signs = {text[0] for text in tagged}
        self._tags = {
            sign: re.compile(_join_patterns(text for text in tagged if text[0] == sign))
            for sign in signs
        }
        any_begin, any_tag = _join_patterns(begins, glued=True), _join_patterns(tags)
        self._start = re.compile(rf"\s*({any_begin})")
        self._next_start = re.compile(rf"\s*({any_tag})")
        any_around = _join_patterns(around)
        self._before_answer = re.compile(rf"\s*(?:(?:{any_around})\s*)+")
        self._after_answer = re.compile(rf"(?:{any_around})\s*\Z")

    def split_parts(self, text: str, *, is_judges: bool) -> ThinkingParts:
        """See `split_thinking`."""
        begun = self._start.match(text)
        marks = [*self._find_marks(text, begun)]
        if not marks and begun is None:
            return ThinkingParts(0, len(text))
        quoting = None
        if marks:
            ends = [mark.until for mark in marks if not mark.begins]
            quoting = _find_quoting_object(text, ends)
        if quoting is not None:
            marks = [mark for mark in marks if mark.until <= quoting]
            if not quoting:
                begun = None
        if not is_judges:
            return self._split_completion(text, marks, begun)
        parts = _judge_part(text, marks)
        around = None
        if parts.start:
            around = self._before_answer.match(text, parts.start, parts.end)
        start = parts.start
        if around is not None:
            start = around.end()
        begins = (mark.at for mark in marks if mark.begins)
        mentioned = next((at for at in begins if start <= at < parts.end), None)
        return parts._replace(start=start, mentioned=mentioned)

    def _find_marks(self, text: str, begun: re.Match[str] | None) -> Iterator[_Mark]:
        """Yield the unquoted markers of a text in order.

        Markers that are words count only at its start.
        """
        matches: list[re.Match[str]] = []
        for sign, tags in self._tags.items():
            if sign in text:
                matches += tags.finditer(text)
        started = matches[::-1]
        if begun is not None:
            started.append(begun)
        since = {
            self._families.get((_marker_key(match.group(match.lastindex or 0)), True)): match.end()
            for match in started
        }
        for family, ends in self._later.items():
            if family in since:
                matches += ends.finditer(text, since[family])
        if begun is not None and _is_word_marker(begun[1]):
            yield _Mark(
                begun.start(1),
                begun.end(1),
                self._families[_marker_key(begun[1]), True],
                begins=True,
            )
        if any(word in text for word in self._words):
            matches += self._ending_words.finditer(text)
        matches.sort(key=re.Match.start)
        for match in matches:
            if not _is_quoted(text, *match.span()):
                key = _marker_key(match[0])
                begins = (key, False) not in self._families
                yield _Mark(*match.span(), self._families[key, begins], begins)

    def _split_completion(
        self, text: str, marks: Sequence[_Mark], begun: re.Match[str] | None
    ) -> ThinkingParts:
        """Split off the thinking at a completion's start, also where there are several blocks."""
        start, thoughts, number = 0, list[str](), 0
        if begun is None:
            number = _find_lone_end(text, marks)
            if number == len(marks):
                return ThinkingParts(0, len(text))
            start, thoughts, number = marks[number].until, [text[: marks[number].at]], number + 1
            begun = self._next_start.match(text, start)
        while begun is not None:
            while number < len(marks) and marks[number].until < begun.end(1):
                number += 1
            last = _find_end(marks, number)
            if last is None:
                thinking = "\n\n".join([*thoughts, text[begun.end(1) :]])
                return ThinkingParts(
                    len(text), len(text), thinking.strip(), is_found=True, is_ended=False
                )
            thoughts.append(text[begun.end(1) : marks[last].at])
            start, number = marks[last].until, last + 1
            begun = self._next_start.match(text, start)
        around, end = self._before_answer.match(text, start), len(text)
        if around is not None:
            start = around.end()
        while (closed := self._after_answer.search(text, max(start, end - _NEAR), end)) is not None:
            end = closed.start()
        thinking = "\n\n".join(filter(None, map(str.strip, thoughts)))
        return ThinkingParts(start, end, thinking, is_found=True)


def _find_lone_end(text: str, marks: Sequence[_Mark]) -> int:
    """Return the index of the first marker that ends thinking begun by the template.

    Without one, return the number of marks.
    """
    begun, fences, counted = set[int](), 0, 0
    for number, mark in enumerate(marks):
        fences, counted = fences + text.count(_FENCE, counted, mark.at), mark.at
        if mark.begins:
            begun.add(mark.family)
        elif mark.family not in begun and fences % 2 == 0 and not _is_within_sentence(text, mark):
            return number
    return len(marks)


def _find_end(marks: Sequence[_Mark], first: int) -> int | None:
    """Return the index of the marker that ends the thinking begun at this index.

    `None` without one.

    Nested thinking of the same family ends first. If only another family's marker ends it, that
    marker counts.
    """
    family, depth, last, begun = marks[first].family, 0, None, set[int]()
    foreign_end: int | None = None
    for number, mark in enumerate(marks[first:], first):
        if mark.family == family:
            if mark.begins:
                depth += 1
            else:
                depth, last = depth - 1, number
            if depth <= 0:
                return number
        elif mark.begins:
            begun.add(mark.family)
        elif mark.family not in begun and foreign_end is None:
            foreign_end = number
    if last is None:
        return foreign_end
    return last


def _judge_part(text: str, marks: Sequence[_Mark]) -> ThinkingParts:
    """Return the judge's text after its last thinking.

    It ends before thinking that begins at the start of a line and never ends.
    """
    begun, within, start = dict[int, int](), set[int](), 0
    for mark in marks:
        if mark.begins:
            if _begins_line(text, mark.at, start):
                begun.setdefault(mark.family, mark.at)
            else:
                within.add(mark.family)
            continue
        if mark.family in begun:
            begun = {family: at for family, at in begun.items() if at < begun[mark.family]}
        elif mark.family not in within:
            begun = {}
        within.discard(mark.family)
        start = mark.until
    end = min(begun.values(), default=len(text))
    if begun and not text[start:end].strip():
        return ThinkingParts(len(text), len(text), text.strip(), is_found=True, is_ended=False)
    return ThinkingParts(start, end, text[:start].strip(), is_found=start > 0)


def _begins_line(text: str, at: int, start: int) -> bool:
    """Return whether only white space precedes this place in its line.

    Or between that place and the end of thinking.
    """
    begins = max(start, at - _NEAR)
    _, line_break, line = text[begins:at].rpartition("\n")
    return not line.strip() and bool(line_break or begins == start)


def _is_quoted(text: str, at: int, until: int) -> bool:
    """Return whether a marker stands in quotation marks or in inline code."""
    before, after = text[max(0, at - _NEAR) : at], text[until : until + _NEAR]
    if before[-1:] in _QUOTES and after.lstrip("\\")[:1] in _QUOTES:
        return True
    line = before.rpartition("\n")[2].replace(_FENCE, "")
    return line.count("`") % 2 == 1 and "`" in after.partition("\n")[0].replace(_FENCE, "")


def _is_within_sentence(text: str, mark: _Mark) -> bool:
    """Return whether a sentence continues after a marker, which is then only mentioned."""
    before = text[max(0, mark.at - _NEAR) : mark.at].rstrip(" \t")
    return before[-1:].isalnum() and _GOES_ON.match(text, mark.until) is not None


def _find_quoting_object(text: str, ends: Sequence[int]) -> int | None:
    """Return where an object begins that is all the text after thinking, and quotes markers.

    `None` without one.
    """
    body = strip_trailing_tokens(text).rstrip().removesuffix(_FENCE).rstrip()
    if not body.endswith("}"):
        return None
    openings = ((start, _TO_OBJECT.match(text, start)) for start in (0, *ends))
    begun = ((start, opening.end()) for start, opening in openings if opening)
    for start, brace in islice(begun, _MOST_TRIED):
        try:
            _, end = _DECODER.raw_decode(body, brace)
        except (ValueError, RecursionError):
            continue
        if end == len(body):
            return start
    return None


def _marker_key(marker: str) -> str:
    if _is_word_marker(marker):
        return marker
    return marker.lower()


def _is_word_marker(marker: str) -> bool:
    return marker[0].isalpha() or marker[0] in "/\n"


def _join_patterns(markers: Iterable[str], *, glued: bool = False) -> str:
    """Return the pattern of any of the markers, the longest first.

    Each alternative begins with a literal character, which is found quickly.

    Args:
        markers: the markers.
        glued: a word counts only where its text follows without a space, as a stripped token leaves
            it.
    """
    ordered = sorted(dict.fromkeys(markers), key=lambda marker: (marker[0], -len(marker)))
    patterns = []
    for sign, group in groupby(ordered, key=lambda marker: marker[0]):
        rests = [marker[1:] for marker in group]
        if not _is_word_marker(sign):
            patterns.append(re.escape(sign) + _case_insensitive_pattern({*rests}))
            continue
        escaped = [
            re.escape(remainder) + (_GLUED if glued and remainder[-1].isalpha() else "")
            for remainder in rests
        ]
        first_sign, any_rest = re.escape(sign), "|".join(escaped)
        patterns.append(f"{first_sign}(?:{any_rest})")
    return "|".join(patterns) or "(?!)"


def _case_insensitive_pattern(rests: AbstractSet[str]) -> str:
    """Return the pattern of any of the texts, the longest first, in any case.

    It goes character by character, so that most places fail at the first.
    """
    lowered = {tail[:1].lower() + tail[1:] if tail[:1].isascii() else tail for tail in rests}
    patterns = []
    for sign, group in groupby(sorted(lowered - {""}), key=lambda text: text[0]):
        any_case = re.escape(sign)
        if sign in ascii_lowercase:
            any_case = f"[{sign}" + sign.upper() + "]"
        patterns.append(any_case + _case_insensitive_pattern({member[1:] for member in group}))
    if not patterns:
        return ""
    any_pattern = "|".join(patterns)
    if "" in rests:
        return f"(?:{any_pattern})?"
    return f"(?:{any_pattern})"


@lru_cache(maxsize=16)
def load_markers(added: AddedMarkers = ()) -> ThinkingMarkers:
    """Load the built-in markers, with added ones."""
    return ThinkingMarkers(added)


def split_thinking(
    text: str, added: AddedMarkers = (), *, is_judges: bool = False
) -> ThinkingParts:
    """Split a text of any model into thinking and answer.

    >>> parts = split_thinking("<think>2 + 2 is 4</think>4")
    >>> parts.thinking, "<think>2 + 2 is 4</think>4"[parts.start : parts.end]
    ('2 + 2 is 4', '4')

    Args:
        text: as the model wrote it.
        added: markers beside the built-in ones.
        is_judges: it is a judge's text, in which no thinking may hold a verdict.
    """
    return load_markers(added).split_parts(text, is_judges=is_judges)


class OwnPart(NamedTuple):
    """What a judge wrote after its thinking.

    Attributes:
        text: the judge's own text, without template tokens at its end.
        until_the_end: the same, including thinking that begins within a line and never ends.
        parts: its position in the whole text, and the thinking before it.
    """

    text: str
    until_the_end: str
    parts: ThinkingParts

    @property
    def mentioned(self) -> int | None:
        """Position of the first tag that begins thinking; `None` without one."""
        if self.parts.mentioned is None:
            return None
        return self.parts.mentioned - self.parts.start


@lru_cache(maxsize=16)  # a judge reads several things from one text in a row
def own_part(text: str, added: AddedMarkers = ()) -> OwnPart:
    """Return the part of a judge's text that may hold a verdict: what follows its thinking."""
    parts = split_thinking(text, added, is_judges=True)
    own_text = strip_trailing_tokens(text[parts.start : parts.end])
    stripped = own_text
    if parts.end != len(text):
        stripped = strip_trailing_tokens(text[parts.start :])
    return OwnPart(own_text, stripped, parts)


def cut_thinking(text: str) -> str:
    """Return a judge's text after its thinking."""
    return own_part(text).text
