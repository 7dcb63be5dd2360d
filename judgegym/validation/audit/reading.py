"""Judgments from files: pairs with recorded verdicts, or responses with scores or labels, and their gold labels.

A row without gold, or without a recorded judgment, is left out and counted; a verdict of null counts as one that could
not be read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from judgegym.data.rows import Row, load_rows
from judgegym.engine.records import explained
from judgegym.judges.core.naming import did_you_mean
from judgegym.llm.errors import DataError, SettingsError
from judgegym.llm.wire import JSON
from judgegym.validation.audit.cells import LabelledRow, numbers_beyond, read_rows
from judgegym.validation.audit.features import features_of
from judgegym.validation.audit.judgments import Judgments

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NO_GOLD, NO_JUDGMENT = "without a gold label", "without a recorded judgment"
A_JUDGE = "the judge"
Value = float | str | None
"""A verdict or a gold label: the number of a response, a score, or a label; `None` without one."""


@dataclass(frozen=True, slots=True)
class Sources:
    """What recorded judgments are read from.

    Attributes:
        data: the rows.
        verdicts: a file with verdicts by uid, instead of a column.
        judge: which judge of that file; the judge's name where rows have the verdicts.
        prompt: which prompt of that file.
        paraphrases: other prompts of the same judge in that file; `all` are all others.
        columns: columns that have other names than usual.
    """

    data: str
    verdicts: Path | None = None
    judge: str = ""
    prompt: str = ""
    paraphrases: Sequence[str] = ()
    columns: Mapping[str, str] = field(default_factory=dict)


def read_judgments(sources: Sources) -> Judgments:
    """Read rows with recorded judgments.

    Raises:
        DataError: a file or a row cannot be read, or there is nothing to audit.
        SettingsError: a judge or prompt is not in the file of verdicts, or a column is in no row.
    """
    rows = read_rows(sources.data, sources.columns)
    judge = sources.judge
    if sources.verdicts is not None:
        judge, by_uid = _verdict_file(sources)
        rows = [(row, _with_recorded(row, read, by_uid)) for row, read in rows]
    is_choice = sources.verdicts is not None or any("verdict" in read.model_fields_set for _, read in rows)
    golds = [not math.isnan(read.label) if is_choice else read.gold is not None for _, read in rows]
    name = "verdict" if is_choice else "score"
    kept = [each for each, has_gold in zip(rows, golds, strict=True) if has_gold and name in each[1].model_fields_set]
    if not kept:
        raise DataError(
            f"{sources.data}: nothing to audit: expected label and verdict of pairs (--verdict_column, or --verdicts "
            "FILE), or gold and score of responses (--gold_column, --score_column), or a judge to call (--judge KIND "
            "--out FOLDER); columns found: "
            f"{', '.join(rows[0][0].values) or 'none'}"
        )
    left_out = {NO_GOLD: golds.count(False), NO_JUDGMENT: sum(golds) - len(kept)}
    source = f"{sources.data}{f', {sources.verdicts}' if sources.verdicts else ''}"
    facts = {"judge": judge or A_JUDGE, "source": source, "left_out": {why: n for why, n in left_out.items() if n}}
    return (_choices if is_choice else _single)(kept, facts)


def _verdict_file(sources: Sources) -> tuple[str, Mapping[str, Mapping[str, JSON]]]:
    """The judge's name, and by prompt its verdicts by uid, the prompt that is audited first.

    Raises:
        DataError: the file has other lines than judge, prompt and winner.
        SettingsError: the judge or a prompt is not in it, or is not named and there are several.
    """
    found: dict[tuple[str, str], Mapping[str, JSON]] = {}
    for row in load_rows(str(sources.verdicts), split="train"):
        winner = row.values.get("winner")
        if not isinstance(winner, Mapping):
            raise row.lacks("judge, prompt and winner (an object: verdicts by uid)")
        found[str(row.values.get("judge", "")), str(row.values.get("prompt", ""))] = winner

    def pick(flag: str, wanted: str, known: Sequence[str]) -> str:
        if wanted in known or (not wanted and len(known) == 1):
            return wanted or known[0]
        what = f"no {wanted!r}{did_you_mean(wanted, known)}" if wanted else "several"
        raise SettingsError(f"--{flag}: {sources.verdicts} has {what}; choose of {', '.join(map(repr, known))}")

    judge = pick("judge", sources.judge, list(dict.fromkeys(name for name, _ in found)))
    prompts = [prompt for name, prompt in found if name == judge]
    first = pick("prompt", sources.prompt, prompts)
    others = [pick("paraphrases", name, prompts) for name in sources.paraphrases if name != "all"]
    others = prompts if "all" in sources.paraphrases else others
    return judge, {prompt: found[judge, prompt] for prompt in dict.fromkeys([first, *others])}


def _with_recorded(row: Row, read: LabelledRow, by_prompt: Mapping[str, Mapping[str, JSON]]) -> LabelledRow:
    """The row with its verdicts from a file.

    Raises:
        DataError: one cannot be read.
    """
    uid = row.uid_or_number()
    recorded: dict[str, Any] = {prompt: of[uid] for prompt, of in by_prompt.items() if uid in of}
    first = next(iter(by_prompt))
    if first not in recorded:
        return read.model_copy(update={"verdict": None})
    try:
        values = {"verdict": recorded.pop(first), "paraphrases": recorded}
        own = LabelledRow.model_validate(values)
    except ValidationError as error:
        raise row.error(f"recorded {explained(error)}") from None
    return LabelledRow.model_construct(
        read.model_fields_set | {"verdict"}, **{**dict(read), "verdict": own.verdict, "paraphrases": own.paraphrases}
    )


def _choices(rows: Sequence[tuple[Row, LabelledRow]], facts: Mapping[str, Any]) -> Judgments:
    """Pairs, or rows with more responses, and which one won.

    Raises:
        DataError: a number is of no response of its row.
    """
    import numpy as np

    counts = np.array([max(2, len(read.responses)) for _, read in rows])
    verdicts: list[list[list[float]]] = []  # row, repeat, order
    for (row, read), count in zip(rows, counts, strict=True):
        first = [*(read.verdict or [math.nan]), *(read.verdict_swapped or [])][:2]
        verdicts.append([first, *read.repeats])
        if numbers_beyond([read.label, *first, *chain.from_iterable(read.repeats)], count) or read.label < 0:
            raise row.error(f"expected label and winners from 1 to {count}, found label {read.label + 1:g}, {first}")
    scores = np.array([read.scores for _, read in rows])
    return gathered(
        [read.label for _, read in rows],
        verdicts,
        [read.paraphrases for _, read in rows],
        is_choice=True,
        counts=counts,
        scores=None if np.isnan(scores).all() else scores,
        **_facts(rows, facts),
    )


def _single(rows: Sequence[tuple[Row, LabelledRow]], facts: Mapping[str, Any]) -> Judgments:
    """Responses with a gold score or label, and the judge's."""
    return gathered([read.gold for _, read in rows], [[[read.score]] for _, read in rows], **_facts(rows, facts))


