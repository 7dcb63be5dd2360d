"""JudgeGym's environments with typical mistakes, to show what goes wrong without the rules.

Neither class is part of the product. `python -m examples.tiny_grpo --compare` trains with them and
with the real environments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from judgegym.data.rubric_rows import RubricTask
from judgegym.engine.completions import Completion
from judgegym.environments.rubric_absolute_environment import RubricAbsoluteEnv
from judgegym.eval_environments.arena.environment import ArenaHardTask
from judgegym.eval_environments.arena_hard_environment import ArenaHardEnv
from judgegym.judges.arena import ArenaDetail, ArenaTaskJudge, Game, row_result
from judgegym.judges.core.calls import failed_judgment
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.core.model_judge import ask_question
from judgegym.judges.parsing.labels import ArenaLabel
from judgegym.judges.rubrics.judge import RubricDetail

_MIRRORED: dict[str, ArenaLabel] = {
    "A>>B": "B>>A",
    "A>B": "B>A",
    "A=B": "A=B",
    "B>A": "A>B",
    "B>>A": "A>>B",
}


class FailuresScoredLowest(RubricAbsoluteEnv):
    """A failed judgment gets the lowest score, as if the response were bad."""

    async def judge(
        self, task: RubricTask, completions: Sequence[Completion]
    ) -> Judgment[RubricDetail]:
        judgment = await super().judge(task, completions)
        if not judgment.status.is_failure:
            return judgment
        return replace(judgment, score=float(self.config.scale_min), status=Status.OK, detail=None)


class OneOrder(ArenaHardEnv):
    """One game, with the policy's answer first; the other order is assumed to agree."""

    async def judge(
        self, task: ArenaHardTask, completions: Sequence[Completion]
    ) -> Judgment[ArenaDetail]:
        (completion,) = completions
        games = ArenaTaskJudge(self.config, self.clients.judge)
        question = games.game(task.make_judge_task(completion.answer), "model_is_a", "game_1")
        answers = await ask_question(self.clients.judge, self.config, question)
        game = Game.from_answers("model_is_a", answers)
        calls = answers.calls
        suspects = question.prompt.suspects
        if game.label is None:
            return replace(failed_judgment(calls, explanation=game.error), suspects=suspects)
        mirrored = _MIRRORED[game.label]
        row = row_result(game.label, mirrored, strong_weight=1)
        detail = ArenaDetail((game, replace(game, order="model_is_b", label=mirrored)), row.entries)
        return Judgment(
            row.reward, Status.OK, row.outcome, game.text, calls, detail, suspects=suspects
        )
