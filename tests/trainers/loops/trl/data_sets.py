"""Trains a model of one layer on files for two steps, and prints what TRL made of each. Arguments: directory, runs.

A run names its trainer (`SFT`, `DPO` or `KTO`) and its file.
"""

import json
import sys
from pathlib import Path

import datasets
import transformers
import trl

TOKENIZER = "judgegym/environments/rollouts/tokenizers/bytes"
directory, runs = Path(sys.argv[1]), json.loads(sys.argv[2])
tokenizer = transformers.AutoTokenizer.from_pretrained(TOKENIZER)


def model():
    transformers.set_seed(0)
    tiny = transformers.Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=8192,
    )
    return transformers.AutoModelForCausalLM.from_config(tiny)


def trained(name, run):
    path = Path(run["file"])
    kind = "parquet" if path.suffix == ".parquet" else "json"
    rows = datasets.load_dataset(
        kind, data_files=str(path), split="train", cache_dir=str(directory / "cache")
    )
    trainer_of, config_of = (
        getattr(trl, f"{run['trainer']}Trainer"),
        getattr(trl, f"{run['trainer']}Config"),
    )
    arguments = config_of(
        output_dir=str(directory / name),
        per_device_train_batch_size=2,
        max_steps=2,
        logging_steps=1,
        report_to=[],
        use_cpu=True,
        bf16=False,
        save_strategy="no",
        max_length=None,
        learning_rate=1e-3,
    )
    reference = (
        {} if run["trainer"] == "SFT" else {"ref_model": model()}
    )  # by default it is loaded by its name
    trainer = trainer_of(
        model=model(), args=arguments, train_dataset=rows, processing_class=tokenizer, **reference
    )
    before = [weights.detach().clone() for weights in trainer.model.parameters()]
    trainer.train()
    return {
        "columns": rows.column_names,
        "rows": len(rows),
        "steps": trainer.state.global_step,
        "losses": [entry["loss"] for entry in trainer.state.log_history if "loss" in entry],
        "learnt": any(
            not weights.equal(old)
            for weights, old in zip(trainer.model.parameters(), before, strict=True)
        ),
        "first": {name: decoded(value) for name, value in trainer.train_dataset[0].items()},
    }


def decoded(value):
    """Tokens as text; of labels those that are trained on, which are not negative."""
    is_tokens = isinstance(value, list) and value and all(type(each) is int for each in value)
    return tokenizer.decode([each for each in value if each >= 0]) if is_tokens else value


print(json.dumps({name: trained(name, run) for name, run in runs.items()}, default=str))
