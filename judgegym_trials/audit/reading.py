"""Reader of labelled rows with recorded judgments, from columns or from a file of verdicts.

A row without gold, or without a recorded judgment, is left out and counted; a verdict of null
counts as unreadable. Errors name the row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, ValidationError

from judgegym.data.rows import Row, load_rows, value_at
from judgegym.engine.records import explain_errors
from judgegym.judges.core.naming import suggest_similar
from judgegym.llm import wire
from judgegym.llm.errors import DataError, SettingsError
from judgegym.llm.wire import JSON
from judgegym_trials.audit.judgments import TIE, Judgments, RowJudgments, Value
from judgegym_trials.audit.labels import LabelFile, parse_pair, parse_word
from judgegym_trials.audit.latent_truth import MOST_NOISE

NO_GOLD, NO_JUDGMENT = "without a gold label", "without a recorded judgment"
A_JUDGE = "the judge"
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_TIES = ("0", "TIE")


def _parse_response_number(value: object) -> float:
    """Parse a response's number (from 1) or letter to its number from 0; `TIE`; NaN for null."""
    word = "" if value is None else str(value).upper()
    if word in _TIES:
        return TIE
    if len(word) == 1 and word in _LETTERS:
        return float(_LETTERS.index(word))
    if word and not (word.isdecimal() and len(word) < 4):
        raise ValueError(f"expected the number of a response, tie or null, found {value!r}")
    if word:
        return float(word) - 1
    return math.nan


def _parse_orders(value: object) -> list[float]:
    """Return the winner in the given order, or in the given and the swapped one."""
    parts = value if isinstance(value, list) else [value]
    if len(parts) not in (1, 2):
        raise ValueError(f"expected the winner in one or two orders, found {value!r}")
    return [_parse_response_number(part) for part in parts]


def _check_pair(value: object) -> object:
    """Check that a value is a list of two."""
    if isinstance(value, list) and len(value) != 2:
        count = len(value)
        raise ValueError(
            f"expected the judge's score of each response of a pair, found {count} scores; an audit "
            "reads label and verdict of pairs, or gold and score of responses"
        )
    return value


def _parse_time(value: object) -> float:
    """Return a time: a number in any unit, or an ISO date."""
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return datetime.fromisoformat(str(value).replace("Z", "+00:00")).timestamp()


def _parse_gold(value: object) -> object:
    """Return a label of gold or judge: text with a number becomes a number, a bool yes or no."""
    if isinstance(value, bool):
        if value:
            return "yes"
        return "no"
    try:
        number = float(value) if isinstance(value, str | int | float) else math.nan
    except ValueError:
        return value
    if math.isinf(number):
        raise ValueError(f"expected a finite number, found {value!r}")
    if math.isnan(number):
        return None
    return number


Winner = Annotated[float, PlainValidator(_parse_response_number)]
Orders = Annotated[list[float], PlainValidator(_parse_orders)]
GoldValue = Annotated[float | str | None, BeforeValidator(_parse_gold)]
Texts = Annotated[
    list[str], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)
]


class LabelledRow(BaseModel):
    """Fields of a row by the usual names of their columns.

    Their descriptions are those of the flags.
    """

    model_config = ConfigDict(coerce_numbers_to_str=True)

    label: Winner = Field(math.nan, description="number of the better response, from 1")
    verdict: Orders | None = Field(
        None, description="number of the winner; of both orders as a list; null: unread"
    )
    verdict_swapped: Orders | None = Field(
        None, description="number of the winner in the swapped order, as in the row"
    )
    repeats: list[Orders] = Field([], description="further verdicts, each in the form of the first")
    paraphrases: dict[str, Orders] = Field(
        {}, description="an object: verdicts under other wordings of the prompt"
    )
    gold: GoldValue = Field(None, description="gold score or label of a response")
    second_label: Winner = Field(
        math.nan, description="number of the better response, by a second labeller"
    )
    second_gold: GoldValue = Field(
        None, description="gold score or label of a response, by a second labeller"
    )
    score: GoldValue = Field(None, description="the judge's score or label of a response")
    models: Texts = Field([], description="who wrote each response, for self-preference")
    probability: float = Field(
        math.nan,
        description="the judge's probability, 0 to 1, that the first response is better, or of yes",
    )
    scores: Annotated[tuple[float, float], BeforeValidator(_check_pair)] = Field(
        (math.nan, math.nan), description="the judge's score of each response alone"
    )
    time: Annotated[float, PlainValidator(_parse_time)] = Field(
        math.nan, description="when the row was judged: a number or an ISO date, for drift"
    )
    category: str | None = Field(None, description="category of the row")
    cluster: Any = Field(
        None, description="rows with the same value depend on each other: by default the prompt's"
    )
    responses: Texts = Field([], description="the texts of the responses, or of one")


