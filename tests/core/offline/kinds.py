"""The judges of this project as the stand-in meets them: what each shows, and how its reply is read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from judgegym.judges.arena import ARENA_PROMPT, game_prompt
from judgegym.judges.aspects.prompt import ASPECT_PROMPT, SUPPORTED_ASPECTS
from judgegym.judges.config.judge import PromptLayout
from judgegym.judges.core.delimiters import section_texts
from judgegym.judges.core.judge import critique_messages
from judgegym.judges.core.judgment import Scale
from judgegym.judges.core.prompt_format import PromptFormat
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.listwise.prompt import LISTWISE_PROMPT, listwise_prompt, shared_texts
from judgegym.judges.pairwise import CHOICE_PROMPT, RATING_PROMPT, choice_prompt, rating_prompt
from judgegym.judges.parsing.labels import arena_label, binary_verdict, choice_letter
from judgegym.judges.parsing.rubric_scores import is_strict_feedback
from judgegym.judges.parsing.scores import ScoreObject, listwise_scores, rating, score_object
from judgegym.judges.peers import DEFAULT_RUBRIC, PEER_PROMPT, peer_prompt
from judgegym.judges.rubrics.prompt import RUBRIC_PROMPT, SCORE_PARSERS, Rubric
from judgegym.llm.wire import Message
from tests.aspects import aspect_prompt
from tests.rubrics import rubric_prompt

QUESTION = "How do glaciers shape valleys, and how long does erosion take?"
GOOD = (
    "Glaciers shape valleys by erosion: the ice drags rock along, which takes a long time, often "
    "many centuries."
)
FAIR = "Glaciers shape valleys because ice is heavy."
POOR = "No idea."
SCALE = Scale(0, 9)
CORRECTNESS = SUPPORTED_ASPECTS["correctness"].definition
_LABELS = ["B>>A", "B>A", "A=B", "A>B", "A>>B"]


@dataclass(frozen=True)
class Kind:
    """A judge: its prompt for a question and an answer (beside `FAIR`, if it compares), and its verdict as a number.

    `value` gives a higher number for a better answer, and `None` for a text that is not to the
    letter in its format.
    """

    prompt_format: PromptFormat
    show: Callable[[str, str], list[Message]]
    value: Callable[[str], float | None]

    def critique(
        self, question: str, answer: str, evaluation: str = "It is not bad."
    ) -> list[Message]:
        return critique_messages(self.show(question, answer), evaluation)


class PeerKind(Kind):
    def critique(
        self, question: str, answer: str, evaluation: str = "It is not bad."
    ) -> list[Message]:
        return peer_prompt(
            question, answer, DEFAULT_RUBRIC, previous=ScoreObject(50, evaluation)
        ).messages


SHARED = section_texts("Is it helpful?", GOOD, "What is known.")


def _label(labels: Sequence[str]) -> Callable[[str], float | None]:
    def value(text: str) -> float | None:
        label = arena_label(text)
        return (
            float(labels.index(label))
            if label is not None and text.endswith(f"\n[[{label}]]")
            else None
        )

    return value


def _letter(text: str) -> float | None:
    letter = choice_letter(text, "ABC")
    return None if letter is None or not text.endswith(f"\n[[{letter}]]") else float(letter == "B")


IDS = ("ghjkm", "npqrt")


def _second_score(text: str) -> float | None:
    scores = listwise_scores(text, IDS)
    return None if scores is None or not text.endswith("}]}") else scores[IDS[1]].score


def _feedback(output_format: Any) -> Callable[[str], float | None]:
    def value(text: str) -> float | None:
        own = text[text.rfind("\n\n") + 2 :] if "\n\n" in text else text
        return (
            SCORE_PARSERS[output_format](own, SCALE)
            if is_strict_feedback(own, output_format, SCALE)
            else None
        )

    return value


def _arena(
    protocol: Any, layout: PromptLayout = "published"
) -> Callable[[str, str], list[Message]]:
    return lambda question, answer: (
        game_prompt(question, answer, FAIR, protocol=protocol, layout=layout).messages
    )


def _rubric(
    output_format: Any, reference: str | None, layout: PromptLayout = "published"
) -> Callable[[str, str], list[Message]]:
    rubric = Rubric("Is it helpful?", {9: "perfect"}, SCALE)
    return lambda question, answer: (
        rubric_prompt(
            question, answer, rubric, reference, output_format=output_format, layout=layout
        ).messages
    )


KINDS = {
    "arena": Kind(ARENA_PROMPT, _arena("three_way"), _label(_LABELS[1:4])),
    "arena_of_five": Kind(ARENA_PROMPT, _arena("arena_hard_v0.1"), _label(_LABELS)),
    "arena_shared_first": Kind(
        ARENA_PROMPT, _arena("three_way", "shared_first"), _label(_LABELS[1:4])
    ),
    "choice": Kind(
        CHOICE_PROMPT,
        lambda asked, answer: choice_prompt(asked, [FAIR, answer, POOR]).messages,
        _letter,
    ),
    "arena_with_shared_texts": Kind(
        ARENA_PROMPT,
        lambda asked, answer: (
            game_prompt(asked, answer, FAIR, protocol="three_way", shared=SHARED).messages
        ),
        _label(_LABELS[1:4]),
    ),
    "choice_with_shared_texts": Kind(
        CHOICE_PROMPT,
        lambda asked, answer: choice_prompt(asked, [FAIR, answer, POOR], shared=SHARED).messages,
        _letter,
    ),
    "listwise": Kind(
        LISTWISE_PROMPT,
        lambda asked, answer: (
            listwise_prompt(
                shared_texts(JudgeTask(asked, (), reference=GOOD)),
                dict(zip(IDS, (FAIR, answer), strict=True)),
            ).messages
        ),
        _second_score,
    ),
    "rating": Kind(
        RATING_PROMPT, lambda asked, answer: rating_prompt(asked, answer).messages, rating
    ),
    "aspect": Kind(
        ASPECT_PROMPT,
        lambda asked, answer: aspect_prompt(CORRECTNESS, answer, asked).messages,
        lambda text: binary_verdict(text),
    ),
    "aspect_shared_first": Kind(
        ASPECT_PROMPT,
        lambda asked, answer: (
            aspect_prompt(CORRECTNESS, answer, asked, layout="shared_first").messages
        ),
        lambda text: binary_verdict(text),
    ),
    "rubric_shared_first": Kind(
        RUBRIC_PROMPT, _rubric("feedback_score", GOOD, "shared_first"), _feedback("feedback_score")
    ),
    "rubric": Kind(RUBRIC_PROMPT, _rubric("feedback_score", GOOD), _feedback("feedback_score")),
    "rubric_result": Kind(RUBRIC_PROMPT, _rubric("result", None), _feedback("result")),
    "peer": PeerKind(
        PEER_PROMPT,
        lambda asked, answer: peer_prompt(asked, answer, DEFAULT_RUBRIC).messages,
        lambda text: found.score if (found := score_object(text)) else None,
    ),
    "peer_shared_first": Kind(
        PEER_PROMPT,
        lambda asked, answer: peer_prompt(asked, answer, DEFAULT_RUBRIC).messages,
        lambda text: found.score if (found := score_object(text)) else None,
    ),
}
