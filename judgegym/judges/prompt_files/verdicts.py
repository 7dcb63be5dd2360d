"""Verdict rules of prompt files: where the verdict of a reply is, and its possible labels.

Guarantees (`judgegym.judges.parsing.candidates`): the last candidate decides; anything after it
that could be another verdict makes the reply ambiguous, so that it has no verdict; a label is never
guessed from a part of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal, cast

from pydantic import BaseModel, ConfigDict, model_validator
from typing_extensions import Self

from judgegym.judges.core.judgment import Scale
from judgegym.judges.parsing.candidates import (
    DOUBLE_BRACKETED,
    NUMBERS,
    SCORE,
    NamedValues,
    VerdictCandidate,
    VerdictKind,
    fold_characters,
    last_candidate,
)
from judgegym.judges.parsing.json_objects import USUAL_SIGNS, ObjectSigns
from judgegym.judges.parsing.labels import yes_no_label
from judgegym.judges.parsing.scores import parse_stated_score, parse_whole_score
from judgegym.judges.parsing.verdict_parser import (
    CRITIQUE,
    ParsedVerdict,
    VerdictField,
    VerdictParser,
    choice_field,
    integer,
)
from judgegym.llm import wire
from judgegym.llm.wire import JSON

EXPLANATION = "explanation"
"""The field of the reasons, if an object replaces the rule's own form."""
DEFAULT_FIELD = "verdict"
"""The default field of the verdict in an object."""
_MAX_LINE_LENGTH = 200
_REST_OF_LINE = re.compile(rf"[^\r\n]{{0,{_MAX_LINE_LENGTH}}}")
_NEXT_LINE = re.compile(rf"\s{{0,20}}[^\r\n]{{0,{_MAX_LINE_LENGTH}}}")
_DECORATION = " \t*_`\"'“”"
_LABEL_WORDS = "judge?ment|decision|label|answers?"
_FOREIGN_VERDICT_WORDS = fold_characters(
    "вердикт|оценка|urteil|bewertung|veredicto|calificación|puntuación|评分|评级|结论|判定|評価|判断|판정|평가"
)
"""Words for a verdict in other languages, folded."""
_PERIOD = ".。!"


