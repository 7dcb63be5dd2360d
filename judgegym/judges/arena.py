"""The Arena-Hard judge: a policy's answer against a baseline's, in both orders at once.

The layout of the user message and the extraction of labels are those of lmarena/arena-hard-auto. The system prompts are
not: `three_way` is the specification's, with three labels; `arena_hard_v0.1` is a rewording of the published prompt,
with the same steps and the same five labels, of which strong ones count three times. To compare with published numbers,
set the published prompt as `judge_system_prompt`. A judgment has a score only if both games have a verdict.

With `judge_prompt_layout=shared_first` the baseline comes before the model's answer in both games, and only the labels
A and B change sides: a judge's preference for a label is still balanced, one for the first or the last answer is not.

A plausible reply of the Arena-Hard judge, for the offline stand-in: swapping the answers swaps the label.

The settings of the Arena-Hard judge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Literal, NamedTuple

from judgegym.judges import prompts
from judgegym.judges.config.fields import setting
from judgegym.judges.config.judge import PromptLayout, PromptLayoutSettings, ReaskSettings
from judgegym.judges.core.calls import ask_again, failed_judgment
from judgegym.judges.core.delimiters import (
    REFERENCE,
    TITLES,
    Lookalikes,
    Prompt,
    delimit,
    meanings_of,
    without_tokens,
)
from judgegym.judges.core.judge import CritiqueRequest, VerdictJudge, critique_messages
from judgegym.judges.core.judgment import JudgeCall, Judgment, Status
from judgegym.judges.core.prompt_format import PromptFormat, ShownPrompt, bracketed_fields
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.parsing.json_objects import explained
from judgegym.judges.parsing.labels import ARENA_LABELS, ArenaLabel, arena_form, arena_label
from judgegym.judges.parsing.thinking import after_thinking
from judgegym.judges.parsing.verdict_parser import ParsedVerdict, VerdictForm
from judgegym.llm.at_once import all_results
from judgegym.llm.wire import Choice

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
    """How two answers are compared."""

    help_group: ClassVar[str] = "judge"

    judge_protocol: ArenaProtocol = setting("three_way")
    """Choose the labels, their weights and the built-in prompt. three_way: A>B, A=B, B>A. arena_hard_v0.1: also A>>B
    and B>>A, which count three times. Its built-in prompt is a rewording of the published one; to compare with
    published numbers set judge_system_prompt=@file to the published prompt."""

    def built_in_prompt(self) -> str:
        """The protocol's system prompt."""
        return prompts.load(PROMPTS[self.judge_protocol])


GameOrder = Literal["model_is_a", "model_is_b"]
RowOutcome = Literal["win", "tie", "loss"]

_COMPONENTS: Mapping[GameOrder, str] = {"model_is_a": "game_1", "model_is_b": "game_2"}
# Substrings that a text needs to look like one of the markers below.
_LOOKALIKES = Lookalikes("<|", "start of assistant", "end of assistant")

_RESULTS = {1.0: "won", 0.5: "tied", 0.0: "lost"}
# By label: the value for A (1 won, 0.5 tied, 0 lost), and whether it is strong.
_VALUES: Mapping[str, tuple[float, bool]] = {
    "A>>B": (1.0, True),
    "A>B": (1.0, False),
    "A=B": (0.5, False),
    "B>A": (0.0, False),
    "B>>A": (0.0, True),
}
OUTCOMES: Mapping[float, RowOutcome] = {1.0: "win", 0.5: "tie", 0.0: "loss"}
"""What the points of a game mean for the model."""


