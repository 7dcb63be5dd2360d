"""Groups of answers for the trainers' tests, and their scores as the reward server gives them to anybody."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tests.core.server.running import Reached
from tests.trainers.loops.offline import OfflineJudge

QUESTIONS = ("Why is the sky blue at noon?", "Why do ships made of steel float on water?")
ANSWERS = (
    "Air scatters blue light of the sun more than red light, so that the sky is blue at noon.",
    "Because a ship of steel displaces as much water as it weighs, and so does it float.",
    "I do not know.",
    "",
)


async def asked_directly(
    server: Reached,
    *,
    together: bool = False,
    questions: Sequence[str] = QUESTIONS,
    answers: Sequence[str] = ANSWERS,
    reference: str | None = "Since.",
) -> list[float | None]:
    """The scores of `POST /v1/score` for all answers to each question, question by question."""
    scores: list[float | None] = []
    for question in questions:
        body = {"prompt": question, "reference": reference}
        if together:
            answer = await server.post("/v1/score", {**body, "responses": list(answers)})
            scores += [result["score"] for result in answer.json["results"]]
        else:
            for text in answers:
                scores.append(
                    (await server.post("/v1/score", {**body, "response": text})).json["score"]
                )
    return scores


def failed_among(answers: Sequence[tuple[str, str]], judge: OfflineJudge) -> list[bool]:
    """Of each answer to a question, whether its judgment has failed; an empty one is not judged. Some have failed."""
    failed = [bool(answer) and judge.has_failed(question, answer) for question, answer in answers]
    assert any(failed) and not all(failed)
    return failed


def with_means(scores: Sequence[float | None], failed: Sequence[bool]) -> list[float]:
    """The rewards of a group: where a judgment has failed the mean of the others', exact for equal ones."""
    there = [score or 0.0 for score, is_failed in zip(scores, failed, strict=True) if not is_failed]
    mean = there[0] if len(set(there)) == 1 else math.fsum(there) / len(there)
    return [
        mean if is_failed else score or 0.0 for score, is_failed in zip(scores, failed, strict=True)
    ]
