"""The rows that runs share, as numbers: what each adds to the headline in each run.

A row is compared if it has a value in every run. Its texts are compared by digests, and not kept.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

from judgegym.engine.runs.damaged_lines import count_skipped
from judgegym.engine.runs.directory import FAILURES, SAMPLES
from judgegym.engine.terminal.output import printable
from judgegym.llm import wire
from judgegym.llm.errors import RunDirectoryError
from judgegym.reports.results.run import SavedRun
from judgegym.statistics.paired import RatioTerms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_DIGEST = 16
_LONGEST_START = 100


class RunRows:
    """The rows of one run: rows with a value as columns of numbers, the others as counts.

    Attributes:
        places: the index in the columns of each row with a value, by id, in the order of the run.
        failed: the number of rows without a judgment that add nothing to the headline.
        uncounted: the number of rows with a judgment that add nothing to it.
        keeps_answers: whether a row with a value has a completion.
    """

    def __init__(self, run: SavedRun) -> None:
        """Read the samples of a run.

        Raises:
            RunDirectoryError: lines are missing without being damaged, or no row has a value.
        """
        self.positions: dict[str, int] = {}
        self.failed = self.uncounted = 0
        self.keeps_answers = False
        self.totals, self.weights, self.units, self.tasks = (
            array("d"),
            array("d"),
            array("q"),
            array("q"),
        )
        self.texts, self.answers = bytearray(), bytearray()
        self.categories: list[str | None] = []
        self.labels: list[str | None] = []
        self.is_scored, self.is_grouped = (
            run.is_scored,
            wire.lookup(run.config, "group_by") is not None,
        )
        prompts, tasks = dict[str, int](), dict[str, int]()
        interned: dict[str | None, str | None] = {}
        for sample in run.samples():
            if sample.headline is None or sample.headline.weight <= 0:
                self.failed += not sample.finished
                self.uncounted += sample.finished
                continue
            # If the policy is the judge, rows that it did not answer count as wrong.
            self.positions[sample.uid] = len(self.totals)
            self.totals.append(sample.headline.total)
            self.weights.append(sample.headline.weight)
            self.texts += _digest([sample.question, *sorted(sample.texts.values())])
            self.answers += _digest([completion.answer for completion in sample.completions])
            self.keeps_answers |= bool(sample.completions)
            self.categories.append(interned.setdefault(sample.category, sample.category))
            self.labels.append(interned.setdefault(sample.label, sample.label))
            self.units.append(prompts.setdefault(sample.prompt_key, len(prompts)))
            self.tasks.append(
                tasks.setdefault(sample.task_digest, len(tasks)) if self.is_grouped else 0
            )
        selected = wire.lookup(run.general, "rows.selected")
        is_damaged = any(count_skipped(run.path / name) for name in (SAMPLES, FAILURES))
        if isinstance(selected, int) and selected != len(self) and not is_damaged:
            raise RunDirectoryError(
                f"{run.path}: metrics.json is of {selected} rows, and samples.jsonl and "
                f"failures.jsonl hold {len(self)}"
            )
        if not self.positions and self.uncounted:
            raise RunDirectoryError(
                f"{run.path}: no line of samples.jsonl says what the row adds to "
                f"{run.general.get('headline')}; in a run of an earlier version --resume adds it, "
                "and asks nothing again about finished rows"
            )
        if not self.positions:
            raise RunDirectoryError(
                f"{run.path}: no row has a judgment, so there is nothing to compare"
            )

    def __len__(self) -> int:
        """Return the number of all rows."""
        return len(self.positions) + self.failed + self.uncounted


@dataclass(frozen=True, slots=True)
class CommonRows:
    """The rows that are compared.

    Attributes:
        uids: their ids, in the order of the reference.
        categories: their categories in the reference.
        sides: for each run, what each row adds to the headline.
        labels: for each run, the labels of the rows.
        texts_differ: for each run, the ids of rows with other texts than in the reference.
        same_answers: for each run, the number of rows with the answers of the reference; `None` if
            runs keep no answers.
        units: for each row the number of its prompt: rows of one prompt depend on each other;
            `None` if each row of an evaluation has its own prompt.
        is_scored: the rows are of a scored data set.
        prompts: for a scored data set with several responses to a prompt, the number of each row's
            prompt; otherwise `None`.
    """

    uids: Sequence[str]
    categories: Sequence[str | None]
    sides: Sequence[RatioTerms]
    labels: Sequence[Sequence[str | None]]
    texts_differ: Sequence[Sequence[str]]
    same_answers: Sequence[int | None]
    units: NDArray[np.int64] | None
    is_scored: bool
    prompts: NDArray[np.int64] | None


def select_common_rows(rows: Sequence[RunRows]) -> CommonRows:
    """Select the rows with a value in every run; the first run is the reference."""
    import numpy as np

    reference, *others = rows
    uids = [
        uid
        for uid in reference.positions
        if all(uid in other_rows.positions for other_rows in others)
    ]
    sides, labels, texts, answers = [], [], [], []
    columns = [
        np.fromiter((source.positions[uid] for uid in uids), np.int64, len(uids)) for source in rows
    ]
    for run_rows, indices in zip(rows, columns, strict=True):
        sides.append(RatioTerms(run_rows.totals, run_rows.weights).select(indices))
        labels.append([run_rows.labels[place] for place in indices])
        texts.append(np.frombuffer(run_rows.texts, np.uint64).reshape(-1, 2)[indices])
        answers.append(np.frombuffer(run_rows.answers, np.uint64).reshape(-1, 2)[indices])
    prompts = None
    units = np.unique(np.asarray(reference.units)[columns[0]], return_inverse=True)[1]
    is_clustered = reference.is_scored or len({*units.tolist()}) < len(uids)
    if reference.is_scored:
        if reference.is_grouped:
            prompts = np.unique(np.asarray(reference.tasks)[columns[0]], return_inverse=True)[1]
        elif any("/" in uid for uid in uids):
            prompts = np.unique([uid.partition("/")[0] for uid in uids], return_inverse=True)[1]
    same_answers: list[int | None] = []
    for source, digests in zip(rows, answers, strict=True):
        if source.keeps_answers and reference.keeps_answers:
            same_answers.append(int((digests == answers[0]).all(axis=1).sum()))
        else:
            same_answers.append(None)
    return CommonRows(
        uids=uids,
        categories=[reference.categories[place] for place in columns[0]],
        sides=sides,
        labels=labels,
        texts_differ=[
            [uids[place] for place in np.flatnonzero((digests != texts[0]).any(axis=1))]
            for digests in texts
        ],
        same_answers=same_answers,
        units=units if is_clustered else None,
        is_scored=reference.is_scored,
        prompts=prompts,
    )


def _digest(texts: Sequence[str]) -> bytes:
    hasher = blake2b(digest_size=_DIGEST)
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        hasher.update(len(data).to_bytes(8, "big"))
        hasher.update(data)
    return hasher.digest()


def shorten_text(text: str) -> str:
    """Return the beginning of a text, on one line."""
    line = printable(" ".join(text[: 4 * _LONGEST_START].split()))
    if len(line) <= _LONGEST_START:
        return line
    return f"{line[: _LONGEST_START - 1]}…"
