"""Labelling of one run: who gets which row next, saved labels, precision of the result.

Guarantees: a label is on the disk before the next row is handed out. The state is in the file, so a
killed session continues where it was. Each of the first `overlap` rows goes to every labeller, each
further one to one labeller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from judgegym.judges.core.seeding import derive_seed
from judgegym.llm.errors import SettingsError
from judgegym.reports.labels.correction import LabelledRows
from judgegym.reports.labels.file import Draw, Label, Labels, Sampling, assign_strata, read_labels
from judgegym.reports.results.run import SavedRun
from judgegym.statistics.corrected import TOP_UP, LabelCount, labels_needed
from judgegym_trials.labelling.draw import describe_draw, sort_ids
from judgegym_trials.labelling.questions import RowQuestion, make_question, read_headline_values
from judgegym_trials.labelling.writer import LabelWriter

PILOT = 30
"""Rows to label before the half-width decides whether there are enough."""
HALF_WIDTH = 0.05
"""Target half-width of the page if none is set."""


@dataclass(frozen=True, slots=True)
class LabelPlan:
    """How many rows to label.

    Attributes:
        rows: number of rows of the draw.
        half_width: label until the interval is ± this or narrower, ignoring `rows`; `None`: label
            `rows`.
        overlap: number of rows that every labeller gets.
    """

    rows: int
    half_width: float | None = None
    overlap: int = 0


@dataclass(frozen=True, slots=True)
class Precision:
    """Precision of the corrected result.

    Attributes:
        labelled: number of rows with a label.
        goal: number of rows to label, as known so far.
        half_width: half of the width of the 95 % interval, or why there is none.
        target: the half-width that `needed` is for.
        needed: total number of labelled rows needed.
    """

    labelled: int
    goal: int
    half_width: float | str
    target: float
    needed: LabelCount | None = None


class Session:
    """Hands out the rows of one run, and saves their labels.

    Attributes:
        run: the run.
        path: the file of labels.
        plan: how many rows to label.
        values: each row's headline value, by id.
        digests: digests of the texts that labellers see, by id.
        question: the question about each row.
        draw: how the rows were drawn.
        labels: the labels in the file.
        order: the rows' ids in the order of the draw.
    """

    def __init__(
        self, run: SavedRun, path: Path, plan: LabelPlan, *, how: Sampling | None, seed: int | None
    ) -> None:
        """Continue with the labels at `path`, or start a new file with a draw.

        Args:
            run: the run.
            path: the file of labels.
            plan: how many rows to label.
            how: how rows are drawn; `None`: as in the file, or at random.
            seed: the draw's seed; `None`: as in the file, or 0.

        Raises:
            UserError: the run cannot be labelled; or the file is damaged, in use, of another draw.
        """
        self.run, self.path, self.plan = run, path, plan
        self.values, self.digests = read_headline_values(run)
        self.question: RowQuestion = make_question(run, self.values.values())
        labels = Labels(path)
        if path.exists():
            labels = read_labels(path, may_be_empty=True)
        self.draw = self._draw_for(labels, how, seed)
        self.labels = replace(labels, draw=self.draw)
        self._strata: Mapping[str, str] = {}
        if self.draw.strata:
            self._strata = assign_strata(self.values)
        self.order: Sequence[str] = sort_ids(self.values, self.draw)
        self._columns = LabelledRows.read(run, self.labels)  # making the estimate checks the labels
        self._goal = min(PILOT if plan.half_width is not None else plan.rows, len(self.order))
        self._assigned: dict[str, str] = {}
        self._writer = LabelWriter(path)
        if labels.draw is None:
            self._writer.append(self.draw)

    def count_labels(self, labeller: str) -> int:
        """Return how many rows a labeller has labelled, including "cannot tell"."""
        return sum(who == labeller for _, who in self.labels.by_row_and_labeller)

    def next_row(self, labeller: str) -> str | None:
        """Return the id of a labeller's next row; `None` at the end.

        It stays the same until it is labelled.
        """
        while True:
            uid = self._choose_row(labeller)
            if uid is not None:
                self._assigned[labeller] = uid
                return uid
            self._assigned.pop(labeller, None)
            if self.plan.half_width is None or self._goal == len(self.order):
                return None
            half_width = self.precision().half_width
            if isinstance(half_width, float) and half_width <= self.plan.half_width:
                return None
            self._goal = min(self._goal + TOP_UP, len(self.order))

    def _choose_row(self, labeller: str) -> str | None:
        decided = {
            uid
            for (uid, _), label in self.labels.by_row_and_labeller.items()
            if label.label is not None
        }
        elsewhere = {uid for who, uid in self._assigned.items() if who != labeller}
        shared = {*self.order[: self.plan.overlap]}
        done = {uid for uid, who in self.labels.by_row_and_labeller if who == labeller}
        done |= decided - shared
        open_rows = [uid for uid in self.order[: self._goal] if uid not in done]
        taken = elsewhere - shared
        free = [uid for uid in open_rows if uid not in taken]
        handed = self._assigned.get(labeller)
        if handed in open_rows:
            return handed
        return next(iter(free or open_rows), None)

    def is_first(self, uid: str, labeller: str) -> bool:
        """Return whether the policy's response is shown first to a labeller."""
        return derive_seed(self.draw.seed, uid, f"order for {labeller}") % 2 == 0

    def save(self, uid: str, labeller: str, keys: str | None, note: str) -> None:
        """Save a label; `keys` are those of the parts, `None` for "cannot tell".

        Raises:
            UserError: it cannot be written.
        """
        label: float | None = None
        parts: Mapping[str, float] = {}
        if keys is not None:
            label, parts = self.question.label(keys, is_first=self.is_first(uid, labeller))
        at = datetime.now(timezone.utc).isoformat(timespec="seconds")
        if self._assigned.get(labeller) == uid:
            del self._assigned[labeller]
        self.add([Label(uid, labeller, label, note=note, at=at, parts=parts)])

    def undo(self, labeller: str) -> Label | None:
        """Remove and return a labeller's last label, whose row comes again; `None` without one."""
        last = next(
            (
                label
                for label in reversed(self.labels.by_row_and_labeller.values())
                if label.labeller == labeller
            ),
            None,
        )
        if last is not None:
            self._append(replace(last, label=None, note="", parts={}, undone=True))
            self._assigned[labeller] = last.uid
        return last

    def _append(self, label: Label) -> None:
        self._writer.append(label)
        self.labels.add(label)

    def add(self, labels: Sequence[Label]) -> None:
        """Add labels of rows of this run, with the stratum and the digest of each row.

        Raises:
            UserError: one cannot be written.
        """
        for label in labels:
            stratum = self._strata.get(label.uid, "")
            self._append(replace(label, stratum=stratum, row=self.digests[label.uid]))

    def precision(self) -> Precision:
        """Return the corrected result's precision, computed as in `judgegym report --labels`."""
        import numpy as np  # imported here: it takes half a second

        means = self.labels.means()
        target = self.plan.half_width or HALF_WIDTH
        labels = np.array([means.get(uid, np.nan) for uid in self._columns.uids])
        columns = replace(self._columns, labels=labels)
        kind = self._columns.kind(self.run)
        number = columns.to_corrected_number(kind)
        estimate = columns.mean(kind)
        if number.interval is None or isinstance(estimate, str):
            return Precision(len(means), self._goal, number.reason, target)
        half_width = (number.interval.high - number.interval.low) / 2
        return Precision(
            len(means), self._goal, half_width, target, labels_needed(estimate, target)
        )

    def close(self) -> None:
        """Close the file."""
        self._writer.close()

    def _draw_for(self, labels: Labels, how: Sampling | None, seed: int | None) -> Draw:
        """Return the draw of the file, or a new one for a new file.

        The file's draw must be of this run and match the arguments.

        Raises:
            SettingsError: the file has another draw.
        """
        begun, path = labels.draw, labels.path
        if begun is None and labels.by_row_and_labeller:
            raise SettingsError(
                f"{path}: its rows may not be a random sample; choose another --out"
            )
        if begun is None:
            return describe_draw(self.values, self.digests, how or "random", seed or 0)
        for name, wanted, has in (("sampling", how, begun.how), ("seed", seed, begun.seed)):
            if wanted not in (None, has):
                raise SettingsError(
                    f"{path} was drawn with --{name}={has}, not {wanted}; choose another --out"
                )
        if begun != describe_draw(self.values, self.digests, begun.how, begun.seed):
            raise SettingsError(
                f"{path} holds labels of another run, or of other responses; choose another --out"
            )
        return begun
