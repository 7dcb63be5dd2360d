"""Parse verdicts that are numbers: ratings, a peer's score, the scores of a listwise judge.

Guarantee of the listwise parser: a score belongs to the id that it was written with. A text has no
verdict at all if an id is missing, surplus, repeated or unknown, if a score is not a number from 0
to 1, or if an object repeats a name.
"""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias, cast

from judgegym.judges.parsing.candidates import (
    DOUBLE_BRACKETED,
    NUMBER,
    NUMBERS,
    SCORE,
    NamedValues,
    VerdictCandidate,
    VerdictKind,
    fold_characters,
    last_candidate,
)
from judgegym.judges.parsing.json_objects import decode_object, find_objects
from judgegym.judges.parsing.thinking import own_part
from judgegym.judges.parsing.verdict_parser import (
    ParsedVerdict,
    VerdictForm,
    entries,
    integer,
    number,
    text_field,
    verdict_parser,
)
from judgegym.llm.wire import JSON, scrub

_IN_WORDS = re.compile(r"(-?[0-9]{1,9})(?:\.0+)? ?(?:%|(?:/|out of) ?([0-9]{1,9}))?")

_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBER_WORDS = {word: str(number) for number, word in enumerate(_WORDS)}
_OF = re.compile(r"\s?(?:out )?of\s?|\s?/\s?")


def parse_whole_score(value: JSON, scale: tuple[int, int]) -> int | None:
    """Parse a score of a scale; `None` if the value is none.

    85, 85.0, "85", "85/100", "85 out of 100" and (for 0 to 100) "85%" are 85; 85.5, 150, -5, true,
    null and "n/a" are no score from 0 to 100.
    """
    low, high = scale
    if isinstance(value, str):
        match = _IN_WORDS.fullmatch(value.strip())
        is_percent = match is not None and "%" in value
        if match is None or match[2] not in (None, str(high)) or (is_percent and scale != (0, 100)):
            return None
        value = int(match[1])
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        return None
    if not low <= value <= high:
        return None
    return int(value)


def parse_stated_score(written: str, scale: tuple[int, int]) -> int | None:
    """Return a score of a scale as a sentence states it: "85", "85/100", "85 of 100", "four"."""
    return parse_whole_score(
        _OF.sub(" out of ", _NUMBER_WORDS.get(written.lower(), written)), scale
    )


# A number at the very end, alone or as "7/10" or "7 out of 10", optionally in markdown or brackets,
# with a final stop. The text before it must not make it part of another number, a negative number,
# a range or a scale.
_SLASHES = r"/\u2044\u2215\uff0f"
_DASHES = r"\-\u2010-\u2015\u2212"
_RATING = re.compile(
    rf"(?:^|[^\w.,+{_SLASHES}{_DASHES}])"
    rf"[*_`(\[]{{0,4}}([1-9][0-9]?)[*_`)\]]{{0,3}}(?: ?[{_SLASHES}] ?10| out of "
    rf"10)?[*_`)\]]{{0,4}}\.?[*_`]{{0,3}}\Z"
)
_NOT_ALONE = re.compile(
    rf"(?:[0-9] ?[{_DASHES}]|[0-9] (?:to|or|and)|[{_SLASHES}]|(?<![^\W\d_])(?:of|scale))[ "
    r"(\[*_`]*\Z"
)
_OFFICIAL_RATING = re.compile(r"\b([1-9]|10)\b\Z")
_LOOKED_AT = 1000  # number of characters read at the end

SCALE = 1, 10
RATING_FORM = VerdictForm(
    "rating", {"explanation": text_field("your judgement in words"), "rating": integer(*SCALE)}
)


