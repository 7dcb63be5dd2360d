"""Scores samples with verl's reward managers. Argument: a list of {manager, name, kwargs, rows, router} as JSON."""

import asyncio
import json
import sys

import numpy as np
import torch
import transformers
from omegaconf import OmegaConf
from verl import DataProto
from verl.trainer.ppo.reward import load_reward_manager

TOKENIZER = transformers.AutoTokenizer.from_pretrained(
    "judgegym/environments/rollouts/tokenizers/bytes"
)


def sample(row):
    response = TOKENIZER(row["response"], add_special_tokens=False)["input_ids"]
    prompt = TOKENIZER("prompt", add_special_tokens=False)["input_ids"]
    truth = np.array(row["truth"]) if isinstance(row["truth"], list) else row["truth"]
    columns = {
        "data_source": "data",
        "reward_model": {"ground_truth": truth},
        "extra_info": dict(row["extra_info"]),
    }
    if "extra_fields" in row:  # what an agent loop has put into its output
        columns["tool_extra_fields"] = row["extra_fields"]
    return DataProto.from_dict(
        tensors={
            "prompts": torch.tensor([prompt]),
            "responses": torch.tensor([response]),
            "attention_mask": torch.ones(1, len(prompt) + len(response), dtype=torch.long),
        },
        non_tensors={name: np.array([value], dtype=object) for name, value in columns.items()},
    )


def scores(case):
    function = {"path": case["path"], "name": case["name"], "reward_kwargs": case["kwargs"]}
    config = OmegaConf.create(
        {
            "reward": {
                "num_workers": 1,
                "custom_reward_function": function,
                "reward_manager": {"source": "register", "name": case["manager"]},
            },
            "trainer": {"experiment_name": "test"},
            "data": {},
        }
    )

    async def all_samples():
        router = {"reward_router_address": "host:1"} if case.get("router") else {}
        manager = load_reward_manager(config, TOKENIZER, **router)
        return await asyncio.gather(*(manager.run_single(sample(row)) for row in case["rows"]))

    try:
        return [
            {"score": each["reward_score"], **each["reward_extra_info"]}
            for each in asyncio.run(all_samples())
        ]
    except Exception as error:  # noqa: BLE001  # what ends verl's run is the result
        return f"{type(error).__name__}: {error}"


cases = json.loads(sys.argv[1])
if any(case["manager"] == "remote" for case in cases):
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
print(json.dumps([scores(case) for case in cases], default=str))
