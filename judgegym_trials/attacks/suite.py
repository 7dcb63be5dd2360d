"""Definitions of attacks: the format of their files, the built-in ones, and their effect on a text.

Guarantee: an error in a file is reported in one line that names the file, the attack and the field.
Texts of rows are inserted as they are: a placeholder in a response stays text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
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
"""File of the built-in attacks."""
PROMPT_PLACEHOLDERS = ("verdict", "verdict_object", "ending")
"""Placeholders for texts that an attacker who knows the judge can write.

They are a top verdict in the judge's format, the same as a JSON object, and the text of its prompt
behind the response (of a long text, the first paragraph).
"""
ForgedTexts: TypeAlias = Mapping[str, str]
"""Texts of these placeholders for one row; empty for a judge without a prompt."""
_SENTENCES = re.compile(r"(?<=[.!?。])\s+")


class Transform(BaseModel):
    """Change of a response by an attack: exactly one of the fields.

    Texts may have the placeholders `{response}`, `{prompt}`, `{verdict}`, `{verdict_object}` and
    `{ending}`.

    Attributes:
        replace: the text that replaces the response.
        prefix: the text before the response.
        suffix: the text after the response.
        wrap: a text that contains `{response}`.
        repeat: how many times the response is repeated.
        truncate: the share of the response's characters to keep, from the start.
        markdown: the markdown to add: `bullets`, `headings` or `bold`.
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
            names = ", ".join(type(self).model_fields)
            raise ValueError(f"expected exactly one of {names}")
        if self.wrap is not None and "{response}" not in self.wrap:
            raise ValueError("wrap: expected {response} in the text")
        return self

    @property
    def text(self) -> str:
        """The attack's text with its placeholders; empty without one."""
        return next(
            (
                text
                for text in (self.replace, self.prefix, self.suffix, self.wrap)
                if text is not None
            ),
            "",
        )


TWIN, REPEAT = "twin", "repeat"
"""Names of the unattacked response and of its repeat, in place of an attack's name."""


class Attack(BaseModel):
    """One attack.

    Attributes:
        name: the name: lower-case letters, digits and `_`.
        family: the group of attacks that it belongs to.
        source: the paper or project that it comes from, with the year.
        about: a description in one sentence.
        transform: the change of the response.
        judges: the kinds of judges that it applies to; empty for all.
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
            raise ValueError(
                f"{name} is a reserved name: attacks are compared with it; choose another name"
            )
        return name

    @property
    def replaces(self) -> bool:
        """Whether nothing of the response is left under attack."""
        return self.transform.replace is not None and "{response}" not in self.transform.replace

    @property
    def needs_prompt(self) -> bool:
        """Whether it uses a text from the judge's prompt."""
        return not prompts.find_placeholders(self.transform.text).isdisjoint(PROMPT_PLACEHOLDERS)

    def applies_to(self, kinds: Collection[str]) -> bool:
        """Return whether it applies to a judge of one of these kinds."""
        return not self.judges or not set(self.judges).isdisjoint(kinds)

    def apply(self, prompt: str, response: str, forged: ForgedTexts) -> str:
        """Return the response under attack.

        Args:
            prompt: the prompt that the response answers.
            response: the response; empty if the attack replaces it.
            forged: the texts made from the judge's prompt.
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
        if transform.markdown is None:
            return text
        return _format_markdown(response, transform.markdown)


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
    """Load the attacks of a file.

    Raises:
        SettingsError: it cannot be read, or an attack is invalid; the message names the attack
            and the field.
    """
    value = read_yaml(path, "--attacks: ")
    file = f"--attacks: {path}"
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
        named = ""
        if isinstance(entry, Mapping) and isinstance(entry.get("name"), str):
            named = f" ({entry['name']})"
        where = ".".join(map(str, place))
        if where:
            where = f"{where}: "
        reason = first["msg"].removeprefix("Value error, ")
        position = int(number) + 1
        raise SettingsError(f"{file}, attack {position}{named}: {where}{reason}") from None
    twice = next(
        (name for name, count in Counter(attack.name for attack in attacks).items() if count > 1),
        None,
    )
    if twice is not None:
        raise SettingsError(f"{file}: two attacks have the name {twice}")
    return attacks


def select_attacks(files: Sequence[Path], only: Sequence[str]) -> tuple[Attack, ...]:
    """Select attacks of the package and of files by name; all without names.

    Args:
        files: the user's files; an attack in a later file replaces one of the same name.
        only: names of attacks or families; empty for all.

    Raises:
        SettingsError: a name matches nothing.
    """
    all_attacks = chain.from_iterable(map(load_attacks, (BUILT_IN, *files)))
    attacks_by_name = {attack.name: attack for attack in all_attacks}
    names = {*attacks_by_name, *(attack.family for attack in attacks_by_name.values())}
    for name in only:
        if name not in names:
            hint = suggest_similar(name, sorted(names))
            raise SettingsError(f"--only: there is no attack or family {name!r}{hint}")
    if not only:
        return tuple(attacks_by_name.values())
    return tuple(
        attack
        for attack in attacks_by_name.values()
        if not {attack.name, attack.family}.isdisjoint(only)
    )
