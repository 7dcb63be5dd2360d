"""What an import makes: a card, files beside it, and notes on what differs or is not carried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from judgegym.judges.core.naming import slug
from judgegym.judges.prompt_files.card import ImportNote, JudgeCard
from judgegym.judges.prompt_files.file import PromptFile
from judgegym.judges.prompt_files.lines import PlaceholderName
from judgegym.judges.scorers.registry import PROMPT_KIND

FieldNames = Mapping[str, PlaceholderName]
"""The placeholder of each column of the foreign rows."""
RULE_FUNCTION = "score"
"""The name of a rule's function in a Python file beside a card."""
_RULE_FILE = "RULE_FILE/"
"""Begins what stands for the name of a Python file beside the card."""
USUAL_FIELDS: FieldNames = {
    "prompt": "prompt",
    "question": "prompt",
    "response": "response",
    "reference": "reference",
    "reference_answer": "reference",
    "rubric": "rubric",
    "context": "context",
    "contexts": "context",
    "baseline": "baseline",
}
"""Columns whose names leave no doubt; `--field COLUMN=PLACEHOLDER` adds others."""


class NotCarriedError(ValueError):
    """A judge that cannot be carried."""


def require_object(values: object, name: str = "") -> None:
    """Check that a file's values are an object, or those of a field.

    Raises:
        NotCarriedError: they are not.
    """
    if not isinstance(values, Mapping):
        kind, prefix = type(values).__name__, f"{name}: " if name else ""
        raise NotCarriedError(f"{prefix}expected an object of this format, found {kind}")


@dataclass
class ImportNotes:
    """What differs from the imported file, and what is not carried."""

    differs: list[str] = field(default_factory=list)
    not_carried: list[str] = field(default_factory=list)

    def add(self, notes: ImportNotes, prefix: str) -> None:
        """Add the notes on a part."""
        self.differs += [f"{prefix}{note}" for note in notes.differs]
        self.not_carried += [f"{prefix}{note}" for note in notes.not_carried]

    def check_names(self, values: Mapping[str, Any], names: tuple[str, ...], prefix: str) -> None:
        """Note each name that the importer does not read."""
        for name in values:
            if name not in names:
                self.not_carried.append(f"{prefix}{name}: not read")


@dataclass(frozen=True)
class ImportedJudge:
    """A judge read from a foreign file.

    Attributes:
        name: its name there.
        prompt: the prompt file's fields; empty for another kind.
        judge: the judge's section.
        code: Python files beside the card, by the part that runs them, or by `""`. The section
            names each as `name_rule` does.
    """

    name: str
    prompt: Mapping[str, Any] = field(default_factory=dict)
    judge: Mapping[str, Any] = field(default_factory=dict)
    code: Mapping[str, str] = field(default_factory=dict)

    @property
    def part(self) -> dict[str, Any]:
        """The judge as a part of another."""
        if not self.prompt:
            return _rename_kind(self.judge)
        return {**_rename_kind(self.judge), "judge": PROMPT_KIND, "judge_prompt": dict(self.prompt)}

    def make_card(self, note: ImportNote, stem: str) -> JudgeCard:
        """Make the card.

        Args:
            note: where it comes from.
            stem: begins the names of the Python files beside it.

        Raises:
            ValueError: the prompt, its scale or its verdict cannot be used.
        """
        prompt = PromptFile.model_validate(self.prompt) if self.prompt else None
        judge = _name_rule_files(dict(self.judge), stem)
        return JudgeCard(prompt_file=prompt, judge=judge, imported=note)


def _rename_kind(section: Mapping[str, Any]) -> dict[str, Any]:
    return {"judge" if name == "kind" else name: value for name, value in section.items()}


def name_rule(part: str = "") -> str:
    """Return what stands for the function of a Python file beside the card, until it has a name."""
    return f"{_RULE_FILE}{part}:{RULE_FUNCTION}"


def name_rule_file(stem: str, part: str) -> str:
    """Return the name of a Python file beside a card."""
    return f"{stem}_{slug(part)}_rule.py" if part else f"{stem}_rule.py"


def _name_rule_files(value: Any, stem: str) -> Any:
    """Return a section in which the Python files have their names."""
    if isinstance(value, Mapping):
        return {name: _name_rule_files(item, stem) for name, item in value.items()}
    if isinstance(value, str) and value.startswith(_RULE_FILE):
        part = value.removeprefix(_RULE_FILE).rpartition(":")[0]
        return f"{name_rule_file(stem, part)}:{RULE_FUNCTION}"
    return value