@dataclass(frozen=True, slots=True)
class ArenaCase:
    """A user's prompt, the model's answer without its thinking, the answer to compare it with, and what both share."""

    question: str
    answer: str
    baseline: str
    shared: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Game:
    """One of the two games of a row, with the answers in one order.

    Attributes:
        order: whose answer is shown as Assistant A's.
        label: the verdict; `None` without one.
        text: the judge's text with the verdict; without a verdict, its last text.
        earlier_texts: earlier texts without a verdict, after each of which the judge was asked again.
        reasoning: the reasoning that the endpoint returned apart from `text`.
        error: why there is no verdict.
    """

    order: GameOrder
    label: ArenaLabel | None
    text: str
    earlier_texts: tuple[str, ...] = ()
    reasoning: str | None = None
    error: str | None = None

    @property
    def points(self) -> float | None:
        """Return 1 if the model won, 0.5 for a tie, 0 if it lost, strong or not; `None` without a verdict."""
        if self.label is None:
            return None
        of_a, _ = _VALUES[self.label]
        return of_a if self.order == "model_is_a" else 1.0 - of_a

    @property
    def is_strong(self) -> bool:
        """Return whether the verdict is a strong win or loss."""
        return self.label is not None and _VALUES[self.label][1]


@dataclass(frozen=True, slots=True)
class ArenaDetail:
    """Both games, the one with the model as A first, and the row's entries (empty without two verdicts)."""

    games: tuple[Game, Game]
    entries: tuple[float, ...] = ()


class ArenaCaseJudge(VerdictJudge[ArenaJudgeSettings, ArenaCase, ArenaDetail, ArenaLabel]):
    """Judges pairs of answers: −1 (both games lost) to 1 (both won), with the label `win`, `tie` or `loss`."""

    async def first_judgment(self, case: ArenaCase) -> Judgment[ArenaDetail]:
        """Ask for the verdicts of both games at once."""
        first, second = await all_results(self.play(case, order, name) for order, name in _COMPONENTS.items())
        # Both games show the same texts.
        suspects = self.prompt(case, "model_is_a").suspects
        return self._judgment((first[0], second[0]), (*first[1], *second[1]), suspects)

    async def play(self, case: ArenaCase, order: GameOrder, name: str) -> tuple[Game, list[JudgeCall[ArenaLabel]]]:
        """Play one game, with a question in the same conversation for each answer without a verdict.

        Args:
            case: the two answers.
            order: whose answer is shown as Assistant A's.
            name: of the game's first call; those of the others begin with it.

        Returns:
            The game, with a verdict or the reason why there is none, and its calls.
        """
        calls = await ask_again(
            partial(self.ask, case),
            self.prompt(case, order).messages,
            name,
            lambda _, call: (without_tokens(call.text), prompts.load("arena_hard_reask")),
            at_most=self.settings.judge_reask,
        )
        last = next((answer for answer in reversed(calls) if answer.text), calls[-1])
        earlier = tuple(answer.text for answer in calls[: calls.index(last)])
        return Game(order, calls[-1].value, last.text, earlier, last.reasoning, calls[-1].error), calls

    def case_of(self, task: JudgeTask) -> ArenaCase:
        """The response against the task's baseline."""
        baseline = baseline_of(task)
        assert baseline is not None  # a task without one is no case of this judge
        return ArenaCase(task.prompt, task.response, baseline)

    def unit(self, score: float) -> float:
        """The win rate from 0 to 1."""
        return (score + 1.0) / 2.0

    def confidences(self, judgment: Judgment[ArenaDetail]) -> Mapping[str, float]:
        """Also `orders`: 1 − the distance between the points in both games."""
        points = [game.points for game in judgment.detail.games] if judgment.detail is not None else []
        known = [each for each in points if each is not None]
        orders = {"orders": 1.0 - abs(known[0] - known[1])} if len(known) == 2 else {}
        return {**super().confidences(judgment), **orders}

    def read(self, case: ArenaCase, choice: Choice) -> ParsedVerdict[ArenaLabel] | None:
        """Read the label."""
        return arena_label.find(choice.text)

    def form(self, case: ArenaCase) -> VerdictForm:
        """The form of a label of the protocol."""
        return arena_form(LABELS[self.settings.judge_protocol])

    def prompt(self, case: ArenaCase, order: GameOrder) -> Prompt:
        """The prompt of one game."""
        settings, is_a = self.settings, order == "model_is_a"
        return game_prompt(
            case.question,
            case.answer if is_a else case.baseline,
            case.baseline if is_a else case.answer,
            protocol=settings.judge_protocol,
            judged="A" if is_a else "B",
            layout=settings.judge_prompt_layout,
            system_prompt=settings.judge_system_prompt,
            shared=case.shared,
        )

    def critique_requests(self, case: ArenaCase, judgment: Judgment[ArenaDetail]) -> list[CritiqueRequest]:
        """A request for the label of each game."""
        requests = []
        for game in judgment.detail.games if judgment.detail is not None else ():
            assert game.label is not None  # a judgment with a score has both
            own = after_thinking(game.text).strip()
            messages = critique_messages(self.prompt(case, game.order).messages, own)
            requests.append(CritiqueRequest(_COMPONENTS[game.order], game.label, own, messages))
        return requests

    def apply_revisions(
        self, case: ArenaCase, judgment: Judgment[ArenaDetail], revisions: Mapping[str, JudgeCall[ArenaLabel]]
    ) -> Judgment[ArenaDetail]:
        """The judgment of the games with the revised labels in place of earlier ones."""
        assert judgment.detail is not None
        first, second = (
            replace(game, label=call.value, text=call.text, reasoning=call.reasoning)
            if (call := revisions.get(_COMPONENTS[game.order]))
            else game
            for game in judgment.detail.games
        )
        return self._judgment((first, second), judgment.calls)

    def _judgment(
        self, games: tuple[Game, Game], calls: tuple[JudgeCall[object], ...], suspects: int = 0
    ) -> Judgment[ArenaDetail]:
        first, second = games
        if first.label is None or second.label is None:
            reasons = "; ".join(f"{game.order}: {game.error}" for game in games if game.label is None)
            failed = failed_judgment(calls, explanation=reasons, detail=ArenaDetail(games))
            return replace(failed, suspects=suspects)
        row = row_result(first.label, second.label, strong_weight=STRONG_WEIGHT[self.settings.judge_protocol])
        explanation = (
            f"As assistant A ({_RESULTS[row.entries[0]]}): {explained(first.text)[1]}\n\n"
            f"As assistant B ({_RESULTS[row.entries[-1]]}): {explained(second.text)[1]}"
        )
        detail = ArenaDetail(games, row.entries)
        return Judgment(row.reward, Status.OK, row.outcome, explanation, calls, detail, suspects=suspects)