COLUMNS: Mapping[str, str] = {
    name: str(field.description) for name, field in LabelledRow.model_fields.items()
}
_OTHER_COLUMNS = {
    "responses": ("response", "answer", "completion"),
    "cluster": ("prompt",),
    "models": ("model",),
}
"""Columns that are read if there is none with the usual name."""


def read_judgments(
    data: str,
    *,
    columns: Mapping[str, str],
    verdicts: Path | None = None,
    judge: str = "",
    prompt: str = "",
    paraphrases: Sequence[str] = (),
    labels: Path | None = None,
) -> Judgments:
    """Read rows with recorded judgments.

    Args:
        data: the rows.
        columns: names of columns that differ from the usual ones.
        verdicts: a file with verdicts by uid, instead of a column.
        judge: the judge in that file; if rows have the verdicts, the judge's name.
        prompt: the prompt in that file.
        paraphrases: other prompts of the same judge in that file; `all` for all others.
        labels: a file of labels, in addition to those of the rows.

    Raises:
        DataError: a file or a row cannot be read, or there is nothing to audit; the message names
            file, row and field.
        SettingsError: a judge or prompt is not in the file of verdicts, a column is in no row, or
            verdicts are in a file and in a column.
    """
    recorded: Mapping[str, Mapping[str, JSON]] = {}
    if verdicts is not None:
        if "verdict" in columns:
            raise SettingsError(
                "--verdict_column: the verdicts are read from the file of --verdicts"
            )
        judge, recorded = _read_verdicts(verdicts, judge, prompt, paraphrases)
    rows = _read_rows(data, columns, recorded)
    is_choice = verdicts is not None or any(
        "verdict" in cells.model_fields_set for _, cells in rows
    )
    name = "verdict" if is_choice else "score"
    if labels is not None:
        label_file = LabelFile(labels)
        rows = [
            (row, _add_labels(row, cells, label_file, is_choice=is_choice)) for row, cells in rows
        ]
        label_file.check_used(data)
    if is_choice:
        labelled = [(row, cells) for row, cells in rows if not math.isnan(cells.label)]
    else:
        labelled = [(row, cells) for row, cells in rows if cells.gold is not None]
    judged = [(row, cells) for row, cells in labelled if name in cells.model_fields_set]
    if not judged:
        names = ", ".join(rows[0][0].values) or "none"
        raise DataError(
            f"{data}: nothing to audit: expected label and verdict of pairs (--verdict_column, or "
            "--verdicts FILE), or gold and score of responses (--gold_column, --score_column), or a "
            f"judge to call (--judge KIND --out FOLDER); columns found: {names}"
        )
    left_out = {NO_GOLD: len(rows) - len(labelled), NO_JUDGMENT: len(labelled) - len(judged)}
    judgments = [_read_judgments(*entry, is_choice=is_choice) for entry in judged]
    source = f"{data}, {verdicts}" if verdicts else data
    collected = Judgments.from_rows(
        judgments, is_choice=is_choice, judge=judge or A_JUDGE, source=source
    )
    return replace(collected, left_out={why: count for why, count in left_out.items() if count})


