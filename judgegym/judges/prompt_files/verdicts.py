"""Where the verdict of a reply stands, and which labels it may have.

Guarantees (`judgegym.judges.parsing.candidates`): the last candidate decides; anything behind it that could be another
verdict makes the reply ambiguous, and it has no verdict; a label is never guessed from a part of it.
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
    folded,
    last_candidate,
)
from judgegym.judges.parsing.labels import yes_no_label
from judgegym.judges.parsing.scores import score_in_words, whole_score
from judgegym.judges.parsing.verdict_parser import ParsedVerdict, VerdictField, VerdictParser, integer, one_of
from judgegym.llm.wire import JSON

USUAL_FIELD = "verdict"
"""The field of the verdict in an object, if the rule names none."""
_LONGEST_LINE = 200
_REST = re.compile(rf"[^\r\n]{{0,{_LONGEST_LINE}}}")
_NEXT_LINE = re.compile(rf"\s{{0,20}}[^\r\n]{{0,{_LONGEST_LINE}}}")
_DECORATION = " \t*_`\"'“”"
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
            raise ValueError(f"expected exactly one of after, within and field, found {' and '.join(rules) or 'none'}")
        if not str(getattr(self, rules[0])).strip() or "\n" in str(getattr(self, rules[0])):
            raise ValueError(f"{rules[0]}: expected a word, a tag or a name in one line")
        return self

    @property
    def field_name(self) -> str:
        """The field of the verdict in an object."""
        return self.field or USUAL_FIELD

    def written(self, label: str, *, is_number: bool) -> str:
        """A verdict as the rule asks for it."""
        if self.within is not None:
            return f"[[{label}]]"
        if self.after is not None:
            return f"{self.after} {label}"
        return f'{{"{self.field}": {label if is_number else chr(34) + label + chr(34)}}}'


class VerdictLabels(BaseModel):
    """The labels that a verdict may have, from the worst to the best, with their scores from 0 to 1.

    Attributes:
        scores: by label.
        scale: of labels that are the whole numbers of a scale; else `None`.
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
        """The field of an object that holds one of them."""
        return one_of([*self.scores]) if self.scale is None else integer(*self.scale)

    def from_value(self, value: JSON) -> str | None:
        """The label of a JSON value."""
        if self.scale is not None:
            level = whole_score(value, self.scale)
            return None if level is None else str(level)
        if self.is_yes_no and not isinstance(value, str):
            return yes_no_label(value)
        return self.by_folded_name.get(value.strip().casefold()) if isinstance(value, str) else None

    def from_words(self, words: str) -> str | None:
        """The label that words are, with decoration or a full stop around it."""
        bare = " ".join(words.strip(_DECORATION).rstrip(_PERIOD).strip(_DECORATION).split())
        if self.scale is not None:
            level = score_in_words(bare.strip("()[] "), self.scale)
            return None if level is None else str(level)
        return self.by_folded_name.get(bare.casefold())

    @property
    def by_folded_name(self) -> Mapping[str, str]:
        """The labels by their names without case."""
        return {label.casefold(): label for label in self.scores}

    @property
    def pattern(self) -> str:
        """What could be a label in words."""
        if self.scale is not None:
            return NUMBERS
        names = sorted(self.scores, key=len, reverse=True)
        return "|".join(rf"{re.escape(name)}(?!\w)" for name in names)


def reply_parser(rule: VerdictRule, labels: VerdictLabels) -> VerdictParser[[], str]:
    """Parse the label of a reply; `None` if there is none, or the reply is ambiguous."""
    kind = _kind(rule.model_dump_json(), labels.model_dump_json())
    return VerdictParser(lambda own: last_candidate(own, kind))


@lru_cache(maxsize=64)
def _kind(rule_json: str, labels_json: str) -> VerdictKind[str]:
    rule, labels = VerdictRule.model_validate_json(rule_json), VerdictLabels.model_validate_json(labels_json)
    name = rule.field_name.lower()
    usual = SCORE if labels.scale is not None else f"{SCORE}|judge?ment|decision|label|answers?"
    names = f"{usual}|{re.escape(_bare(rule.after or rule.field or USUAL_FIELD))}"
    named = NamedValues(names, labels.pattern, re.escape(rule.field_name))

    def in_words(words: str) -> Iterator[VerdictCandidate[str]]:
        plain = folded(words)
        if rule.after is not None:
            yield from _behind(rule.after, words, plain, labels)
        elif rule.within is not None:
            yield from _in_brackets(words, plain, labels)
        if rule.field is not None:
            yield from named.with_lists(words, labels.from_words)
        else:
            yield from named.in_words(plain, labels.from_words)

    return VerdictKind(
        name,
        lambda fields: labels.from_value(fields[name]),
        in_words,
        in_text_too=rule.field is None,
        options=[*labels.scores],
    )


def _bare(word: str) -> str:
    """A word or tag without its signs, as a sentence may name it."""
    return " ".join(re.findall(r"\w+", word)) or word


def _behind(word: str, words: str, plain: str, labels: VerdictLabels) -> Iterator[VerdictCandidate[str]]:
    """What stands behind each occurrence of the word: the rest of its line, or the next one if that is empty."""
    for match in re.finditer(re.escape(word), plain, re.IGNORECASE):
        rest = cast("re.Match[str]", _REST.match(words, match.end()))[0]
        if not rest.strip(f"{_DECORATION}:"):
            rest += cast("re.Match[str]", _NEXT_LINE.match(words, match.end() + len(rest)))[0]
        label = labels.from_words(rest.strip().removeprefix(":"))
        is_taken = label is not None and words[slice(*match.span())].casefold() == word.casefold()
        end = match.end() + len(rest.rstrip()) if is_taken else match.end()
        yield VerdictCandidate((match.start(), end), label, taken=is_taken, stated=label is not None, is_full=True)


_BRACKETED = re.compile(rf"{DOUBLE_BRACKETED}|\\?\[\s?[^\[\]\n]{{1,60}}\s?\]")


def _in_brackets(words: str, plain: str, labels: VerdictLabels) -> Iterator[VerdictCandidate[str]]:
    for match in _BRACKETED.finditer(plain):
        written = words[slice(*match.span())]
        inner = written.strip("\\[] \n\t*_`")
        label = labels.from_words(inner)
        is_double = written.startswith("[[") and written.endswith("]]")
        if label is None and not is_double:
            continue  # single brackets hold anything
        is_taken = is_double and label is not None
        yield VerdictCandidate(match.span(), label, taken=is_taken, stated=label is not None)


def check_rule(rule: VerdictRule, labels: VerdictLabels) -> None:
    """Check that replies can hold each label where the rule says.

    Raises:
        ValueError: one cannot be written or told apart there.
    """
    parser = reply_parser(rule, labels)
    for label in labels.scores:
        written = rule.written(label, is_number=labels.scale is not None)
        if parser.find(f"So.\n\n{written}") != ParsedVerdict(label, (5, 5 + len(written))):
            raise ValueError(f"the label {label!r} cannot be read in a reply that ends {written!r}")


def ordered(scores: Mapping[str, float]) -> Sequence[str]:
    """Labels from the worst to the best."""
    return sorted(scores, key=lambda label: scores[label])
