"""The argument parser of small commands, and suggestions for unknown flags of any command."""

from __future__ import annotations

import argparse
import difflib
import math
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, NoReturn

from judgegym.judges.config.exit_code import BAD_INPUT
from judgegym.judges.config.removed_values import refusals, take_removed_flags

_CONCURRENCY_SETTINGS = (
    "num_requests_for_eval num_max_requests_at_once judge_max_concurrency workers max_pending"
)
_ROW_COUNT_SETTINGS = "limit total_steps top samples max_pairs"
_COMPLETION_COUNT_SETTINGS = "responses_per_prompt group_size samples_per_item strictness top"

_SETTINGS_BY_FOREIGN_NAMES = {
    "model model_name model_id": "model_name judge_model_name",
    "policy": "model_name base_url",
    "judge": "judge judge_model_name judge_base_url",
    "judge_model judge_name grader": "judge_model_name",
    "judge_url judge_api_base": "judge_base_url",
    "judge_key": "judge_api_key_env",
    "base_url api_base url endpoint": "base_url judge_base_url",
    "api_key key token": "api_key_env judge_api_key_env tokens",
    "temperature temp": "eval_temperature rollout_temperature judge_temperature",
    "top_p top_k": "extra_body judge_extra_body",
    "max_tokens max_new_tokens max_completion_tokens max_gen_toks max_length": (
        "eval_max_tokens train_max_tokens max_token_length judge_max_tokens"
    ),
    "seed random_seed": "seed",
    "dataset dataset_name data data_path input input_file task tasks": (
        "data eval_prompt_dataset eval_baseline_dataset eval_dataset dataset "
        "train_prompt_dataset train_baseline_dataset train_dataset"
    ),
    "split": "eval_split train_split split",
    "out output output_dir output_path output_file log_dir save_dir": (
        "out data_dir_to_save_evals data_path_to_save_groups output html"
    ),
    "concurrency max_concurrency max_connections num_concurrent parallel threads workers "
    "num_workers": _CONCURRENCY_SETTINGS,
    "batch_size": f"group_size {_CONCURRENCY_SETTINGS}",
    "n": f"{_COMPLETION_COUNT_SETTINGS} {_ROW_COUNT_SETTINGS}",
    "num_samples": f"{_ROW_COUNT_SETTINGS} {_COMPLETION_COUNT_SETTINGS}",
    "num_examples num_rows max_samples max_examples": _ROW_COUNT_SETTINGS,
    "steps num_steps": "total_steps limit",
    "num_generations num_rollouts rollouts": _COMPLETION_COUNT_SETTINGS,
    "votes": "strictness samples_per_item listwise_orders",
    "system_prompt": "custom_system_prompt judge_system_prompt",
    "prompt": "judge_system_prompt custom_system_prompt",
    "thinking": "thinking_mode",
    "reasoning": "thinking_mode reasoning_effort",
    "timeout": "timeout judge_timeout deadline",
    "retries": "max_retries judge_max_retries",
    "cache": "judge_cache",
    "rpm": "requests_per_minute judge_requests_per_minute",
    "tpm": "tokens_per_minute judge_tokens_per_minute",
    "tokenizer": "tokenizer_name",
    "wandb": "use_wandb",
    "debug": "full_debug",
    "verbose": "full_debug all_metrics",
    "dry_run": "plan show_config",
    "budget": "budget_usd budget_calls",
    "max_cost": "budget_usd",
}
SETTINGS_BY_FOREIGN_NAME: dict[str, Sequence[str]] = {}
"""Settings, without their section, by their names in other tools; the most likely ones first."""
for _names, _settings in _SETTINGS_BY_FOREIGN_NAMES.items():
    SETTINGS_BY_FOREIGN_NAME.update(dict.fromkeys(_names.split(), _settings.split()))
_MAX_SUGGESTIONS = 4


def find_meant_settings(name: str, known_names: Iterable[str]) -> list[str]:
    """Find the settings that an unknown name may have meant, at most four.

    Args:
        name: the unknown name.
        known_names: the dotted names of all settings.
    """
    names = list(known_names)
    last = name.rpartition(".")[2].lower().replace("-", "_")
    elsewhere = SETTINGS_BY_FOREIGN_NAME.get(last, ())
    same = (last,)
    for wanted in (
        (same, elsewhere) if "." in name else (elsewhere, same)
    ):  # the command may lack the section
        matches: list[str] = []
        for field in dict.fromkeys(wanted):
            matches += [name for name in names if name.rpartition(".")[2] == field]
        if matches:
            return matches[:_MAX_SUGGESTIONS]
    return difflib.get_close_matches(name, names, n=1, cutoff=0.75)


def suggest_flags(name: str, known_names: Iterable[str]) -> str:
    """Return the suggestions of `find_meant_settings` for the end of a message; may be empty."""
    *others, last = [f"--{candidate}" for candidate in find_meant_settings(name, known_names)] or [
        ""
    ]
    if others:
        other_list = ", ".join(others)
        return f", did you mean {other_list} or {last}?"
    if last:
        return f", did you mean {last}?"
    return ""


class OneLineParser(argparse.ArgumentParser):
    """A parser whose errors are one line on standard error, with exit code 2."""

    def __init__(self, prog: str, description: str) -> None:
        """Set the program's name and its description; flags cannot be abbreviated."""
        super().__init__(prog=prog, description=description, allow_abbrev=False)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse the words without removed flags.

        Exit if a removed flag has another value than its constant.
        """
        command = self.prog.rpartition(" ")[2]
        words, removed = take_removed_flags(command, sys.argv[1:] if args is None else list(args))
        for refusal in refusals(removed):
            self.error(refusal)
        return super().parse_known_args(words, namespace)

    def error(self, message: str) -> NoReturn:
        """Print the error with suggestions, and exit."""
        unknown = re.match(r"unrecognized arguments: --([^ =]+)", message)
        options = chain.from_iterable(action.option_strings for action in self._actions)
        flags = [option[2:] for option in options if option[:2] == "--"]
        hint = suggest_flags(unknown[1], flags) if unknown is not None else ""
        line = " ".join(message.split())
        self.exit(BAD_INPUT, f"{self.prog}: {line}{hint}\n")


def make_whole_number_type(minimum: int) -> Callable[[str], int]:
    """Make the type of a flag that takes whole numbers from a minimum on."""

    def parse_word(word: str) -> int:
        if not word.isdecimal() or int(word) < minimum:
            raise argparse.ArgumentTypeError(
                f"expected a whole number from {minimum}, found {word}"
            )
        return int(word)

    return parse_word


def parse_share(word: str) -> float:
    """Parse the value of a flag that takes a number from 0 to 1."""
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"expected a number from 0 to 1, found {word}")
    return number
