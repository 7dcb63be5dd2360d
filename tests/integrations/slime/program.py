"""Calls slime's `batched_async_rm` and `async_rm`, and prints the rewards and what was kept out of the loss.

Arguments: slime's checkout, the reward server's URL, the samples as JSON, arguments of slime's own as JSON; with the
argument `alone` each sample is given to `async_rm`, as slime does without `--group-rm`.

slime's package needs a GPU's libraries. Its module of reward models is loaded from its file, with its neighbours.
"""

import asyncio
import importlib.util
import json
import sys
import types
from pathlib import Path
from types import SimpleNamespace

checkout, url, samples, given = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]), json.loads(sys.argv[4])


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=[str(path.parent)])
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Sample(SimpleNamespace):
    """The fields of slime's sample that its reward models read."""


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
    alone = given.pop("alone", False)
    known = {"custom_rm_path": None, "rm_type": "remote_rm", "reward_key": None, "eval_reward_key": None}
    arguments = SimpleNamespace(**{**known, "rm_url": url, "group_rm": not alone, **given})
    of_group = [
        Sample(custom_rm_path=None, metadata={}, group_index=0, index=place, remove_sample=False, **each)
        for place, each in enumerate(samples)
    ]
    try:
        if alone:
            rewards = await asyncio.gather(*(rm_hub.async_rm(arguments, sample) for sample in of_group))
        else:
            rewards = await rm_hub.batched_async_rm(arguments, of_group)
    finally:
        await rm_hub._get_shared_session().close()
    print(json.dumps({"rewards": rewards, "removed": [sample.remove_sample for sample in of_group]}))


asyncio.run(main())
