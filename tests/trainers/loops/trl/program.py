"""Trains a model of one layer with `GRPOTrainer` and prints what it logged. Arguments: directory, runs as JSON.

A run names its reward functions (keywords of `judge_reward`), or an environment and the door by
which the trainer takes it, or an example; with `refused` a refusal is its result. With `texts` the
policy writes these, by place in the global batch, in the place of a sample.
"""

import faulthandler
import json
import logging
import os
import sys
from functools import partial
from pathlib import Path

import datasets
import pyarrow.parquet
import transformers
import trl
from trl.chat_template_utils import qwen2_5_chat_template

from judgegym.llm.errors import SettingsError
from judgegym_trainers import single_turn
from judgegym_trainers.trl import combined_reward, judge_environment, judge_reward

TOKENIZER = "judgegym/environments/rollouts/tokenizers/bytes"
RANK = int(os.environ.get("RANK", "0"))
directory, runs = Path(sys.argv[1]), json.loads(sys.argv[2])


def tool_call(text):
    return (
        "<tool_call>\n"
        + json.dumps({"name": "answer", "arguments": {"text": text}})
        + "\n</tool_call>"
    )


class Scripted:
    """Samples what the test has written; the model is trained as ever."""

    texts = ()
    fails_at = None
    advantages = None

    def _generate_single_turn(self, prompt_ids, *arguments, **further):
        if not self.texts:
            return super()._generate_single_turn(prompt_ids, *arguments, **further)
        ends = [self._tokenizer.eos_token_id]
        if "has_tool_images" in further:  # after a call of a tool
            return [self._tokenizer("Done.")["input_ids"] + ends for _ in prompt_ids], None
        first = RANK * len(prompt_ids)
        texts = [self.texts[(first + place) % len(self.texts)] for place in range(len(prompt_ids))]
        texts = [
            tool_call(text) if getattr(self, "tools", None) and text else text for text in texts
        ]
        ids = [self._tokenizer(text)["input_ids"] + ends for text in texts]
        return (ids, None) if isinstance(self, trl.GRPOTrainer) else ids

    def _generate_and_score_completions(self, *arguments, **keywords):
        output = super()._generate_and_score_completions(*arguments, **keywords)
        self.advantages = output["advantages"].tolist()  # what the loss gets
        return output

    def compute_loss(self, *arguments, **keywords):
        if self.state.global_step == self.fails_at:
            raise RuntimeError("planted")
        return super().compute_loss(*arguments, **keywords)


class ScriptedTrainer(Scripted, trl.GRPOTrainer):
    """The trainer of most runs."""


class ScriptedRLOOTrainer(Scripted, trl.RLOOTrainer):
    """That of a run with `rloo`."""


def length(prompts, completions, **columns):
    """A reward function of a user: half a point for a text with an even number of characters, one for others."""
    return [1.0 - 0.5 * (len(text) % 2 == 0) for text in completions]


def functions_of(run):
    """The reward functions of a run; with `combined` (the weights) one of them and `length`, with `beside` both."""
    ours = [judge_reward(name=name, **keywords) for name, keywords in run["reward"].items()]
    if run.get("beside"):
        ours.append(length)
    return (
        [combined_reward([*ours, length], weights=run["combined"])] if run.get("combined") else ours
    )


