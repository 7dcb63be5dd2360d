"""Budgets of all verbs against an endpoint that bills by itself: none is exceeded, and nothing paid for is lost.

The endpoint counts the tokens of its answers up to the limit of each request, and those of prompts up to one a byte;
what it bills is what it has sent, also where the client gave up. Budgets, rows and lengths are drawn by a seed.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import orjson
import pytest

from judgegym.engine.runs.directory import run_directory_of
from judgegym.engine.runs.recorded_calls import read_calls
from judgegym.environments.rubric_absolute_environment import RubricAbsoluteEnv
from judgegym.llm.errors import BudgetError
from judgegym.offline.answers import answers
from judgegym.offline.server import parse_request
from tests.arena import Arena
from tests.command import Ended, in_process, serving, write_lines
from tests.datasets.scoring import score
from tests.scripted import Json, Reply, completion
from tests.serving import serve, with_tokens
from tests.trainer import training

INPUT, OUTPUT, LONGEST = 40.0, 160.0, 60
"""US dollars for a million tokens, and the most tokens of an answer."""
AT_ONCE = 64
PRICES = (
    f"--openai.price_input={INPUT}",
    f"--openai.price_output={OUTPUT}",
    f"--env.judge_price_input={INPUT}",
    f"--env.judge_price_output={OUTPUT}",
    f"--env.judge_max_tokens={LONGEST}",
    f"--env.judge_max_concurrency={AT_ONCE}",
)


class Provider:
    """Answers as the stand-in does, and bills; a tenth of its answers is an error or breaks off after it was billed."""

    def __init__(self, seed: int, *, faults: bool = True) -> None:
        self.usd, self._random, self._faults = 0.0, Random(seed), faults

    def __call__(self, request: Json, number: int) -> Reply:
        if self._faults and self._random.random() < 0.05:
            return Reply(status=500)
        own = Random(hashlib.sha256(orjson.dumps(request)).digest())
        texts = answers(parse_request(orjson.dumps(request)))
        prompt = own.randint(1, sum(len(message["content"].encode()) for message in request["messages"]))
        written = sum(own.randint(1, request["max_tokens"]) for _ in texts)
        self.usd += (INPUT * prompt + OUTPUT * written) / 1e6
        if self._faults and self._random.random() < 0.05:
            return Reply(drop=True)
        return Reply(body=with_tokens(completion(*texts, prompt_tokens=prompt, completion_tokens=written)))


def without_run(path: Path) -> list[bytes]:
    """The lines of a file without what may differ between two runs."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    return sorted(orjson.dumps({**line, "run": None}, option=orjson.OPT_SORT_KEYS) for line in lines)


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
                {"prompt": f"Question {number}?", "response": f"Answer {number} " * rng.randint(1, 30)}
                for number in range(count)
            ],
        )
        questions = [{"instruction": f"Explain thing {number}", "rubric": "Is it right?"} for number in range(count)]
        self.questions = write_lines(folder / "questions.jsonl", questions)

    def score(self, url: str, place: str, *flags: str) -> Ended:
        flat = [each.replace("--env.", "--") for each in PRICES if not each.startswith("--openai")]
        out = f"--out={self.folder / place / 'scored.jsonl'}"
        (self.folder / place).mkdir(exist_ok=True)
        words = [str(self.rows), out, "--rubric=Is it right?", f"--judge_base_url={url}", "--retry_delay=0", *flat]
        return score(*words, *flags)

    def evaluate(self, url: str, place: str, *flags: str) -> Ended:
        where = (f"--env.eval_dataset={self.questions}", f"--env.eval_max_tokens={LONGEST}")
        run = f"--env.data_dir_to_save_evals={self.folder / place}"
        return in_process("evaluate", *where, run, *self._urls(url), *flags, env_type=RubricAbsoluteEnv)

    def process(self, url: str, place: str, *flags: str) -> Ended:
        where = (f"--env.train_dataset={self.questions}", f"--env.train_max_tokens={LONGEST}", "--env.total_steps=4")
        run = f"--env.data_path_to_save_groups={self.folder / place}.jsonl"
        return in_process("process", *where, run, *self._urls(url), *flags, env_type=RubricAbsoluteEnv)

    def _urls(self, url: str) -> Sequence[str]:
        return (f"--openai.base_url={url}", f"--env.judge_base_url={url}", "--env.retry_delay=0", *PRICES)

    def results(self, verb: str, place: str) -> list[bytes]:
        """What a run has written in the end."""
        if verb == "process":
            return without_run(self.folder / f"{place}.jsonl")
        run = self.folder / place
        return without_run((run_directory_of(run / "scored.jsonl") if verb == "score" else run) / "samples.jsonl")

    def recorded(self, verb: str, place: str) -> int:
        """How many answers the ledger has."""
        run = self.folder / place
        of = {"score": run_directory_of(run / "scored.jsonl"), "process": run_directory_of(Path(f"{run}.jsonl"))}
        return sum(1 for _ in read_calls(of.get(verb, run)))


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["evaluate", "score", "process"])
@pytest.mark.parametrize("seed", range(8))
def test_a_random_budget_is_kept_and_resume_ends_as_if_there_was_none(tmp_path: Path, verb: str, seed: int) -> None:
    rng = Random(f"{verb} {seed}")
    commands = Commands(tmp_path, rng)
    run: Callable[..., Ended] = getattr(commands, verb)
    with serving(free := Provider(seed, faults=False)) as endpoint:
        assert run(endpoint.base_url, "whole").code == 0
    provider, budget = Provider(seed), free.usd * rng.uniform(0.1, 0.9)
    with serving(provider) as endpoint:
        ended = run(endpoint.base_url, "parts", f"--{'' if verb == 'score' else 'env.'}budget_usd={budget:.9f}")
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


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
async def test_serve_sends_whole_groups_within_a_random_budget_and_goes_on(tmp_path: Path, seed: int) -> None:
    arena, provider = Arena(tmp_path).rows(8), Provider(seed)
    budget = Random(f"serve {seed}").uniform(0.5, 3.0)
    flags = [
        *PRICES,
        f"--env.train_max_tokens={LONGEST}",
        f"--env.data_path_to_save_groups={tmp_path / 'groups.jsonl'}",
    ]
    flags += ["--env.ensure_scores_are_not_same=False", "--env.total_steps=4"]
    async with training(8) as trainer:
        taking = asyncio.create_task(trainer.take(4))
        limited = (*flags, f"--env.budget_usd={budget}")
        async with serve(arena, trainer.url, *limited, policy=provider, judge=provider) as served:
            with pytest.raises(BudgetError, match="is spent"):
                await served.ended()
        assert provider.usd <= budget
        async with serve(arena, trainer.url, *flags, "--resume", policy=provider, judge=provider) as served:
            batches = await taking
            await served.ended()
    groups = [group for batch in batches for group in batch]
    assert len(groups) == 8 and all(len(group["scores"]) == 4 for group in groups)
