"""A conversation of two turns: the policy names a letter, and the user asks it to use that letter.

The scripted judge scores each turn. It likes the letter `e`: the first answer is better the more of
its letters are an `e`. The second answer is better the more of its letters are the first answer's
most frequent one: that letter and `e` are swapped before the judge reads it. The score of the
conversation is the mean of both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from judgegym.data.answers import PromptTask
from judgegym.engine.completions import Completion
from judgegym.environments.prompts_environment import PromptsEnv
from judgegym.judges.core.judgment import Judgment, ScoreParts
from judgegym.llm.at_once import gather_results
from judgegym.llm.ledger import component

_LIKED = "e"


def find_named_letter(answer: str) -> str:
    """Return the most frequent letter of an answer; without letters, the liked one."""
    letters = Counter(character for character in answer if character.isalpha())
    if letters:
        return letters.most_common(1)[0][0]
    return _LIKED


class TwoTurnsEnv(PromptsEnv):
    """Name a letter, and use it."""

    name = "two_turns"

    async def follow_up(self, task: PromptTask, completions: Sequence[Completion]) -> str | None:
        """Ask for the named letter; end after two turns."""
        if len(completions) == 1:
            return f"use {find_named_letter(completions[0].answer)}"
        return None

    async def judge(
        self, task: PromptTask, completions: Sequence[Completion]
    ) -> Judgment[ScoreParts]:
        """Score each turn, and the conversation with the mean."""
        first = completions[0]
        letter = find_named_letter(first.answer)
        swapped = str.maketrans({letter: _LIKED, _LIKED: letter})
        judged_completions = [
            first,
            *(
                replace(completion, answer=completion.answer.translate(swapped))
                for completion in completions[1:]
            ),
        ]
        judgments = await gather_results(
            self._judge_letter(task, completion, turn)
            for turn, completion in enumerate(judged_completions, 1)
        )
        calls = tuple(chain.from_iterable(judgment.calls for judgment in judgments))
        failed = next((judgment for judgment in judgments if judgment.score is None), None)
        if failed is not None:
            return replace(failed, calls=calls)
        scores = {
            f"turn_{turn}": judgment.score or 0.0 for turn, judgment in enumerate(judgments, 1)
        }
        return replace(
            judgments[-1],
            score=sum(scores.values()) / len(scores),
            calls=calls,
            detail=ScoreParts(scores),
        )

    async def _judge_letter(
        self, task: PromptTask, completion: Completion, turn: int
    ) -> Judgment[ScoreParts]:
        with component(f"turn_{turn}"):
            return await super().judge(
                task, [replace(completion, follow_up="")]
            )  # as a separate answer
