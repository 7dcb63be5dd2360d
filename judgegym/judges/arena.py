"""Arena-Hard judge: compares a policy's answer with a baseline's, in both orders at once.

The layout of the user message and the extraction of labels are those of lmarena/arena-hard-auto.
The system prompts are not: `three_way` is the specification's, with three labels; `arena_hard_v0.1`
is a rewording of the published prompt, with the same steps and the same five labels, of which
strong ones count three times. To compare with published numbers, set the published prompt as
`judge_system_prompt`. A judgment has a score only if both games have a verdict.

With `judge_prompt_layout=shared_first` the baseline comes before the model's answer in both games,
and only the labels A and B change sides. This still balances a judge's preference for a label, but
not one for the first or the last answer.

In the stand-in reply for offline runs, swapping the answers swaps the label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar, Literal, NamedTuple

from judgegym.judges import prompts
from judgegym.judges.config.fields import setting
from judgegym.judges.config.judge import PromptLayout, PromptLayoutSettings, ReaskSettings
from judgegym.judges.core.calls import failed_judgment
from judgegym.judges.core.delimiters import TITLES, Lookalikes, Prompt, describe_sections
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.core.message_template import MessageTemplate
from judgegym.judges.core.model_judge import Answers, ModelJudge, Question
from judgegym.judges.core.prompt_format import PromptFormat, StandInPrompt, bracketed_fields
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.parsing.json_objects import split_explanation
from judgegym.judges.parsing.labels import ARENA_LABELS, ArenaLabel, arena_form, arena_label

ArenaProtocol = Literal["three_way", "arena_hard_v0.1"]

STRONG_WEIGHT: Mapping[ArenaProtocol, int] = {"three_way": 1, "arena_hard_v0.1": 3}
"""How many times a strong win or loss (`>>`) counts."""

LABELS: Mapping[ArenaProtocol, Sequence[ArenaLabel]] = {
    "three_way": ("A>B", "A=B", "B>A"),
    "arena_hard_v0.1": ARENA_LABELS,
}
"""The labels that a judge is asked for; others that it writes as text are read, too."""

PROMPTS: Mapping[ArenaProtocol, str] = {
    "three_way": "arena_hard_three_way",
    "arena_hard_v0.1": "arena_hard_v0_1",
}
"""The built-in system prompt of each protocol."""


class ArenaJudgeSettings(PromptLayoutSettings, ReaskSettings):
    """Settings of the Arena-Hard judge."""

    help_group: ClassVar[str] = "judge"

    judge_protocol: ArenaProtocol = setting("three_way")
    """Choose the labels, their weights and the built-in prompt. three_way: A>B, A=B, B>A.
    arena_hard_v0.1: also A>>B and B>>A, which count three times. Its built-in prompt is a rewording
    of the published one; to compare with published numbers set judge_system_prompt=@file to the
    published prompt."""

    def built_in_prompt(self) -> str:
        """Return the protocol's system prompt."""
        return prompts.load(PROMPTS[self.judge_protocol])


GameOrder = Literal["model_is_a", "model_is_b"]
RowOutcome = Literal["win", "tie", "loss"]

_GAMES: Mapping[GameOrder, str] = {"model_is_a": "game_1", "model_is_b": "game_2"}
_TEMPLATE = MessageTemplate(
    (
        "{meanings}",
        "<|User Prompt{tag}|>\n{prompt}",
        "<|Given Context{tag}|>\n{context}",
        "<|Reference Answer{tag}|>\n{reference}",
        "<|Given Criteria{tag}|>\n{criteria}",
        "<|The Start of Assistant {id}'s Answer{tag}|>\n{{id}}\n<|The End of Assistant {id}'s "
        "Answer{tag}|>",
    ),
    Lookalikes("<|", "start of assistant", "end of assistant"),
)

_RESULTS = {1.0: "won", 0.5: "tied", 0.0: "lost"}
LABEL_VALUES: Mapping[str, tuple[float, bool]] = {
    "A>>B": (1.0, True),
    "A>B": (1.0, False),
    "A=B": (0.5, False),
    "B>A": (0.0, False),
    "B>>A": (0.0, True),
}
"""By label: the value for A (1 won, 0.5 tied, 0 lost), and whether it is strong."""
OUTCOMES: Mapping[float, RowOutcome] = {1.0: "win", 0.5: "tie", 0.0: "loss"}
"""What the points of a game mean for the model."""


