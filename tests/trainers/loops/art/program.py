"""Gathers groups with `art.gather_trajectory_groups`, logs them with `art.Model.log`, and prints what comes out.

Arguments: a directory for ART's own logs; the code that has `gather(scenarios, rollout)`; the
scenarios as JSON. Each
is a list of trajectories: the messages before the policy's turns (`asked`), the policy's replies
with what comes between them (`turns`), `metadata`.
"""

import asyncio
import json
import sys
from pathlib import Path

import art
from openai.types.chat.chat_completion import Choice

TOOL = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {}}},
}
made = []


def choice(turn):
    return Choice.model_validate(
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **turn}}
    )


def make(given):
    turns = [choice(turn) if turn.get("role") is None else turn for turn in given["turns"]]
    trajectory = art.Trajectory(
        messages_and_choices=[*given["asked"], *turns],
        tools=[TOOL],
        additional_histories=[
            art.trajectories.History(messages_and_choices=[choice({"content": "aside"})])
        ],
        reward=0.125,
        initial_policy_version=7,
        metrics={"steps": len(turns)},
        metadata=given.get("metadata", {}),
        logs=["began"],
    )
    made.append((trajectory, trajectory.model_dump_json(), list(trajectory.messages_and_choices)))
    return trajectory


def described(group):
    members = sorted(
        group, key=lambda each: each.metadata["n"]
    )  # ART has them as they were finished
    own = {id(turn) for _, _, turns in made for turn in turns if isinstance(turn, Choice)}
    return {
        "rewards": [each.reward for each in members],
        "metrics": [each.metrics for each in members],
        "logs": [each.logs for each in members],
        "replies": [each.messages()[-1]["content"] for each in members],
        "kept": [
            (
                each.initial_policy_version,
                each.tools == [TOOL],
                len(each.additional_histories),
                each.metadata,
            )
            for each in members
        ],
        "own_choices": all(
            id(turn) in own
            for each in members
            for turn in each.messages_and_choices
            if isinstance(turn, Choice)
        ),
        "exceptions": [(each.type, each.message) for each in group.exceptions],
        "of_group": group.metrics,
    }


def logged(directory):
    """The metrics in ART's history, without the split in their names."""
    (history,) = Path(directory).rglob("history.jsonl")
    return {
        name.partition("/")[2]: value
        for name, value in json.loads(history.read_text()).items()
        if "/" in name
    }


async def main():
    names = {}
    exec(sys.argv[2], names)
    scenarios = json.loads(sys.argv[3])

    async def rollout(given):
        return make(given)

    class Rollouts:
        """The members of one scenario, each given out once."""

        def __init__(self, members):
            self.left = list(members)

    groups = await names["gather"](
        [Rollouts(each) for each in scenarios], lambda each: rollout(each.left.pop(0))
    )
    untouched = all(
        trajectory.model_dump_json() == before and trajectory.messages_and_choices == turns
        for trajectory, before, turns in made
    )
    model = art.Model(
        name="policy", project="test", config=None, base_path=sys.argv[1], report_metrics=[]
    )
    await model.log(groups, split="val")
    print(
        json.dumps(
            {
                "logged": logged(sys.argv[1]),
                "groups": [described(group) for group in groups],
                "untouched": untouched,
            }
        )
    )


asyncio.run(main())
