"""Budgets of all verbs against an endpoint that bills by itself: none is exceeded, and nothing paid for is lost.

Budgets, rows and lengths are drawn by a seed. `serve` is in `tests/core/serve/test_budget.py`.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import orjson
import pytest

from judgegym.engine.runs.directory import locate_run_directory
from judgegym.engine.runs.recorded_calls import read_calls
from judgegym.environments.rubric_absolute_environment import RubricAbsoluteEnv
from tests.billing import LONGEST, PRICES, Provider
from tests.command import Ended, in_process, serving, write_lines
from tests.core.datasets.scoring import score


def without_run(path: Path) -> list[bytes]:
    """The lines of a file without what may differ between two runs."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    return sorted(
        orjson.dumps({**line, "run": None}, option=orjson.OPT_SORT_KEYS) for line in lines
    )


def going_on(said: str) -> list[str]:
    """The words of the command in the last line, after the program, its verb and the environment or data."""
    last = said.rstrip().splitlines()[-1]
    words = shlex.split(last)
    return words[words.index(next(word for word in words if word.startswith("--"))) :]


class Commands:
    """A verb upon rows of its own."""

    def __init__(self, folder: Path, rng: Random) -> None:
        self.folder, count = folder, rng.randint(4, 9)
        self.rows = write_lines(
            folder / "rows.jsonl",
            [
                {
                    "prompt": f"Question {number}?",
                    "response": f"Answer {number} " * rng.randint(1, 30),
                }
                for number in range(count)
            ],
        )
        questions = [
            {"instruction": f"Explain thing {number}", "rubric": "Is it right?"}
            for number in range(count)
        ]
        self.questions = write_lines(folder / "questions.jsonl", questions)

    def score(self, url: str, place: str, *flags: str) -> Ended:
        flat = [each.replace("--env.", "--") for each in PRICES if not each.startswith("--openai")]
        out = f"--out={self.folder / place / 'scored.jsonl'}"
        (self.folder / place).mkdir(exist_ok=True)
        words = [
            str(self.rows),
            out,
            "--rubric=Is it right?",
            f"--judge_base_url={url}",
            "--retry_delay=0",
            *flat,
        ]
        return score(*words, *flags)

    def evaluate(self, url: str, place: str, *flags: str) -> Ended:
        where = (f"--env.eval_dataset={self.questions}", f"--env.eval_max_tokens={LONGEST}")
        run = f"--env.data_dir_to_save_evals={self.folder / place}"
        return in_process(
            "evaluate", *where, run, *self._urls(url), *flags, env_type=RubricAbsoluteEnv
        )

    def process(self, url: str, place: str, *flags: str) -> Ended:
        where = (
            f"--env.train_dataset={self.questions}",
            f"--env.train_max_tokens={LONGEST}",
            "--env.total_steps=4",
        )
        run = f"--env.data_path_to_save_groups={self.folder / place}.jsonl"
        return in_process(
            "process", *where, run, *self._urls(url), *flags, env_type=RubricAbsoluteEnv
        )

    def _urls(self, url: str) -> Sequence[str]:
        return (
            f"--openai.base_url={url}",
            f"--env.judge_base_url={url}",
            "--env.retry_delay=0",
            *PRICES,
        )

    def results(self, verb: str, place: str) -> list[bytes]:
        """What a run has written in the end."""
        if verb == "process":
            return without_run(self.folder / f"{place}.jsonl")
        run = self.folder / place
        return without_run(
            (locate_run_directory(run / "scored.jsonl") if verb == "score" else run)
            / "samples.jsonl"
        )

    def recorded(self, verb: str, place: str) -> int:
        """How many answers the ledger has."""
        run = self.folder / place
        of = {
            "score": locate_run_directory(run / "scored.jsonl"),
            "process": locate_run_directory(Path(f"{run}.jsonl")),
        }
        return sum(1 for _ in read_calls(of.get(verb, run)))


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["evaluate", "score", "process"])
@pytest.mark.parametrize("seed", range(8))
def test_a_random_budget_is_kept_and_resume_ends_as_if_there_was_none(
    tmp_path: Path, verb: str, seed: int
) -> None:
    rng = Random(f"{verb} {seed}")
    commands = Commands(tmp_path, rng)
    run: Callable[..., Ended] = getattr(commands, verb)
    with serving(free := Provider(seed, faults=False)) as endpoint:
        assert run(endpoint.base_url, "whole").code == 0
    provider, budget = Provider(seed), free.usd * rng.uniform(0.1, 0.9)
    with serving(provider) as endpoint:
        ended = run(
            endpoint.base_url,
            "parts",
            f"--{'' if verb == 'score' else 'env.'}budget_usd={budget:.9f}",
        )
        paid = 0
        for _ in range(20):
            assert provider.usd <= budget, ended.said
            if ended.code == 0:
                break
            assert ended.code == 3, ended.said
            kept = commands.recorded(verb, "parts")
            assert kept >= paid
            paid = kept
            words = going_on(ended.said)
            budget = float(words[-1].partition("=")[2])
            ended = run(endpoint.base_url, "parts", "--resume", words[-1])
    assert ended.code == 0, ended.said
    assert commands.results(verb, "parts") == commands.results(verb, "whole")
