"""Scores batches with verl's reward loop, as its trainer does: workers in Ray, each with the reward manager.

Argument: cases as JSON {overrides of verl's own configuration, how, samples: [{uid, prompt,
response, truth, extra_info}], router}. `how` samples are sent: `batch`: `compute_rm_score`;
`stream`: one by one, each to a worker drawn at random, by the agent loop's own method; `worker`: to
one worker in this process, beside a deployed reward model.
"""

import asyncio
import json
import sys
from types import SimpleNamespace

import hydra
import numpy as np
import ray
import torch
import transformers
from verl import DataProto
from verl.experimental.agent_loop.agent_loop import (
    AgentLoopMetrics,
    AgentLoopOutput,
    AgentLoopWorker,
)
from verl.experimental.reward_loop import RewardLoopManager, RewardLoopWorker

PATH = "judgegym/environments/rollouts/tokenizers/bytes"
TOKENIZER = transformers.AutoTokenizer.from_pretrained(PATH)


def ids_of(text):
    return TOKENIZER(text, add_special_tokens=False)["input_ids"]


def fields_of(sample):
    prompt = [{"role": "user", "content": sample["prompt"]}]
    fields = {
        "data_source": "data",
        "reward_model": {"ground_truth": sample.get("truth")},
        "raw_prompt": prompt,
    }
    if sample.get(
        "bare"
    ):  # as the trainer of v1 sends samples to a reward model that shares its GPUs
        return {"raw_prompt": prompt}
    return {**fields, "extra_info": dict(sample.get("extra_info", {})), "uid": sample["uid"]}


def objects(values):
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def batch_of(samples):
    prompts = [ids_of(each["prompt"]) for each in samples]
    responses = [ids_of(each["response"]) for each in samples]
    wide, long = max(map(len, prompts)), max(1, *map(len, responses))
    lengths = zip(map(len, prompts), map(len, responses), strict=True)
    mask = [
        [0] * (wide - one) + [1] * one + [1] * other + [0] * (long - other)
        for one, other in lengths
    ]
    fields = [fields_of(each) for each in samples]
    return DataProto.from_dict(
        tensors={
            "prompts": torch.tensor([[0] * (wide - len(each)) + each for each in prompts]),
            "responses": torch.tensor([each + [0] * (long - len(each)) for each in responses]),
            "attention_mask": torch.tensor(mask),
        },
        non_tensors={name: objects([each[name] for each in fields]) for name in fields[0]},
    )


async def streamed(handles, samples):
    """What the agent loop does after a rollout, with all that it needs of itself."""
    loop = SimpleNamespace(
        reward_loop_worker_handles=handles,
        _compute_multi_modal_inputs=lambda *_: {},
        _compute_position_ids=lambda ids, *_: torch.zeros_like(ids),
        _get_mm_processor_kwargs=lambda *_: {},
    )

    async def one(sample):
        prompt, response = ids_of(sample["prompt"]), ids_of(sample["response"])
        output = AgentLoopOutput(
            prompt_ids=prompt,
            response_ids=response,
            response_mask=[1] * len(response),
            num_turns=2,
            metrics=AgentLoopMetrics(),
        )
        await AgentLoopWorker._compute_score(loop, [output], fields_of(sample))
        return {"reward": output.reward_score, **output.extra_fields["reward_extra_info"]}

    return list(await asyncio.gather(*(one(sample) for sample in samples)))


def rows_of(scored):
    rewards = scored.batch["rm_scores"].sum(dim=-1, dtype=torch.float64).tolist()
    extra = {
        name: scored.non_tensor_batch[name].tolist()
        for name in scored.meta_info["reward_extra_keys"]
    }
    return [
        {"reward": reward, **{name: extra[name][n] for name in extra}}
        for n, reward in enumerate(rewards)
    ]


def scored(case):
    model = f"actor_rollout_ref.model.path={PATH}"
    with hydra.initialize_config_module("verl.trainer.config", version_base=None):
        config = hydra.compose(
            "ppo_trainer", [model, "actor_rollout_ref.rollout.name=vllm", *case["overrides"]]
        )
    if case["how"] == "worker":
        worker = RewardLoopWorker(config, case["router"])
        outputs = worker.loop.run_until_complete(
            worker.compute_score_batch(batch_of(case["samples"]))
        )
        return [{"reward": each["reward_score"], **each["reward_extra_info"]} for each in outputs]
    if not ray.is_initialized():
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    manager = RewardLoopManager(config)
    try:
        if case["how"] == "stream":
            return asyncio.run(streamed(manager.reward_loop_worker_handles, case["samples"]))
        return rows_of(manager.compute_rm_score(batch_of(case["samples"])))
    finally:
        for worker in manager.reward_loop_workers:
            ray.kill(worker)


print(json.dumps([scored(case) for case in json.loads(sys.argv[1])]))
