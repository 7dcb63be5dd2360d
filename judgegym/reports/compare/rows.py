"""The rows that runs share, as numbers: what each adds to the headline in each run, and no text.

A row is compared if it has a value in every run. What was shown of it beside the answer is compared by a digest.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

from judgegym.engine.records import Sample
from judgegym.engine.terminal.output import printable
from judgegym.llm import wire
from judgegym.llm.errors import RunDirectoryError
from judgegym.llm.wire import JSON
from judgegym.reports.results.run import SavedRun
from judgegym.statistics.paired import RatioTerms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_DIGEST = 16
_LONGEST_START = 100


@dataclass(frozen=True, slots=True)
class Side:
    """The rows that are compared, in one run.

    Attributes:
        totals: what each adds to the numerator of the headline.
        weights: what each adds to its denominator.
        labels: the label of each in a scored data set; empty in other runs.
    """

    totals: NDArray[np.float64]
    weights: NDArray[np.float64]
    labels: Sequence[str | None] = ()

    @property
    def values(self) -> NDArray[np.float64]:
        """Return the value of each row: its total per unit of weight."""
        return self.totals / self.weights

    def shares(self, places: NDArray[np.int64] | slice = slice(None)) -> RatioTerms:
        """Return the shares of some rows, or of all."""
        return RatioTerms(self.totals[places], self.weights[places])

    def together(self, units: NDArray[np.int64]) -> Side:
        """Return the sums over the rows of each unit, of which the numbers go from 0 without a gap."""
        import numpy as np

        totals, weights = (np.bincount(units, side).astype(float) for side in (self.totals, self.weights))
        return Side(totals, weights)


@dataclass(frozen=True, slots=True)
class CommonRows:
    """The rows that are compared.

    Attributes:
        uids: their ids, in the order of the reference.
        categories: their categories in the reference.
        sides: their numbers, for each run.
        texts_differ: for each run, the ids of rows that were shown with other texts than in the reference.
        same_answers: for each run, how many rows have the answers of the reference; `None` where runs keep no answers.
        units: of a scored data set, for each row the number of what it was judged together with, or once with; `None`
            in other runs, whose rows do not depend on each other.
        prompts: of a scored data set with several responses to a prompt, for each the number of its prompt; otherwise
            `None`.
    """

    uids: Sequence[str]
    categories: Sequence[str | None]
    sides: Sequence[Side]
    texts_differ: Sequence[Sequence[str]]
    same_answers: Sequence[int | None]
    units: NDArray[np.int64] | None = None
    prompts: NDArray[np.int64] | None = None


class RowsOfRun:
    """The rows of one run: those with a value as numbers, the others as counts.

    Attributes:
        failed: rows without a judgment that add nothing to the headline.
        uncounted: rows with a judgment that add nothing to it.
        keeps_answers: whether a row with a value has a completion.
    """

    def __init__(self, run: SavedRun) -> None:
        """Read the samples of a run.

        Raises:
            RunDirectoryError: a line is damaged, lines are missing, or no row has a value.
        """
        self.failed = self.uncounted = 0
        self._places: dict[str, int] = {}
        self._totals, self._weights = array("d"), array("d")
        self._texts, self._answers = bytearray(), bytearray()
        self.keeps_answers = False
        self._categories: list[str | None] = []
        self._labels: list[str | None] = []
        self._units, self._keeps_units = array("q"), run.is_scored
        self._are_grouped = wire.lookup(run.config, "group_by") is not None
        numbers: dict[str, int] = {}
        known: dict[str | None, str | None] = {}
        for sample in run.samples():
            if sample.headline is None or sample.headline.weight <= 0:
                self.failed += not sample.finished
                self.uncounted += sample.finished
            else:  # of a policy that judges, rows that it did not answer count as wrong
                self._places[sample.uid] = len(self._totals)
                self._totals.append(sample.headline.total)
                self._weights.append(sample.headline.weight)
                self._texts += text_digest(sample)
                self._answers += _digest([completion.answer for completion in sample.completions])
                self.keeps_answers |= bool(sample.completions)
                self._categories.append(known.setdefault(sample.category, sample.category))
                if self._keeps_units:
                    self._labels.append(known.setdefault(sample.label, sample.label))
                    self._units.append(numbers.setdefault(sample.task_digest, len(numbers)))
        selected = wire.lookup(run.general, "rows.selected")
        if isinstance(selected, int) and selected != len(self):
            raise RunDirectoryError(
                f"{run.path}: metrics.json is of {selected} rows, and samples.jsonl and failures.jsonl hold {len(self)}"
            )
        if not self._places:
            raise RunDirectoryError(_no_values(run, self))

    def __len__(self) -> int:
        """The number of all rows."""
        return len(self._places) + self.failed + self.uncounted

    def __iter__(self) -> Iterator[str]:
        """The ids of the rows with a value, in the order of the run."""
        return iter(self._places)

    def __contains__(self, uid: str) -> bool:
        """Whether a row has a value."""
        return uid in self._places

    @property
    def with_value(self) -> int:
        """Return the number of rows with a value."""
        return len(self._places)

    def category(self, uid: str) -> str | None:
        """Return the category of a row with a value."""
        return self._categories[self._places[uid]]

    def texts(self, uid: str) -> bytes:
        """Return the digest of what was shown of a row with a value."""
        return self._of(uid, self._texts)

    def answers(self, uid: str) -> bytes:
        """Return the digest of the answers to a row with a value."""
        return self._of(uid, self._answers)

    def _of(self, uid: str, digests: bytearray) -> bytes:
        start = self._places[uid] * _DIGEST
        return bytes(digests[start : start + _DIGEST])

    def side(self, uids: Sequence[str]) -> Side:
        """Return the numbers of some rows with a value."""
        import numpy as np

        places = np.fromiter((self._places[uid] for uid in uids), dtype=np.int64, count=len(uids))
        labels = [self._labels[place] for place in places.tolist()] if self._keeps_units else []
        return Side(np.asarray(self._totals)[places], np.asarray(self._weights)[places], labels)

    def prompts(self, uids: Sequence[str]) -> NDArray[np.int64] | None:
        """Return the numbers of the prompts of some rows with a value; `None` if each has one response."""
        import numpy as np

        if not self._keeps_units or not (self._are_grouped or any("/" in uid for uid in uids)):
            return None
        if self._are_grouped:
            return self.units(uids)
        numbers: dict[str, int] = {}
        rows = (uid.partition("/")[0] for uid in uids)
        return np.fromiter((numbers.setdefault(row, len(numbers)) for row in rows), dtype=np.int64, count=len(uids))

    def units(self, uids: Sequence[str]) -> NDArray[np.int64] | None:
        """Return what some rows with a value were judged together or once with, numbered from 0; `None` if alone."""
        import numpy as np

        if not self._keeps_units:
            return None
        found = np.fromiter((self._units[self._places[uid]] for uid in uids), dtype=np.int64, count=len(uids))
        return np.unique(found, return_inverse=True)[1]


def shared(rows: Sequence[RowsOfRun]) -> CommonRows:
    """The rows with a value in every run; the first run is the reference."""
    reference, *others = rows
    uids = [uid for uid in reference if all(uid in other for other in others)]
    return CommonRows(
        uids=uids,
        categories=[reference.category(uid) for uid in uids],
        sides=[each.side(uids) for each in rows],
        texts_differ=[[uid for uid in uids if each.texts(uid) != reference.texts(uid)] for each in rows],
        same_answers=[
            sum(each.answers(uid) == reference.answers(uid) for uid in uids)
            if each.keeps_answers and reference.keeps_answers
            else None
            for each in rows
        ],
        units=reference.units(uids),
        prompts=reference.prompts(uids),
    )


def text_digest(sample: Sample[JSON]) -> bytes:
    """A digest of what is shown of a row beside the answer: its question and its texts, in whatever order."""
    return _digest([sample.question, *sorted(sample.texts.values())])


def _digest(texts: Sequence[str]) -> bytes:
    found = blake2b(digest_size=_DIGEST)
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        found.update(len(data).to_bytes(8, "big"))
        found.update(data)
    return found.digest()


def first_difference(reference: Sample[JSON], run: Sample[JSON]) -> tuple[str, str, str]:
    """The first text beside the answer that differs between two samples of a row: its title, and both beginnings."""
    first, second = ({"question": sample.question, **sample.texts} for sample in (reference, run))
    title = next((title for title in {**first, **second} if first.get(title) != second.get(title)), "texts")
    return title, start_of(first.get(title, "none")), start_of(second.get(title, "none"))


def starts_of(run: SavedRun, uids: frozenset[str]) -> Mapping[str, str]:
    """The beginning of the question of each of these rows, in one line."""
    return {sample.uid: start_of(sample.question) for sample in run.samples() if sample.uid in uids}


def start_of(text: str) -> str:
    """The beginning of a text, in one line."""
    line = printable(" ".join(text[: 4 * _LONGEST_START].split()))
    return line if len(line) <= _LONGEST_START else f"{line[: _LONGEST_START - 1]}…"


def _no_values(run: SavedRun, rows: RowsOfRun) -> str:
    if not rows.uncounted:
        return f"{run.path}: no row has a judgment, so there is nothing to compare"
    return (
        f"{run.path}: no line of samples.jsonl says what the row adds to {run.general.get('headline')}; in a run of an "
        "earlier version --resume adds it, and asks nothing again about finished rows"
    )