@dataclass(frozen=True, slots=True)
class Game:
    """One of a row's two games, with the answers in one order.

    Attributes:
        order: whose answer is shown as Assistant A's.
        label: the verdict; `None` without one.
        text: the judge's text with the verdict; without a verdict, its last text.
        earlier_texts: earlier texts without a verdict, after each of which the judge was asked
            again.
        reasoning: the reasoning that the endpoint returned apart from `text`.
        error: why there is no verdict.
    """

    order: GameOrder
    label: ArenaLabel | None
    text: str
    earlier_texts: tuple[str, ...] = ()
    reasoning: str | None = None
    error: str | None = None

    @classmethod
    def from_answers(cls, order: GameOrder, answers: Answers[ArenaLabel]) -> Game:
        """Build the game from the answers to its question."""
        calls, decisive = answers.calls, answers.last
        last = next((call for call in reversed(calls) if call.text), calls[-1])
        earlier = tuple(call.text for call in calls[: calls.index(last)])
        shown = answers.latest_revision(answers.question.component, last)
        return cls(order, decisive.value, shown.text, earlier, shown.reasoning, decisive.error)

    @property
    def points(self) -> float | None:
        """Points of the model: 1 if it won, 0.5 for a tie, 0 if it lost; `None` without a verdict.

        Strong and weak verdicts count alike.
        """
        if self.label is None:
            return None
        points_of_a, _ = LABEL_VALUES[self.label]
        return points_of_a if self.order == "model_is_a" else 1.0 - points_of_a

    @property
    def is_strong(self) -> bool:
        """Whether the verdict is a strong win or loss."""
        return self.label is not None and LABEL_VALUES[self.label][1]


@dataclass(frozen=True, slots=True)
class ArenaDetail:
    """Both games, the one with the model as A first, and the row's entries.

    There are no entries without two verdicts.
    """

    games: tuple[Game, Game]
    entries: tuple[float, ...] = ()


class ArenaTaskJudge(ModelJudge[ArenaJudgeSettings, ArenaDetail, ArenaLabel]):
    """Judge of responses against a baseline: −1 (both games lost) to 1 (both won).

    The label is `win`, `tie` or `loss`.

    The baseline is the task's baseline, otherwise its reference; a task without either cannot be
    judged here.
    """

    def questions(self, task: JudgeTask) -> Sequence[Question[ArenaLabel]]:
        """Ask for the labels of both games."""
        return [self.game(task, order, name) for order, name in _GAMES.items()]

    def game(
        self, task: JudgeTask, order: GameOrder, name: str, shared: Mapping[str, str | None] = {}
    ) -> Question[ArenaLabel]:
        """Return the question of one game.

        After an answer without a label it is asked again in the same conversation.

        Args:
            task: the prompt with one response, and with a baseline.
            order: whose answer is shown as Assistant A's.
            name: name of the game's first call; the names of further calls begin with it.
            shared: texts of further sections after the prompt
                (`judgegym.judges.core.delimiters.section_texts`).
        """
        settings, is_a, baseline = self.settings, order == "model_is_a", select_baseline(task)
        assert baseline is not None  # tasks of this judge have a baseline
        both = (task.response, baseline)
        if not is_a:
            both = (baseline, task.response)
        prompt = game_prompt(
            task.prompt,
            *both,
            protocol=settings.judge_protocol,
            judged="A" if is_a else "B",
            layout=settings.judge_prompt_layout,
            system_prompt=settings.judge_system_prompt,
            shared=shared,
        )
        form = arena_form(LABELS[settings.judge_protocol])
        return Question(
            name, prompt, arena_label, form, component=name, reasks=settings.judge_reask
        )

    def combine(
        self, task: JudgeTask, answers: Sequence[Answers[ArenaLabel]]
    ) -> Judgment[ArenaDetail]:
        """Average the points of both games.

        The confidence `orders` is 1 − the distance between them.
        """
        first, second = (
            Game.from_answers(order, replies)
            for order, replies in zip(_GAMES, answers, strict=True)
        )
        games = (first, second)
        if first.label is None or second.label is None:
            calls = list(chain.from_iterable(replies.calls for replies in answers))
            reasons = "; ".join(
                f"{game.order}: {game.error}" for game in games if game.label is None
            )
            return failed_judgment(calls, explanation=reasons, detail=ArenaDetail(games))
        row = row_result(
            first.label, second.label, strong_weight=STRONG_WEIGHT[self.settings.judge_protocol]
        )
        as_a, as_b = row.entries[0], row.entries[-1]
        _, as_a_words = split_explanation(first.text)
        _, as_b_words = split_explanation(second.text)
        explanation = (
            f"As assistant A ({_RESULTS[as_a]}): {as_a_words}\n\n"
            f"As assistant B ({_RESULTS[as_b]}): {as_b_words}"
        )
        unit = (row.reward + 1.0) / 2.0
        return Judgment(
            row.reward,
            Status.OK,
            row.outcome,
            explanation,
            detail=ArenaDetail(games, row.entries),
            unit=unit,
            components={"raw": row.reward},
            confidences={"orders": 1.0 - abs(as_a - as_b)},
        )