def _add_labels(row: Row, cells: LabelledRow, labels: LabelFile, *, is_choice: bool) -> LabelledRow:
    """Return a row with the labels of a file.

    Raises:
        DataError: a label does not fit such a row.
    """
    if not is_choice:
        row_judgments = RowJudgments(row.uid_or_number(), cells.gold, second_gold=cells.second_gold)
        parse: Callable[[float], Value] = float
        if isinstance(cells.score if cells.gold is None else cells.gold, str):
            parse = parse_word
        labelled = labels.label_row(row_judgments, parse)
        return cells.model_copy(update={"gold": labelled.gold, "second_gold": labelled.second_gold})
    both = [None if math.isnan(label) else label for label in (cells.label, cells.second_label)]
    labelled = labels.label_row(
        RowJudgments(row.uid_or_number(), both[0], second_gold=both[1]), parse_pair
    )
    numbers = [
        math.nan if value is None else value for value in (labelled.gold, labelled.second_gold)
    ]
    return cells.model_copy(update=dict(zip(("label", "second_label"), numbers, strict=True)))


def _read_verdicts(
    path: Path, judge: str, prompt: str, paraphrases: Sequence[str]
) -> tuple[str, Mapping[str, Mapping[str, JSON]]]:
    """Return the judge's name, and its verdicts by prompt and uid, the audited prompt first.

    Raises:
        DataError: a line is not made of judge, prompt and winner.
        SettingsError: the judge or a prompt is not in it, or there are several and none is named.
    """
    winners: dict[tuple[str, str], Mapping[str, JSON]] = {}
    for row in load_rows(str(path), split="train"):
        winner = row.values.get("winner")
        if not isinstance(winner, Mapping):
            raise row.missing_error("judge, prompt and winner (an object: verdicts by uid)")
        winners[str(row.values.get("judge", "")), str(row.values.get("prompt", ""))] = winner

    def pick(flag: str, wanted: str, names: Sequence[str]) -> str:
        if wanted in names or (not wanted and len(names) == 1):
            return wanted or names[0]
        problem, listed = "several", ", ".join(map(repr, names))
        if wanted:
            hint = suggest_similar(wanted, names)
            problem = f"no {wanted!r}{hint}"
        raise SettingsError(f"--{flag}: {path} has {problem}; choose of {listed}")

    judge = pick("judge", judge, list(dict.fromkeys(name for name, _ in winners)))
    prompts = [prompt_name for name, prompt_name in winners if name == judge]
    first = pick("prompt", prompt, prompts)
    others = [pick("paraphrases", name, prompts) for name in paraphrases if name != "all"]
    if "all" in paraphrases:
        others = prompts
    return judge, {name: winners[judge, name] for name in dict.fromkeys([first, *others])}


def _read_rows(
    data: str, columns: Mapping[str, str], recorded: Mapping[str, Mapping[str, JSON]]
) -> list[tuple[Row, LabelledRow]]:
    """Read labelled rows; verdicts of a file, by prompt and uid, replace a column's.

    Raises:
        DataError: a row cannot be read, or two rows have the same id.
        SettingsError: a named column is in no row.
    """
    labelled_rows: list[tuple[Row, LabelledRow]] = []
    seen: set[str] = set()
    missing, wanted = dict(columns), list(COLUMNS)
    if recorded:
        wanted.remove("verdict")
    for row in load_rows(data, split="train"):
        uid = row.uid_or_number()
        of_row: dict[str, object] = {
            prompt: winners[uid] for prompt, winners in recorded.items() if uid in winners
        }
        if (first := next(iter(recorded), None)) in of_row:
            of_row = {"verdict": of_row.pop(first), "paraphrases": of_row}
        read = read_row(row, wanted, columns, of_row)
        for field_name in read.model_fields_set:
            missing.pop(field_name, None)
        if uid in seen:
            raise DataError(f"{row.place}: the id {uid!r} is also that of another row")
        seen.add(uid)
        labelled_rows.append((row, read))
    for field_name, name in missing.items():
        hint = suggest_similar(name, labelled_rows[0][0].values)
        raise SettingsError(f"--{field_name}_column: no row of {data} has {name!r}{hint}")
    return labelled_rows


