"""Calls slime's `batched_async_rm`. Arguments: slime's checkout, the reward server's URL, the samples as JSON.

slime's package needs a GPU's libraries. Its module of reward models is loaded from its file, with its neighbours.
"""

import asyncio
import importlib.util
import json
import sys
import types
from pathlib import Path
from types import SimpleNamespace

checkout, url, samples = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=[str(path.parent)])
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Sample(SimpleNamespace):
    """The fields of slime's sample that its reward models read."""


def nothing(*_, **__):
    raise AssertionError("a rule of slime's own was asked")


# What the rules of slime's own need is absent here, and is not called.
for name, attributes in {
    "slime": {},
    "slime.utils": {},
    "slime.utils.misc": {"load_function": nothing},
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
    arguments = SimpleNamespace(custom_rm_path=None, rm_type="remote_rm", rm_url=url, group_rm=True)
    of_group = [Sample(custom_rm_path=None, metadata={}, **sample) for sample in samples]
    try:
        print(json.dumps(await rm_hub.batched_async_rm(arguments, of_group)))
    finally:
        await rm_hub._get_shared_session().close()


asyncio.run(main())
