"""Settings of rules: which rule, what it expects, and which settings each rule reads.

Guarantee: a combination that no rule can work with is refused with one line before the first row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Literal

from pydantic import field_validator, model_validator
from typing_extensions import Self

from judgegym.judges.config.explaining import AnyTextOrFile, prompt_digest
from judgegym.judges.config.fields import operational, setting
from judgegym.judges.config.judge import JudgeSettings
from judgegym.judges.rules.measure import LengthUnit

_COMPARING = (
    "expression",
    "exact",
    "normalised",
    "contains",
    "regex",
    "multiple_choice",
    "json_schema",
    "language",
)
READS: Mapping[str, tuple[str, ...]] = {
    "number": ("rule_expected", "rule_mismatch", "rule_tolerance"),
    **dict.fromkeys(_COMPARING, ("rule_expected", "rule_mismatch")),
    "length": ("rule_length_unit", "rule_soft_limit", "rule_hard_limit"),
    "repetition": (),
    "thinking_format": ("rule_opened_by_template",),
    **dict.fromkeys(
        ("tool_called", "tool_not_called", "tool_order"), ("rule_expected", "rule_mismatch")
    ),
    **dict.fromkeys(("ends_with_answer", "tool_errors"), ()),
}
"""The rules by name, with the settings of their own that each reads beside `rule_timeout`."""
_OWN = re.compile(r".+\.py:[A-Za-z_]\w*", re.DOTALL)


class RuleSettings(JudgeSettings):
    """Settings of a rule.

    Settings of a judge model (`judge_…`) have no effect, since no model is called.
    """

    rule: str | None = setting(None, common=True)
    """Judge by this rule: number, expression, exact, normalised, contains, regex, multiple_choice,
    json_schema, language, length, repetition, thinking_format; of an agent's trace: tool_called,
    tool_not_called, tool_order, ends_with_answer, tool_errors; or FILE.py:NAME for a function of
    your own."""
    rule_expected: AnyTextOrFile | None = setting(None)
    """Expect this value in place of the row's reference: a number, an expression, a text, a letter,
    a regular expression, a JSON schema, a language's code such as de; of tools, names or patterns
    such as search,delete_*, or objects such as {"name": "search", "arguments": {"city": "Rome"}};
    @file reads it from a file."""
    rule_mismatch: Literal["score", "cannot_say"] = setting("score")
    """Choose the result of a response that does not match. score: 0. cannot_say: undecided, so that
    a reward with combine=first_that_says asks its next part."""
    rule_tolerance: float = setting(0.0, ge=0)
    """Treat numbers as equal if they differ by at most this share of the expected number, or of 1
    if that is 0 (rule number)."""
    rule_length_unit: LengthUnit = setting("words")
    """Measure the length in this unit (rule length)."""
    rule_soft_limit: int | None = setting(None, ge=0)
    """Give 1.0 up to this length, and beyond it linearly less, down to 0.0 at rule_hard_limit (rule
    length). If unset, 1.0 up to rule_hard_limit."""
    rule_hard_limit: int | None = setting(None, ge=1)
    """Give 0.0 beyond this length (rule length)."""
    rule_opened_by_template: bool = setting(False)
    """Accept a lone </think>, because the chat template has opened the thinking (rule
    thinking_format)."""
    rule_timeout: float = operational(5.0, gt=0, le=600)
    """Stop a rule that runs in a process of its own (expression, regex, json_schema, language,
    tool_not_called, FILE.py:NAME) after this many seconds for one response; then it cannot say."""
    rule_digest: str | None = setting(None)
    """Refuse FILE.py:NAME if the file's digest differs from this. If unset, the current digest is
    used, so that a run is not resumed with another function."""

    @property
    def judges_whole_text(self) -> bool:
        """Whether the rule reads the whole text; the rule of thinking does."""
        is_of_thinking = self.rule == "thinking_format" and getattr(self, "judge", "rule") == "rule"
        return is_of_thinking or super().judges_whole_text

    @property
    def asks_endpoint(self) -> bool:
        """Always false: no model is asked."""
        return False

    def judge_name(self) -> str:
        """Return the rule in place of a model's name."""
        name = PurePath(self.rule or "").name
        return f"rule-{name}"

    def prompt_digests(self) -> dict[str, str]:
        """Return nothing: there is no prompt."""
        return {}

    @field_validator("rule_expected", mode="before")
    @classmethod
    def _as_json(cls, value: object) -> object:
        """Return tools or a schema as JSON text, where YAML gives lists and objects."""
        if isinstance(value, list | dict):
            return json.dumps(value)
        return value

    @field_validator("rule")
    @classmethod
    def _is_known(cls, value: str | None) -> str | None:
        if value is None or value in READS or _OWN.fullmatch(value):
            return value
        rules = ", ".join(READS)
        raise ValueError(f"{value!r} is no rule; expected one of {rules}, or FILE.py:NAME")

    @model_validator(mode="after")
    def _has_what_it_reads(self) -> Self:
        idle = next(
            (name for name in sorted(self.model_fields_set) if name.startswith("judge_")), None
        )
        # In a composed judge, settings of the other judges are allowed.
        if idle is not None and type(self) is RuleSettings:
            raise ValueError(f"{idle}: it has no effect, since a rule calls no model")
        if self.rule is None:
            return self
        read = READS.get(self.rule, ())
        for name in type(self).model_fields:
            is_rules = name.startswith("rule_") and name not in ("rule_timeout", "rule_digest")
            if (
                is_rules
                and name not in read
                and getattr(self, name) != type(self).model_fields[name].default
            ):
                raise ValueError(f"{name}: the rule {self.rule} does not read it")
        if self.rule == "length" and self.rule_hard_limit is None:
            raise ValueError(
                "rule_hard_limit: the rule length needs it, with or without rule_soft_limit"
            )
        if self.rule_hard_limit is not None and (self.rule_soft_limit or 0) > self.rule_hard_limit:
            raise ValueError(
                f"rule_soft_limit: expected at most rule_hard_limit, got {self.rule_soft_limit}"
            )
        if self.rule not in READS:
            self._note_digest(self.rule.rpartition(":")[0])
        return self

    def _note_digest(self, file: str) -> None:
        try:
            digest = prompt_digest(Path(file).expanduser().read_text("utf-8"))
        except (OSError, UnicodeDecodeError):
            # Loading the function says so; an earlier run's settings may be read without the file.
            return
        if self.rule_digest not in (None, digest):
            raise ValueError(f"rule_digest: {file} has changed; its digest is now {digest}")
        if self.rule_digest is None:
            self.rule_digest = digest
            # Not set by the user: a mount inherits only the settings that were given, so it must
            # not inherit this one.
            self.model_fields_set.discard("rule_digest")