def read_row(
    row: Row,
    wanted: Iterable[str],
    columns: Mapping[str, str],
    recorded: Mapping[str, object] | None = None,
) -> LabelledRow:
    """Read a row.

    Args:
        row: the row.
        wanted: the fields to read.
        columns: names of columns that differ from the usual ones.
        recorded: fields from elsewhere.

    Raises:
        RowError: it cannot be read.
    """
    cells, values = row.filled_values(), {}
    for field_name in wanted:
        names: Sequence[str] = (field_name, *_OTHER_COLUMNS.get(field_name, ()))
        if field_name in columns:
            names = (columns[field_name],)
        value = next(
            (cell for name in names if (cell := value_at(cells, name)) not in (None, "")), None
        )
        if value is not None:
            values[field_name] = _parse_json_text(value) if field_name != "responses" else value
        elif field_name in ("verdict", "score") and any(name in row.values for name in names):
            values[field_name] = None
    try:
        read = LabelledRow.model_validate({**values, **(recorded or {})})
    except ValidationError as error:
        raise row.error(explain_errors(error)) from None
    if not (math.isnan(read.probability) or 0 <= read.probability <= 1):
        raise row.error(f"probability: expected a number from 0 to 1, found {read.probability:g}")
    return read


def _parse_json_text(value: object) -> object:
    """Parse a value as JSON, for files that hold only text: lists and objects."""
    if not isinstance(value, str) or value[:1] not in ("[", "{"):
        return value
    parsed = wire.loads_or_none(value)
    if parsed is None:
        return value
    return parsed


def _read_judgments(row: Row, cells: LabelledRow, *, is_choice: bool) -> RowJudgments:
    """Return a row's judgments: the winners' numbers for a choice, otherwise score or label.

    Raises:
        RowError: a number is not that of a response.
    """
    gold: Value = cells.gold
    verdicts: list[Sequence[Value]] = [[cells.score]]
    if is_choice:
        count = max(2, len(cells.responses))
        first = [*(cells.verdict or [math.nan]), *(cells.verdict_swapped or [])][:2]
        gold, verdicts = cells.label, [first, *cells.repeats]
        if (
            exceeds_count([cells.label, *first, *chain.from_iterable(cells.repeats)], count)
            or cells.label < 0
        ):
            raise row.error(
                f"expected label and winners from 1 to {count}, found label {cells.label + 1:g}, "
                f"{first}"
            )
    return RowJudgments(
        row.uid_or_number(),
        gold,
        verdicts,
        cells.paraphrases if is_choice else {},
        responses=cells.responses,
        models=cells.models,
        cluster=row.uid_or_number() if cells.cluster is None else repr(cells.cluster),
        category=cells.category,
        time=cells.time,
        probability=cells.probability,
        scores=cells.scores,
        second_gold=parse_second_label(
            row, cells, count=max(2, len(cells.responses)) if is_choice else 0
        ),
    )


def parse_second_label(row: Row, cells: LabelledRow, *, count: int) -> Value:
    """Return a second labeller's gold: for a choice the number of a response, `None` for a tie.

    Args:
        row: the row.
        cells: the row's parsed fields.
        count: number of a choice's responses; 0 for other kinds.

    Raises:
        RowError: it names no response of the row, or is a label where gold is a score.
    """
    if not count:
        if cells.second_gold is not None and isinstance(cells.second_gold, float) != isinstance(
            cells.gold, float
        ):
            raise row.error(
                f"expected a second gold label like {cells.gold!r}, found {cells.second_gold!r}"
            )
        return cells.second_gold
    if exceeds_count([cells.second_label], count):
        raise row.error(
            f"expected a second label from 1 to {count}, found {cells.second_label + 1:g}"
        )
    if cells.second_label >= 0:
        return cells.second_label
    return None


def check_noise(noise: float | None) -> float | None:
    """Check the share of wrong labels that a user states, and return it.

    Raises:
        SettingsError: it is not a number from 0 to below `MOST_NOISE`.
    """
    if noise is not None and not 0 <= noise < MOST_NOISE:
        hint = "; 8 % is 0.08" if noise > 1 else ""
        raise SettingsError(
            "--label_noise: expected the share of gold labels that are wrong, from 0 (exact) to "
            f"below {MOST_NOISE:g}, found {noise:g}{hint}"
        )
    return noise


def exceeds_count(numbers: Sequence[float], count: int) -> bool:
    """Return whether a number is outside 0 to `count` − 1."""
    return any(number >= count for number in numbers)
