"""Data of an audit: gold labels of rows and a judge's judgments, row by row and as arrays.

Every source (rows with recorded verdicts, runs, scored files, judges that are called) builds
`RowJudgments`, and `Judgments` is built from these; no check knows the source.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Literal

from judgegym.statistics.agreement import agreement_rule
from judgegym_trials.audit.features import measure_features, pad_rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from judgegym.statistics.agreement import Codes, Floats

Kind = Literal["choice", "label", "score"]
"""Kind of a judge's verdict on a row: its best response, one of a few labels, or a score."""
TIE = -1.0
"""Verdict that no response is the best; it counts half."""
GIVEN, SWAPPED = 0, 1
"""Orders of a choice's responses: as they are in the row, and reversed."""
Value = float | str | None
"""A verdict or gold label: a response's number from 0, a score, or a label; `None` without one."""


@dataclass(frozen=True, slots=True)
class RowJudgments:
    """A row's gold label and a judge's verdicts on it.

    Attributes:
        uid: the row's id.
        gold: the gold label.
        second_gold: a second labeller's gold label; `None` without one.
        verdicts: verdicts by repeat and order; `None` or NaN if unreadable. The orders of the
            first repeat were asked, and no others count.
        paraphrases: verdicts by the name of another wording of the prompt, and by order.
        responses: the texts of the responses.
        models: the model that wrote each response; empty if unknown.
        cluster: rows with the same cluster depend on each other.
        category: the row's category.
        time: when the row was judged, in any unit; NaN if unknown.
        probability: the judge's probability of the first response, or of the last label, in the
            given order.
        scores: for a pair, the same judge's score of each response alone.
    """

    uid: str
    gold: Value
    verdicts: Sequence[Sequence[Value]] = ()
    paraphrases: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    responses: Sequence[str] = ()
    models: Sequence[str] = ()
    cluster: str = ""
    category: str | None = None
    time: float = math.nan
    probability: float = math.nan
    scores: Sequence[float | None] = (None, None)
    second_gold: Value = None


