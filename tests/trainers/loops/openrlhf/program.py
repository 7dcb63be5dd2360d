"""Runs OpenRLHF's executors with an engine that says what it is told.

Arguments: the reward server's URL or a file with a `reward_func`, or `agent=` and a file with an
`AgentExecutor`; the
samples as JSON: {prompt, label, response, max_length, tokenizer}.
"""

import asyncio
import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import transformers
from openrlhf.utils.agent import AgentExecutorBase, SingleTurnAgentExecutor

TOKENIZER = transformers.AutoTokenizer.from_pretrained(
    "judgegym/environments/rollouts/tokenizers/bytes"
)


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
        ids = self.tokenizer(text=self.response, add_special_tokens=False, return_tensors="pt")[
            "input_ids"
        ][0].tolist()
        output = SimpleNamespace(
            token_ids=ids, text=self.response, finish_reason="stop", logprobs=None
        )
        return SimpleNamespace(outputs=[output])


def agent_of(path):
    """As `openrlhf.trainer.ray.vllm_engine` does, which cannot be imported without vLLM."""
    spec = importlib.util.spec_from_file_location("agent_module", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert hasattr(module, "AgentExecutor"), "Agent module must contain AgentExecutor class"
    assert issubclass(module.AgentExecutor, AgentExecutorBase)
    return module.AgentExecutor()


def executor_of(form):
    return (
        agent_of(form[6:])
        if form.startswith("agent=")
        else SingleTurnAgentExecutor(form.split(","))
    )


async def main():
    executor = executor_of(sys.argv[1])

    async def one(sample):
        tokenizer = Words() if sample.get("words") else TOKENIZER
        params = SimpleNamespace(max_tokens=64, logprobs=None)
        engine = Engine(tokenizer, sample["response"])
        length = sample.get("max_length", 4096)
        done = await executor.execute(
            sample["prompt"], sample["label"], params, length, tokenizer, engine
        )
        return {name: done[name] for name in ("reward", "scores", "extra_logs")}

    results = await asyncio.gather(*(one(sample) for sample in json.loads(sys.argv[2])))
    # The package has modules with the names of trainers: trl, verl, openrlhf.
    assert "judgegym_trainers" not in {Path(place).name for place in sys.path}, sys.path
    print(json.dumps(results))


if __name__ == "__main__":
    asyncio.run(main())
