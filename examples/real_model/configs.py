"""The settings of each run, written as YAML files to `configs/`, which the page's commands use.

The grammars of the verdicts are made from the judges' own scales and labels (`grammars`); all other
settings are here. A test compares the files with this module; `python -m examples.real_model
configs` rewrites them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml

from examples.real_model import grammars, model
from examples.real_model.server import DEFAULT_PORT, ServerSettings
from judgegym.judges.core.judgment import Scale
from judgegym.judges.rubrics.prompt import RubricJudgeSettings
from judgegym.llm.wire import JSON

FOLDER = Path(__file__).with_name("configs")
_SAMPLES = "judgegym/data/samples"
_ANSWER_TOKENS = 64
_STOP: Mapping[str, JSON] = {"stop": ["Question:"]}
"""The template writes this before the next question; a base model would continue with it."""
WHOLE_DISTRIBUTION: Mapping[str, JSON] = {"top_k": 0, "top_p": 1.0, "min_p": 0.0}
"""llama.cpp's defaults truncate the distribution, but its logprobs are of the whole one: a
trainer's ratio of the two is right only without truncation."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the example.

    Attributes:
        name: the name of its config file and its run directory.
        environment: the environment's name.
        verb: the verb of the command.
        constraint: what constrains the verdicts to their form.
        env: the settings under `env`, without the judge's endpoint.
        openai: the settings under `openai`, without the endpoint.
        has_judge: the environment calls a judge with `judge_*` settings.
        rows: the number of rows to evaluate.
    """

    name: str
    environment: str
    verb: Literal["evaluate", "serve"]
    constraint: str
    env: Mapping[str, JSON]
    openai: Mapping[str, JSON]
    has_judge: bool = True
    rows: int = 5

    @property
    def path(self) -> Path:
        """The config file for the default port."""
        return FOLDER / f"{self.name}.yaml"

    def words(self, config: Path) -> list[str]:
        """Return the words of the command after `judgegym`."""
        limit = [f"--limit={self.rows}"] if self.verb == "evaluate" else []
        return [self.verb, self.environment, f"--config={config}", *limit]

    def text(self, server: ServerSettings) -> str:
        """Return the settings as YAML, for a server."""
        url, slots = f"{server.url}/v1", server.slots
        judge: dict[str, JSON] = {
            "judge_model_name": model.NAME,
            "judge_base_url": url,
            "judge_max_concurrency": slots,
            "judge_temperature": 0.7,
            "judge_max_tokens": grammars.MOST_TOKENS,
        }
        limit = "num_requests_for_eval" if self.verb == "evaluate" else "num_max_requests_at_once"
        policy: dict[str, JSON] = {"model_name": model.NAME, "base_url": url, limit: slots}
        user: dict[str, JSON] = {
            "user_model_name": model.NAME,
            "user_base_url": url,
            "user_max_concurrency": slots,
        }
        roles = {
            **(judge if self.has_judge else {}),
            **(user if "user_max_turns" in self.env else {}),
        }
        values = {
            "env": {**roles, **_add_url(self.env, url)},
            "openai": {**policy, **_add_url(self.openai, url)},
        }
        command = " ".join(["judgegym", *self.words(self.path.relative_to(FOLDER.parents[2]))])
        return f"# {command}\n" + yaml.dump(
            values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120
        )


def _add_url(values: Mapping[str, JSON], url: str) -> dict[str, JSON]:
    """Return the values with the URL added to each model of a list."""
    changed = dict(values)
    for name, value in values.items():
        if isinstance(value, list):
            changed[name] = [
                {**item, "base_url": url} if isinstance(item, Mapping) else item for item in value
            ]
    return changed


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, not with escaped line breaks."""

    def ignore_aliases(self, data: object) -> bool:
        """Write everything out, without aliases."""
        return True


def _write_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    )


_Dumper.add_representer(str, _write_text)

_FIVE_LEVELS = RubricJudgeSettings().scale
_ANSWERS: Mapping[str, JSON] = {"eval_max_tokens": _ANSWER_TOKENS}
_CHOICE_TOKENS = 2 * grammars.MOST_TOKENS
_SUBSETS = ["Factuality", "Precise IF", "Math", "Safety", "Focus"]

