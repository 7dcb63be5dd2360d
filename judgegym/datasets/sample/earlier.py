"""The responses that an earlier run has asked a policy for, judged by another judge.

Guarantee: a response that the policy never gave, and one that broke the format or refused, keeps its status and its
reason, has no score, and costs no call; the judge sees all others, as the earlier judge did.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast, get_args

from judgegym.data.rows import Row
from judgegym.datasets.files.columns import FINISH_REASON, RESPONSE, STATUS, THINKING
from judgegym.datasets.files.scored import scored_row
from judgegym.datasets.rows.unit import EarlierResponse, ScoreTask
from judgegym.datasets.sample.judged import JudgedResponse, ResponseJudge
from judgegym.engine.completions import Completion
from judgegym.engine.records import POLICY_FAILED
from judgegym.judges.core.judgment import Status
from judgegym.judges.parsing.thinking import ThinkingFault
from judgegym.judges.scorers.items import ResponseScore, failure
from judgegym.llm.errors import DataError
from judgegym.llm.wire import JSON

_INVALID = Status.INVALID_COMPLETION.value


def earlier_responses(row: Row) -> tuple[EarlierResponse, ...]:
    """The responses of a row of a file that `judgegym score --responses_per_prompt` has written.

    Raises:
        DataError: the columns of policy and judge are not of the kind that scoring writes.
    """
    scored = scored_row(row)
    texts = _texts(row, RESPONSE, len(scored.status))
    thoughts, reasons = (_texts(row, name, len(texts)) for name in (THINKING, FINISH_REASON))
    found = []
    for text, thought, reason, status, said in zip(
        texts, thoughts, reasons, scored.status, scored.explanation, strict=True
    ):
        if (text is None) != (status == POLICY_FAILED):
            raise DataError(
                f"{row.place}: a response is {'null' if text is None else 'a text'} in {RESPONSE}, and its status is "
                f"{status!r} in {STATUS}; only {POLICY_FAILED!r} has null"
            )
        is_kept = status in (POLICY_FAILED, _INVALID)
        kept = (status, said or "") if is_kept else (None, "")
        found.append(EarlierResponse(text, thought or "", reason, *kept))
    return tuple(found)


def _texts(row: Row, column: str, count: int) -> Sequence[str | None]:
    value: JSON = row.values.get(column)
    if (
        not isinstance(value, list)
        or len(value) != count
        or not value
        or not all(each is None or isinstance(each, str) for each in value)
    ):
        raise row.lacks(f"a list of texts in {column}, one for each of the {count} entries of {STATUS} (--rescore)")
    return cast("Sequence[str | None]", value)


class JudgingEarlier:
    """Judges the responses of an earlier run."""

    def __init__(self, judging: ResponseJudge) -> None:
        """Judge by `judging`."""
        self._judging = judging

    async def __call__(self, unit: ScoreTask) -> list[JudgedResponse]:
        """See `FinishUnit`.

        Raises:
            UserError: what no further call can mend, such as a disk that stays full.
            BudgetSpent: no further request may be sent.
        """
        judged: Sequence[ResponseScore | None] = [None] * len(unit.earlier)
        if any(unit.item.responses):
            judged = await self._judging.results(unit.uid, unit.item)
        known = map(_result, unit.earlier)
        results = (cast(ResponseScore, mine or others) for mine, others in zip(known, judged, strict=True))
        return [JudgedResponse(_completion(each), result) for each, result in zip(unit.earlier, results, strict=True)]


def _result(earlier: EarlierResponse) -> ResponseScore | None:
    """The result of a response that no judge may be asked about; `None` for any other."""
    return None if earlier.status is None else failure(earlier.reason, earlier.status)


def _completion(earlier: EarlierResponse) -> Completion | None:
    if earlier.text is None:
        return None
    fault = cast(ThinkingFault, earlier.reason) if earlier.reason in get_args(ThinkingFault) else None
    return Completion(earlier.text, earlier.thinking, fault, earlier.finish_reason)