def _facts(rows: Sequence[tuple[Row, LabelledRow]], facts: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `Judgments` that are the same for all kinds."""
    import numpy as np

    texts, models = [read.responses for _, read in rows], [read.models for _, read in rows]
    times, said = (np.array([getattr(read, name) for _, read in rows]) for name in ("time", "probability"))
    keys = [row.uid_or_number() if read.cluster is None else repr(read.cluster) for row, read in rows]
    return {
        **facts,
        "uids": [row.uid_or_number() for row, _ in rows],
        "clusters": clusters_of(keys),
        "features": features_of(texts, models if any(models) else None, facts["judge"]) if any(texts) else {},
        "categories": [read.category for _, read in rows],
        "times": None if np.isnan(times).all() else times,
        "probabilities": None if np.isnan(said).all() else said,
    }


def clusters_of(keys: Sequence[str]) -> NDArray[np.int64]:
    """The number of the cluster of each row: rows with one key are one."""
    import numpy as np

    return np.unique(keys, return_inverse=True)[1].astype(np.int64)


def gathered(
    golds: Sequence[Value],
    verdicts: Sequence[Sequence[Sequence[Value]]],
    paraphrases: Sequence[Mapping[str, Sequence[Value]]] = (),
    *,
    is_choice: bool = False,
    **facts: Any,
) -> Judgments:
    """Judgments of rows: of choices, or of responses by themselves: scores where all gold labels are numbers.

    Args:
        golds: the gold label of each row.
        verdicts: of each row, by repeat and order; `None` or NaN where none could be read. All orders of the first
            repeat were asked, and no others count.
        paraphrases: of each row, by name and order.
        is_choice: verdicts and gold labels are numbers of responses.
        facts: the other fields of `Judgments`.
    """
    import numpy as np

    said = chain.from_iterable(chain.from_iterable(verdicts))
    everything = [*golds, *said, *chain.from_iterable(chain.from_iterable(of.values() for of in paraphrases))]
    is_number = is_choice or all(isinstance(each, float) for each in golds)
    levels = [] if is_number else sorted({str(each).casefold() for each in everything if each is not None})

    def code(value: Value) -> float:
        if value is None:
            return math.nan
        return levels.index(str(value).casefold()) if levels else float(value)

    shape = (len(golds), max(len(of_row[0]) for of_row in verdicts), max(map(len, verdicts)))
    found, asked = np.full(shape, np.nan), np.zeros(shape, dtype=bool)
    names = dict.fromkeys(chain.from_iterable(paraphrases))
    reworded = {name: np.full(shape[:2], np.nan) for name in names}
    for row, of_row in enumerate(verdicts):
        for repeat, orders in enumerate(of_row):
            found[row, : len(orders), repeat] = [*map(code, orders)][: shape[1]]
            asked[row, : len(orders), repeat] = True
    for row, by_name in enumerate(paraphrases):
        for name, orders in by_name.items():
            reworded[name][row, : len(orders)] = [*map(code, orders)][: shape[1]]
    known = np.array([*map(code, everything)])
    return Judgments(
        kind="choice" if is_choice else "label" if levels else "score",
        gold=np.array([*map(code, golds)]),
        verdicts=found,
        asked=asked,
        levels=levels,
        scale=(float(np.nanmin(known)), float(np.nanmax(known))),
        paraphrases=reworded,
        **{"counts": np.ones(len(golds), dtype=np.int64), **facts},
    )
