"""The columns that scoring adds to a data set: their names, their order, their types.

Guarantee: whoever writes or reads a scored file takes names and types from here. A row with one response has single
values; a row with several has a list in each column, in the order of the row's responses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from judgegym.judges.config.extras import needs
from judgegym.llm import wire
from judgegym.llm.wire import JSON

SCORE, STATUS, LABEL = "judge/score", "judge/status", "judge/label"
EXPLANATION, DETAIL = "judge/explanation", "judge/detail"
RESPONSE, THINKING, FINISH_REASON = "policy/response", "policy/thinking", "policy/finish_reason"

BAD_ROW = "bad_row"
"""The status of a row that could not be judged, and that --on_bad_row=skip has left out."""

JUDGED = (SCORE, STATUS, LABEL, EXPLANATION, DETAIL)
SAMPLED = (RESPONSE, THINKING, FINISH_REASON)


@dataclass(frozen=True, slots=True)
class AddedColumns:
    """Which columns are added.

    Attributes:
        several: a row has a list of responses, so that each column holds lists.
        sampled: the policy's responses are added, too, before the judge's columns; they are always lists.
    """

    several: bool
    sampled: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in their order."""
        return (*SAMPLED, *JUDGED) if self.sampled else JUDGED

    def arrow_types(self) -> Mapping[str, Any]:
        """The Arrow type of each column, in their order: float64 for the score, text for all others; or lists of it.

        Raises:
            MissingExtraError: pyarrow is not installed.
        """
        with needs("data"):
            import pyarrow  # late: an extra

        plain = {name: pyarrow.float64() if name == SCORE else pyarrow.string() for name in self.names}
        return {name: pyarrow.list_(kind) if self.several or name in SAMPLED else kind for name, kind in plain.items()}

    def of_row(self, responses: Sequence[Mapping[str, JSON]]) -> dict[str, JSON]:
        """The values of a row's added columns, of those of each of its responses, which may have others beside.

        Raises:
            KeyError: a response lacks one of the columns.
            ValueError: there are several responses, or none, of a row that has one.
        """
        if self.several:
            return {name: [each[name] for each in responses] for name in self.names}
        (only,) = responses
        return {name: only[name] for name in self.names}

    def of_bad_row(self, reason: str) -> dict[str, JSON]:
        """The values of a row that could not be judged: no score, and the reason."""
        nothing: dict[str, JSON] = dict.fromkeys(SAMPLED)
        return self.of_row([{**nothing, **judged_values(None, BAD_ROW, None, reason, {})}])

    def in_order(self, added: Mapping[str, JSON]) -> dict[str, JSON]:
        """The values of a row's added columns, in their order; a lone surrogate in a text becomes U+FFFD.

        Raises:
            ValueError: they are not exactly the columns of `names`.
        """
        if len(added) != len(self.names) or not all(name in added for name in self.names):
            raise ValueError(f"expected the columns {', '.join(self.names)}; found {', '.join(added)}")
        return {name: wire.scrub_all(added[name]) for name in self.names}


def judged_values(
    score: float | None, status: str, label: str | None, explanation: str, components: Mapping[str, JSON]
) -> dict[str, JSON]:
    """What a judge said of a response, by column.

    Args:
        score: from 0 to 1; `None` if judging failed.
        status: how it ended.
        label: the verdict in the judge's own words.
        explanation: the judge's reasons, or the error.
        components: of the score.
    """
    detail = None if score is None else orjson.dumps(dict(components), option=orjson.OPT_SORT_KEYS).decode()
    return {SCORE: score, STATUS: status, LABEL: label, EXPLANATION: explanation, DETAIL: detail}