def made(name, run):
    tokenizer = transformers.AutoTokenizer.from_pretrained(TOKENIZER)
    if run.get("door") in ("factory", "mixed"):
        tokenizer.chat_template = qwen2_5_chat_template
    tiny = transformers.Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=8192,
    )
    arguments = dict(
        output_dir=str(directory / name),
        per_device_train_batch_size=run["per_device"],
        num_generations=run["generations"],
        max_completion_length=4 if not run.get("texts") else 2048,
        max_steps=1,
        logging_steps=1,
        shuffle_dataset=False,
        report_to=[],
        use_cpu=True,
        bf16=False,
        **({"ddp_backend": "gloo"} if "RANK" in os.environ else {}),
        save_strategy="no",
        disable_tqdm=True,
        log_completions=True,
        num_completions_to_print=0,
    )
    arguments.update(run.get("config", {}))
    given = {"model": transformers.Qwen2ForCausalLM(tiny), "processing_class": tokenizer}
    if "example" in run:
        return of_example(run, arguments, given)
    if "environment" in run:
        environment = judge_environment(**run["environment"])
        rows = environment.rows()[: run["rows"]]
        doors = {
            "reward": {"reward_funcs": environment.reward},
            "factory": {"environment_factory": environment, "callbacks": [environment.closing]},
            "mixed": {"environment_factory": {environment.name: environment, "other": Other}},
        }
        given.update(doors[run["door"]])
        if run.get("beside"):
            given["reward_funcs"] = [length]
        rows += run.get("others", [])
        if run.get("plain"):
            rows = [{**row, "prompt": row["prompt"][-1]["content"]} for row in rows]
    else:
        given["reward_funcs"] = functions_of(run)
        rows = run["rows"]
    if "evaluate" in run:
        given["eval_dataset"] = datasets.Dataset.from_list(rows)
    kind, config = ScriptedTrainer, trl.GRPOConfig
    if run.get("rloo"):
        kind, config = (
            ScriptedRLOOTrainer,
            partial(trl.RLOOConfig, beta=0.0),
        )  # the model of a KL term would be loaded
    trainer = kind(
        args=config(**arguments), train_dataset=datasets.Dataset.from_list(rows), **given
    )
    trainer.texts, trainer.fails_at = run.get("texts", ()), run.get("fails_at")
    return trainer


def of_example(run, arguments, given):
    """The trainer of an example, which has trained; its model and its configuration are made small."""

    class Small(ScriptedTrainer):
        texts = run["texts"]

        def __init__(self, model, **keywords):
            super().__init__(**given, **keywords)

    shown = {
        "GRPOTrainer": Small,
        "GRPOConfig": lambda **keywords: full_config(**{**arguments, **keywords}),
    }
    real, full_config = {name: getattr(trl, name) for name in shown}, trl.GRPOConfig
    for name, value in shown.items():
        setattr(trl, name, value)
    names = {}
    exec(run["example"], names)
    for name, value in real.items():
        setattr(trl, name, value)
    return names["trainer"]


class Other:
    """An environment beside ours, with a tool of its own."""

    def reset(self, **row):
        self.answered = ""

    def answer(self, text: str) -> str:
        """Answer.

        Args:
            text: The answer.
        """
        self.answered = text
        return "So be it."

    def get_reward(self):
        return 0.5 if self.answered else 0.0


def open_sockets():
    """How many connections to the ports that the runs name this process holds."""
    own = {str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()}
    lines = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    ports = {f"{port:04X}" for run in runs.values() for port in run.get("watched", ())}
    return sum(
        f"socket:[{line[9]}]" in own and line[2].rpartition(":")[2] in ports for line in lines
    )


def train(name, run):
    trainer = made(name, run)
    error = ""
    try:
        if "example" not in run:
            trainer.train()
    except RuntimeError as planted:
        error = str(planted)
    except SettingsError as refusal:
        if not run.get("refused"):
            raise
        error = str(refusal)
    result = {
        "log": trainer.state.log_history,
        "error": error,
        "advantages": trainer.advantages,
        "sockets": open_sockets(),
        "open": len(single_turn._OPENED),
    }
    if "evaluate" in run:
        trainer.evaluate()
        result |= {"sockets_evaluated": open_sockets(), "open_evaluated": len(single_turn._OPENED)}
    # The first process alone writes the tables, perhaps while the others are here already.
    tables = sorted((directory / name / "completions").glob("*.parquet")) if RANK == 0 else []
    result["tables"] = [pyarrow.parquet.read_table(path).to_pylist() for path in tables]
    return result


logging.basicConfig(level=logging.WARNING)
faulthandler.dump_traceback_later(100, exit=True)
results = {name: train(name, run) for name, run in runs.items()}
if RANK == 0:
    print(json.dumps(results))
