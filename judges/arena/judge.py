"""The Arena-Hard judge: a policy's answer against a baseline's, in both orders at once.

Prompt and labels as in lmarena/arena-hard-auto; `three_way` is the specification's system prompt with three labels,
`arena_hard_v0.1` the original's five, where a strong verdict counts three times. A judgment has a score only if both
games have a verdict.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from judges import prompts
from judges.arena.win_rate import (
    STRONG_WEIGHT,
    ArenaProtocol,
    WinRate,
    row_entries,
    row_outcome,
    row_reward,
    win_rate,
)
from judges.core.calls import ask
from judges.core.critique import CritiqueRequest, Revision, critique_messages
from judges.core.delimiters import delimiters_for
from judges.core.judgment import JudgeCall, Judgment, Status
from judges.llm.client import ChatClient
from judges.llm.wire import Choice, Message
from judges.parsing.thinking import after_thinking
from judges.parsing.verdicts import ArenaLabel, arena_label

__all__ = [
    "ArenaDetail",
    "ArenaHardJudge",
    "ArenaProtocol",
    "Game",
    "WinRate",
    "game_messages",
    "row_entries",
    "win_rate",
]

GameOrder = Literal["model_is_a", "model_is_b"]

_COMPONENTS = ("game_1", "game_2")

_SYSTEM_PROMPT: dict[ArenaProtocol, str] = {
    "three_way": "arena_hard_three_way",
    "arena_hard_v0.1": "arena_hard_v0_1",
}
# What a text would need in order to pass for one of the markers below.
_LOOKALIKES = ("<|", "start of assistant", "end of assistant")


@dataclass(frozen=True, slots=True)
class Game:
    """One order of the pair.

    Attributes:
        order: whose answer is shown as Assistant A's.
        label: the verdict, `None` if none could be had.
        text: the judge's text that holds the verdict; without one, the last text there was.
        earlier_texts: texts without a verdict, after each of which the judge was asked once more.
        reasoning: what the endpoint returned apart from `text`.
        error: why there is no verdict.
    """

    order: GameOrder
    label: ArenaLabel | None
    text: str
    earlier_texts: tuple[str, ...] = ()
    reasoning: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ArenaDetail:
    """Both games, the one with the model as A first, and the row's entries (empty without two verdicts)."""

    games: tuple[Game, Game]
    entries: tuple[float, ...] = ()