def select_baseline(task: JudgeTask) -> str | None:
    """Return a task's baseline, or else its reference.

    The reference serves protocols without a field for a baseline.
    """
    if task.baseline is None:
        return task.reference
    return task.baseline


class RowResult(NamedTuple):
    """Result of a row's two games for the model.

    Attributes:
        entries: 2 to 6 numbers: 1 (won), 0.5 (tied) or 0 (lost), those of game 1 first; a strong
            label gives several numbers.
        reward: the mean of the entries, mapped from 0…1 to −1…1.
        outcome: `win` if the model won both games, `loss` if it lost both, else `tie`.
    """

    entries: tuple[float, ...]
    reward: float
    outcome: RowOutcome


def row_result(game_1: ArenaLabel, game_2: ArenaLabel, *, strong_weight: int = 3) -> RowResult:
    """Return the result of a row for the model.

    >>> row_result("A>>B", "A>B")
    RowResult(entries=(1.0, 1.0, 1.0, 0.0), reward=0.5, outcome='tie')

    Args:
        game_1: the label of the game with the model as A.
        game_2: the label of the game with the model as B.
        strong_weight: how many times a strong win or loss counts; 3 in `arena_hard_v0.1`.

    Raises:
        ValueError: a label is not one of the five canonical labels.

    Source:
        lmarena/arena-hard-auto v0.1, the weighting of its results. Zheng et al., Judging
        LLM-as-a-Judge with MT-Bench and Chatbot Arena (2023), section 3.4: a verdict that the other
        order does not confirm is a tie.
    """
    for label in (game_1, game_2):
        if label not in LABEL_VALUES:
            labels = ", ".join(LABEL_VALUES)
            raise ValueError(f"{label!r} is not an Arena-Hard label; expected one of {labels}")
    (as_a, is_strong_1), (baseline_as_a, is_strong_2) = LABEL_VALUES[game_1], LABEL_VALUES[game_2]
    as_b = 1.0 - baseline_as_a
    weights = [strong_weight if is_strong else 1 for is_strong in (is_strong_1, is_strong_2)]
    entries = (as_a,) * weights[0] + (as_b,) * weights[1]
    return RowResult(
        entries, 2.0 * sum(entries) / len(entries) - 1.0, OUTCOMES[as_a] if as_a == as_b else "tie"
    )


def game_prompt(
    question: str,
    answer_a: str,
    answer_b: str,
    *,
    protocol: ArenaProtocol,
    judged: Literal["A", "B"] = "A",
    layout: PromptLayout = "published",
    system_prompt: str | None = None,
    shared: Mapping[str, str | None] = {},
) -> Prompt:
    """Return the prompt of one game: system prompt, question and answers.

    The answers stand between markers that no text can imitate.

    Args:
        question: the user's prompt.
        answer_a: the answer shown as Assistant A's.
        answer_b: the answer shown as Assistant B's.
        protocol: chooses the built-in system prompt.
        judged: which assistant is the model; the other is the baseline, which all answers of a
            group meet.
        layout: the order of the answers; `published`: A's first, `shared_first`: the baseline
            first.
        system_prompt: replaces the built-in system prompt.
        shared: texts of further sections after the question; without any the prompt is the
            published one.
    """
    answers = {"A": answer_a, "B": answer_b}
    baseline = "B" if judged == "A" else "A"
    if system_prompt is None:
        system_prompt = prompts.load(PROMPTS[protocol])
    return _TEMPLATE.fill(
        {"prompt": question, **shared, baseline: answers[baseline]},
        {judged: answers[judged]},
        ids=(baseline, judged) if layout == "shared_first" else "AB",
        wording=describe_sections(shared),
        system=system_prompt,
    )


_A, _B = "The Start of Assistant A's Answer", "The Start of Assistant B's Answer"
_ENDS = ("The End of Assistant A's Answer", "The End of Assistant B's Answer")
_TIE, _MUCH = 0.04, 0.3


def _draft_reply(shown: StandInPrompt) -> str:
    lead = shown.merits[_A] - shown.merits[_B]
    if abs(lead) < _TIE:
        return "By the words they use there is nothing to choose between them.\n\n[[A=B]]"
    better, worse = ("A", "B") if lead > 0 else ("B", "A")
    sign = ">>" if abs(lead) >= _MUCH and "[[A>>B]]" in shown.instructions else ">"
    return (
        f"By the words they use, the answer of Assistant {better} is the better one.\n\n"
        f"[[{better}{sign}{worse}]]"
    )


ARENA_PROMPT = PromptFormat(
    sections=("User Prompt", _A, _B, *_ENDS),
    optional=(*TITLES.values(),),
    judged=(_A, _B),
    question="User Prompt",
    references=(TITLES["reference"],),
    reply=_draft_reply,
    fields=bracketed_fields,
)