@verdict_parser
def rating(own_text: str) -> ParsedVerdict[int] | None:
    """Return the rating from 1 to 10 that a judge ended with.

    "7/10" and "7 out of 10" are 7, "**8**" and "8." are 8; "3.5", "11", "0", "-5", "7-8", "7 or 8"
    and "8.5 / 10" are no rating. An object of `RATING_FORM` at the end is read, too.

    A number is no rating if it is named as something else: "Confidence: 9", "Errors: 2", "more on
    point 3". Where a line names the rating and only lines that name other numbers follow ("Final
    rating: 8", "Confidence: 9"), that rating stands. A number without a name that differs from a
    named rating before it leaves no rating.
    """
    return last_candidate(own_text, _KIND)


_RATING_NAME = r"(?:rating|score|grade|verdict|judge?ment|overall|total|result|mark)"
_RATED_IN_WORDS = NamedValues(rf"(?:(?:final|overall)\s)?{_RATING_NAME}", NUMBERS)
_NAMES_A_RATING = re.compile(
    rf"{_RATING_NAME}|final|assessment|evaluation|quality|revised|corrected|adjusted|points"
    r"|\b(?:rate|give|deserve|award|"
    r"assign)|bewertung|note\b|nota\b|puntu|valoraci|calificaci|评分|分数|得分|总分|評価|点数|점수|평점|оценк|балл",
    re.IGNORECASE,
)
_FINAL = re.compile(r"(?:final|overall)\b[^\n]{0,20}\Z", re.IGNORECASE)
_LONGEST_NAME = 40
_SENTENCE_END = re.compile(r"[.!?]\s")
_NAMED_LINE = re.compile(
    r"[\s*_#>•`-]{0,9}(?:\d{1,2}[.)]\s)?[*_]{0,3}(?P<name>[^\W\d](?:\w|[ '’/&-]){0,40}?)[*_`]{0,3}"
    r"(?:\s?\([^()\n]{1,30}\))?[*_]{0,3}"
    r"\s?[:=][*_`\s(\[]{0,6}(?P<value>[-+~≈]?\d{1,9}(?:[.,]\d{1,9})?)\s?(?:%|(?:/|out "
    r"of|of)\s?\d{1,9})?"
    r"(?:\s[^\W\d]{1,12})?[*_`)\].\s]{0,6}"
)
"""A line that names a number: `**Confidence (of 10):** 9`."""
_OTHER_NAME = re.compile(
    r"\b(?:confiden\w+|certain\w+|uncertain\w+|errors?|mistakes?|issues?|problems?|bugs?|faults?"
    r"|flaws?|typos?|"
    r"strengths?|weakness\w*|pros|cons|tokens?|words?|length|lines?|sentences?|paragraphs?"
    r"|characters?|pages?|count|number|"
    r"amount|previous|prior|earlier|initial|old|first|former|original|baseline|reference|minimum"
    r"|maximum|min|max|lowest|"
    r"highest|average|mean|median|difficulty|time|minutes?|seconds?|hours?|years?|version|steps?"
    r"|points?|questions?|"
    r"items?|sections?|parts?|examples?|options?|criteri\w+|claims?|facts?|citations?|sources?"
    r"|references|attempts?|turns?|"
    r"deductions?|penalt\w+|bonus|violations?|hallucinations?|omissions?|konfidenz|fehler|erreurs?"
    r"|confiance|confianza|"
    r"errores)\b|置信度|错误|信頼度|誤り",
    re.IGNORECASE,
)
"""What has a number and is no rating."""
_COUNTED = re.compile(
    r"\b(?:points?|steps?|items?|questions?|sections?|parts?|paragraphs?|lines?|sentences?"
    r"|examples?|options?|claims?|"
    r"criteri(?:on|a)|figures?|tables?|chapters?|pages?|versions?|equations?|bullets?|numbers?"
    r"|rules?|tasks?|turns?|"
    r"requirements?|instructions?|footnotes?|notes?|citations?|appendix|no\.|nr\.|#|punkt|schritt"
    r"|frage|étape|"
    r"confidence(?:\s(?:is|of|at|level))*|certainty(?:\s(?:is|of|at))*)[ (#*_`]{1,4}\Z",
    re.IGNORECASE,
)
"""Before a number: it counts or numbers something else."""
_AGAIN = re.compile(
    r"\b(?:wait|actually|reflection|reconsider\w*|revis\w+|second\sthoughts?|correct\w*|instead"
    r"|rather|however|but|"
    r"chang\w+|therefore|so|final\w*|overall|conclu\w+|on\sbalance|all\sin\sall|sum)\b",
    re.IGNORECASE,
)
"""Between a first thought and the rating."""
_LONGEST_TAIL = 12
"""Lines at the end that may name other numbers."""


