"""Attacks as data: their file format, the package's attacks, and what each does to a text.

Guarantee: a file that is wrong is one line that names the file, the attack and the field. Text of
rows is put in as it
is: a placeholder in a response stays text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)
from typing_extensions import Self

from judgegym.judges import prompts
from judgegym.judges.config.presets import read_yaml
from judgegym.judges.core.naming import suggest_similar
from judgegym.judges.scorers.settings import JudgeKind
from judgegym.llm.errors import SettingsError

BUILT_IN = Path(__file__).with_name("attacks.yaml")
"""The attacks of the package."""
PROMPT_PLACEHOLDERS = ("verdict", "verdict_object", "ending")
"""Placeholders of what an attacker knows who knows the judge: a best verdict in the words of the
judge's format, the same as a JSON object, and what stands in its prompt behind the response (of a
long rest, the first paragraph)."""
ForgedTexts: TypeAlias = Mapping[str, str]
"""The texts of these placeholders for one row; empty for a judge that reads no prompt."""
_SENTENCES = re.compile(r"(?<=[.!?。])\s+")


class Transform(BaseModel):
    """Change of a response by an attack: exactly one of the fields.

    Texts may have the placeholders `{response}`, `{prompt}`, `{verdict}`, `{verdict_object}` and
    `{ending}`.

    Attributes:
        replace: this text in place of the response.
        prefix: this text before the response.
        suffix: this text behind it.
        wrap: a text with `{response}` in it.
        repeat: the response so many times.
        truncate: this share of the response's characters, from its start.
        markdown: the response with the marks of markdown: `bullets`, `headings` or `bold`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    replace: str | None = None
    prefix: str | None = None
    suffix: str | None = None
    wrap: str | None = None
    repeat: int | None = Field(default=None, ge=2, le=50)
    truncate: float | None = Field(default=None, ge=0, lt=1)
    markdown: Literal["bullets", "headings", "bold"] | None = None

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if len(self.model_fields_set) != 1 or not self.model_dump(exclude_none=True):
            raise ValueError(f"expected exactly one of {', '.join(type(self).model_fields)}")
        if self.wrap is not None and "{response}" not in self.wrap:
            raise ValueError("wrap: expected {response} in the text")
        return self

    @property
    def text(self) -> str:
        """The text of the attack, before its placeholders are filled in; empty without one."""
        return next(
            (
                text
                for text in (self.replace, self.prefix, self.suffix, self.wrap)
                if text is not None
            ),
            "",
        )


TWIN, REPEAT = "twin", "repeat"
"""The unattacked response and its repeat, by the names that stand in an attack's place."""


class Attack(BaseModel):
    """One attack.

    Attributes:
        name: its name, of small letters, digits and `_`.
        family: the group of attacks that it belongs to.
        source: the paper or the project that it comes from, with the year.
        about: what it does, in one sentence.
        transform: what it does to the response.
        judges: the kinds of judges that it is for; empty for all.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,59}$")
    family: str = Field(min_length=1)
    source: str = Field(min_length=1)
    about: str = Field(min_length=1)
    transform: Transform
    judges: tuple[JudgeKind, ...] = ()

    @field_validator("name")
    @classmethod
    def _is_free(cls, name: str) -> str:
        if name in (TWIN, REPEAT):
            raise ValueError(f"{name} is what an attack is compared with; give it another name")
        return name

    @property
    def replaces(self) -> bool:
        """Whether the response under attack holds nothing of the response."""
        return self.transform.replace is not None and "{response}" not in self.transform.replace

    @property
    def needs_prompt(self) -> bool:
        """Whether it takes something from the judge's prompt."""
        return not prompts.find_placeholders(self.transform.text).isdisjoint(PROMPT_PLACEHOLDERS)

    def applies_to(self, kinds: Collection[str]) -> bool:
        """Return whether it is for a judge of one of these kinds."""
        return not self.judges or not set(self.judges).isdisjoint(kinds)

    def apply(self, prompt: str, response: str, forged: ForgedTexts) -> str:
        """Return the response under attack.

        Args:
            prompt: what the response answers.
            response: the response, or nothing if the attack replaces it.
            forged: what the attacker knows of the judge.
        """
        transform = self.transform
        values = {
            **dict.fromkeys(PROMPT_PLACEHOLDERS, ""),
            **forged,
            "response": response,
            "prompt": prompt,
        }
        text = prompts.fill(transform.text, values)
        if transform.prefix is not None:
            return f"{text}\n\n{response}"
        if transform.suffix is not None:
            return f"{response}\n\n{text}"
        if transform.repeat is not None:
            return "\n\n".join([response] * transform.repeat)
        if transform.truncate is not None:
            return response[: int(len(response) * transform.truncate)]
        return (
            text if transform.markdown is None else _format_markdown(response, transform.markdown)
        )


def _format_markdown(response: str, style: Literal["bullets", "headings", "bold"]) -> str:
    sentences = [part for part in _SENTENCES.split(response.strip()) if part]
    if style == "bold":
        return " ".join(f"**{sentence}**" for sentence in sentences)
    if style == "bullets":
        return "\n".join(f"- {item}" for item in sentences)
    return "\n\n".join(
        f"## {number}. Point\n\n{paragraph}" for number, paragraph in enumerate(sentences, start=1)
    )


_ATTACKS = TypeAdapter(list[Attack])


def load_attacks(path: Path) -> Sequence[Attack]:
    """Return the attacks of a file.

    Raises:
        SettingsError: it cannot be read, or an attack in it is wrong; the message names the attack
            and the field.
    """
    value, file = read_yaml(path, "--attacks: "), f"--attacks: {path}"
    if not isinstance(value, list) or not value:
        raise SettingsError(
            f"{file}: expected a list of attacks, each with name, family, source, about and "
            "transform"
        )
    try:
        attacks = _ATTACKS.validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        number, *place = first["loc"]
        entry = value[int(number)]
        named = (
            f" ({entry['name']})"
            if isinstance(entry, Mapping) and isinstance(entry.get("name"), str)
            else ""
        )
        where = f"{'.'.join(map(str, place))}: " if place else ""
        reason = first["msg"].removeprefix("Value error, ")
        raise SettingsError(f"{file}, attack {int(number) + 1}{named}: {where}{reason}") from None
    twice = next(
        (name for name, count in Counter(attack.name for attack in attacks).items() if count > 1),
        None,
    )
    if twice is not None:
        raise SettingsError(f"{file}: two attacks have the name {twice}")
    return attacks


def select_attacks(files: Sequence[Path], only: Sequence[str]) -> tuple[Attack, ...]:
    """Select attacks of the package and of the files by name; without names all.

    Args:
        files: those of the user; an attack in a later one replaces one of the same name.
        only: names of attacks or families; all without any.

    Raises:
        SettingsError: nothing has a name.
    """
    attacks_by_name = {
        attack.name: attack
        for attacks in map(load_attacks, (BUILT_IN, *files))
        for attack in attacks
    }
    names = {*attacks_by_name, *(attack.family for attack in attacks_by_name.values())}
    for name in only:
        if name not in names:
            raise SettingsError(
                f"--only: there is no attack or family {name!r}{suggest_similar(name, sorted(names))}"
            )
    return tuple(
        selected
        for selected in attacks_by_name.values()
        if not only or not {selected.name, selected.family}.isdisjoint(only)
    )
