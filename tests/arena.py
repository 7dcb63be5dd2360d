"""Arena-Hard against scripted endpoints: a small dataset, judges of known verdicts, and a run of the command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.command import Ended, RunFiles, in_process, serving, write_lines
from tests.scripted import Json, Reply, Script, ScriptedEndpoint

CATEGORIES = ("Coding", "Precise IF", "math")
_ROW = re.compile(r"\brow-\d+\b")
_A = re.compile(
    r"<\|The Start of Assistant A's Answer[^|]*\|>\n(.*?)\n<\|The End of Assistant A's Answer",
    re.DOTALL,
)

Verdict = Callable[[str, bool], "Reply | str"]
"""What a judge answers to one game, from the row's id and whether the model is shown as A."""


def uid_of(request: Json) -> str:
    """Which row a request is about."""
    found = _ROW.search(
        request["messages"][-1]["content"] if len(request["messages"]) < 3 else _game(request)
    )
    assert found is not None
    return found.group()


def model_is_a(request: Json) -> bool:
    """Whether a judge request shows the model's answer as A's."""
    shown = _A.search(_game(request))
    assert shown is not None
    return "BASELINE" not in shown.group(1)


def _game(request: Json) -> str:
    text: str = request["messages"][1]["content"]
    return text


def judge(verdict: Verdict) -> Script:
    """A judge by row and order."""
    return lambda request, _: verdict(uid_of(request), model_is_a(request))


def for_model(uid: str, as_a: bool) -> str:
    return "The model's is better.\n\n[[A>B]]" if as_a else "The model's is better.\n\n[[B>A]]"


def against_model(uid: str, as_a: bool) -> str:
    return for_model(uid, not as_a)


def tie(uid: str, as_a: bool) -> str:
    return "Neither.\n\n[[A=B]]"


def always(label: str) -> Verdict:
    """A judge that does not look: position bias, for `A>B`."""
    return lambda uid, as_a: f"Verdict: [[{label}]]"


def answering(request: Json, number: int) -> str:
    """A policy that answers each question in its own way."""
    return f"ANSWER of the model to {uid_of(request)}"


@dataclass(frozen=True)
class Run:
    """A command that ended, its run directory, and what its endpoints were asked."""

    ended: Ended
    files: RunFiles
    judge: ScriptedEndpoint
    policy: ScriptedEndpoint

    @property
    def code(self) -> int:
        return self.ended.code

    @property
    def said(self) -> str:
        return self.ended.said


@dataclass
class Arena:
    """A dataset in a directory, and commands upon it."""

    path: Path
    flags: list[str] = field(default_factory=list)

    def rows(self, count: int) -> Arena:
        """Use `count` rows, with categories in turn."""
        uids = [f"row-{number}" for number in range(count)]
        prompts = [
            {
                "uid": uid,
                "prompt": f"Question of {uid}: why?",
                "category": CATEGORIES[i % 3],
                "cluster": "c",
            }
            for i, uid in enumerate(uids)
        ]
        answers = [
            {"uid": uid, "model": "base", "answer": f"BASELINE answer to {uid}"} for uid in uids
        ]
        self.flags = [
            f"--env.train_prompt_dataset={write_lines(self.path / 'prompts.jsonl', prompts)}",
            f"--env.train_baseline_dataset={write_lines(self.path / 'baseline.jsonl', answers)}",
        ]
        return self

    def files(self, name: str = "run") -> RunFiles:
        return RunFiles(self.path / name)

    def argv(self, judge_url: str, policy_url: str, *flags: str, run: str = "run") -> list[str]:
        """A command line: retries without pauses, unless `flags` say otherwise."""
        return [
            "evaluate",
            *self.flags,
            f"--env.judge_base_url={judge_url}",
            f"--openai.base_url={policy_url}",
            "--env.judge_model_name=the-judge",
            "--openai.model_name=the-policy",
            f"--env.data_dir_to_save_evals={self.path / run}",
            "--env.retry_delay=0",
            *flags,
        ]

    def evaluate(
        self,
        *flags: str,
        verdict: Verdict = for_model,
        judge_script: Script | Reply | None = None,
        policy: Script | Reply | str = answering,
        run: str = "run",
        env: Mapping[str, str] | None = None,
    ) -> Run:
        """Evaluate in this process against two endpoints of its own; `judge_script` instead of `verdict` sees all."""
        with ExitStack() as stack:
            judging = stack.enter_context(
                serving(judge(verdict) if judge_script is None else judge_script)
            )
            answers = stack.enter_context(serving(policy))
            ended = in_process(
                *self.argv(judging.base_url, answers.base_url, *flags, run=run), env=env
            )
        return Run(ended, self.files(run), judging, answers)