def _find_in_words(words: str) -> Iterator[VerdictCandidate[int]]:
    """Yield named ratings and numbers that could be ratings, then the rating at the end."""
    plain = fold_characters(words)
    stated = []
    if _NAMES_A_RATING.search(plain):
        named = _RATED_IN_WORDS.find_in_words(plain, lambda value: parse_stated_score(value, SCALE))
        stated = [candidate for candidate in named if candidate.is_statement]
    until = _end_without_other_numbers(words, stated)
    last = _find_last_score(words[:until])
    yield from (replace(statement, is_statement=False, is_full=True) for statement in stated)
    if last is None:
        yield from _find_last_at_line_end(words)
        return
    yield from _find_unnamed_numbers(words, last.at[0])
    is_named = (
        _NAMES_A_RATING.search(words, words.rfind("\n", 0, last.at[0]) + 1, last.at[0]) is not None
    )
    if _is_another_number(words[:until], last.at[0], is_named=is_named):
        return
    preceding = (earlier for earlier in reversed(stated) if earlier.at[1] <= last.at[0])
    before = next((earlier for earlier in preceding if earlier.value != last.value), None)
    if before is not None:
        is_final = _is_final(plain, before) and not _is_final(plain, last)
        is_unnamed = not is_named and not _AGAIN.search(plain, before.at[1], last.at[0])
        if is_final or is_unnamed:
            return
    yield last


def _is_final(plain: str, named: VerdictCandidate[int]) -> bool:
    return _FINAL.search(plain[max(0, named.at[0] - _LONGEST_NAME) : named.at[0]]) is not None


def _end_without_other_numbers(words: str, stated: list[VerdictCandidate[int]]) -> int:
    """Return where a text ends without lines of other numbers after a named rating.

    Without such lines it is the end of the text.
    """
    last = max((candidate.at[1] for candidate in stated), default=None)
    if last is None:
        return len(words)
    line_end = words.find("\n", last)
    tail = "" if line_end < 0 else words[line_end:]
    lines = [line for line in tail.splitlines() if line.strip()]
    matches = [_NAMED_LINE.fullmatch(line) for line in lines[: _LONGEST_TAIL + 1]]
    are_others = 0 < len(lines) <= _LONGEST_TAIL and all(
        match is not None and _OTHER_NAME.search(match["name"]) for match in matches
    )
    if are_others:
        return line_end
    return len(words)


def _is_another_number(words: str, start: int, *, is_named: bool) -> bool:
    """Return whether the number at a text's end is named as something else than the rating."""
    line_start = words.rfind("\n", 0, start) + 1
    if _COUNTED.search(words, line_start, start):
        return True
    sentence = max(
        (match.end() for match in _SENTENCE_END.finditer(words, line_start, start)),
        default=line_start,
    )
    line = _NAMED_LINE.fullmatch(words, sentence)
    if line is None:
        return False
    if _OTHER_NAME.search(line["name"]):
        return True
    above = words[:line_start].rstrip().rpartition("\n")[2]
    beside = _NAMED_LINE.fullmatch(above)
    return not is_named and beside is not None and not _NAMES_A_RATING.search(line["name"])


