"""Pairwise judgement against a scripted policy, in this process: small data, and policies of known verdicts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from judgegym.engine.settings import SAMPLES
from judgegym.eval_environments.pairwise_judgement_environment import PairwiseJudgementEnv
from tests.command import ROOT, Ended, RunFiles, in_process, serving, write_lines
from tests.scripted import Json, Reply, Script, ScriptedEndpoint

PAIRS = ROOT.parent / "shared" / "data" / "pairwise" / "autoj_pairs.jsonl"
needs_pairs = pytest.mark.skipif(
    not PAIRS.is_file(), reason="the real data is not there: ../shared/data/pairwise"
)

PLAIN = "--env.thinking_mode=False"
_ANSWER = re.compile(
    r"\[The Start of Assistant ([A-Z])'s Answer[^\]]*\]\n(.*?)\n\[The End of Assistant", re.DOTALL
)

Row = dict[str, Any]


def choice_row(number: int, *, wrong: int = 3, category: str = "Math") -> Row:
    """A row of RewardBench-2 whose right answer says so."""
    return {
        "id": f"row-{number}",
        "prompt": f"Question {number}: why?",
        "chosen": [f"RIGHT answer {number}"],
        "rejected": [f"wrong answer {number}.{place}" for place in range(wrong)],
        "subset": category,
    }


def ties_row(uid: str, *, correct: int = 2, wrong: int = 2) -> Row:
    """A row of the Ties subset."""
    return {
        "id": uid,
        "prompt": f"Question of {uid}: name one",
        "chosen": [f"RIGHT answer {uid}.{place}" for place in range(correct)],
        "rejected": [f"wrong answer {uid}.{place}" for place in range(wrong)],
        "subset": "Ties",
    }


def shown(request: Json) -> dict[str, str]:
    """The answers of a choice, by letter."""
    return dict(_ANSWER.findall(request["messages"][-1]["content"]))


def is_choice(request: Json) -> bool:
    """Whether a request asks for a choice."""
    return bool(shown(request))


def gold(request: Json) -> str:
    """The letter of the right answer of a choice."""
    (letter,) = (letter for letter, answer in shown(request).items() if answer.startswith("RIGHT"))
    return letter


def knowing(request: Json, number: int = 0) -> str:
    """A policy that is right about everything."""
    if is_choice(request):
        return f"The best is [[{gold(request)}]]"
    return "Well said.\n\n9" if "RIGHT" in request["messages"][-1]["content"] else "Not so.\n\n2"


@dataclass(frozen=True)
class Judged:
    """An evaluation that ended, its run directory and what its policy was asked."""

    ended: Ended
    files: RunFiles
    policy: ScriptedEndpoint

    @property
    def code(self) -> int:
        return self.ended.code

    @property
    def said(self) -> str:
        return self.ended.said

    @property
    def metrics(self) -> dict[str, float]:
        return self.files.metrics

    @property
    def left_out(self) -> dict[str, str]:
        found: dict[str, str] = self.files.report["config_general"]["left_out"]
        return found


def pairwise(*argv: str, env: Mapping[str, str] | None = None) -> Ended:
    """The command line of pairwise judgement in this process."""
    return in_process(*argv, env=env, env_type=PairwiseJudgementEnv)


def evaluate(
    path: Path,
    *flags: str,
    rows: Sequence[Row] | Path | None = None,
    policy: Script | Reply | str = knowing,
    run: str = "run",
    env: Mapping[str, str] | None = None,
) -> Judged:
    """Evaluate rows, or the bundled samples with `rows=None`, without thinking and without pauses."""
    if rows is None:
        data = ["--offline"]
    elif isinstance(rows, Path):
        data = [f"--env.eval_dataset={rows}"]
    else:
        data = [f"--env.eval_dataset={write_lines(path / f'{run}.jsonl', rows)}"]
    with serving(policy) as endpoint:
        ended = pairwise(
            "evaluate",
            *data,
            f"--openai.base_url={endpoint.base_url}",
            "--openai.model_name=the-policy",
            f"--env.data_dir_to_save_evals={path / run}",
            "--env.retry_delay=0",
            PLAIN,
            *flags,
            env=env,
        )
    return Judged(ended, RunFiles(path / run), endpoint)


CHOICES = [choice_row(number) for number in range(8)]
TIES = [
    ties_row("ref:1", correct=1),
    ties_row("tied:1"),
    ties_row("ref:2", correct=1),
    ties_row("tied:2", correct=3),
]
SUBSETS = ("factuality", "precise_if", "math", "safety", "focus", "ties")
BUNDLED_RIGHT = frozenset(
    answer
    for line in (SAMPLES / "pairwise.jsonl").open(encoding="utf-8")
    for answer in json.loads(line)["chosen"]
)


def bundled_knowing(request: Json, number: int) -> str:
    """Right about every bundled sample, in the format that thinking mode asks for."""
    answers = shown(request)
    if answers:
        (letter,) = (letter for letter, answer in answers.items() if answer in BUNDLED_RIGHT)
        return f"<think>Let me see.</think>[[{letter}]]"
    answer = (
        request["messages"][-1]["content"]
        .partition("[Response]\n")[2]
        .partition("\n\n[Your judgement]")[0]
    )
    return f"<think>Let me see.</think>Judged.\n\n{10 if answer in BUNDLED_RIGHT else 1}"


def always(choice: str = "[[A]]", rating: str = "10") -> Script:
    """A policy that never looks."""
    return lambda request, number: choice if is_choice(request) else rating


def golds(run: Judged) -> list[str]:
    """The right letter of each row."""
    return [sample["detail"]["gold"][0] for sample in run.files.samples]
