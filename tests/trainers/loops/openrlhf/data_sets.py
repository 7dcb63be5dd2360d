"""Loads files with OpenRLHF's own data sets, and prints what they make of the second row. Arguments: files by name."""

import json
import sys
from types import SimpleNamespace

import transformers
from openrlhf.datasets.reward_dataset import RewardDataset
from openrlhf.datasets.sft_dataset import SFTDataset
from openrlhf.datasets.utils import blending_datasets

TOKENIZER = transformers.AutoTokenizer.from_pretrained(
    "judgegym/environments/rollouts/tokenizers/bytes"
)


def strategy(**data):
    """What the data sets ask of a trainer: its settings, and whether it prints."""
    settings = SimpleNamespace(data=SimpleNamespace(**data), use_ms=False)
    return SimpleNamespace(args=settings, print=lambda *words: None, is_rank_0=lambda: False)


def loaded(name, file):
    chat = not name.endswith("texts")
    if name.startswith("sft"):
        ours = strategy(input_key="input", output_key="output", apply_chat_template=chat)
        rows = SFTDataset(
            blending_datasets(file, None, ours), TOKENIZER, 512, ours, num_processors=1
        )
        return {"rows": len(rows), "prompt": rows.prompts[1], "response": rows.responses[1]}
    ours = strategy(
        prompt_key="prompt", chosen_key="chosen", rejected_key="rejected", apply_chat_template=chat
    )
    rows = RewardDataset(
        blending_datasets(file, None, ours), TOKENIZER, 512, ours, is_dpo=True, num_processors=1
    )
    return {
        "rows": len(rows),
        "prompt": rows.prompts[1],
        "chosen": rows.chosens[1],
        "rejected": rows.rejects[1],
    }


print(json.dumps({name: loaded(name, file) for name, file in json.loads(sys.argv[1]).items()}))