@dataclass(frozen=True)  # no slots: cached properties need a dictionary
class Judgments:
    """A judge's judgments of N labelled rows, as arrays.

    Attributes:
        judge: the judge's name.
        source: where the judgments come from, for people.
        kind: the kind of the judge's verdicts.
        uids: the rows' ids; one row may have several labels, such as aspects.
        gold: N: the number of the right response, from 0; the number of the label in `levels`; or
            the score.
        second_gold: N: a second labeller's gold, coded like `gold`; NaN without one. `None` if no
            row has one.
        label_noise: the share of wrong gold labels, as the user says; 0 if they are exact, `None`
            if unknown.
        verdicts: N × orders × repeats, coded like `gold`: a response has the same number in all
            orders. NaN if unreadable.
        was_asked: N × orders × repeats: whether the judge was asked.
        clusters: N: the number of each row's cluster, from 0 without a gap.
        counts: N: number of a row's responses; 1 for other kinds.
        levels: the names of the labels.
        scale: the lowest and the highest score.
        has_levels: whether the scale of scores is known to have levels; otherwise the gold labels
            decide (`agreement_rule`).
        paraphrases: by name, N × orders: the verdicts under another wording of the prompt.
        features: by name, N × the most responses: a property of each response (`features.py`); NaN
            if unknown.
        categories: N: the rows' categories.
        times: N: when the row was judged, in any unit; `None` if unknown.
        probabilities: N: the judge's probability of the first response, or of the last label, in
            the given order.
        scores: N × 2: the score that the same judge gave to each response by itself.
        operation: for each check of the calls that has data, a total and a weight of each row, such
            as its seconds and its calls.
        left_out: number of rows left out, by reason.
        unmeasured: why a check has no data, by its name.
    """

    judge: str
    source: str
    kind: Kind
    uids: Sequence[str]
    gold: Floats
    verdicts: Floats
    was_asked: NDArray[np.bool_]
    clusters: Codes
    counts: Codes
    levels: Sequence[str] = ()
    scale: tuple[float, float] = (0.0, 1.0)
    has_levels: bool = False
    paraphrases: Mapping[str, Floats] = field(default_factory=dict)
    features: Mapping[str, Floats] = field(default_factory=dict)
    categories: Sequence[str | None] = ()
    times: Floats | None = None
    probabilities: Floats | None = None
    scores: Floats | None = None
    operation: Mapping[str, tuple[Floats, Floats]] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    unmeasured: Mapping[str, str] = field(default_factory=dict)
    second_gold: Floats | None = None
    label_noise: float | None = None

    @classmethod
    def from_rows(
        cls, rows: Sequence[RowJudgments], *, is_choice: bool, judge: str, source: str
    ) -> Judgments:
        """Make the arrays.

        Rows are choices or single responses; these have scores if all gold labels are numbers.
        """
        import numpy as np

        recorded = chain.from_iterable((*row.verdicts, *row.paraphrases.values()) for row in rows)
        labels = chain.from_iterable((row.gold, row.second_gold) for row in rows)
        everything = [*labels, *chain.from_iterable(recorded)]
        is_number = is_choice or all(isinstance(row.gold, float) for row in rows)
        kind: Kind = "choice" if is_choice else "score"
        levels: list[str] = []
        if not is_number:
            levels = sorted({str(label).casefold() for label in everything if label is not None})
        if levels and not is_choice:
            kind = "label"

        def code(value: Value) -> float:
            if value is None:
                return math.nan
            if levels:
                return levels.index(str(value).casefold())
            return float(value)

        def to_array(values: Sequence[float | Sequence[float | None]]) -> Floats | None:
            array = np.array(values, dtype=float)
            if np.isnan(array).all():
                return None
            return array

        def encode_orders(of_rows: Iterable[Sequence[Value]]) -> Floats:
            """Encode each row's verdicts, N × orders."""
            return pad_rows([[*map(code, verdicts)] for verdicts in of_rows], orders)

        orders = max(len(row.verdicts[0]) for row in rows)
        by_repeat = [*zip_longest(*(row.verdicts for row in rows), fillvalue=())]
        was_asked = [
            [[order < len(verdicts) for verdicts in of_rows] for of_rows in by_repeat]
            for order in range(orders)
        ]
        names = dict.fromkeys(chain.from_iterable(row.paraphrases for row in rows))
        codes = np.array([*map(code, everything)])
        return cls(
            judge=judge,
            source=source,
            kind=kind,
            uids=[row.uid for row in rows],
            gold=np.array([code(row.gold) for row in rows]),
            verdicts=np.stack([*map(encode_orders, by_repeat)], axis=-1),
            was_asked=np.array(was_asked).transpose(2, 0, 1),
            clusters=np.unique([row.cluster for row in rows], return_inverse=True)[1].astype(
                np.int64
            ),
            counts=np.array([max(2, len(row.responses)) if is_choice else 1 for row in rows]),
            levels=levels,
            scale=(float(np.nanmin(codes)), float(np.nanmax(codes))),
            paraphrases={
                name: encode_orders(row.paraphrases.get(name, ()) for row in rows) for name in names
            },
            features=measure_features(
                [row.responses for row in rows], [row.models for row in rows], judge
            ),
            categories=[row.category for row in rows],
            times=to_array([row.time for row in rows]),
            probabilities=to_array([row.probability for row in rows]),
            scores=to_array([row.scores for row in rows]),
            second_gold=to_array([code(row.second_gold) for row in rows]),
        )

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.gold)

    @property
    def has_orders(self) -> bool:
        """Whether the responses of some row were shown in both orders."""
        return self.kind == "choice" and self.was_asked.shape[1] > 1

    @property
    def first(self) -> Floats:
        """N × orders: the first verdict of each order."""
        return self.verdicts[:, :, 0]

    @cached_property
    def is_read(self) -> NDArray[np.bool_]:
        """N × orders × repeats: whether a verdict was readable."""
        import numpy as np

        return np.isfinite(self.verdicts)

    @cached_property
    def right(self) -> Floats:
        """N × orders: 1 if the first verdict is right, ½ for a tie, else 0.

        NaN where the judge was not asked.
        """
        import numpy as np

        points = (self.first == self.gold[:, None]).astype(float)
        if self.kind == "choice":
            points[self.first == TIE] = 0.5
        elif self.kind == "score":
            gold = self.gold.tolist()
            agrees = agreement_rule(gold, has_levels=self.has_levels)
            points[:, 0] = [*map(agrees, self.first[:, 0].tolist(), gold)]
        return np.where(self.was_asked[:, :, 0], points, np.nan)

    @cached_property
    def span(self) -> float:
        """Length of the scale of scores."""
        return self.scale[1] - self.scale[0] or 1.0
