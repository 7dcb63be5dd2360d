"""`serve` of Arena-Hard with the same judgments, each call of a group awaited before the next one is made."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cached_property

from judgegym.engine.completions import Completion
from judgegym.eval_environments.arena.environment import ArenaHardTask
from judgegym.eval_environments.arena_hard_environment import ArenaHardEnv
from judgegym.judges.arena import ArenaDetail, game_prompt, row_result
from judgegym.judges.core.calls import ask
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.parsing.labels import arena_label


class SequentialArena(ArenaHardEnv):
    """Arena-Hard, with one judge call of a row at a time."""

    @cached_property
    def _locks(self) -> dict[str, asyncio.Lock]:
        return {}

    async def judge(
        self, task: ArenaHardTask, completions: Sequence[Completion]
    ) -> Judgment[ArenaDetail]:
        (completion,) = completions
        async with self._locks.setdefault(task.uid, asyncio.Lock()):
            labels = []
            for a, b in ((completion.answer, task.baseline), (task.baseline, completion.answer)):
                messages = game_prompt(task.question, a, b, protocol="three_way").messages
                call = await ask(self.clients.judge, messages, arena_label, name="game")
                labels.append(arena_label(call.text))
        first, second = labels
        assert first is not None and second is not None
        row = row_result(first, second, strong_weight=1)
        return Judgment[ArenaDetail](row.reward, Status.OK, label=row.outcome)


if __name__ == "__main__":
    SequentialArena.cli()
