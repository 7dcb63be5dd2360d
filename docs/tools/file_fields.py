"""Show the fields of a run's files, made from the dataclasses that write and read them.

A block is YAML: `name: type  # meaning`. `name?` may be absent, `name|null` is an object or null,
and an indented block has the fields of an object, or of the objects of a list. Meanings are those
of the docstrings.
"""

from __future__ import annotations

import functools
import inspect
import operator
import re
import types
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from judgegym.engine.completions import Completion
from judgegym.engine.metrics import GoldLabel, HeadlineTerm
from judgegym.engine.records import Sample, SampleRun
from judgegym.eval_environments.arena.ratings import RowGames
from judgegym.eval_environments.pairwise import PairwiseDetail
from judgegym.eval_environments.peer.results import PeerTable
from judgegym.judges.arena import ArenaDetail
from judgegym.judges.aspects.judge import PanelDetail
from judgegym.judges.checklists.judge import ChecklistDetail
from judgegym.judges.core.judgment import CritiqueRound, ScoreParts
from judgegym.judges.mt_bench import MTBenchDetail
from judgegym.judges.rubrics.judge import RubricDetail
from judgegym.llm.wire import Token
from judgegym.reports.labels.correction import CorrectedNumber
from judgegym.reports.labels.file import Draw, Label
from judgegym.statistics.agreement import Interval

_ATTRIBUTE = re.compile(r"^ {4}(?P<name>\w+): (?P<text>.+(?:\n {8}.+)*)", re.MULTILINE)
_PLAIN: Mapping[object, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    Interval: "object of numbers",
}
_MANY = {"text": "texts", "whole number": "numbers", "number": "numbers", "true or false": "truths"}
_CUT: Mapping[object, str] = {
    CritiqueRound: "as critique.rounds of a sample",
    CorrectedNumber: "of each category with 30 labels or more, as whole",
    Token: "tokens with their likeliest alternatives, with weighting=logprobs",
}
"""Objects of lists whose fields are elsewhere on the page."""
_NULL = " or null"
_COMPLETION = {"answer": "model_answer", "short": "short_response"}
"""Names of a completion's fields in a line, where they differ."""
_OPTIONAL = {"follow_up", "turns", "written"}

DETAILS: Mapping[str, type] = {
    "Arena-Hard": ArenaDetail,
    "MT-Bench": MTBenchDetail,
    "several candidates": RowGames,
    "pairwise judgement": PairwiseDetail,
    "aspect critique": PanelDetail,
    "rubric checklist": ChecklistDetail,
    "rubric-absolute": RubricDetail,
    "prompts": ScoreParts,
    "self-critique": PeerTable,
}
"""The type of `detail` in a sample, by environment."""

PARTS: Mapping[str, type] = {"draw": Draw, "label": Label}
"""Lines of other files, or objects within them."""


def file_fields(name: str) -> str:
    """Return the block of `sample`, of the detail of an environment, or of a part of another file."""
    lines = _sample_lines() if name == "sample" else model_lines({**DETAILS, **PARTS}[name], "")
    return "\n".join(["```yaml", *lines, "```"])


def _sample_lines() -> Iterator[str]:
    about = read_attributes(Sample)
    for name in ("uid", "category", "question", "texts", "task_digest"):
        yield from _field_lines(name, get_type_hints(Sample)[name], about[name], "")
    yield from _completion_lines("", "?", left_out="follow_up")
    yield (
        "completions?:  # several completions, or none; objects with the fields of a completion "
        "above"
    )
    yield from list_lines(_completion_lines("", left_out="turns"))
    yield "score: number or null  # in the judge's own range; null in failures.jsonl"
    yield (
        "status: text  # ok, invalid_completion, judge_failed, unparsable, policy_failed or "
        "user_failed"
    )
    yield from _field_lines("headline", HeadlineTerm | None, about["headline"], "")
    yield from _field_lines("orders", Mapping[str, float], about["orders"], "")
    yield from _field_lines("gold?", tuple[GoldLabel, ...], about["gold"], "")
    yield (
        "label?: text or null  # the outcome in the judge's terms; absent if the policy never "
        "answered"
    )
    yield (
        "detail?: object or null  # the judgment in the environment's terms, see Detail; null if "
        "no judge was asked"
    )
    yield (
        "injection_suspects?: whole number  # role tokens and lookalikes of markers in the texts "
        "shown to the judge"
    )
    yield "critique?:  # the history of self-critique"
    yield "  before_score: number  # before the first round"
    yield "  rounds:  # those of each verdict"
    yield from list_lines(model_lines(CritiqueRound, "  "))
    yield "members?: object of numbers  # the score from 0 to 1 of each member of a jury"
    yield "error?: text  # why the row failed; in failures.jsonl"
    yield from _field_lines(
        "run", SampleRun, "may differ between two runs; all other fields are equal", ""
    )


