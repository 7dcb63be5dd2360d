"""Calls slime's `batched_async_rm` and `async_rm`, and prints the rewards and what was kept out of the loss.

Arguments: slime's checkout, the reward server's URL, the samples as JSON, arguments of slime's own
as JSON; with the argument `alone` each sample is given to `async_rm`, as slime does without
`--group-rm`. With `estimators`, it also prints what slime's trainer would get for each: rewards
that its own code has normalized, and loss masks.

slime's package needs a GPU's libraries. Its module of reward models is loaded from its file, with
its neighbours; of `slime/ray/rollout.py` the two methods of `RolloutManager` that make training
data of samples.
"""

import ast
import asyncio
import importlib.util
import json
import sys
import types
from pathlib import Path
from types import SimpleNamespace

checkout, url, samples, given = (
    Path(sys.argv[1]),
    sys.argv[2],
    json.loads(sys.argv[3]),
    json.loads(sys.argv[4]),
)


def load(name, path):
    spec = importlib.util.spec_from_file_location(
        name, path, submodule_search_locations=[str(path.parent)]
    )
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Sample(SimpleNamespace):
    """The fields of slime's sample that its reward models read, and those that its trainer reads."""

    Status = SimpleNamespace(TRUNCATED="truncated")
    tokens, response_length, loss_mask, rollout_id = (), 3, None, None
    status = "completed"
    rollout_log_probs = rollout_routed_experts = train_metadata = multimodal_train_inputs = (
        teacher_log_probs
    ) = None

    def get_reward_value(self, args):
        return self.reward if not args.reward_key else self.reward[args.reward_key]


def train_data(samples, arguments, estimator):
    """What slime's `RolloutManager` makes of samples."""
    import torch

    tree = ast.parse((checkout / "slime/ray/rollout.py").read_text())
    names = ("_post_process_rewards", "_convert_samples_to_train_data")
    methods = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name in names
    ]
    space = {"torch": torch, "Sample": Sample, "get_source": lambda sample: "test"}
    exec(compile(ast.Module(methods, []), "rollout.py", "exec"), space)
    known = {
        "advantage_estimator": estimator,
        "rewards_normalization": True,
        "grpo_std_normalization": True,
    }
    shape = {"n_samples_per_prompt": len(samples), "rollout_batch_size": 1}
    manager = SimpleNamespace(
        custom_reward_post_process_func=None, custom_convert_samples_to_train_data_func=None
    )
    manager.args = SimpleNamespace(**vars(arguments), **known, **shape)
    manager._post_process_rewards = lambda given: space[names[0]](manager, given)
    data = space[names[1]](manager, samples)
    return {name: data[name] for name in ("rewards", "loss_masks")}


def nothing(*_, **__):
    raise AssertionError("a rule of slime's own was asked")


def load_function(path):
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


# What the rules of slime's own need is absent here, and is not called.
for name, attributes in {
    "slime": {},
    "slime.utils": {},
    "slime.utils.misc": {"load_function": load_function},
    "slime.utils.types": {"Sample": Sample},
    "slime.rollout": {},
    "slime.rollout.rm_hub.deepscaler": {"get_deepscaler_rule_based_reward": nothing},
    "slime.rollout.rm_hub.f1": {"f1_score": nothing},
    "slime.rollout.rm_hub.gpqa": {"compute_gpqa_reward": nothing},
    "slime.rollout.rm_hub.math_dapo_utils": {"compute_score": nothing},
    "slime.rollout.rm_hub.math_utils": {"extract_answer": nothing, "grade_answer_verl": nothing},
}.items():
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(attributes)
rm_hub = load("slime.rollout.rm_hub", checkout / "slime/rollout/rm_hub/__init__.py")


async def main():
    alone, estimators = given.pop("alone", False), given.pop("estimators", ())
    known = {
        "custom_rm_path": None,
        "rm_type": "remote_rm",
        "reward_key": None,
        "eval_reward_key": None,
    }
    arguments = SimpleNamespace(**{**known, "rm_url": url, "group_rm": not alone, **given})
    fresh = {"custom_rm_path": None, "metadata": {}, "group_index": 0, "remove_sample": False}
    of_group = [Sample(**{**fresh, "index": place, **each}) for place, each in enumerate(samples)]
    try:
        if alone:
            rewards = await asyncio.gather(
                *(rm_hub.async_rm(arguments, sample) for sample in of_group)
            )
        else:
            rewards = await rm_hub.batched_async_rm(arguments, of_group)
    finally:
        await rm_hub._get_shared_session().close()
    result = {"rewards": rewards, "removed": [sample.remove_sample for sample in of_group]}
    for sample, reward in zip(of_group, rewards, strict=True):
        sample.reward = reward
    for estimator in estimators:
        copies = [Sample(**vars(sample)) for sample in of_group]
        result[estimator] = train_data(copies, arguments, estimator)
    print(json.dumps(result))


asyncio.run(main())
