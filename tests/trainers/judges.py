"""Scripted judges that know the responses of a test; they have no verdict on a response that is to fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.core.server.running import asked
from tests.scripted import Json

NO_VERDICT = "I cannot say."


def response_in(request: Json) -> str:
    """The first line of the response that a rubric judge is asked about."""
    return asked(request).partition("### Response To Evaluate\n\n")[2].partition("\n")[0].strip()


def rating(ratings: Mapping[str, int]) -> Callable[[Json, int], str]:
    """A rubric judge that rates known responses, and has no verdict on another one."""

    def judge(request: Json, number: int) -> str:
        found = ratings.get(response_in(request))
        return NO_VERDICT if found is None else f"[SCORE] {found}"

    return judge


def good_or_bad(request: Json, number: int) -> str:
    """A rubric judge: the best score for what begins with `good`, none for `FAIL`, the lowest for anything else."""
    response = response_in(request)
    return (
        NO_VERDICT
        if response.startswith("FAIL")
        else f"[SCORE] {5 if response.startswith('good') else 1}"
    )


def best(request: Json, number: int) -> str:
    """A judge that chooses the response that says `good`."""
    for letter in "ABCD":
        if (
            "good"
            in asked(request)
            .partition(f"Start of Assistant {letter}")[2]
            .partition("The End of")[0]
        ):
            return f"[[{letter}]]"
    return NO_VERDICT