def _completion_lines(indent: str, mark: str = "", *, left_out: str) -> Iterator[str]:
    about, hints = read_attributes(Completion), get_type_hints(Completion)
    for field in fields(Completion):
        if field.name == left_out:
            continue
        optional = mark or ("?" if field.name in _OPTIONAL else "")
        name = _COMPLETION.get(field.name, field.name)
        yield from _field_lines(name + optional, hints[field.name], about[field.name], indent)
        if field.name == "thinking":
            yield (
                f"{indent}thinking_valid{optional}: true or false  # whether the thinking has the "
                "right format"
            )


def model_lines(model: type, indent: str) -> Iterator[str]:
    """Yield the fields of a dataclass."""
    about, hints = read_attributes(model), get_type_hints(model)
    for field in fields(model):
        yield from _field_lines(field.name, hints[field.name], about.get(field.name, ""), indent)


def _field_lines(name: str, annotation: Any, about: str, indent: str) -> Iterator[str]:
    comment = f"  # {about}" if about else ""
    inner, is_null = _drop_null(annotation)
    mark = "|null" if is_null else ""
    element = _element(inner)
    if element in _CUT:
        yield f"{indent}{name}: list of objects{_NULL if is_null else ''}  # {_CUT[element]}"
    elif is_dataclass(inner) and inner not in _PLAIN:
        yield f"{indent}{name}{mark}:{comment}"
        yield from model_lines(inner, f"{indent}  ")
    elif is_dataclass(element) and get_origin(inner) is tuple:
        yield f"{indent}{name}:{comment}"
        yield from list_lines(model_lines(element, indent))
    else:
        yield f"{indent}{name}: {_kind(annotation)}{comment}"


def list_lines(lines: Iterator[str]) -> Iterator[str]:
    """Indent the fields of an object as those of a list's elements."""
    for number, line in enumerate(lines):
        depth = len(line) - len(line.lstrip())
        yield f"{line[:depth]}  {'- ' if number == 0 else '  '}{line[depth:]}"


def _element(annotation: Any) -> Any:
    """The type of a tuple's elements, or of a mapping's values."""
    arguments = [argument for argument in get_args(annotation) if argument is not Ellipsis]
    return arguments[-1] if arguments and get_origin(annotation) is not Literal else None


def _drop_null(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) not in (Union, types.UnionType):
        return annotation, False
    members = [member for member in get_args(annotation) if member is not type(None)]
    is_null = len(members) < len(get_args(annotation))
    return functools.reduce(operator.or_, members), is_null


def _kind(annotation: Any) -> str:
    """A type in words."""
    inner, is_null = _drop_null(annotation)
    origin = get_origin(inner)
    if origin in (Union, types.UnionType):
        kinds = {_kind(member) for member in get_args(inner)}
        kind = "text or number" if "text" in kinds else "number"
    elif origin is Literal or (inspect.isclass(inner) and issubclass(inner, Enum)):
        kind = "text"
    elif origin is tuple:
        kind = f"list of {_plural(_element(inner))}"
    elif origin is not None and issubclass(origin, Mapping):
        kind = f"object of {_plural(_element(inner))}"
    else:
        kind = _PLAIN[inner]
    return kind + _NULL if is_null else kind


def _plural(annotation: Any) -> str:
    inner, is_null = _drop_null(annotation)
    words = "objects" if is_dataclass(inner) else _MANY[_kind(inner)]
    return f"{words} or nulls" if is_null else words


def read_attributes(model: type) -> Mapping[str, str]:
    """The meanings of a dataclass' attributes, without what they say of `None`."""
    docs = [
        inspect.cleandoc(base.__doc__ or "")
        for base in reversed(model.__mro__)
        if is_dataclass(base)
    ]
    meanings: dict[str, str] = {}
    for doc in docs:
        for match in _ATTRIBUTE.finditer(doc.partition("Attributes:\n")[2]):
            clauses = " ".join(match["text"].split()).rstrip(".").split("; ")
            meanings[match["name"]] = "; ".join(
                clause for clause in clauses if not clause.startswith("`None`")
            )
    return meanings
