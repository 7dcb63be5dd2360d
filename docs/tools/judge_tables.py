"""Make the tables of judges and groups: kinds, rules, Python classes, and what docstrings list."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import get_args

import judgegym
from judgegym.engine.runs import batches
from judgegym.environments.training import pipeline
from judgegym.judges.aspects.prompt import Aspect
from judgegym.judges.checklists import formulas
from judgegym.judges.checklists.criteria import Criterion
from judgegym.judges.config import exit_code
from judgegym.judges.core.judge import Confidence, JudgeDefinition
from judgegym.judges.core.judgment import Judgment
from judgegym.judges.parts.composite import TermOptions
from judgegym.judges.prompt_files.file import PromptFile
from judgegym.judges.rules import expressions, match, measure, traces
from judgegym.judges.rules.settings import READS
from judgegym.judges.scorers.registry import JUDGES, PROMPT_KIND

Row = tuple[str, ...]

_FIELD = re.compile(r"^ {4}(?P<name>\w+): (?P<text>.+(?:\n {8}.+)*)", re.MULTILINE)
_ITEM = re.compile(r"^\* `(?P<name>\w+)`: (?P<text>.+(?:\n  .+)*)", re.MULTILINE)
_CANNOT_SAY = "Cannot say: "
_ARGUMENTS_OF_ALL = frozenset(("self", "question", "answers"))


def kinds() -> Iterator[Row]:
    """The kinds of judges: what they do, what they read of a row, and how many responses they see."""
    yield from (("kind", "what it does", "reads beside prompt and response", "sees"), ("---",) * 4)
    for name, judge in JUDGES.items():
        kind = "FILE.yaml" if name == PROMPT_KIND else name
        fields = ", ".join(f"`{field}`" for field in sorted(judge.fields))
        if judge.parts is not None:
            fields = "what its judges read"
        yield (f"`{kind}`", _code(judge.about), fields or "–", _sees(judge))


def confidences() -> Iterator[Row]:
    """How sure a judge is, by what, and the kinds that know it."""
    yield from (("`cascade_confidence`", "first judge"), ("---",) * 2)
    for name in get_args(Confidence):
        known = [f"`{kind}`" for kind, judge in JUDGES.items() if name in judge.confidences]
        yield (f"`{name}`", ", ".join(known) if name != "margin" else "any")


def rules() -> Iterator[Row]:
    """The rules over an answer."""
    yield from _rules(name for name in READS if not hasattr(traces, name))


def trace_rules() -> Iterator[Row]:
    """The rules over an agent's trace."""
    yield from _rules(name for name in READS if hasattr(traces, name))


def classes() -> Iterator[Row]:
    """The judges in Python, with the arguments of `judge` beside question and answers."""
    yield from (("class", "`judge` also takes", "what it does"), ("---",) * 3)
    for name in judgegym.__all__:
        judge = getattr(judgegym, name)
        if inspect.isclass(judge) and hasattr(judge, "judge"):
            arguments = inspect.signature(judge.judge).parameters.keys() - _ARGUMENTS_OF_ALL
            also = ", ".join(f"`{argument}`" for argument in sorted(arguments))
            yield (f"`{name}`", also or "–", _paragraphs(judge)[0])


def judgment() -> Iterator[Row]:
    """The fields of a judgment."""
    yield from _fields(Judgment, "field")


def parts() -> Iterator[Row]:
    """The settings of a part of a reward."""
    yield from _fields(TermOptions, "setting of a part")


def criterion() -> Iterator[Row]:
    """The fields of a criterion."""
    yield from _fields(Criterion, "field")


def aspect() -> Iterator[Row]:
    """The fields of an aspect."""
    yield from _fields(Aspect, "field")


def checklist_formulas() -> Iterator[Row]:
    """The formulas of checklists, as their module documents them."""
    yield from _items(formulas, "`formula`", "score")


def drop_reasons() -> Iterator[Row]:
    """The reasons for which groups are dropped, as the pipeline's module documents them."""
    yield from _items(pipeline, "reason", "the group")


def exit_codes() -> Iterator[Row]:
    """The exit codes of all commands, as their module documents them."""
    yield from _items(exit_code, "code", "meaning")


def batch_lines() -> Iterator[Row]:
    """The fields of `batches.jsonl`, as its module documents them."""
    yield from _items(batches, "field", "meaning")


def prompt_file() -> Iterator[Row]:
    """The fields of a prompt file."""
    yield from _fields(PromptFile, "field")


def _sees(judge: JudgeDefinition) -> str:
    if judge.most_together is None:
        return "each response alone"
    if judge.has_baselines:
        return "response and baseline"
    return f"up to {judge.most_together} responses"


def _rules(names: Iterator[str]) -> Iterator[Row]:
    yield from (("rule", "score: of a check 1 or 0", "cannot say if"), ("---",) * 3)
    modules = (match, expressions, measure, traces)
    for name in names:
        rule = next(getattr(module, name) for module in modules if hasattr(module, name))
        yield (f"`{name}`", *_rule_cells(_paragraphs(rule)))


def _items(module: ModuleType, *header: str) -> Iterator[Row]:
    """The items of a list in a module's docstring, without their sources."""
    yield from (header, ("---",) * 2)
    for item in _ITEM.finditer(inspect.getdoc(module) or ""):
        text = " ".join(item["text"].split()).partition(" Source:")[0]
        yield (f"`{item['name']}`", text.rstrip(".").replace("|", r"\|"))


def _rule_cells(paragraphs: list[str]) -> tuple[str, str]:
    """What a rule checks, and when it cannot say, of a docstring that tells both before anything else."""
    for number, paragraph in enumerate(paragraphs):
        if _CANNOT_SAY in paragraph:
            about, _, no_score = paragraph.partition(_CANNOT_SAY)
            return " ".join([*paragraphs[:number], about]).strip(), no_score.rstrip(".")
    return paragraphs[0], "–"


def _fields(documented: type, header: str) -> Iterator[Row]:
    yield from ((header, "meaning"), ("---",) * 2)
    attributes = inspect.getdoc(documented).partition("Attributes:\n")[2]  # type: ignore[union-attr]
    for field in _FIELD.finditer(attributes):
        meaning = " ".join(field["text"].split()).rstrip(".")
        yield (f"`{field['name']}`", meaning.replace("|", r"\|"))


def _paragraphs(documented: object) -> list[str]:
    """The paragraphs of a docstring before its arguments and examples, each in one line."""
    text = re.split(r"\n\n(?:Args|Attributes|Raises|>>>)", inspect.getdoc(documented) or "")[0]
    return [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]


def _code(text: str) -> str:
    """A text with its flags as code."""
    return re.sub(r"--\w+(=\S+)?(?<!\.)", lambda flag: f"`{flag[0]}`", text)


JUDGE_TABLES: Mapping[str, Callable[[], Iterator[Row]]] = {
    "kinds": kinds,
    "confidences": confidences,
    "rules": rules,
    "trace_rules": trace_rules,
    "classes": classes,
    "judgment": judgment,
    "parts": parts,
    "criterion": criterion,
    "aspect": aspect,
    "formulas": checklist_formulas,
    "drop_reasons": drop_reasons,
    "prompt_file": prompt_file,
    "exit_codes": exit_codes,
    "batch_lines": batch_lines,
}
"""The tables by the name of their block."""
