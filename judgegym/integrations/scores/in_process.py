"""Scores of a judge in this process. Imported only when it is used: it needs all packages of the judges.

With `group_size`, single responses meet in cohorts of this process. So it is for trainers that send all samples of a
prompt from one process; where several processes each send a part of a group, a server gathers it.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from pydantic import ValidationError

from judgegym.api.session import stand_in_settings
from judgegym.integrations.scores.requests import RefusedError, Request
from judgegym.integrations.scores.results import JUDGE_FAILED, CompletionReward
from judgegym.judges.config.judge import STAND_IN_IDENTITY
from judgegym.judges.core.tasks import ResponseJudgment
from judgegym.server.answers import OverloadError
from judgegym.server.core import Core
from judgegym.server.protocols.native import ScoreBody
from judgegym.server.settings import JudgeMount

_MOST_PENDING = 100_000


class InProcessSource:
    """A judge with a core of its own, which opens at the first request."""

    def __init__(self, judge: JudgeMount, *, deadline_s: float, offline: bool = False) -> None:
        """Score with `judge`, configured as in the server.

        Args:
            judge: the settings of the judge.
            deadline_s: seconds within which a score is returned.
            offline: ask the stand-in instead of the judge's endpoint; its scores mean nothing.
        """
        self._judge = judge
        self._offline = offline
        self._stack = AsyncExitStack()
        self._deadline_s = deadline_s
        self._core: Core | None = None
        self._opening = asyncio.Lock()

    async def score(self, request: Request) -> list[CompletionReward]:
        """See `Source`.

        Raises:
            SettingsError: the judge's settings are wrong, or its key is missing.
        """
        core = await self._opened()
        try:
            items = ScoreBody.model_validate(dict(request)).tasks(request)
            results = await core.score("", items, within_s=self._deadline_s, is_patient=True)
        except OverloadError:
            return [CompletionReward(None, JUDGE_FAILED, explanation=f"{_MOST_PENDING} judgments are under way")]
        except ValidationError as error:
            first = error.errors()[0]
            raise RefusedError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
        except ValueError as error:
            raise RefusedError(str(error)) from None
        return [_scored(result) for results_of_item in results for result in results_of_item]

    async def _opened(self) -> Core:
        async with self._opening:
            if self._core is None:
                self._core = await self._open()
            return self._core

    async def _open(self) -> Core:
        identity = STAND_IN_IDENTITY if self._offline else ""
        async with AsyncExitStack() as stack:
            judge = await stand_in_settings(stack, self._judge) if self._offline else self._judge
            core = Core({"": judge}, deadline_s=self._deadline_s, max_pending=_MOST_PENDING, judge_identity=identity)
            await stack.enter_async_context(core)
            self._stack = stack.pop_all()
            return core

    async def close(self) -> None:
        """Close the core."""
        stack, self._stack, self._core = self._stack, AsyncExitStack(), None
        await stack.aclose()


def _scored(result: ResponseJudgment) -> CompletionReward:
    return CompletionReward(result.score, result.status, result.label, result.explanation)