class VerdictRule(BaseModel):
    """Where the verdict stands: exactly one of these.

    Attributes:
        after: the word or tag before it, such as `SCORE:`; the verdict is the rest of that line.
        within: `brackets`, for `[[label]]`.
        field: the field of a JSON object.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    after: str | None = None
    within: Literal["brackets"] | None = None
    field: str | None = None

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        rules = [name for name in ("after", "within", "field") if getattr(self, name) is not None]
        if len(rules) != 1:
            rule_list = " and ".join(rules) or "none"
            raise ValueError(f"expected exactly one of after, within and field, found {rule_list}")
        if not str(getattr(self, rules[0])).strip() or "\n" in str(getattr(self, rules[0])):
            raise ValueError(f"{rules[0]}: expected a word, a tag or a name in one line")
        if self.field is not None and self.field.casefold() in (CRITIQUE, EXPLANATION):
            raise ValueError(
                f"field: {self.field} holds the judge's words where it replies with an object; "
                "take another"
            )
        return self

    @property
    def field_name(self) -> str:
        """The field of the verdict in an object."""
        return self.field or DEFAULT_FIELD

    @property
    def closing(self) -> str:
        """The closing of an opening word: `</score>`, or a bracket."""
        word = (self.after or "").strip() or " "
        if re.fullmatch(r"<[\w-]+>", word):
            return f"</{word[1:]}"
        return {"{": "}", "[": "]", "(": ")"}.get(word[-1], "")

    def format_verdict(self, label: str, *, is_number: bool) -> str:
        """Format a verdict as the rule asks for it."""
        if self.within is not None:
            return f"[[{label}]]"
        if self.after is not None:
            if self.closing:
                return f"{self.after}{label}{self.closing}"
            return f"{self.after} {label}"
        return wire.dumps({str(self.field): int(label) if is_number else label}).decode()


class VerdictLabels(BaseModel):
    """The labels of a verdict, from the worst to the best, with their scores from 0 to 1.

    Attributes:
        scores: by label.
        scale: the scale, if the labels are its whole numbers; else `None`.
    """

    model_config = ConfigDict(frozen=True)

    scores: Mapping[str, float]
    scale: Scale | None = None

    @property
    def is_yes_no(self) -> bool:
        """Whether the labels are yes and no."""
        return {*self.scores} == {"yes", "no"}

    @property
    def form(self) -> VerdictField:
        """The field of an object that holds a label."""
        if self.scale is None:
            return choice_field([*self.scores])
        return integer(*self.scale)

    def from_value(self, value: JSON) -> str | None:
        """Parse the label of a JSON value."""
        if self.scale is not None:
            level = parse_whole_score(value, self.scale)
            if level is None:
                return None
            return str(level)
        if self.is_yes_no and not isinstance(value, str):
            return yes_no_label(value)
        is_word = isinstance(value, str | int | float) and not isinstance(value, bool)
        if is_word:
            return self.labels_by_name.get(str(value).strip().casefold())
        return None

    def from_words(self, words: str) -> str | None:
        """Parse the label of words, with decoration or a full stop around it."""
        bare = " ".join(words.strip(_DECORATION).rstrip(_PERIOD).strip(_DECORATION).split())
        if self.scale is not None:
            number = bare.strip("()[] ").replace("−", "-")
            level = parse_stated_score(
                number.removeprefix("+") if self.scale.low < 0 else number, self.scale
            )
            if level is None:
                return None
            return str(level)
        return self.labels_by_name.get(bare.casefold()) or self.labels_by_name.get(
            bare.strip("()[] ").casefold()
        )

    def find_stated(self, words: str) -> str | None:
        """Find the label that folded words state: the label itself, or one that looks like it."""
        if self.scale is not None:
            return self.from_words(words)
        bare = words.strip(_DECORATION).rstrip(_PERIOD).strip(_DECORATION).casefold()
        return next(
            (label for label in self.scores if fold_characters(label).casefold() == bare), None
        )

    @property
    def labels_by_name(self) -> Mapping[str, str]:
        """The labels by their names in lower case."""
        return {label.casefold(): label for label in self.scores}

    @property
    def pattern(self) -> str:
        """The pattern of a possible label in folded words."""
        if self.scale is not None:
            return NUMBERS
        names = sorted(map(fold_characters, self.scores), key=len, reverse=True)
        return "|".join(rf"{re.escape(name)}(?!\w)" for name in names)


def reply_parser(
    rule: VerdictRule, labels: VerdictLabels, titles: Sequence[str] = ()
) -> VerdictParser[[], str]:
    """Make the parser of a reply's label.

    It returns `None` if there is no label, or the reply is ambiguous.

    Args:
        rule: where it stands.
        labels: what it may be.
        titles: the titles of the prompt's sections; an invented next task may begin with one.
    """
    kind = _make_kind(rule.model_dump_json(), labels.model_dump_json(), tuple(titles))
    return VerdictParser(lambda text: last_candidate(text, kind))


@lru_cache(maxsize=64)
def _make_kind(rule_json: str, labels_json: str, titles: tuple[str, ...]) -> VerdictKind[str]:
    rule = VerdictRule.model_validate_json(rule_json)
    labels = VerdictLabels.model_validate_json(labels_json)
    name = rule.field_name.lower()
    if labels.scale is not None:
        usual_names = f"{SCORE}|{_FOREIGN_VERDICT_WORDS}"
    else:
        usual_names = f"{SCORE}|{_FOREIGN_VERDICT_WORDS}|{_LABEL_WORDS}"
    names = "|".join(
        [
            usual_names,
            *map(
                re.escape, _bare_words(fold_characters(rule.after or rule.field or DEFAULT_FIELD))
            ),
        ]
    )
    named_values = NamedValues(names, labels.pattern, re.escape(fold_characters(rule.field_name)))
    tagged = re.compile(
        rf"[\[(<{{][\s\\]?(?:{names})[\s\\]?[\])>}}]\W{{0,6}}(?P<value>{labels.pattern})",
        re.IGNORECASE,
    )

    def find_candidates(words: str) -> Iterator[VerdictCandidate[str]]:
        plain = fold_characters(words)
        if rule.after is not None:
            yield from _find_behind(rule.after.strip(), rule.closing, words, plain, labels)
        elif rule.within is not None:
            yield from _find_bracketed(words, plain, labels)
        for match in tagged.finditer(plain):
            label = labels.find_stated(match["value"])
            yield VerdictCandidate(match.span(), label, is_statement=label is not None)
        if rule.field is not None:
            yield from named_values.find_with_lists(words, labels.find_stated)
        else:
            yield from named_values.find_in_words(plain, labels.find_stated)

    return VerdictKind(
        name,
        lambda fields: labels.from_value(fields[name]),
        find_candidates,
        has_text_form=rule.field is None,
        options=[*labels.scores],
        signs=USUAL_SIGNS if rule.field is None else ObjectSigns.from_name(rule.field),
        headings=_heading_pattern(titles) if titles else None,
    )


def _heading_pattern(titles: Sequence[str]) -> re.Pattern[str]:
    """Return the pattern of markers with one of these titles, in any style, perhaps with a tag."""
    title_list = "|".join(map(re.escape, titles))
    title = rf"(?:{title_list})(?:[ \t][0-9a-f]{{12}})?"
    return re.compile(
        rf"(?m:^)[ \t>*_]*(?:(?:#{{1,6}}[ \t]*|\[|<\|)?{title}(?:\]|\|>|:)?[*_: "
        rf"\t]*(?m:$)|{title}[*_]*\s?:)",
        re.IGNORECASE,
    )


def _bare_words(word: str) -> Sequence[str]:
    """Return a word or tag as a sentence may name it, and the last one of several words."""
    words = re.findall(r"\w+", word)
    return [" ".join(words) or word, *(words[-1:] if len(words) > 1 else ())]


def _find_behind(
    word: str, closing: str, words: str, plain: str, labels: VerdictLabels
) -> Iterator[VerdictCandidate[str]]:
    """Yield the candidates after each occurrence of a word.

    A candidate is the rest of the line, or the next line if that is empty.
    """
    decoration = re.escape(_DECORATION)
    beginning = re.compile(rf"[{decoration}:\s]{{0,9}}(?:{labels.pattern})", re.IGNORECASE)
    boundary = (
        r"(?<!\w)" if word[0].lower() != word[0].upper() else ""
    )  # Chinese words are not separated
    for match in re.finditer(boundary + re.escape(fold_characters(word)), plain, re.IGNORECASE):
        line_rest = cast("re.Match[str]", _REST_OF_LINE.match(words, match.end()))[0]
        if not line_rest.strip(f"{_DECORATION}:"):
            line_rest += cast(
                "re.Match[str]", _NEXT_LINE.match(words, match.end() + len(line_rest))
            )[0]
        value, closed = _split_at_closing(closing, line_rest) if closing else (line_rest, "")
        label = labels.from_words(value.strip().removeprefix(":"))
        is_taken = label is not None and _normalize(words[slice(*match.span())]) == _normalize(word)
        opening_match = beginning.match(plain, match.end())
        end = match.end() if opening_match is None else opening_match.end()
        if is_taken:
            if closed:
                written = f"{value}{closed}"
            else:
                written = value.rstrip(f"{_DECORATION}{_PERIOD}\r\n")
            end = match.end() + len(written)
        yield VerdictCandidate(
            (match.start(), end),
            label,
            is_exact=is_taken,
            is_statement=label is not None,
            is_full=True,
        )


def _split_at_closing(closing: str, text: str) -> tuple[str, str]:
    """Split a text at its closing; return the part before, and the closing as written."""
    match = re.search(re.escape(closing), text, re.IGNORECASE)
    if match is None:
        return (text, "")
    return (text[: match.start()], match[0])


def _normalize(word: str) -> str:
    """Normalize a word: ignore case, and accept either colon."""
    return word.casefold().replace("：", ":")


_BRACKETED = re.compile(rf"{DOUBLE_BRACKETED}|\\?\[\s?[^\[\]\n]{{1,60}}\s?\]")


def _find_bracketed(
    words: str, plain: str, labels: VerdictLabels
) -> Iterator[VerdictCandidate[str]]:
    for match in _BRACKETED.finditer(plain):
        written = words[slice(*match.span())]
        inner = written.strip("\\[] \n\t*_`")
        label = labels.from_words(inner)
        is_double = written.startswith("[[") and written.endswith("]]")
        if label is None and not is_double:
            continue  # single brackets may hold anything
        is_taken = is_double and label is not None
        yield VerdictCandidate(
            match.span(), label, is_exact=is_taken, is_statement=label is not None
        )


def check_rule(rule: VerdictRule, labels: VerdictLabels) -> None:
    """Check that a reply can hold each label where the rule says.

    Raises:
        ValueError: a label cannot be written or recognised there.
    """
    parser = reply_parser(rule, labels)
    for label in labels.scores:
        verdict = rule.format_verdict(label, is_number=labels.scale is not None)
        if parser.find(f"So.\n\n{verdict}") != ParsedVerdict(label, (5, 5 + len(verdict))):
            raise ValueError(
                f"verdict: the label {label!r} cannot be read in a reply that ends {verdict!r}"
            )


def sort_labels(scores: Mapping[str, float]) -> Sequence[str]:
    """Sort labels from the worst to the best."""
    return sorted(scores, key=lambda label: scores[label])
