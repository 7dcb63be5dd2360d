"""Which columns of a data set hold what the judge sees."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel

from judgegym.judges.config.fields import setting

_JOINED = "; several columns, separated by commas, are joined by blank lines"


class ColumnSettings(BaseModel):
    """The columns of a data set. What is not named is found by its usual names (`responses.py`)."""

    help_group: ClassVar[str] = "data"

    split: str = setting("train", "Take this split of a data set of the Hugging Face hub.")
    prompt_column: str | None = setting(
        None, f"Take the prompt from this column: a text, or messages{_JOINED}.", common=True
    )
    response_column: str | None = setting(
        None,
        "Take the response from this column: a text or messages, or a list of them for several responses to one "
        "prompt. Several columns, separated by commas, are several responses.",
    )
    reference_column: str | None = setting(
        None,
        "Take a response that deserves the highest score from this column, where it has one. If unset, from reference.",
    )
    rubric_column: str | None = setting(
        None,
        "Take the rubric of a row from this column, where it has one, instead of --rubric. If unset, from rubric.",
    )
    baseline_column: str | None = setting(
        None,
        "Take the response to compare with from this column, where it has one (judge arena_hard and others). If unset, "
        "from baseline.",
    )
    aspects_column: str | None = setting(
        None,
        "Take the aspects of a row from this column, where it has any, instead of --aspects (judge aspect): names, or "
        "objects with name and definition. If unset, from aspects.",
    )
    context_column: str | None = setting(
        None,
        "Take the text, or the list of texts, that a response should be based on from this column, where it has one "
        "(judges aspect, listwise, tournament). If unset, these judges take it from context.",
    )
    category_column: str | None = setting(
        None, "Report the scores by the values of this column, such as the source of a row.", common=True
    )
    group_by: str | None = setting(
        None,
        "Judge rows together that have the same value in this column, each with one response, with a judge that "
        "compares responses. They may stand anywhere in the data.",
    )
