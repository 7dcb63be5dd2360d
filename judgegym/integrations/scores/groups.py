"""Groups of completions that are judged together, by their position in the trainer's global batch.

Guarantees: a group is judged once, whole, by the process that holds its first completion, also where the trainer
spreads it over several processes; neighbouring groups with equal prompts stay apart; a batch that is not made of whole
groups of one row each is refused in one sentence, by all processes alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from judgegym.integrations.scores.ranks import Ranks, distributed
from judgegym.integrations.scores.scoring import RefusedError, Request, Scored, Scoring
from judges.llm.errors import JudgeGymError, SettingsError
from judges.llm.wire import JSON


@dataclass(frozen=True, slots=True)
class Row:
    """One completion.

    Attributes:
        shared: the fields of the request that all completions of its group have in common.
        response: the completion.
        error: why no request can be made of its cells; empty otherwise.
    """

    shared: Mapping[str, JSON]
    response: JSON
    error: str = ""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The results of one process by position in the global batch, or what it raised."""

    results: Mapping[int, Scored]
    error: str = ""


class GroupedBatch:
    """Scores batches in groups of one size."""

    def __init__(self, size: int, source: Scoring) -> None:
        """Score groups of `size` with `source`.

        Raises:
            SettingsError: a group of fewer than two cannot be compared.
        """
        if size < 2:
            raise SettingsError(f"group_size: expected 2 or more completions to compare, found {size}")
        self.size = size
        self._source = source
        self._ranks: Ranks | None = None

    async def score(self, rows: Sequence[Row]) -> list[Scored]:
        """The results of this process's rows.

        Raises:
            SettingsError: the global batch is not made of groups of this size; or a process could not judge at all.
        """
        ranks = self._joined()
        parts = [rows] if ranks is None else await ranks.gather(rows)
        own = 0 if ranks is None else ranks.own
        starts = list(accumulate((len(part) for part in parts), initial=0))
        batch = [row for part in parts for row in part]
        self._check(batch, len(parts))
        outcome = await self._judge(batch, range(starts[own], starts[own + 1]))
        outcomes = [outcome] if ranks is None else await ranks.gather(outcome)
        error = next((each.error for each in outcomes if each.error), "")
        if error:
            raise SettingsError(error)
        results = {place: result for each in outcomes for place, result in each.results.items()}
        return [results[place] for place in range(starts[own], starts[own + 1])]

    def _joined(self) -> Ranks | None:
        """All processes, joined at the first batch: before any other step, so that all join in the same order."""
        if self._ranks is None and (module := distributed()) is not None:
            self._ranks = Ranks(module)
        return self._ranks

    def _check(self, batch: Sequence[Row], processes: int) -> None:
        if len(batch) % self.size:
            of = f" of {processes} processes" if processes > 1 else ""
            raise SettingsError(
                f"group_size: a batch{of} of {len(batch)} completions cannot be split into groups of {self.size}; "
                "expected the trainer's num_generations, and torch.distributed where a group is spread over processes"
            )
        for start in range(0, len(batch), self.size):
            if any(row.shared != batch[start].shared for row in batch[start + 1 : start + self.size]):
                raise SettingsError(
                    f"group_size: completions {start} to {start + self.size - 1} of the batch do not belong to one "
                    f"row; expected the trainer's num_generations, found {self.size}"
                )

    async def _judge(self, batch: Sequence[Row], own: range) -> _Outcome:
        """Judge the groups that begin with a row of this process."""
        starts = [start for start in range(0, len(batch), self.size) if start in own]
        try:
            scored = await self._source.score([group_request(batch[start : start + self.size]) for start in starts])
        except JudgeGymError as error:  # the other processes wait for an answer: all raise the same
            return _Outcome({}, str(error))
        results: dict[int, Scored] = {}
        for start, of_group in zip(starts, scored, strict=True):
            # A group of which no request could be made has one result.
            of_all = of_group if len(of_group) == self.size else of_group * self.size
            results.update(zip(range(start, start + self.size), of_all, strict=True))
        return _Outcome(results)


def group_request(group: Sequence[Row]) -> Request | RefusedError:
    """The body of `POST /v1/score` for the rows of one group, or why there is none."""
    error = next((row.error for row in group if row.error), "")
    return RefusedError(error) if error else {**group[0].shared, "responses": [row.response for row in group]}


def check_group_size(size: int, log_metric: object) -> None:
    """Compare the size with the trainer's own number of completions for each prompt, where the trainer is known.

    TRL passes a method of its trainer. A size that divides the right one would otherwise split each group in silence.

    Raises:
        SettingsError: the trainer's number differs.
    """
    trainer = getattr(log_metric, "__self__", None)
    is_training = getattr(getattr(trainer, "model", None), "training", True)
    name = "num_generations" if is_training else "num_generations_eval"
    number = getattr(trainer, name, None)
    if isinstance(number, int) and number != size:
        raise SettingsError(f"group_size: expected the trainer's {name}, which is {number}, found {size}")
