"""MT-Bench against scripted endpoints: a few questions of two turns, and judges whose verdicts a test writes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judgegym.eval_environments.mt_bench_environment import MTBenchEnv
from tests.command import Ended, RunFiles, in_process, serving, write_lines
from tests.scripted import Json, Reply, Script, ScriptedEndpoint

CATEGORIES = ("writing", "math", "coding")
_ROW = re.compile(r"\brow-\d+\b")


@dataclass(frozen=True)
class Look:
    """What a judge was shown: a row, its turn, and whether the model is Assistant A (`None` where it is rated)."""

    uid: str
    turn: int
    as_a: bool | None
    system: str
    user: str


def look_at(request: Json) -> Look:
    system, user = (message["content"] for message in request["messages"][:2])
    turn = 2 if "Conversation with User" in user else 1
    model, baseline = user.find("ANSWER"), user.find("BASELINE")
    found = _ROW.search(user)
    assert found is not None and model >= 0
    return Look(found.group(), turn, None if baseline < 0 else model < baseline, system, user)


Verdict = Callable[[Look], "str | Reply"]


def answering(request: Json, number: int) -> str:
    """A policy that says which row and which turn it answers."""
    messages = [message for message in request["messages"] if message["role"] != "system"]
    found = _ROW.search(messages[0]["content"])
    assert found is not None
    return f"ANSWER of the model to turn {(len(messages) + 1) // 2} of {found.group()}"


@dataclass(frozen=True)
class Run:
    ended: Ended
    files: RunFiles
    judge: ScriptedEndpoint
    policy: ScriptedEndpoint

    @property
    def looks(self) -> list[Look]:
        return [look_at(body) for body in self.judge.bodies]


def turns_of(uid: str, count: int = 2) -> list[str]:
    return [f"Question of {uid}: why?", f"And what follows for {uid}?"][:count]


def answer_row(uid: str, turns: Sequence[str]) -> dict[str, Any]:
    """A line as FastChat writes answers."""
    return {"question_id": uid, "answer_id": "x", "choices": [{"index": 0, "turns": list(turns)}]}


def data(path: Path, *, rows: int, baseline: bool, alone: Sequence[str] = ()) -> list[str]:
    """Write questions and answers, and give the flags that name them; the rows `alone` have one turn."""
    uids = [f"row-{number}" for number in range(rows)]
    counts = {uid: 1 if uid in alone else 2 for uid in uids}
    files = {
        "question": [
            {
                "question_id": uid,
                "category": CATEGORIES[place % 3],
                "turns": turns_of(uid, counts[uid]),
            }
            for place, uid in enumerate(uids)
        ],
        "reference": [
            answer_row(uid, [f"REFERENCE {turn} of {uid}" for turn in range(1, counts[uid] + 1)])
            for uid in uids
        ],
        "baseline": [
            answer_row(uid, [f"BASELINE {turn} of {uid}" for turn in range(1, counts[uid] + 1)])
            for uid in uids
        ],
    }
    used = files if baseline else {name: files[name] for name in ("question", "reference")}
    return [
        f"--env.{name}_dataset={write_lines(path / f'{name}.jsonl', lines)}"
        for name, lines in used.items()
    ]


def evaluate(
    path: Path,
    verdict: Verdict | None = None,
    *flags: str,
    rows: int = 3,
    baseline: bool = False,
    alone: Sequence[str] = (),
    judge: Script | None = None,
    policy: Script = answering,
    run: str = "run",
) -> Run:
    """Evaluate in this process against two endpoints; `judge` in place of `verdict` sees whole requests."""
    given = data(path, rows=rows, baseline=baseline, alone=alone)
    with ExitStack() as stack:
        script = judge or (lambda request, _: verdict(look_at(request)) if verdict else "[[5]]")
        judging, answers = (
            stack.enter_context(serving(script)),
            stack.enter_context(serving(policy)),
        )
        urls = [f"--env.judge_base_url={judging.base_url}", f"--openai.base_url={answers.base_url}"]
        names = [
            "--env.judge_model_name=the-judge",
            "--openai.model_name=the-policy",
            "--env.retry_delay=0",
        ]
        where = f"--env.data_dir_to_save_evals={path / run}"
        ended = in_process("evaluate", *given, *urls, *names, where, *flags, env_type=MTBenchEnv)
    return Run(ended, RunFiles(path / run), judging, answers)
