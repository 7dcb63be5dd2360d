"""Runs OpenRLHF's `SingleTurnAgentExecutor` with an engine that says what it is told.

Arguments: the reward server's URL, the samples as JSON: {prompt, label, response, max_length, tokenizer}.
"""

import asyncio
import json
import sys
from types import SimpleNamespace

import transformers
from openrlhf.utils.agent import SingleTurnAgentExecutor

TOKENIZER = transformers.AutoTokenizer.from_pretrained("environments/rollouts/tokenizers/bytes")


class Words:
    """A tokenizer of words: its texts lose their white space, as with many real ones."""

    def __init__(self):
        self.words = []

    def __call__(self, text, **_):
        import torch

        ids = []
        for word in text.split():
            if word not in self.words:
                self.words.append(word)
            ids.append(self.words.index(word))
        return {"input_ids": torch.tensor([ids])}

    def decode(self, ids, **_):
        return " ".join(self.words[each] for each in ids)


class Engine:
    def __init__(self, tokenizer, response):
        self.tokenizer, self.response = tokenizer, response

    async def generate(self, prompt_ids, params, **_):
        ids = self.tokenizer(text=self.response, add_special_tokens=False, return_tensors="pt")["input_ids"][0].tolist()
        output = SimpleNamespace(token_ids=ids, text=self.response, finish_reason="stop", logprobs=None)
        return SimpleNamespace(outputs=[output])


async def main():
    executor = SingleTurnAgentExecutor(sys.argv[1].split(","))

    async def one(sample):
        tokenizer = Words() if sample.get("words") else TOKENIZER
        params = SimpleNamespace(max_tokens=64, logprobs=None)
        engine = Engine(tokenizer, sample["response"])
        length = sample.get("max_length", 4096)
        done = await executor.execute(sample["prompt"], sample["label"], params, length, tokenizer, engine)
        return {name: done[name] for name in ("reward", "scores", "extra_logs")}

    print(json.dumps(await asyncio.gather(*(one(sample) for sample in json.loads(sys.argv[2])))))


asyncio.run(main())
