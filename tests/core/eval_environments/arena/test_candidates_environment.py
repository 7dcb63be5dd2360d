"""The environment of several candidates, as a program uses it: completions that play, and nobody is asked for them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judgegym.engine.completions import Completion
from judgegym.eval_environments.arena.candidates_environment import ArenaCandidatesEnv
from tests.contest import answer_of, better, contest, judging
from tests.core.environments.words import opened


@pytest.mark.parametrize("play", ["tournament", "baseline"])
async def test_completions_of_a_row_play_each_other(tmp_path: Path, play: str) -> None:
    """The row's score is the mean share of points of the candidates; a wrong answer has none."""
    here = contest(tmp_path, 1)
    candidates = json.dumps([here.file(name) for name in ("ann", "bob", "cid")])
    flags = *here.arena.flags, f"--env.candidates={candidates}", f"--env.candidates_play={play}"
    verdict = judging(better("ann", "baseline", "bob"))
    async with opened(verdict, *flags, env_type=ArenaCandidatesEnv) as (env, endpoint):
        (task,) = env.tasks("eval")
        said = [
            Completion(answer_of("ann", task.uid)),
            Completion(answer_of("bob", task.uid)),
            Completion(""),
        ]
        judgment = await env.judge(task, said)
    against = {"tournament": (1.0, 1 / 3, 0.0), "baseline": (1.0, 0.0, 0.0)}[play]
    assert judgment.score == pytest.approx(sum(against) / 3)
    assert (
        judgment.detail is not None
        and len(judgment.detail.games) == {"tournament": 12, "baseline": 6}[play]
    )
    assert len(endpoint.bodies) == len(judgment.calls) == {"tournament": 6, "baseline": 4}[play]
    assert len({call.name for call in judgment.calls}) == len(judgment.calls)
    assert [answer.is_wrong for answer in judgment.detail.answers] == [False, False, True]
