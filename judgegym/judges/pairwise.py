"""Choice judge: picks the best of N answers to one question by letter, in one call.

This module has its settings, the prompts for a choice (the letter of the best of N answers) and for
a rating (one answer from 1 to 10), and stand-in replies of both judges for offline runs.

The layout is RewardBench-2's; the built-in instructions are a rewording. To compare with published
numbers, replace them by the published prompts, byte for byte. Texts under judgment are between
markers that they cannot imitate (`judgegym.judges.core.delimiters`).

Source: allenai/reward-bench; Malik et al., RewardBench 2: Advancing Reward Model Evaluation (2025).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from string import ascii_uppercase

from judgegym.judges import prompts
from judgegym.judges.config.judge import JudgeSettings
from judgegym.judges.core.calls import failed_judgment
from judgegym.judges.core.decisions import DecisionForm, StateTexts, least_probability
from judgegym.judges.core.delimiters import TITLES, Lookalikes, Prompt, describe_sections
from judgegym.judges.core.group import AnswerCollector
from judgegym.judges.core.images import show_images
from judgegym.judges.core.judge import JudgeDefinition
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.core.message_template import MessageTemplate, join_instructions
from judgegym.judges.core.model_judge import Answers, ModelJudge, Question
from judgegym.judges.core.prompt_format import PromptFormat, StandInPrompt, bracketed_fields
from judgegym.judges.core.seeding import make_generator
from judgegym.judges.core.tasks import (
    JudgeTask,
    ResponseJudgment,
    TaskError,
    explain_single_response,
    make_response_judgment,
)
from judgegym.judges.parsing.decisions import Decision, DecisionQuestion
from judgegym.judges.parsing.json_objects import split_explanation
from judgegym.judges.parsing.labels import choice_form, choice_letter
from judgegym.llm.wire import JSON


class ChoiceJudgeSettings(JudgeSettings):
    """Settings of the choice judge, which are those of every judge."""

    def built_in_prompt(self) -> str:
        """Return the system prompt, with placeholders for the number of answers and the labels."""
        return prompts.load("choice")


LETTERS = ascii_uppercase
FEWEST_CHOICES, MOST_CHOICES = 2, len(LETTERS)

_UNITS = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TEENS = (
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
)
_NUMBERS = (*_UNITS, *_TEENS, "twenty", *(f"twenty-{unit}" for unit in _UNITS[1:]))
_CHOICE = MessageTemplate(
    (
        "{meanings}",
        "[User Question{tag}]\n{prompt}",
        "[User Question: Given Context{tag}]\n{context}",
        "[User Question: Reference Answer{tag}]\n{reference}",
        "[User Question: Given Criteria{tag}]\n{criteria}",
        "[The Start of Assistant {id}'s Answer{tag}]\n{{id}}\n[The End of Assistant {id}'s "
        "Answer{tag}]",
    ),
    Lookalikes("[user question", "[the start of assistant", "[the end of assistant"),
)
"""Each title begins like the question's, so that shared texts are lookalikes in all these
prompts."""
_RATING = MessageTemplate(
    (
        "{instructions}",
        "[Query{tag}]\n{prompt}",
        "[Response{tag}]\n{response}",
        "[Your judgement{tag}]",
    ),
    Lookalikes("[query", "[response", "[your judgement"),
)


def choice_prompt(
    question: str,
    answers: Sequence[str],
    *,
    system: str = "",
    system_prompt: str | None = None,
    shared: Mapping[str, str | None] = {},
) -> Prompt:
    """Return the prompt that asks for the best of N answers.

    Args:
        question: the user's prompt.
        answers: 2 to 26 of them, in the order of their letters.
        system: text before the system prompt.
        system_prompt: replaces the built-in system prompt.
        shared: texts of further sections after the question
            (`judgegym.judges.core.delimiters.section_texts`).

    Raises:
        ValueError: there are fewer than 2 or more than 26 answers.
    """
    if not FEWEST_CHOICES <= len(answers) <= MOST_CHOICES:
        count = len(answers)
        raise ValueError(
            f"a choice is between {FEWEST_CHOICES} and {MOST_CHOICES} answers, not {count}"
        )
    letters = LETTERS[: len(answers)]
    task = system_prompt
    if task is None:
        task = choice_instructions(len(answers))
    return _CHOICE.fill(
        {"prompt": question, **shared},
        dict(zip(letters, answers, strict=True)),
        ids=letters,
        wording=describe_sections(shared),
        system=join_instructions(system, task),
    )


def choice_instructions(count: int) -> str:
    """Return the built-in system prompt for this number of answers."""
    verdicts = [f'"[[{letter}]]" if assistant {letter} is best' for letter in LETTERS[:count]]
    comma = "," if count > FEWEST_CHOICES else ""
    first_verdicts = ", ".join(verdicts[:-1])
    listed = f"{first_verdicts}{comma} and {verdicts[-1]}"
    return prompts.fill(prompts.load("choice"), {"number": _NUMBERS[count], "verdicts": listed})


def rating_prompt(
    question: str, answer: str, *, system: str = "", instructions: str | None = None
) -> Prompt:
    """Return the prompt that asks for a rating of one answer.

    It is a user message, after the system message if there is one.

    Args:
        question: the user's prompt.
        answer: the answer.
        system: the system message; empty for none.
        instructions: replaces the built-in instructions.
    """
    if instructions is None:
        instructions = prompts.load("rating")
    words = {"instructions": instructions}
    return _RATING.fill(
        {"prompt": question}, {"response": answer}, wording=words, system=system or None
    )


@dataclass(frozen=True, slots=True)
class ChoiceDetail:
    """Index of the best answer, from 0, and the judge's whole text.

    The index is `None` without a verdict. A decision model gives each answer's probability to be the
    best, in their order.
    """

    best: int | None
    text: str
    probabilities: tuple[float, ...] = ()


_TYPED_INSTRUCTIONS = (
    "Which response answers the prompt best? Consider helpfulness, relevance, accuracy, depth and "
    "level of detail. Neither the order nor the length of the responses counts."
)
"""The question to a decision model."""


class DecidedLetter(str):
    """A decision model's letter, with the probability of each letter."""

    probabilities: Mapping[str, float]

    def __new__(cls, decision: Decision) -> DecidedLetter:
        """Take the likeliest letter."""
        letter = super().__new__(cls, decision.label)
        letter.probabilities = decision.probabilities
        return letter


