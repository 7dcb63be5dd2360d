"""Read and write the file of human labels of a run's rows, one JSON object a line.

A label is on the scale of the row's headline value: a win is 1 and a tie 0.5, a pass is 1. The
first line may say how the rows were drawn; without it they are not known to be a random sample. The
last line of a row and labeller counts, so a further line changes or undoes a label.

Guarantee: an object that is not a label is an error that names the file and the line.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Annotated, ClassVar, Literal, TypeVar

import orjson
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from judgegym.engine.records import Sample, digest, explain_errors
from judgegym.engine.runs.damaged_lines import Loss, is_being_written, mend_lines, read_objects
from judgegym.engine.runs.lines import RawLine
from judgegym.llm import wire
from judgegym.llm.errors import DataError, UserError
from judgegym.llm.wire import JSON
from judgegym.statistics.agreement import krippendorff_alpha, quadratic_kappa

LABELS = "labels.jsonl"
Sampling = Literal["random", "by_score"]

_STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
_LineT = TypeVar("_LineT")


Name = Annotated[str, Field(pattern=r"\S")]


@dataclass(frozen=True, slots=True)
class Stratum:
    """A part of a run's rows of known size.

    Attributes:
        name: the name in the labels of its rows.
        rows: the number of the run's rows in it.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    name: str
    rows: Annotated[int, Field(ge=1)]


@dataclass(frozen=True, slots=True)
class Draw:
    """The draw of the rows to label from a run.

    Attributes:
        how: `random`: every row is equally likely to be next; `by_score`: the same within each
            stratum.
        seed: decides the order, together with the rows' ids.
        rows: the number of rows that can be drawn: those with a headline value.
        run: a digest of these rows and their completions (`run_digest`).
        strata: the strata of a draw by score; their sizes sum to `rows`.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    how: Sampling
    seed: int
    rows: Annotated[int, Field(ge=1)]
    run: str
    strata: tuple[Stratum, ...] = ()

    def to_line(self) -> bytes:
        """Return the first line of the file."""
        return wire.dumps({"drawn": asdict(self)}) + b"\n"


@dataclass(frozen=True, slots=True)
class Label:
    """One person's label of one row.

    Attributes:
        uid: the row's id.
        labeller: the person's name.
        label: the label, on the scale of the row's headline value; `None` for "cannot tell".
        stratum: the row's stratum, if the rows were drawn by score.
        note: the labeller's note, free text.
        at: the time of the label, in ISO 8601; empty if unknown.
        row: a digest of what was labelled (`row_digest`); empty if unknown.
        parts: the label of each part, if the label is computed from several.
        undone: the label is withdrawn.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    uid: Name
    labeller: Name
    label: float | None
    stratum: str = ""
    note: str = ""
    at: str = ""
    row: str = ""
    parts: Mapping[str, float] = field(default_factory=dict)
    undone: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """The row and the labeller, who has one label of it."""
        return self.uid, self.labeller

    def to_line(self) -> bytes:
        """Return the label as a line; empty fields are left out."""
        fields: dict[str, JSON] = {"uid": self.uid, "labeller": self.labeller, "label": self.label}
        fields |= {name: value for name, value in asdict(self).items() if value}
        return wire.dumps(fields) + b"\n"


@dataclass(frozen=True, slots=True)
class LabellerAgreement:
    """The agreement of labellers on rows that two or more have labelled.

    Attributes:
        rows: the number of these rows.
        same: the share of these rows on which all labels are equal; `None` without such rows.
        alpha: Krippendorff's alpha (interval), or why it is undefined.
        kappa: Cohen's kappa with quadratic weights for two labellers, or why it is undefined.
    """

    rows: int
    same: float | None
    alpha: float | str
    kappa: float | str


