"""How a trace records what a judge said of it.

Guarantees: the explanation and the status are in `trace.info["judge_calls"]`, where verifiers records its own judges;
metrics say whether the judge failed and whether the completion was empty or in the wrong format; a failed judge raises,
which verifiers takes for "no reward": the trace is not `ok`, and the reward is `None`.
"""

from __future__ import annotations

from collections.abc import Mapping

import verifiers.v1 as vf

from judgegym.integrations.scores.results import CompletionReward
from judgegym.llm.wire import JSON


def record(
    rewarded: CompletionReward, trace: vf.Trace, name: str, request: Mapping[str, JSON], *, prefix: str = ""
) -> None:
    """Record on a trace what a judge said of it.

    Args:
        rewarded: what it said.
        trace: the trace that was judged.
        name: the reward's name.
        request: what the judge was asked.
        prefix: of the names of the metrics.
    """
    parsed = {"score": rewarded.reward, "status": rewarded.status, "label": rewarded.label}
    response = vf.JudgeResponse(text=rewarded.explanation, parsed=parsed)
    trace.record_judge_call(name=name, request=request, response=response)
    metrics = {**rewarded.metrics, **rewarded.flags}
    trace.record_metrics({f"{prefix}{metric}": value for metric, value in metrics.items()})