def _make_form(
    task: JudgeTask, letters: str, shared: Mapping[str, str | None]
) -> DecisionForm[str]:
    """Return the question which response is best for a decision model."""
    labels = tuple((letter, None) for letter in letters)
    typed = DecisionQuestion("choice", _TYPED_INSTRUCTIONS, labels=labels)
    responses = dict(zip(letters, task.responses, strict=True))
    state: StateTexts = {"prompt": task.prompt, **shared, "responses": responses}
    return DecisionForm(state, [typed], _read_decision)


def _read_decision(decisions: Sequence[Decision]) -> str:
    (decision,) = decisions
    return DecidedLetter(decision)


_ALL_EQUAL: Judgment[ChoiceDetail] = Judgment(
    1.0, Status.OK, "best", "All responses are equal: there is no choice."
)


class ChoiceTaskJudge(ModelJudge[JudgeSettings, ChoiceDetail, str]):
    """Judge that chooses the best of several responses.

    The score is the index of the best, from 0; the label is its letter.

    One call scores all responses to a task: the chosen one and its equals get 1, the others 0. With
    a decision model each response's score is its probability to be the best.
    """

    unread_with_decisions = frozenset[str]()

    def questions(self, task: JudgeTask) -> Sequence[Question[str]]:
        """Ask for the letter of the best response.

        Raises:
            ValueError: there are fewer than 2 or more than 26 responses.
        """
        return [self.question(task, "choice")]

    def question(
        self, task: JudgeTask, name: str, shared: Mapping[str, str | None] = {}
    ) -> Question[str]:
        """Return the question which response is best.

        Args:
            task: the prompt with 2 to 26 responses, in the order of their letters.
            name: of the call.
            shared: texts of further sections after the prompt
                (`judgegym.judges.core.delimiters.section_texts`).
        """
        letters, system_prompt = LETTERS[: len(task.responses)], self.settings.judge_system_prompt
        prompt = choice_prompt(
            task.prompt, task.responses, system_prompt=system_prompt, shared=shared
        )
        form = None
        if self.decides:
            form = _make_form(task, letters, shared)
        return Question(
            name,
            prompt,
            choice_letter.bind(letters),
            choice_form(letters),
            decision=form,
        )

    def combine(self, task: JudgeTask, answers: Sequence[Answers[str]]) -> Judgment[ChoiceDetail]:
        """Take the letter."""
        (replies,) = answers
        call = replies.last
        if call.value is None:
            return failed_judgment(replies.calls, detail=ChoiceDetail(None, call.text))
        letter = str(call.value)
        best = LETTERS.index(letter)
        probabilities = dict[str, float]()
        explanation = split_explanation(call.text)[1]
        confidences = dict[str, float]()
        if isinstance(call.value, DecidedLetter):
            probabilities, explanation = {**call.value.probabilities}, call.text
            confidences = least_probability([probabilities[letter]])
        shares = tuple(probabilities.get(name, 0.0) for name in LETTERS[: len(task.responses)])
        return Judgment(
            float(best),
            Status.OK,
            letter,
            explanation,
            detail=ChoiceDetail(best, call.text, shares if probabilities else ()),
            confidences=confidences,
        )

    def check(self, task: JudgeTask) -> None:
        """Check that there are 2 to 26 responses."""
        super().check(task)
        if not FEWEST_CHOICES <= len(task.responses) <= MOST_CHOICES:
            count = len(task.responses)
            raise TaskError(
                f"responses: expected {FEWEST_CHOICES} to {MOST_CHOICES}, found {count}"
                + explain_single_response(task, self.settings.how_to_gather)
            )

    def compares(self, task: JudgeTask) -> bool:
        """Return true: all responses are compared."""
        return True

    def min_responses(self, task: JudgeTask) -> int:
        """Return two."""
        return FEWEST_CHOICES

    def begin(self, task: JudgeTask, size: int) -> AnswerCollector[list[ResponseJudgment]]:
        """Collect responses, since one call chooses among all."""
        return AnswerCollector(lambda responses: self.score(task.replace_responses(responses)))

    async def score(self, task: JudgeTask) -> list[ResponseJudgment]:
        """Judge the distinct responses.

        The judge's letters follow its own order: the explanation begins with their meaning, and
        each result has the `position` (from 1) at which the judge saw its response.
        """
        task, left_out = task.shorten_to(self.limit)
        answers, responses = self._shuffle_responses(task), task.responses
        with show_images(task):
            judgment = _ALL_EQUAL
            if len(answers) > 1:
                judgment = await self.judge(JudgeTask(task.prompt, answers))
        judgment = replace(judgment, left_out=left_out)
        results: list[ResponseJudgment] = []
        for index, response in enumerate(responses):
            member_judgment, position = judgment, answers.index(response)
            if judgment.detail is not None and judgment.detail.best is not None:
                is_best = position == judgment.detail.best
                meaning = _explain_letters(task, answers)
                words = f"{meaning}\n\n{judgment.explanation}"
                label = "best" if is_best else "not the best"
                score = float(is_best)
                if judgment.detail.probabilities:
                    score = judgment.detail.probabilities[position]
                member_judgment = replace(judgment, score=score, label=label, explanation=words)
            result = make_response_judgment(
                member_judgment,
                member_judgment.score,
                {"position": position + 1.0},
                is_paid=index == 0,
            )
            results.append(replace(result, shared=response in responses[:index]))
        return results

    def _shuffle_responses(self, task: JudgeTask) -> tuple[str, ...]:
        """Return the distinct responses, shuffled by the seed and the task only."""
        answers = [*dict.fromkeys(task.responses)]
        key = replace(task.replace_responses(answers, task.places), repeat=0).key("choice")
        make_generator(self.settings.seed, key, "order").shuffle(answers)
        return tuple(answers)


