"""Registered environments of skyrl-gym, made and stepped by many threads at once; prints what each step gave.

Arguments: the kind (environment or judge), the directory, the code that registers, completions as
JSON: of a row id, or pairs of a row and a text.
"""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import skyrl_gym
from skyrl_gym.metrics import aggregate_for_environment

kind, directory, code, given = [*sys.argv[1:4], json.loads(sys.argv[4])]
os.chdir(directory)
space = {}
exec(code, space)


def run(case):
    env_class, row, text = case
    prompt, extras = (
        row["prompt"],
        {key: value for key, value in row.items() if key not in ("prompt", "env_class")},
    )
    with skyrl_gym.make(env_class, env_config={}, extras={**extras, "max_turns": 1}) as env:
        messages, _ = env.init(prompt)
        assert messages == prompt and env.get_metrics() == {}
        step = env.step(text)
        assert step["done"] and step["observations"] == [] and isinstance(step["reward"], float)
        return [step["reward"], step["metadata"], env.get_metrics()]


if kind == "environment":
    rows = [json.loads(line) for line in Path("train.jsonl").read_text().splitlines()]
    cases = [
        (row["env_class"], row, text)
        for row in rows
        for text in given.get(row["reward_spec"]["uid"], ())
    ]
else:
    cases = [(space["env_class"], row, text) for row, text in given]
with ThreadPoolExecutor(max_workers=len(cases)) as threads:
    steps = list(threads.map(run, cases))
aggregated = aggregate_for_environment(cases[0][0], [metrics for _, _, metrics in steps])
print(
    json.dumps(
        {
            "steps": steps,
            "aggregated": aggregated,
            "uids": [case[1].get("reward_spec") for case in cases],
        }
    )
)