def _find_unnamed_numbers(words: str, until: int) -> Iterator[VerdictCandidate[int]]:
    """Yield numbers alone in their lines, and those of the last line, before a place."""
    last_line = words.rfind("\n", 0, until) + 1
    alone = deque(_ALONE.finditer(words, 0, last_line), _MOST_NUMBERS)
    beside = deque(_NUMBER.finditer(words, last_line, until), _MOST_NUMBERS)
    for match in (*alone, *beside):
        yield VerdictCandidate(match.span("number"), int(match["number"]), is_full=True)


def _find_last_at_line_end(words: str) -> Iterator[VerdictCandidate[int]]:
    end = len(words)
    for line in reversed(words.splitlines(keepends=True)):
        end -= len(line)
        candidate = _find_last_score(line)
        if candidate is not None:
            yield VerdictCandidate(
                (candidate.at[0] + end, candidate.at[1] + end), candidate.value, is_statement=True
            )
            return


_MOST_NUMBERS = 50
_NUMBER = re.compile(r"(?<![\w.,/-])(?P<number>[1-9]|10)(?![\w%/-]|[.,]\d)")
_ALONE = re.compile(
    r"(?m:^)[ \t]*[*_`(\[]{0,4}(?P<number>[1-9]|10)[*_`)\]]{0,4}(?:\s?(?:/|out "
    r"of)\s?10)?[*_`)\].]{0,4}[ \t]*"
    r"(?:<[^<>\n]{1,40}>[ \t]*){0,3}(?m:$)"
)


def _find_last_score(own_text: str) -> VerdictCandidate[int] | None:
    ending = " ".join(own_text[-_LOOKED_AT:].split())
    match = _RATING.search(ending)
    if match is None or _NOT_ALONE.search(ending[: match.start(1)]):
        return None
    value = int(match[1])
    if not 1 <= value <= 10:
        return None
    end = _end_before(own_text, len(ending) - match.end(1) - ending.count(" ", match.end(1)))
    return VerdictCandidate((end - len(match[1]), end), value, is_exact=True, is_statement=True)


def _end_before(text: str, signs: int) -> int:
    """Return where the text ends before its last `signs` signs; white space is no sign."""
    end = len(text.rstrip())
    for _ in range(signs):
        end = len(text[: end - 1].rstrip())
    return end


_KIND: VerdictKind[Any] = VerdictKind(
    "rating",
    lambda fields: parse_whole_score(fields["rating"], SCALE),
    _find_in_words,
    has_text_form=True,
    options=range(SCALE[0], SCALE[1] + 1),
)


_BRACKETED = re.compile(rf"{DOUBLE_BRACKETED}|\\?\[\s?[0-9.]{{1,6}}\s?\]")
_RATED = re.compile(r"\[\[([1-9](?:\.[0-9]{1,3})?|10(?:\.0{1,3})?)\]\]")


@verdict_parser
def bracketed_rating(own_text: str) -> ParsedVerdict[float] | None:
    """Return the rating from 1 to 10 at the end in double brackets: `[[7]]`, `[[7.5]]`.

    The last candidate counts (`judgegym.judges.parsing.candidates`): with `[[11]]`, `[[7/10]]`,
    `[6]` or "Score: 6" after a rating there is none. An object of `RATING_FORM` at the end is read,
    too.

    Source:
        lm-sys/FastChat, the pattern of MT-Bench's ratings.
    """
    return last_candidate(own_text, replace(_KIND, find_in_words=_find_in_brackets))


def _find_in_brackets(words: str) -> Iterator[VerdictCandidate[Any]]:
    plain = fold_characters(words)
    for match in _BRACKETED.finditer(plain):
        exact = _RATED.fullmatch(words, *match.span())
        value = None
        if exact is not None:
            value = float(exact[1])
        yield VerdictCandidate(
            match.span(), value, is_exact=value is not None, is_statement=value is not None
        )
    yield from _NAMED.find_in_words(plain, lambda written: parse_stated_score(written, SCALE))


