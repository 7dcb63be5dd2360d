"""Loads files with verl's own data sets, and prints what they make of the first row. Arguments: SFT file, RL file.

verl's module for one vision model imports what transformers no longer has. It is left out here: no
other model uses it.
"""

import importlib
import json
import sys
import types

import transformers
from omegaconf import OmegaConf

vision = types.ModuleType("verl.models.transformers.qwen2_vl")
vision.get_rope_index = None
sys.modules[vision.__name__] = vision

MultiTurnSFTDataset = importlib.import_module(
    "verl.utils.dataset.multiturn_sft_dataset"
).MultiTurnSFTDataset
RLHFDataset = importlib.import_module("verl.utils.dataset.rl_dataset").RLHFDataset

TOKENIZER = transformers.AutoTokenizer.from_pretrained(
    "judgegym/environments/rollouts/tokenizers/bytes"
)
sft_file, rl_file, cache = sys.argv[1:]

config = OmegaConf.create({"max_length": 512, "pad_mode": "no_padding", "truncation": "error"})
sft = MultiTurnSFTDataset(sft_file, TOKENIZER, config)
tokens = sft[1]
trained = tokens["input_ids"][tokens["loss_mask"] == 1]
rl = RLHFDataset(
    rl_file, TOKENIZER, OmegaConf.create({"max_prompt_length": 512, "cache_dir": cache})
)
row = rl[1]
print(
    json.dumps(
        {
            "sft": len(sft),
            "text": TOKENIZER.decode(tokens["input_ids"].tolist()),
            "trained": TOKENIZER.decode(trained.tolist()),
            "rl": len(rl),
            "row": {name: value for name, value in row.items() if name != "dummy_tensor"},
        }
    )
)