def _explain_letters(task: JudgeTask, answers: Sequence[str]) -> str:
    """Return which response each of the judge's letters stands for, in the caller's order."""
    places = range(len(task.responses)) if task.places is None else task.places
    by_place = list(zip(places, task.responses, strict=True))
    shown = []
    for letter, answer in zip(LETTERS, answers, strict=False):
        equal = [f"responses[{place}]" for place, text in by_place if text == answer]
        shown.append(f"{letter} is " + " and ".join(equal))
    return "In the judge's order " + ", ".join(shown) + "."


_STARTS = {f"The Start of Assistant {letter}'s Answer": letter for letter in ascii_uppercase}
_ENDS = [f"The End of Assistant {letter}'s Answer" for letter in ascii_uppercase]
_TITLES = tuple(_STARTS)


def _choose(shown: StandInPrompt) -> str:
    # The text breaks ties of merit, so that an answer's position never matters.
    best = max(shown.merits, key=lambda title: (shown.merits[title], shown.sections[title]))
    letter = _STARTS[best]
    count = len(shown.merits)
    return (
        f"I compared the {count} responses by their words. Assistant {letter} serves the question "
        f"best.\n\n[[{letter}]]"
    )


def _rate(shown: StandInPrompt) -> str:
    rating = 1 + int(10 * shown.merit)
    return f"By its words, the response covers a part of the query.\n\n{rating}"


def _parse_rating(reply: str) -> Mapping[str, JSON]:
    explanation, _, rating = reply.rpartition("\n\n")
    return {"explanation": explanation, "rating": int(rating)}


CHOICE_PROMPT = PromptFormat(
    sections=("User Question", *_TITLES[:2], *_ENDS[:2]),
    optional=(*_TITLES[2:], *_ENDS[2:], *(f"User Question: {title}" for title in TITLES.values())),
    judged=_TITLES,
    question="User Question",
    references=("User Question: Reference Answer",),
    reply=_choose,
    fields=bracketed_fields,
)
RATING_PROMPT = PromptFormat(
    sections=("Query", "Response", "Your judgement"),
    judged=("Response",),
    question="Query",
    reply=_rate,
    fields=_parse_rating,
)


JUDGE = JudgeDefinition(
    ChoiceJudgeSettings,
    "1 for the best of several responses to one prompt, 0 for the others",
    ChoiceTaskJudge,
    (CHOICE_PROMPT,),
    most_together=MOST_CHOICES,
)