def rating_official(text: str) -> int | None:
    """Return the rating as RewardBench-2's code reads it; `None` where that says −1.

    For parity with published numbers only: "7/10" is 10 and "-5" is 5.

    Source:
        allenai/reward-bench, its ratings of the Ties subset.
    """
    ending = text.rstrip()
    match = _OFFICIAL_RATING.search(ending, max(0, len(ending) - 2))
    if not match:
        return None
    return int(match.group(1))


class ScoreObject(NamedTuple):
    """A peer's score and its reason."""

    score: int
    reasoning: str | None


PEER_FORM = VerdictForm(
    "peer_score",
    {
        "reasoning": text_field("one-sentence justification referencing rubric"),
        "score": integer(0, 100),
    },
)
_NAMED = NamedValues(SCORE, NUMBERS, "score")


@verdict_parser
def score_object(
    own_text: str, scale: tuple[int, int] = (0, 100)
) -> ParsedVerdict[ScoreObject] | None:
    """Return a peer's score from a JSON object `{"reasoning", "score"}`.

    The last candidate of the text counts.

    Returns:
        `None` also if its score is not usable (`whole_score`), or the object may be a quotation
        (`judgegym.judges.parsing.candidates`).
    """

    def find_in_words(words: str) -> Iterator[VerdictCandidate[int]]:
        return _NAMED.find_with_lists(words, lambda value: parse_stated_score(value, scale))

    parsed = last_candidate(
        own_text,
        VerdictKind(
            "score", lambda fields: parse_whole_score(fields["score"], scale), find_in_words
        ),
    )
    if parsed is None or parsed.at is None:
        return None
    reasoning = (decode_object(own_text[slice(*parsed.at)]) or {}).get("reasoning")
    return parsed.replace_value(
        ScoreObject(parsed.value, scrub(reasoning) if isinstance(reasoning, str) else None)
    )


LISTWISE_CHARACTERS_READ = 40_000
"""Characters read at the end of a text: the object has an entry for each answer."""
CHARACTERS_PER_ENTRY = 1_000
"""Of a group so large that this for each answer is more, so many are read."""

_ENTRY = {
    "id": text_field("id of an answer"),
    "explanation": text_field("why"),
    "score": number("number from 0 to 1"),
}
LISTWISE_FORM = VerdictForm("listwise_scores", {"scores": entries(_ENTRY)})
"""A form without ids, which would make each schema new: the parser counts them."""

_MOST_NAMED = 5
_LONGEST_NAMED = 30
_AMBIGUOUS = "there is a verdict before `<think>`, or another such tag, and another one after it"
_NOT_THE_LAST = "the JSON object is not the last thing in the text that could be a verdict"


class ScoredAnswer(NamedTuple):
    """A judge's score of one answer, from 0 to 1, and why."""

    score: float
    explanation: str


ListwiseScores: TypeAlias = Mapping[str, ScoredAnswer]
"""By id."""


@verdict_parser
def listwise_scores(own_text: str, ids: Sequence[str]) -> ParsedVerdict[ListwiseScores] | None:
    """Return the scores of a JSON object `{"scores": [{"id", "explanation", "score"}, …]}`.

    The last candidate of the text counts.

    Args:
        own_text: the judge's own text.
        ids: the ids of all answers that the judge was shown.

    Returns:
        A score for every id; `None` also if the object may be a quotation
        (`judgegym.judges.parsing.candidates`).
    """
    return last_candidate(own_text, _listwise_kind(ids))


def listwise_fault(text: str, ids: Sequence[str]) -> str:
    """Describe why `listwise_scores` finds no verdict, in words for the judge."""
    part = own_part(text)
    objects = find_objects(part.text, reading_limit(len(ids)))
    match = next((match for match in objects if "scores" in match.fields), None)
    if match is None:
        return 'there is no JSON object with the field "scores"'
    try:
        scores = _parse_fields(_STRICT.decode(match.written), ids)
    except _RepeatedName as error:
        return f"a JSON object has the field {error} twice"
    if isinstance(scores, str):
        return scores
    if part.mentioned is None:
        return _NOT_THE_LAST
    return _AMBIGUOUS