def baseline_of(task: JudgeTask) -> str | None:
    """The baseline of a task, or its reference, for protocols without a field for a baseline."""
    return task.reference if task.baseline is None else task.baseline


class RowResult(NamedTuple):
    """The result of a row's two games for the model.

    Attributes:
        entries: 2 to 6 numbers: 1 (won), 0.5 (tied) or 0 (lost), those of game 1 first; a strong label gives several.
        reward: the mean of the entries, mapped from 0…1 to −1…1.
        outcome: `win` if the model won both games, `loss` if it lost both, else `tie`.
    """

    entries: tuple[float, ...]
    reward: float
    outcome: RowOutcome


def row_result(game_1: ArenaLabel, game_2: ArenaLabel, *, strong_weight: int = 3) -> RowResult:
    """The result of a row for the model.

    >>> row_result("A>>B", "A>B")
    RowResult(entries=(1.0, 1.0, 1.0, 0.0), reward=0.5, outcome='tie')

    Args:
        game_1: the label of the game with the model as A.
        game_2: the label of the game with the model as B.
        strong_weight: how many times a strong win or loss counts; 3 in `arena_hard_v0.1`.

    Raises:
        ValueError: a label is not one of the five canonical labels.

    Source:
        lmarena/arena-hard-auto v0.1, the weighting of its results. Zheng et al., Judging LLM-as-a-Judge with MT-Bench
        and Chatbot Arena (2023), section 3.4: a verdict that the other order does not confirm is a tie.
    """
    for label in (game_1, game_2):
        if label not in _VALUES:
            raise ValueError(f"{label!r} is not an Arena-Hard label; expected one of {', '.join(_VALUES)}")
    (as_a, is_strong_1), (baseline_as_a, is_strong_2) = _VALUES[game_1], _VALUES[game_2]
    as_b = 1.0 - baseline_as_a
    entries = (as_a,) * (strong_weight if is_strong_1 else 1) + (as_b,) * (strong_weight if is_strong_2 else 1)
    return RowResult(entries, 2.0 * sum(entries) / len(entries) - 1.0, OUTCOMES[as_a] if as_a == as_b else "tie")