class ArenaHardJudge:
    """Judges pairs of answers."""

    def __init__(self, client: ChatClient, *, protocol: ArenaProtocol = "three_way", reask: int = 1) -> None:
        """Judge through `client`.

        Args:
            client: the judge model.
            protocol: which prompt and weighting.
            reask: how often a judge that gave no verdict is asked, in the same conversation, to finish with one.
        """
        self.client = client
        self.protocol = protocol
        self.reask = reask

    async def judge(self, *, question: str, answer: str, baseline: str) -> Judgment[ArenaDetail]:
        """Play both games.

        Args:
            question: the user's prompt.
            answer: the model's answer, without its thinking.
            baseline: the answer to compare it with.

        Returns:
            A score from −1 (both games lost) to 1 (both won), the label `win`, `tie` or `loss`; or no score and the
            reason. Never raises on what a judge answers.
        """
        (first, first_calls), (second, second_calls) = await asyncio.gather(
            self._play("model_is_a", question, answer, baseline),
            self._play("model_is_b", question, baseline, answer),
        )
        return self._judgment((first, second), first_calls + second_calls)

    def critique_requests(
        self, judgment: Judgment[ArenaDetail], *, question: str, answer: str, baseline: str
    ) -> list[CritiqueRequest]:
        """Each game's label."""
        assert judgment.detail is not None
        opinions = []
        for component, game in zip(_COMPONENTS, judgment.detail.games, strict=True):
            assert game.label is not None  # a judgment with a score has both
            answers = (answer, baseline) if game.order == "model_is_a" else (baseline, answer)
            shown = game_messages(question, *answers, protocol=self.protocol)
            own = after_thinking(game.text).strip()
            messages = critique_messages(shown, own)
            opinions.append(CritiqueRequest(component, game.label, own, messages, _read, _revision))
        return opinions

    def apply_revisions(
        self,
        judgment: Judgment[ArenaDetail],
        revisions: Mapping[str, JudgeCall],
        *,
        question: str,
        answer: str,
        baseline: str,
    ) -> Judgment[ArenaDetail]:
        """The games with revised labels in place of earlier ones."""
        assert judgment.detail is not None
        first, second = (
            _revised(game, revisions[component]) if component in revisions else game
            for component, game in zip(_COMPONENTS, judgment.detail.games, strict=True)
        )
        return self._judgment((first, second), judgment.calls)

    def _judgment(self, games: tuple[Game, Game], calls: tuple[JudgeCall, ...]) -> Judgment[ArenaDetail]:
        first, second = games
        if first.label is None or second.label is None:
            return _no_verdict(games, calls)
        entries = row_entries(first.label, second.label, strong_weight=STRONG_WEIGHT[self.protocol])
        return Judgment(
            score=row_reward(entries),
            status=Status.OK,
            label=row_outcome(first.label, second.label),
            explanation=f"As assistant A: {first.text}\n\nAs assistant B: {second.text}",
            calls=calls,
            detail=ArenaDetail(games, tuple(entries)),
        )

    async def _play(
        self, order: GameOrder, question: str, answer_a: str, answer_b: str
    ) -> tuple[Game, tuple[JudgeCall, ...]]:
        messages = game_messages(question, answer_a, answer_b, protocol=self.protocol)
        name = "game_1" if order == "model_is_a" else "game_2"
        call = await ask(self.client, messages, arena_label, name=name)
        calls = [call]
        # A judge that said nothing cannot be asked to finish what it said.
        while call.value is None and call.text.strip() and len(calls) <= self.reask:
            messages = [
                *messages,
                Message(role="assistant", content=call.text),
                Message(role="user", content=prompts.load("arena_hard_reask")),
            ]
            call = await ask(self.client, messages, arena_label, name=f"{name}_reask_{len(calls)}")
            calls.append(call)
        last = next((each for each in reversed(calls) if each.text), call)
        game = Game(
            order=order,
            label=arena_label(call.text) if call.value is not None else None,
            text=last.text,
            earlier_texts=tuple(each.text for each in calls[: calls.index(last)]),
            reasoning=last.reasoning,
            error=call.error,
        )
        return game, tuple(calls)


def _read(choice: Choice) -> ArenaLabel | None:
    return arena_label(choice.text)


def _revision(call: JudgeCall) -> Revision:
    label = arena_label(call.text)
    assert label is not None  # only calls with a label get here
    own = after_thinking(call.text).strip()
    return Revision(label, own, own)  # reasons and critique are one text


def _revised(game: Game, call: JudgeCall) -> Game:
    return replace(game, label=arena_label(call.text), text=call.text, reasoning=call.reasoning)


def game_messages(question: str, answer_a: str, answer_b: str, *, protocol: ArenaProtocol) -> list[Message]:
    """What the judge is shown: the system prompt, then question and answers between markers they cannot end."""
    markers = delimiters_for((question, answer_a, answer_b), _LOOKALIKES)
    sections = [f"{markers.marker('User Prompt')}\n{question}"]
    for name, answer in (("A", answer_a), ("B", answer_b)):
        start = markers.marker(f"The Start of Assistant {name}'s Answer")
        end = markers.marker(f"The End of Assistant {name}'s Answer")
        sections.append(f"{start}\n{answer}\n{end}")
    return [
        Message(role="system", content=prompts.load(_SYSTEM_PROMPT[protocol])),
        Message(role="user", content=markers.notice + "\n\n".join(sections)),
    ]


def _no_verdict(games: tuple[Game, Game], calls: tuple[JudgeCall, ...]) -> Judgment[ArenaDetail]:
    """A row without two verdicts: failed if a call never succeeded, else unparsable."""
    failed = any(call.failed for call in calls)
    reasons = [f"{game.order}: {game.error}" for game in games if game.label is None]
    return Judgment(
        score=None,
        status=Status.JUDGE_FAILED if failed else Status.UNPARSABLE,
        explanation="; ".join(reasons),
        calls=calls,
        detail=ArenaDetail(games),
    )
