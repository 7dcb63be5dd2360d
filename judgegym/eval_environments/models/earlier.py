"""A candidate that gives the answers of an earlier run: of one policy's, or of a run that compared candidates."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from pydantic import TypeAdapter, ValidationError

from judgegym.engine.completions import Completion
from judgegym.engine.records import explained
from judgegym.llm import wire
from judgegym.llm.wire import JSON
from judgegym.reports.results.answers import AnswersReader
from judgegym.reports.results.sample import SavedSample

_KEPT = tuple(field.name for field in dataclasses.fields(Completion))
_COMPLETION = TypeAdapter(Completion)


class CandidatesAnswers(AnswersReader):
    """Finds the answers of one candidate by its name; in a run of one policy, those of the policy."""

    def __init__(self, name: str) -> None:
        """Look for the candidate `name`."""
        self._name = name

    def of_sample(self, sample: SavedSample) -> tuple[tuple[Completion, ...], str | None]:
        """Return the candidate's answer, or why there is none.

        Raises:
            ValueError: the run compares other candidates.
        """
        answers = sample.detail.get("answers") if isinstance(sample.detail, Mapping) else None
        if sample.completions or not isinstance(answers, Sequence):
            return super().of_sample(sample)
        by_name = {answer["candidate"]: answer for answer in answers if isinstance(answer, Mapping)}
        if self._name not in by_name:
            names = ", ".join(map(repr, by_name))
            raise ValueError(f"the run has no candidate {self._name!r}; its candidates are {names}")
        found = by_name[self._name]
        if isinstance(found.get("answer"), str):
            return (_completion(found),), None
        error = found.get("error")
        return (), error if isinstance(error, str) else "the candidate never answered"

    def number_of(self, component: str) -> int | None:
        """Return which conversation of its row a call was; a candidate has one."""
        return 0 if component == f"candidate_{self._name}/policy" else super().number_of(component)


def _completion(answer: Mapping[str, JSON]) -> Completion:
    """The completion of an answer, as far as its run has kept it.

    Raises:
        ValueError: a field is not of its type.
    """
    kept = {name: answer[name] for name in _KEPT if name in answer}
    try:
        return _COMPLETION.validate_json(wire.dumps(kept), strict=True)
    except ValidationError as error:
        raise ValueError(explained(error)) from error
