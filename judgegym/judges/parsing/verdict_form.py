"""The form of a verdict as a JSON object: the one definition of what the prompt says, the schema enforces and is read.

With `judge_output=json_schema` a request carries the schema as `response_format`, and the prompt ends with the form in
words, since an endpoint that enforces a schema does not show it to the model. The fields are in the order in which the
judge writes them: reasons first, the verdict last, so that the reasons can lead to it.

The schemas use what all endpoints have in common: objects whose fields are all required and that have no others,
strings, arrays, numbers, and enumerations in place of ranges. OpenAI's strict mode, Anthropic, vLLM, SGLang and
llama.cpp accept those; `minimum`, `maximum`, `minItems` and `maxLength` are refused by some of them. A schema does not
depend on what is judged, because endpoints compile each schema that they have not seen yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from judgegym.llm import wire
from judgegym.llm.wire import JSON, Message

CRITIQUE = "critique"
"""The field that comes first where the judge is asked to critique its verdict before it revises it."""
MOST_LISTED = 101
"""Of a scale with more levels, the schema says only that a score is an integer; the parser knows the scale anyway."""

BEGINNING = (
    "Answer with one JSON object and nothing else, in place of any other format that was named, with its fields in "
    "this order:\n"
)
"""How the description of a form in a prompt begins."""


class VerdictField(NamedTuple):
    """A field of the object: its schema, and what the prompt shows in its place."""

    schema: Mapping[str, JSON]
    shown: str


def text_field(shown: str) -> VerdictField:
    """A field with a text; `shown` says of what."""
    return VerdictField({"type": "string"}, f'"<{shown}>"')


def one_of(values: Sequence[str]) -> VerdictField:
    """A field with one of some words."""
    quoted = [f'"{value}"' for value in values]
    return VerdictField({"type": "string", "enum": [*values]}, f"<{', '.join(quoted[:-1])} or {quoted[-1]}>")


def integer(low: int, high: int) -> VerdictField:
    """A field with a whole number from the lowest to the highest."""
    levels = range(low, high + 1)
    schema: dict[str, JSON] = {"type": "integer"}
    if len(levels) <= MOST_LISTED:
        schema["enum"] = [*levels]
    return VerdictField(schema, f"<an integer between {low} and {high}>")


def number(shown: str) -> VerdictField:
    """A field with any number; `shown` says from where to where."""
    return VerdictField({"type": "number"}, f"<{shown}>")


def entries(fields: Mapping[str, VerdictField]) -> VerdictField:
    """A field with a list of objects."""
    return VerdictField({"type": "array", "items": _schema(fields)}, f"[{_shown(fields)}, …]")


@dataclass(frozen=True)
class VerdictForm:
    """The form of one kind of verdict.

    >>> form = VerdictForm("verdict", {"reason": text_field("why"), "verdict": one_of("AB")})
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
        return _schema(self.fields)

    @property
    def response_format(self) -> Mapping[str, JSON]:
        """What a request has under `response_format`."""
        return {"type": "json_schema", "json_schema": {"name": self.name, "strict": True, "schema": self.schema}}

    @property
    def instructions(self) -> str:
        """The form in words, for the prompt."""
        return BEGINNING + _shown(self.fields)

    def with_critique(self) -> VerdictForm:
        """The form in which the judge critiques its earlier evaluation, then gives the revised verdict."""
        said = "what was right and what was wrong in your previous evaluation"
        return VerdictForm(f"revised_{self.name}", {CRITIQUE: text_field(said), **self.fields})

    def asked_in(self, messages: Sequence[Message]) -> list[Message]:
        """The conversation with the form in words at the end of its last message, which is the user's."""
        *before, last = messages
        return [*before, Message(role=last["role"], content=f"{last['content']}\n\n{self.instructions}")]

    def written(self, values: Mapping[str, JSON]) -> str:
        """An object of these values in the order of the form."""
        return wire.dumps({name: values[name] for name in self.fields}).decode()


def without_form(content: str) -> str:
    """A message without the form at its end, if it has one."""
    before, found, _ = content.rpartition(f"\n\n{BEGINNING}")
    return before if found else content


def _schema(fields: Mapping[str, VerdictField]) -> Mapping[str, JSON]:
    return {
        "type": "object",
        "properties": {name: field.schema for name, field in fields.items()},
        "required": [*fields],
        "additionalProperties": False,
    }


def _shown(fields: Mapping[str, VerdictField]) -> str:
    return f"{{{', '.join(f'{wire.dumps(name).decode()}: {field.shown}' for name, field in fields.items())}}}"
