"""Judgments of a finished run of `evaluate` or `score` whose rows have gold labels, with what its calls took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from judgegym.engine.records import Sample
from judgegym.engine.runs.recorded_calls import read_calls
from judgegym.llm.errors import DataError
from judgegym.llm.wire import JSON
from judgegym.reports.results.run import SavedRun, run_of_file
from judgegym.validation.audit.features import features_of
from judgegym.validation.audit.judgments import Judgments, Operation
from judgegym.validation.audit.reading import A_JUDGE, NO_GOLD, clusters_of, gathered

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_REFUSED = frozenset({"content_filter", "refusal"})
_REVERSED = "reversed"
_RESPONSES = ("response", "answer")


def run_of(word: str) -> SavedRun | None:
    """The run that a word names: a run directory, or a file that `score` has written; `None` for any other file."""
    path = Path(word).expanduser()
    found = path if path.is_dir() and not (path / "state.json").exists() else run_of_file(path)
    return None if found is None else SavedRun.open(found)


def judgments_of_run(run: SavedRun, judge: str = "") -> Judgments:
    """Read the judgments of a run.

    Args:
        run: it may be unfinished; then the rows that it has are audited.
        judge: the judge's name, instead of what the run says.

    Raises:
        DataError: no row has a gold label.
        RunDirectoryError: a file of the run is damaged.
    """
    everything = list(run.samples())
    samples = [sample for sample in everything if sample.gold]
    if not samples:
        raise DataError(
            f"{run.path}: no row has a gold label; expected a run in which a judge is measured: pairwise_judgement, "
            "role=judge, score_responses, or score --gold_column"
        )
    of_run = run.judge if run.is_scored or samples[0].run.judge_calls else run.policy or run.judge
    facts: dict[str, Any] = {
        "judge": judge or of_run or A_JUDGE,
        "source": str(run.path),
        "left_out": {NO_GOLD: len(everything) - len(samples)} if len(everything) > len(samples) else {},
    }
    clusters = clusters_of([sample.question for sample in samples])  # rows with one question depend on each other
    if any(name.startswith("answer A") for name in samples[0].texts):
        found = _choices(samples, {**facts, "clusters": clusters})
        return replace(found, operation=operation_of(samples, run, range(len(samples)), len(samples)))
    labels = [(place, label) for place, sample in enumerate(samples) for label in sample.gold]
    places = [place for place, _ in labels]
    found = gathered(
        [label.gold for _, label in labels],
        [[[label.judge]] for _, label in labels],
        **facts,
        clusters=clusters[places],
        uids=[f"{samples[at].uid}{f':{label.name}' if label.name else ''}" for at, label in labels],
        features=features_of([_response(samples[at]) for at in places]),
        categories=[samples[at].category or label.name or None for at, label in labels],
    )
    first = [places.index(at) for at in range(len(samples))]  # the calls of a row count for its first label
    return replace(found, operation=operation_of(samples, run, first, len(labels)))


def _choices(samples: Sequence[Sample[JSON]], facts: Mapping[str, Any]) -> Judgments:
    """Choices of the best of several answers by its letter, in one order or both."""
    import numpy as np

    texts = [[text for name, text in sample.texts.items() if name.startswith("answer ")] for sample in samples]

    def number(row: int, letter: object, name: str) -> float | None:
        """The number of a response in the row, by its letter in an order of this name."""
        if letter is None:
            return None
        place = ord(str(letter)) - ord("A")
        return float(len(texts[row]) - 1 - place if name == _REVERSED else place)

    return gathered(
        [number(row, sample.gold[-1].gold, sample.gold[-1].name) for row, sample in enumerate(samples)],
        [[[number(row, each.judge, each.name) for each in sample.gold]] for row, sample in enumerate(samples)],
        is_choice=True,
        uids=[sample.uid for sample in samples],
        counts=np.array([len(each) for each in texts]),
        features=features_of(texts),
        categories=[sample.category for sample in samples],
        **facts,
    )


def _response(sample: Sample[JSON]) -> list[str]:
    """The response that was judged: a text of the row where the policy is the judge, else the completion."""
    texts = [sample.texts[name] for name in _RESPONSES if name in sample.texts]
    return texts[:1] or [completion.answer for completion in sample.completions[:1]]


def operation_of(samples: Sequence[Sample[JSON]], run: SavedRun, places: Sequence[int], count: int) -> Operation:
    """What the judge's calls took.

    Args:
        samples: the rows.
        run: its ledger says which calls were refused or had no verdict.
        places: where each row is among the rows of the audit; what those of one place took is added up.
        count: how many rows the audit has.
    """
    import numpy as np

    made = [list((sample.run.judge_calls or {}).values()) or list(sample.run.policy_calls) for sample in samples]
    if not any(made):
        return Operation()

    def spread(values: Sequence[float]) -> NDArray[np.float64]:
        found = np.zeros(count)
        np.add.at(found, list(places), values)
        return found

    costs = [call.usage.cost for calls in made for call in calls]
    dollars = [sum(call.usage.cost or 0.0 for call in calls) for calls in made]
    found = Operation(
        answered=spread([len(calls) for calls in made]),
        seconds=spread([sum(call.latency_s for call in calls) for calls in made]),
        dollars=None if None in costs else spread(dollars),
    )
    by_uid = {uid: at for at, sample in enumerate(samples) for uid in (sample.uid.partition("/")[0], sample.uid)}
    of_policy = not any(sample.run.judge_calls for sample in samples)
    ledger = np.zeros((len(samples), 3))  # calls, without a verdict, refused
    for call in read_calls(run.path):
        if call.is_of_policy is of_policy and call.row in by_uid:
            choice = call.answer.first
            is_refused = bool(choice.refusal) or choice.finish_reason in _REFUSED
            ledger[by_uid[call.row]] += (1, not call.has_verdict, is_refused)
    if not ledger.any():
        return found
    calls, redraws, refusals = (spread(column) for column in ledger.T.tolist())
    return replace(found, calls=calls, redraws=redraws, refusals=refusals)
