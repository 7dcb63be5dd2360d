"""What rLLM trains of rollouts in a remote runtime: episodes by its engine's own function, groups by its own transform.

Prints the rewards of the groups that are trained, with rLLM's default and with its filter of
errors. The failed rollout
is one whose evaluator has raised, as ours does where the judge failed: the runtime's result is not
finished. And what our evaluators take for the answer of an episode whose agent has set one.
"""

import json

from rllm.engine.remote_agent_flow_engine import _build_episode
from rllm.engine.remote_runtime.protocol import RemoteTaskResult
from rllm.trainer.algorithms.config import CompactFilteringConfig
from rllm.trainer.algorithms.transform import _build_trajectory_groups
from rllm.types import Episode, Step
from rllm.workflows.workflow import TerminationReason

from judgegym_trainers.rllm import _read_answer


def episode(number, reward):
    result = RemoteTaskResult(
        finished=reward is not None,
        session_id=str(number),
        task_id="task",
        reward=0.0 if reward is None else reward,  # as `process_task_with_retry` sets it
        termination_reason=TerminationReason.ERROR
        if reward is None
        else TerminationReason.ENV_DONE,
    )
    built = _build_episode([], result, f"task:{number}", {})
    for trajectory in built.trajectories:
        trajectory.steps.append(Step())  # of the gateway's traces
    return built


def trained(**settings):
    episodes = [episode(number, reward) for number, reward in enumerate((1.0, None, 0.5))]
    groups = _build_trajectory_groups(episodes, CompactFilteringConfig(**settings))
    return [[trajectory.reward for trajectory in group.trajectories] for group in groups]


answers = [_read_answer(Episode(artifacts={"answer": answer})) for answer in ("Seven.", None, 7)]
print(
    json.dumps(
        {
            "default": trained(),
            "filtered": trained(enable=True, mask_error=True),
            "answers": answers,
        }
    )
)
