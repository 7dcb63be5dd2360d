"""The judges as scorers of inspect_ai, and the environments as its tasks.

    inspect score LOG --scorer judgegym/rubric -S url=http://127.0.0.1:8400
    inspect eval judgegym/arena_hard -T offline=true --model openai/gpt-5-mini

Guarantees: a judge that fails leaves the sample unscored, with the reason, so that inspect's metrics and reducers leave
it out and count it in `unscored_samples`; an empty completion is a wrong answer, flagged with inspect's own reason; a
setting that cannot work is one line, and no key or token is written into a log.

inspect has no scorer of several samples, and a reducer of epochs makes no calls. `listwise`, `tournament` and `choice`
therefore wait in each epoch's scorer until all epochs of the sample are there: score a finished log with them, since
an evaluation may start later epochs only when earlier ones have ended.

Source: inspect-ai 0.3.285, its scorers, tasks and entry points.
"""

from judgegym.judges.config.extras import needs

with needs("inspect"):
    from judgegym.integrations.inspect_ai.scorers import (
        arena_hard,
        aspect,
        choice,
        listwise,
        peer,
        reward,
        rubric,
        tournament,
    )
    from judgegym.integrations.inspect_ai.tasks import TASKS, environment_task

__all__ = [
    "TASKS",
    "arena_hard",
    "aspect",
    "choice",
    "environment_task",
    "listwise",
    "peer",
    "reward",
    "rubric",
    "tournament",
]