def _listwise_kind(ids: Sequence[str]) -> VerdictKind[ListwiseScores]:
    def parse_fields(fields: Mapping[str, JSON]) -> ListwiseScores | None:
        scores = _parse_fields(fields, ids)
        if isinstance(scores, str):
            return None
        return scores

    def find_in_words(words: str) -> Iterator[VerdictCandidate[ListwiseScores]]:
        return _named_values(tuple(ids)).find_with_lists(words, lambda _: None)

    return VerdictKind(
        "scores",
        parse_fields,
        find_in_words,
        characters_read=reading_limit(len(ids)),
        decode=_decode,
    )


def _decode(written: str) -> Mapping[str, JSON] | None:
    try:
        fields: Mapping[str, JSON] = _STRICT.decode(written)
    except _RepeatedName:
        return None
    return fields


@lru_cache(maxsize=16)
def _named_values(ids: tuple[str, ...]) -> NamedValues:
    return NamedValues("|".join(("scores?", *map(re.escape, ids))), NUMBER, "scores?")


def reading_limit(entries: int) -> int:
    """Return how many characters are read at the end of a text with so many entries."""
    return max(LISTWISE_CHARACTERS_READ, CHARACTERS_PER_ENTRY * entries)


class _RepeatedName(ValueError):
    """An object repeats a name, so that its value is ambiguous."""


def _parse_fields(fields: Mapping[str, JSON], ids: Sequence[str]) -> ListwiseScores | str:
    """Return the scores of an object, or what is wrong with it."""
    entries = fields["scores"]
    if not isinstance(entries, list):
        return '"scores" is not a list'
    if not all(isinstance(entry, dict) and isinstance(entry.get("id"), str) for entry in entries):
        return 'an entry of "scores" is not a JSON object with the "id" of an answer'
    shown, counts = {*ids}, Counter(cast("str", entry["id"]) for entry in entries)
    unscored = dict.fromkeys(entry["id"] for entry in entries if not _is_score(entry.get("score")))
    faults = (
        ("these ids are missing: ", [name for name in ids if name not in counts]),
        ("these ids occur more than once: ", [name for name in ids if counts[name] > 1]),
        ("these are not ids of answers: ", [_quote(name) for name in counts if name not in shown]),
        (
            "the scores of these ids are not numbers from 0 to 1: ",
            [name for name in ids if name in unscored],
        ),
    )
    wrong = [fault + _join_names(which) for fault, which in faults if which]
    if wrong:
        return "; ".join(wrong)
    return {
        entry["id"]: ScoredAnswer(float(entry["score"]), entry_text(entry, "explanation"))
        for entry in entries
    }


def _is_score(value: JSON) -> bool:
    # False for NaN.
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def entry_text(entry: Mapping[str, JSON], name: str) -> str:
    """Return the text of an entry's field; empty if there is none."""
    value = entry.get(name)
    if not isinstance(value, str):
        return ""
    return scrub(value).strip()


def _quote(unknown: str) -> str:
    short = unknown
    if len(unknown) > _LONGEST_NAMED:
        short = f"{unknown[:_LONGEST_NAMED]}…"
    return json.dumps(scrub(short), ensure_ascii=False)


def _join_names(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    suffix = f" and {more} more" if more > 0 else ""
    return ", ".join(names[:_MOST_NAMED]) + suffix


def _reject_repeated_names(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    fields: dict[str, JSON] = {}
    for name, value in pairs:
        lowered = name.lower()
        if lowered in fields:
            raise _RepeatedName(_quote(name))
        fields[lowered] = value
    return fields


_STRICT = json.JSONDecoder(strict=False, object_pairs_hook=_reject_repeated_names)
