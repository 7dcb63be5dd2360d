"""Trains a model of one layer with `GRPOTrainer` and prints what it logged. Arguments: directory, runs as JSON."""

import faulthandler
import json
import logging
import os
import sys

import datasets
import transformers
import trl

from judgegym.integrations.trl import judge_reward

TOKENIZER = "environments/rollouts/tokenizers/bytes"
directory, runs = sys.argv[1], json.loads(sys.argv[2])


def train(reward, rows, per_device, generations):
    tokenizer = transformers.AutoTokenizer.from_pretrained(TOKENIZER)
    tiny = transformers.Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
    )
    arguments = trl.GRPOConfig(
        output_dir=directory,
        per_device_train_batch_size=per_device,
        num_generations=generations,
        max_completion_length=4,
        max_steps=1,
        logging_steps=1,
        shuffle_dataset=False,
        report_to=[],
        use_cpu=True,
        bf16=False,
        **({"ddp_backend": "gloo"} if "RANK" in os.environ else {}),
        save_strategy="no",
        disable_tqdm=True,
    )
    trainer = trl.GRPOTrainer(
        model=transformers.Qwen2ForCausalLM(tiny),
        reward_funcs=[judge_reward(name=name, **keywords) for name, keywords in reward.items()],
        args=arguments,
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=tokenizer,
    )
    trainer.train()
    return next(entry for entry in trainer.state.log_history if "reward" in entry)


logging.basicConfig(level=logging.WARNING)
faulthandler.dump_traceback_later(60, exit=True)
logged = {name: train(**run) for name, run in runs.items()}
if os.environ.get("RANK", "0") == "0":
    print(json.dumps({name: {key: repr(value) for key, value in entry.items()} for name, entry in logged.items()}))
