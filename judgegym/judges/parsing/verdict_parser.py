"""Verdicts with their place in the judge's text, their parsers, and verdict forms.

Guarantee: the place is that of the match, or of the JSON object, from which the value was taken, in
the whole text as the judge wrote it. Thinking before it is counted, and white space that a parser
folds is not lost.

A verdict form is a verdict as a JSON object: the one definition of what the prompt says, the schema
enforces and the parser reads. With `judge_output=json_schema` a request carries the schema as
`response_format`, and the prompt ends with the form in words, since an endpoint that enforces a
schema does not show it to the model. The fields are in the order in which the judge writes them:
reasons first, the verdict last, so that the reasons can lead to it.

The schemas use what all endpoints have in common: objects whose fields are all required and that
have no others, strings, arrays, numbers, and enumerations in place of ranges. OpenAI's strict mode,
Anthropic, vLLM, SGLang and llama.cpp accept those; `minimum`, `maximum`, `minItems` and `maxLength`
are refused by some of them. A schema does not depend on what is judged, because endpoints compile
each new schema.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Concatenate, Generic, NamedTuple, ParamSpec, TypeAlias, TypeVar

from judgegym.judges.parsing.thinking import own_part
from judgegym.llm import wire
from judgegym.llm.template_tokens import strip_trailing_tokens
from judgegym.llm.wire import JSON, Message

P = ParamSpec("P")
T = TypeVar("T")
OtherT = TypeVar("OtherT")

Place: TypeAlias = tuple[int, int]
"""From where to where in a text, in code points."""


@dataclass(frozen=True)  # no slots: with them a generic class cannot be called as Class[T](…)
class ParsedVerdict(Generic[T]):
    """Verdict with the place in the text where it was read.

    The place is `None` if the verdict was not read from one place.
    """

    value: T
    at: Place | None = None

    def replace_value(self, value: OtherT) -> ParsedVerdict[OtherT]:
        """Return another value that was read in the same place."""
        return ParsedVerdict(value, self.at)

    def shift(self, offset: int) -> ParsedVerdict[T]:
        """Return the verdict with its place moved by `offset` characters."""
        if self.at is None:
            return self
        return ParsedVerdict(self.value, (self.at[0] + offset, self.at[1] + offset))


class VerdictParser(Generic[P, T]):
    """Parser of the verdict in a judge's text after its thinking.

    Calling it returns the value; `find` also returns the place.

    Both parse the text in the same way; `verdict_parser` makes the parser from a function that
    reads the judge's own text.
    """

    def __init__(self, read: Callable[Concatenate[str, P], ParsedVerdict[T] | None]) -> None:
        """Parse with `read`, which gets the text after the judge's thinking.

        Its places are in that text.
        """
        self._read = read
        functools.update_wrapper(self, read)

    def __call__(self, text: str, *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Return the verdict of a text; `None` if there is none."""
        parsed = self.find(text, *args, **kwargs)
        if parsed is None:
            return None
        return parsed.value

    def find(self, text: str, *args: P.args, **kwargs: P.kwargs) -> ParsedVerdict[T] | None:
        """Return the verdict of a text with its place; `None` if there is none.

        Thinking that begins in a later line and never ends holds none. A tag such as `<think>`
        within a line may begin such thinking, or only be mentioned. If there is a verdict before
        either, and another one with the text after
        it, they are ambiguous: there is no verdict.
        """
        part = own_part(text)
        parsed = self._read(part.text, *args, **kwargs)
        if parsed is None:
            return None
        if part.until_the_end is not part.text:
            later = self._read(part.until_the_end, *args, **kwargs)
            if later is None or later.value != parsed.value:
                return None
        if part.mentioned is not None:
            before = self._read(strip_trailing_tokens(part.text[: part.mentioned]), *args, **kwargs)
            if before is not None and before.value != parsed.value:
                return None
        if not part.parts.start:
            return parsed
        return parsed.shift(part.parts.start)

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> VerdictParser[[], T]:
        """Bind these arguments; the new parser takes the text alone."""
        return VerdictParser(lambda own_text: self._read(own_text, *args, **kwargs))


verdict_parser = VerdictParser
"""As a decorator."""


