"""What an import makes: a card, files beside it, and notes on what differs or is not carried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from judgegym.judges.prompt_files.card import ImportNote, JudgeCard
from judgegym.judges.prompt_files.file import PromptFile
from judgegym.judges.prompt_files.lines import PlaceholderName
from judgegym.judges.scorers.registry import PROMPT_KIND

FieldNames = Mapping[str, PlaceholderName]
"""The placeholder of each column of the foreign rows."""
RULE_FILE = "RULE_FILE"
"""Stands for the name of the Python file beside the card."""
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


@dataclass
class ImportNotes:
    """What differs from the imported file, and what is not carried."""

    differs: list[str] = field(default_factory=list)
    not_carried: list[str] = field(default_factory=list)

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
        code: the Python file beside the card; empty without one. The section names it `RULE_FILE`.
    """

    name: str
    prompt: Mapping[str, Any] = field(default_factory=dict)
    judge: Mapping[str, Any] = field(default_factory=dict)
    code: str = ""

    @property
    def part(self) -> dict[str, Any]:
        """The judge as a part of another."""
        if not self.prompt:
            return _rename_kind(self.judge)
        return {**_rename_kind(self.judge), "judge": PROMPT_KIND, "judge_prompt": dict(self.prompt)}

    def make_card(self, note: ImportNote, rule_file: str) -> JudgeCard:
        """Make the card.

        Args:
            note: where it comes from.
            rule_file: the name of the Python file beside it.

        Raises:
            ValueError: the prompt, its scale or its verdict cannot be used.
        """
        prompt = PromptFile.model_validate(self.prompt) if self.prompt else None
        judge = _name_rule_file(dict(self.judge), rule_file)
        return JudgeCard(prompt_file=prompt, judge=judge, imported=note)


def _rename_kind(section: Mapping[str, Any]) -> dict[str, Any]:
    return {"judge" if name == "kind" else name: value for name, value in section.items()}


def _name_rule_file(value: Any, rule_file: str) -> Any:
    """Return a section in which the Python file has its name."""
    if isinstance(value, Mapping):
        return {name: _name_rule_file(item, rule_file) for name, item in value.items()}
    if isinstance(value, str) and value.startswith(f"{RULE_FILE}:"):
        return f"{rule_file}{value.removeprefix(RULE_FILE)}"
    return value