RUNS = (
    Run(
        "arena_hard",
        "arena_hard",
        "evaluate",
        "grammar",
        {
            "eval_prompt_dataset": f"{_SAMPLES}/arena_hard.jsonl",
            "eval_baseline_dataset": f"{_SAMPLES}/arena_hard_baseline.jsonl",
            "judge_extra_body": grammars.arena(),
            **_ANSWERS,
        },
        {"extra_body": dict(_STOP)},
    ),
    Run(
        "pairwise_judgement",
        "pairwise_judgement",
        "evaluate",
        "grammar, of the policy",
        {
            "eval_dataset": f"{_SAMPLES}/pairwise.jsonl",
            "eval_categories": _SUBSETS,
            "eval_max_tokens": _CHOICE_TOKENS,
        },
        {"extra_body": grammars.choice("ABCD")},
        has_judge=False,
    ),
    Run(
        "pairwise_judgement_ties",
        "pairwise_judgement",
        "evaluate",
        "grammar, of the policy",
        {
            "eval_dataset": f"{_SAMPLES}/pairwise.jsonl",
            "eval_categories": ["Ties"],
            "eval_max_tokens": _CHOICE_TOKENS,
        },
        {"extra_body": grammars.rating(Scale(1, 10))},
        has_judge=False,
        rows=2,
    ),
    Run(
        "aspect_critique",
        "aspect_critique",
        "evaluate",
        "JSON schema",
        {
            "eval_dataset": f"{_SAMPLES}/aspect_critique.jsonl",
            "judge_extra_body": grammars.aspect(),
            **_ANSWERS,
        },
        {"extra_body": dict(_STOP)},
    ),
    Run(
        "rubric_absolute",
        "rubric_absolute",
        "evaluate",
        "grammar",
        {
            "eval_dataset": f"{_SAMPLES}/rubric_absolute.jsonl",
            "judge_extra_body": grammars.rubric(_FIVE_LEVELS),
            **_ANSWERS,
        },
        {"extra_body": dict(_STOP)},
    ),
    Run(
        "rubric_absolute_schema",
        "rubric_absolute",
        "evaluate",
        "`judge_output=json_schema`",
        {
            "eval_dataset": f"{_SAMPLES}/rubric_absolute.jsonl",
            "judge_output": "json_schema",
            "max_judge_error_rate": 1.0,
            **_ANSWERS,
        },
        {"extra_body": dict(_STOP)},
    ),
    Run(
        "rubric_absolute_free",
        "rubric_absolute",
        "evaluate",
        "nothing",
        {
            "eval_dataset": f"{_SAMPLES}/rubric_absolute.jsonl",
            "max_judge_error_rate": 1.0,
            **_ANSWERS,
        },
        {"extra_body": dict(_STOP)},
    ),
    Run(
        "prompts_two_turns",
        "prompts",
        "evaluate",
        "grammar, also of the user",
        {
            "eval_dataset": f"{_SAMPLES}/rubric_absolute.jsonl",
            "judge_extra_body": grammars.rubric(_FIVE_LEVELS),
            "judged": "turns",
            "user_max_turns": 1,
            "user_goal": "Ask for an example.",
            "user_max_tokens": grammars.MOST_TOKENS,
            "user_extra_body": grammars.question(),
            **_ANSWERS,
        },
        {"extra_body": dict(_STOP)},
    ),
    Run(
        "self_critique",
        "self_critique",
        "evaluate",
        "JSON schema",
        {
            "dataset": f"{_SAMPLES}/peer_queries.jsonl",
            "candidates": [
                {
                    "name": "calm",
                    "model_name": model.NAME,
                    "extra_body": {"temperature": 0.2, **_STOP},
                },
                {
                    "name": "lively",
                    "model_name": model.NAME,
                    "extra_body": {"temperature": 1.0, **_STOP},
                },
            ],
            "judges": [
                {"name": "judge", "model_name": model.NAME, "extra_body": grammars.peer()},
            ],
            **_ANSWERS,
        },
        {},
    ),
)
"""Evaluations of all environments; one also with JudgeGym's own schema, and unconstrained."""

TRAINING = Run(
    "serve",
    "rubric_absolute",
    "serve",
    "grammar",
    {
        "train_dataset": f"{_SAMPLES}/rubric_absolute.jsonl",
        "train_max_tokens": 32,
        "group_size": 4,
        "include_messages": True,
        "max_num_workers": 2,
        "steps_per_eval": -1,
        "rollout_server_url": "http://127.0.0.1:8000",
        "total_steps": 1,
        "judge_extra_body": grammars.rubric(_FIVE_LEVELS),
    },
    {"extra_body": dict(WHOLE_DISTRIBUTION)},
)
"""Rollouts for a trainer, whose logprobs need `WHOLE_DISTRIBUTION`."""

ALL = (*RUNS, TRAINING)


def write_all() -> None:
    """Write the config files for the default port."""
    FOLDER.mkdir(exist_ok=True)
    for run in ALL:
        run.path.write_text(run.text(ServerSettings(DEFAULT_PORT)), encoding="utf-8")