def compile_last(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Compile an expression whose `match` finds the last match of `pattern`.

    A list of all matches could be long.

    Begin the pattern with a literal character, so that the search can jump back to it, and avoid
    parts that match at any length, since each occurrence of that character is tried. Group 1 is the
    pattern's first group, or all of it.

    >>> compile_last("[0-9]").match("1 or 2")[1]
    '2'
    """
    if not re.compile(pattern).groups:
        pattern = f"({pattern})"
    return re.compile(f"(?s:.*){pattern}", flags)


CRITIQUE = "critique"
"""The first field where the judge critiques its verdict before it revises it."""
MOST_LISTED = 101
"""Scales with more levels are plain integers in the schema; the parser checks the scale."""

BEGINNING = (
    "Answer with one JSON object and nothing else, in place of any other format that was named, "
    "with its fields in this order:\n"
)
"""How the description of a form in a prompt begins."""


class VerdictField(NamedTuple):
    """Field of the object: its schema, and its placeholder in the prompt."""

    schema: Mapping[str, JSON]
    shown: str


def text_field(shown: str) -> VerdictField:
    """Return a field with a text; `shown` describes it."""
    return VerdictField({"type": "string"}, f'"<{shown}>"')


def choice_field(values: Sequence[str]) -> VerdictField:
    """Return a field with one of some words."""
    quoted = [f'"{value}"' for value in values]
    first_values = ", ".join(quoted[:-1])
    return VerdictField({"type": "string", "enum": [*values]}, f"<{first_values} or {quoted[-1]}>")


def integer(low: int, high: int) -> VerdictField:
    """Return a field with a whole number from the lowest to the highest."""
    levels = range(low, high + 1)
    schema: dict[str, JSON] = {"type": "integer"}
    if len(levels) <= MOST_LISTED:
        schema["enum"] = [*levels]
    return VerdictField(schema, f"<an integer between {low} and {high}>")


def number(shown: str) -> VerdictField:
    """Return a field with any number; `shown` gives its range."""
    return VerdictField({"type": "number"}, f"<{shown}>")


def entries(fields: Mapping[str, VerdictField]) -> VerdictField:
    """Return a field with a list of objects."""
    entry = _describe_fields(fields)
    return VerdictField({"type": "array", "items": _object_schema(fields)}, f"[{entry}, …]")


@dataclass(frozen=True)
class VerdictForm:
    """Form of one kind of verdict.

    >>> form = VerdictForm("verdict", {"reason": text_field("why"), "verdict": choice_field("AB")})
    >>> print(form.instructions.removeprefix(BEGINNING))
    {"reason": "<why>", "verdict": <"A" or "B">}

    Attributes:
        name: of the schema.
        fields: in the order in which they are written.
    """

    name: str
    fields: Mapping[str, VerdictField]

    @property
    def schema(self) -> Mapping[str, JSON]:
        """The JSON schema of the object."""
        return _object_schema(self.fields)

    @property
    def response_format(self) -> Mapping[str, JSON]:
        """The value of a request's `response_format`."""
        return {
            "type": "json_schema",
            "json_schema": {"name": self.name, "strict": True, "schema": self.schema},
        }

    @property
    def instructions(self) -> str:
        """The form in words, for the prompt."""
        return BEGINNING + _describe_fields(self.fields)

    def critique_form(self) -> VerdictForm:
        """Return the form in which the judge critiques its evaluation, then revises its verdict."""
        question = "what was right and what was wrong in your previous evaluation"
        return VerdictForm(f"revised_{self.name}", {CRITIQUE: text_field(question), **self.fields})

    def add_instructions(self, messages: Sequence[Message]) -> list[Message]:
        """Return the conversation with the form in words after its last message, the user's."""
        *before, last = messages
        return [*before, {**last, "content": f"{last['content']}\n\n{self.instructions}"}]

    def dump(self, values: Mapping[str, JSON]) -> str:
        """Dump an object of these values in the order of the form."""
        return wire.dumps({name: values[name] for name in self.fields}).decode()


def strip_form(content: str) -> str:
    """Return a message without the form at its end, if it has one."""
    before, marker, _ = content.rpartition(f"\n\n{BEGINNING}")
    return before if marker else content


def _object_schema(fields: Mapping[str, VerdictField]) -> Mapping[str, JSON]:
    return {
        "type": "object",
        "properties": {name: field.schema for name, field in fields.items()},
        "required": [*fields],
        "additionalProperties": False,
    }


def _describe_fields(fields: Mapping[str, VerdictField]) -> str:
    names = {name: wire.dumps(name).decode() for name in fields}
    shown = ", ".join(f"{names[name]}: {field.shown}" for name, field in fields.items())
    return f"{{{shown}}}"