@dataclass(frozen=True)
class Labels:
    """The labels of a file.

    Attributes:
        path: the file.
        draw: how the rows were drawn; `None` if the file does not say.
        by_row_and_labeller: the current label of each row and labeller, the latest last.
    """

    path: Path
    draw: Draw | None = None
    by_row_and_labeller: dict[tuple[str, str], Label] = field(default_factory=dict)

    def add(self, label: Label) -> None:
        """Replace the labeller's earlier label of this row; an undone label removes it."""
        self.by_row_and_labeller.pop(label.key, None)
        if not label.undone:
            self.by_row_and_labeller[label.key] = label

    @property
    def labellers(self) -> list[str]:
        """The labellers, in the order of their labels."""
        return list(dict.fromkeys(labeller for _, labeller in self.by_row_and_labeller))

    def group_by_row(self) -> Mapping[str, list[Label]]:
        """Return the labels of each row, without those that cannot tell."""
        rows: defaultdict[str, list[Label]] = defaultdict(list)
        for label in self.by_row_and_labeller.values():
            if label.label is not None:
                rows[label.uid].append(label)
        return rows

    def means(self) -> Mapping[str, float]:
        """Return the mean label of each row that has one."""
        return {
            uid: sum(label.label or 0.0 for label in row_labels) / len(row_labels)
            for uid, row_labels in self.group_by_row().items()
        }

    def agreement(self) -> LabellerAgreement:
        """Return how far the labellers agree."""
        shared = {
            uid: {label.labeller: label.label for label in row_labels}
            for uid, row_labels in self.group_by_row().items()
        }
        shared = {uid: row_ratings for uid, row_ratings in shared.items() if len(row_ratings) > 1}
        if not shared:
            return LabellerAgreement(0, None, *["no row has the labels of two labellers"] * 2)
        names = list(dict.fromkeys(chain.from_iterable(shared.values())))
        ratings = [[row_ratings.get(name) for row_ratings in shared.values()] for name in names]
        agreed = sum(len({*row_ratings.values()}) == 1 for row_ratings in shared.values())
        same = agreed / len(shared)
        pairs = [
            [float(value) for value in labeller_ratings if value is not None]
            for labeller_ratings in ratings
        ]
        kappa: float | str = f"κ needs two labellers; there are {len(names)}"
        if len(names) == 2:
            kappa = quadratic_kappa(*pairs)
        return LabellerAgreement(len(shared), same, krippendorff_alpha(ratings), kappa)


def row_digest(sample: Sample[JSON]) -> str:
    """Return a digest of what a labeller sees of a row; equal for equal completions."""
    return digest(
        sample.question, sample.texts, [completion.answer for completion in sample.completions]
    )


def run_digest(rows: Mapping[str, str]) -> str:
    """Return a digest of rows, given by their ids and digests, in any order."""
    return digest(sorted(rows.items()))


_DRAW, _LABEL = TypeAdapter(Draw), TypeAdapter(Label)
_LOST_LABELS: Loss = ("label", "may be missing")


def read_labels(path: Path, *, may_be_empty: bool = False) -> Labels:
    """Read a file of labels.

    Args:
        path: the file.
        may_be_empty: labels will be added, so it need not have one yet, and is repaired if it is
            damaged.

    Raises:
            UserError: there is no such file, or it cannot be read.
            DataError: it has no label, or an object in it is not a label; the message names the
                file and the line.
    """
    if not path.is_file():
        raise UserError(f"{path}: there is no such file of labels")
    labels = Labels(path)
    is_continued = may_be_empty and not is_being_written(path)
    lines = mend_lines(path, RawLine.fields, _LOST_LABELS) if is_continued else read_objects(path)
    for line, fields in lines:
        if "drawn" in fields:
            if line.number > 1:
                raise DataError(f"{path}, line {line.number}: `drawn` belongs in the first line")
            draw = _parse_line(line, _DRAW, orjson.dumps(fields["drawn"]))
            labels = Labels(path, draw)
            if draw.strata and sum(stratum.rows for stratum in draw.strata) != draw.rows:
                raise DataError(
                    f"{path}, line 1: the rows of the strata do not sum to rows, which is "
                    f"{draw.rows}"
                )
            continue
        labels.add(_parse_line(line, _LABEL, line.data))
    if not may_be_empty and not labels.by_row_and_labeller:
        raise DataError(f"{path}: there is no label in it; judgegym label writes them")
    return labels


def _parse_line(line: RawLine, kind: TypeAdapter[_LineT], data: bytes) -> _LineT:
    try:
        return kind.validate_json(data)
    except ValidationError as error:
        raise DataError(
            f"{line.path}, line {line.number}: not a label: {explain_errors(error)}"
        ) from None


FEWEST_ROWS = 10
"""The fewest rows of a stratum: with fewer, rows left out ("cannot tell") leave no variance."""
_MOST_STRATA = 5


def assign_strata(values: Mapping[str, float]) -> Mapping[str, str]:
    """Return the stratum of each row, by id, in the order of the rows' headline `values`.

    There is one stratum for each value of the judge, or with many values one for each fifth of the
    rows. A stratum of fewer than `FEWEST_ROWS` rows is joined to the next one (Cochran, Sampling
    Techniques, 1977, chapter 5).
    """
    ordered = sorted(values.values())
    tops = sorted({*ordered})
    if len(tops) > _MOST_STRATA:
        tops = sorted(
            {
                ordered[(len(ordered) * part) // _MOST_STRATA - 1]
                for part in range(1, _MOST_STRATA + 1)
            }
        )
    merged_tops: list[float] = []
    sizes = Counter(bisect_left(tops, value) for value in ordered)
    room = 0
    for index, top in enumerate(tops):
        room += sizes[index]
        if room >= FEWEST_ROWS:
            merged_tops.append(top)
            room = 0
    if room:  # too few rows remain: they join the stratum before
        merged_tops[-1:] = [tops[-1]]
    names = [f"to {top:g}" for top in merged_tops]
    return {
        uid: names[bisect_left(merged_tops, values[uid])]
        for uid in sorted(values, key=values.__getitem__)
    }