def game_prompt(
    question: str,
    answer_a: str,
    answer_b: str,
    *,
    protocol: ArenaProtocol,
    judged: Literal["A", "B"] = "A",
    layout: PromptLayout = "published",
    system_prompt: str | None = None,
    shared: Mapping[str, str] = {},
) -> Prompt:
    """The prompt of one game: the system prompt, then question and answers between markers that no text can imitate.

    Args:
        question: the user's prompt.
        answer_a: the answer shown as Assistant A's.
        answer_b: the answer shown as Assistant B's.
        protocol: chooses the built-in system prompt.
        judged: whose answer is the model's; the other one is the baseline, which all answers of a group meet.
        layout: the order of the answers; published is A's first, `shared_first` is the baseline first.
        system_prompt: replaces the built-in system prompt.
        shared: further sections behind the question, by title; without any the prompt is the published one.
    """
    answers = {"A": answer_a, "B": answer_b}
    baseline = "B" if judged == "A" else "A"
    texts = (question, *shared.values(), answers[baseline], answers[judged])
    delimited = delimit(texts, _LOOKALIKES, shared=len(texts) - 1)
    markers, (shown_question, *others) = delimited.markers, delimited.texts
    sections = [
        f"{markers.marker('User Prompt')}\n{shown_question}",
        *(f"{markers.marker(title)}\n{text}" for title, text in zip(shared, others, strict=False)),
    ]
    named = zip((baseline, judged), others[len(shared) :], strict=True)
    for name, answer in named if layout == "shared_first" else sorted(named):
        start = markers.marker(f"The Start of Assistant {name}'s Answer")
        end = markers.marker(f"The End of Assistant {name}'s Answer")
        sections.append(f"{start}\n{answer}\n{end}")
    system = prompts.load(PROMPTS[protocol]) if system_prompt is None else system_prompt
    return Prompt.of(system, markers.notice + meanings_of(shared) + "\n\n".join(sections), delimited.suspects)


_A, _B = "The Start of Assistant A's Answer", "The Start of Assistant B's Answer"
_ENDS = ("The End of Assistant A's Answer", "The End of Assistant B's Answer")
_TIE, _MUCH = 0.04, 0.3


def _reply(shown: ShownPrompt) -> str:
    lead = shown.merits[_A] - shown.merits[_B]
    if abs(lead) < _TIE:
        return "By the words they use there is nothing to choose between them.\n\n[[A=B]]"
    better, worse = ("A", "B") if lead > 0 else ("B", "A")
    sign = ">>" if abs(lead) >= _MUCH and "[[A>>B]]" in shown.instructions else ">"
    return f"By the words they use, the answer of Assistant {better} is the better one.\n\n[[{better}{sign}{worse}]]"


ARENA_PROMPT = PromptFormat(
    sections=("User Prompt", _A, _B, *_ENDS),
    optional=TITLES,
    judged=(_A, _B),
    question="User Prompt",
    references=(REFERENCE,),
    reply=_reply,
    fields=bracketed_fields,
)
