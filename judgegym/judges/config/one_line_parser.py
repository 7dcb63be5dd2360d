"""The argument parser of the small commands, which have flags and no settings.

What a flag may have meant that does not exist: the names that other tools have for our settings.
"""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NoReturn

_AT_ONCE = ("num_requests_for_eval", "num_max_requests_at_once", "judge_max_concurrency", "workers", "max_pending")
_DATA = (
    *("data", "eval_prompt_dataset", "eval_baseline_dataset", "eval_dataset", "dataset"),
    *("train_prompt_dataset", "train_baseline_dataset", "train_dataset"),
)
_KEY = ("api_key_env", "judge_api_key_env", "tokens")
_LENGTH = ("eval_max_tokens", "train_max_tokens", "max_token_length", "judge_max_tokens")
_MANY = ("limit", "total_steps", "top", "samples", "max_pairs")
_OUT = ("out", "data_dir_to_save_evals", "data_path_to_save_groups", "output", "html")
_SEVERAL = ("responses_per_prompt", "group_size", "samples_per_item", "strictness", "top")
_URL = ("base_url", "judge_base_url")

MEANINGS: Mapping[str, Sequence[str]] = {
    "model": ("model_name", "judge_model_name"),
    "model_name": ("model_name", "judge_model_name"),
    "model_id": ("model_name", "judge_model_name"),
    "policy": ("model_name", "base_url"),
    "judge": ("judge_model_name", "judge_base_url"),
    "judge_model": ("judge_model_name",),
    "judge_name": ("judge_model_name",),
    "grader": ("judge_model_name",),
    "judge_url": ("judge_base_url",),
    "judge_api_base": ("judge_base_url",),
    "judge_key": ("judge_api_key_env",),
    "base_url": _URL,
    "api_base": _URL,
    "url": _URL,
    "endpoint": _URL,
    "api_key": _KEY,
    "key": _KEY,
    "token": _KEY,
    "temperature": ("eval_temperature", "rollout_temperature", "judge_temperature"),
    "temp": ("eval_temperature", "rollout_temperature", "judge_temperature"),
    "top_p": ("extra_body", "judge_extra_body"),
    "top_k": ("extra_body", "judge_extra_body"),
    "max_tokens": _LENGTH,
    "max_new_tokens": _LENGTH,
    "max_completion_tokens": _LENGTH,
    "max_gen_toks": _LENGTH,
    "max_length": _LENGTH,
    "seed": ("seed",),
    "random_seed": ("seed",),
    "dataset": _DATA,
    "dataset_name": _DATA,
    "data": _DATA,
    "data_path": _DATA,
    "input": _DATA,
    "input_file": _DATA,
    "task": _DATA,
    "tasks": _DATA,
    "split": ("eval_split", "train_split", "split"),
    "out": _OUT,
    "output": _OUT,
    "output_dir": _OUT,
    "output_path": _OUT,
    "output_file": _OUT,
    "log_dir": _OUT,
    "save_dir": _OUT,
    "concurrency": _AT_ONCE,
    "max_concurrency": _AT_ONCE,
    "max_connections": _AT_ONCE,
    "num_concurrent": _AT_ONCE,
    "parallel": _AT_ONCE,
    "threads": _AT_ONCE,
    "workers": _AT_ONCE,
    "num_workers": _AT_ONCE,
    "batch_size": ("group_size", *_AT_ONCE),
    "n": (*_SEVERAL, *_MANY),
    "num_samples": (*_MANY, *_SEVERAL),
    "num_examples": _MANY,
    "num_rows": _MANY,
    "max_samples": _MANY,
    "max_examples": _MANY,
    "steps": ("total_steps", "limit"),
    "num_steps": ("total_steps", "limit"),
    "num_generations": _SEVERAL,
    "num_rollouts": _SEVERAL,
    "rollouts": _SEVERAL,
    "votes": ("strictness", "samples_per_item", "listwise_orders"),
    "system_prompt": ("custom_system_prompt", "judge_system_prompt"),
    "prompt": ("judge_system_prompt", "custom_system_prompt"),
    "thinking": ("thinking_mode",),
    "reasoning": ("thinking_mode", "reasoning_effort"),
    "timeout": ("timeout", "judge_timeout", "deadline"),
    "retries": ("max_retries", "judge_max_retries"),
    "cache": ("judge_cache",),
    "rpm": ("requests_per_minute", "judge_requests_per_minute"),
    "tpm": ("tokens_per_minute", "judge_tokens_per_minute"),
    "tokenizer": ("tokenizer_name",),
    "wandb": ("use_wandb",),
    "debug": ("full_debug",),
    "verbose": ("full_debug", "all_metrics"),
    "dry_run": ("plan", "show_config"),
    "budget": ("budget_usd", "budget_calls"),
    "max_cost": ("budget_usd",),
}
"""Settings, without their section, by what they are called elsewhere; the most likely ones first."""
_MOST = 4


def meant(name: str, known: Iterable[str]) -> list[str]:
    """The settings that a name may have meant, at most four; none if nothing is like it.

    Args:
        name: a name that no setting has.
        known: the dotted names of the settings that there are.
    """
    names = list(known)
    last = name.rpartition(".")[2].lower().replace("-", "_")
    for wanted in (MEANINGS.get(last, ()), (last,)):
        found = [each for field in dict.fromkeys(wanted) for each in names if each.rpartition(".")[2] == field]
        if found:
            return found[:_MOST]
    return difflib.get_close_matches(name, names, n=1, cutoff=0.75)


def did_you_mean_flags(name: str, known: Iterable[str]) -> str:
    """What `meant` finds, for the end of a message; empty without any."""
    *others, last = [f"--{each}" for each in meant(name, known)] or [""]
    return f", did you mean {', '.join(others)} or {last}?" if others else f", did you mean {last}?" if last else ""


BAD_INPUT = 2


class OneLineParser(argparse.ArgumentParser):
    """A parser whose errors are one line on standard error, with exit code 2; flags cannot be abbreviated."""

    def __init__(self, prog: str, description: str) -> None:
        """Name the program, and say what it does for `--help`."""
        super().__init__(prog=prog, description=description, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and exit."""
        unknown = re.match(r"unrecognized arguments: --([^ =]+)", message)
        flags = [option[2:] for action in self._actions for option in action.option_strings if option[:2] == "--"]
        hint = did_you_mean_flags(unknown[1], flags) if unknown is not None else ""
        self.exit(BAD_INPUT, f"{self.prog}: {' '.join(message.split())}{hint}\n")


def whole_number(least: int) -> Callable[[str], int]:
    """The type of a flag that takes whole numbers from this one on."""

    def read(word: str) -> int:
        if not word.isdecimal() or int(word) < least:
            raise argparse.ArgumentTypeError(f"expected a whole number from {least}, found {word}")
        return int(word)

    return read
