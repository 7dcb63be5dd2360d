"""Runs the cookbook's `do_sync_training` with a policy and a training service of our own, and prints what it has.

Arguments: a directory; the code that has `dataset_builder`; the policy's replies as JSON, by turns
for each prompt; the number of worker processes in which groups are rolled out, 0 for none; the
cut-off reply's number, or -1.
"""

import asyncio
import dataclasses
import json
import multiprocessing
import pickle
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import tinker
import torch
from tinker_cookbook.rl.rollout_strategy import FailFast
from tinker_cookbook.rl.rollouts import RolloutErrorCounter, set_rollout_executor
from tinker_cookbook.tokenizer_utils import get_tokenizer

TOKENIZER = "judgegym/environments/rollouts/tokenizers/bytes"
STOP = "<|im_end|>"


@dataclasses.dataclass
class Policy:
    """In the place of `tinker.SamplingClient`: it replies to each prompt with the next of its replies."""

    replies: list[str]
    cut_off: int
    asked: dict[str, int] = dataclasses.field(default_factory=dict)

    async def sample(self, prompt, num_samples, sampling_params):
        key = str(prompt.to_ints())
        number = self.asked.get(key, 0) % len(self.replies)
        self.asked[key] = number + 1
        is_cut_off = number == self.cut_off
        text = self.replies[number] + ("" if is_cut_off else STOP)
        tokens = get_tokenizer(TOKENIZER).encode(text, add_special_tokens=False)
        sequence = tinker.SampledSequence(
            stop_reason="length" if is_cut_off else "stop",
            sequence_id=f"{hash(key)}-{number}",
            _tokens_list=tokens,
            _logprobs_list=[-1.0] * len(tokens),
        )
        return SimpleNamespace(sequences=[sequence], prompt_cache_hit_tokens=0)


class Service:
    """In the place of `tinker.TrainingClient`: it keeps the data that it is to train on."""

    def __init__(self, policy):
        self.policy, self.data = policy, []

    def forward_backward(self, data, loss_fn, loss_fn_config=None):
        self.data += data
        zeros = [
            torch.zeros(len(datum.loss_fn_inputs["target_tokens"].to_torch())) for datum in data
        ]
        outputs = [{"logprobs": tinker.TensorData.from_torch(each)} for each in zeros]
        return done(SimpleNamespace(loss_fn_outputs=outputs))

    def optim_step(self, adam_params):
        return done(SimpleNamespace(metrics={}))

    async def save_weights_and_get_sampling_client(self, record_stability_info=False):
        return self.policy


async def done(value):
    return value


def advantage_of(datum):
    """The advantage of the last sampled token; of all of them, since they have the same."""
    return datum.loss_fn_inputs["advantages"].to_torch()[-1].item()


def lines_of(directory, name):
    """The objects in all files of a name, in the order of their folders."""
    files = sorted(Path(directory).rglob(name))
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


async def main():
    # Late: the processes for rollouts, which load this file, need none of it.
    from tinker_cookbook.checkpoint_utils import CheckpointManager
    from tinker_cookbook.rl import train
    from tinker_cookbook.rl.metric_util import RLTestSetEvaluator
    from tinker_cookbook.utils import ml_log

    directory, code, replies, workers, cut_off = sys.argv[1:]
    names = {}
    exec(code, names)
    config = train.Config(
        learning_rate=1e-5,
        dataset_builder=names["dataset_builder"],
        model_name="Qwen/Qwen3-8B",
        recipe_name="judgegym",
        max_tokens=64,
        log_path=directory,
        rollout_json_export=True,
    )
    dataset, test = await config.dataset_builder()
    policy = Policy(json.loads(replies), int(cut_off))
    service = Service(policy)
    logger = ml_log.setup_logging(directory, config=config, do_configure_logging_module=False)
    errors = RolloutErrorCounter()
    executor = None
    if int(workers):
        executor = ProcessPoolExecutor(
            int(workers), mp_context=multiprocessing.get_context("spawn")
        )
        set_rollout_executor(executor)
    await train.do_sync_training(
        0,
        len(dataset),
        len(dataset),
        config,
        service,
        None,
        [],
        dataset,
        logger,
        get_tokenizer(TOKENIZER),
        error_counter=errors,
        strategy=FailFast(),
        checkpoint_mgr=CheckpointManager(service, None, directory),
    )
    tested = {} if test is None else await RLTestSetEvaluator(test, max_tokens=64)(policy)
    if executor is not None:
        executor.shutdown()
    logger.close()
    batches = [dataset.get_batch(index) for index in range(len(dataset))]
    print(
        json.dumps(
            {
                "batches": [[builder.uid for builder in batch] for batch in batches],
                "tags": [builder.logging_tags() for batch in batches for builder in batch],
                "pickled": max(
                    len(pickle.dumps(builder)) for batch in batches for builder in batch
                ),
                "rollouts": lines_of(directory, "train_rollout_summaries.jsonl"),
                "advantages": [advantage_of(datum) for datum in service.data],
                "metrics": lines_of(directory, "metrics.jsonl"),
                "tested": tested,
                "skipped": errors.get_metrics().get("rollout_errors/groups_skipped", 0.0),
            }
        )
    )


if __name__ == "__main__":
    asyncio.run(main())
