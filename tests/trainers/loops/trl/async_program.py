"""Starts TRL's `AsyncRolloutWorker`, whose process samples and scores, and prints what it makes of our scores.

Arguments: a folder, the URL of an endpoint in the place of vLLM, runs as JSON. A run names a
function (`kind`, with the keywords of `judge_reward` or `judge_environment`), and what stands
beside it. The samples go through TRL's own collator and its trainer's own `compute_loss`; in the
place of the model, whose attention needs a GPU, stands a parameter for each position.
"""

import faulthandler
import json
import logging
import pickle
import sys
import time
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import accelerate
import datasets
import torch
import transformers
from trl.chat_template_utils import qwen2_5_chat_template
from trl.experimental.async_grpo.async_grpo_trainer import AsyncGRPOTrainer, DataCollatorForRollout
from trl.experimental.async_grpo.async_rollout_worker import AsyncRolloutWorker
from trl.experimental.async_grpo.packing import TreeRow

from judgegym.llm.errors import SettingsError
from judgegym_trainers.trl import combined_reward, judge_environment, judge_reward

TOKENIZER = "judgegym/environments/rollouts/tokenizers/bytes"
SIZE = 4
PATIENCE_S = 300


def length(prompts, completions, **columns):
    """A reward function of a user, which a spawned process can import."""
    return [1.0 - 0.5 * (len(completion[0]["content"]) % 2 == 0) for completion in completions]


def stand_in_of_vllm(folder):
    """A package of that name: TRL imports what moves weights between GPUs; the worker itself speaks HTTP alone."""
    modules = {
        "__init__": '__version__ = "0.28.0"',
        "utils/__init__": "",
        "utils/network_utils": "get_ip = get_open_port = None",
        "distributed/__init__": "",
        "distributed/weight_transfer/__init__": "",
        "distributed/weight_transfer/nccl_common": "trainer_init = None",
        "distributed/weight_transfer/packed_tensor": "packed_nccl_broadcast_producer = None",
    }
    for name, text in modules.items():
        path = folder / "vllm" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    metadata = folder / "vllm-0.28.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.28.0\n")
    sys.path.insert(0, str(folder))


def sources_of(run):
    """The keywords of the worker, and the rows."""
    rows = run.get("rows", [{"prompt": [{"role": "user", "content": "Q"}]}])
    if run["kind"] == "judge":
        ours = judge_reward(**run["given"])
        functions = (
            [combined_reward([ours, length], weights=run["combined"])]
            if "combined" in run
            else [ours]
        )
    else:
        environment = judge_environment(**run["given"])
        functions, rows = [environment.reward], environment.rows()[:1]
        if run["kind"] == "factory":
            return {"reward_funcs": [], "environment_factory": environment}, rows
    return {"reward_funcs": [*functions, *([length] if run.get("beside") else [])]}, rows


def worker_of(run, url):
    tokenizer = transformers.AutoTokenizer.from_pretrained(TOKENIZER)
    tokenizer.chat_template = qwen2_5_chat_template
    sources, rows = sources_of(run)
    return tokenizer, AsyncRolloutWorker(
        model_name="policy",
        dataset=datasets.Dataset.from_list(rows),
        processing_class=tokenizer,
        eos_token_ids=[tokenizer.eos_token_id],
        num_generations=SIZE,
        max_inflight_tasks=SIZE,
        vllm_server_url=url,
        **sources,
    )


def loss_of(samples, tokenizer):
    """The loss by TRL's own code, and what each sample adds to its gradient."""
    row = TreeRow()
    for sample in samples:
        names = (
            "input_ids",
            "completion_mask",
            "old_log_probs",
            "advantage",
            "group_id",
            "metrics",
        )
        row.add({name: getattr(sample, name) for name in names})
    inputs = DataCollatorForRollout(tokenizer.pad_token_id or 0).torch_call([[row]])
    targets = inputs["token_index"][0]
    log_probs = torch.full(
        (1, len(targets)), -1.0, requires_grad=True
    )  # one of its own for each trained token
    inputs["token_index"] = torch.arange(len(targets)).unsqueeze(0)

    def model(**_):
        return SimpleNamespace(log_probs=log_probs, entropy=torch.zeros_like(log_probs))

    trainer = SimpleNamespace(
        aux_loss_enabled=False,
        epsilon_low=0.2,
        epsilon_high=0.2,
        accelerator=accelerate.Accelerator(cpu=True),
        current_gradient_accumulation_steps=1,
        _metrics={"train": defaultdict(list)},
        _step_forward_tokens=0.0,
        _step_trained_tokens=0.0,
        _step_seq_len_weighted=0.0,
        _step_samples=0.0,
        _step_forward_s=0.0,
    )
    loss = AsyncGRPOTrainer.compute_loss(trainer, model, inputs)
    loss.backward()
    parts = inputs["segment_id"][0]
    gradients = [
        float(log_probs.grad[0][parts == place].abs().sum()) for place in range(len(samples))
    ]
    return loss.item(), gradients


def text_of(sample, tokenizer):
    return tokenizer.decode(
        sample.input_ids[sample.completion_mask.astype(bool)], skip_special_tokens=True
    )


def reason_of(worker):
    """Why the worker's process has failed, as the trainer has it; the reason may come after the event."""
    while True:
        try:
            worker.check_health(PATIENCE_S)
        except RuntimeError as error:
            if error.__cause__ is not None:
                return str(error.__cause__)
        time.sleep(0.1)


def go(run, url):
    tokenizer, worker = worker_of(run, url)
    if run.get("refused"):
        try:
            worker.start()
        except SettingsError as refusal:
            return {"error": str(refusal)}
        finally:
            worker.stop()
    worker.start()
    try:
        if run.get("fails"):
            return {"error": reason_of(worker)}
        samples = [worker.rollout_buffer.get(timeout=PATIENCE_S) for _ in range(SIZE)]
    finally:
        worker.stop()
    loss, gradients = loss_of(samples, tokenizer)
    return {
        "texts": [text_of(sample, tokenizer) for sample in samples],
        "advantages": [sample.advantage for sample in samples],
        "metrics": [sample.metrics for sample in samples],
        "loss": loss,
        "gradients": gradients,
    }


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    faulthandler.dump_traceback_later(580, exit=True)
    accelerate.PartialState()
    stand_in_of_vllm(Path(sys.argv[1]) / "packages")
    runs = json.loads(sys.argv[3])
    results = {name: go(run, sys.argv[2]) for name, run in runs.items()}
    for run in runs.values():
        kind = judge_reward if run["kind"] == "judge" else judge_environment
        pickle.loads(pickle.dumps(kind(**run["given"])))
    print(json.dumps(results))
