"""Peer evaluation against scripted models: each has an endpoint, whose script answers, judges and critiques by name."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from judgegym.eval_environments.self_critique_environment import SelfCritiqueEnv
from tests.command import Ended, RunFiles, in_process, serving, write_lines
from tests.scripted import Json, Reply, Script, ScriptedEndpoint

REFUSED = Reply(status=400, body={"error": {"message": "not today"}})
NAMES = ("ann", "bob", "cid")

Row = dict[str, Any]
Kind = Literal["answer", "judgment", "critique"]

_SECTIONS = re.compile(
    r"^(QUERY|(?:END OF )?CANDIDATE RESPONSE(?: \(that you evaluated\))?|RUBRIC|YOUR PREVIOUS "
    r"EVALUATION|Instructions)"
    r"(?: [0-9a-f]{12})?:(?:\n|\Z)",
    re.MULTILINE,
)
_PREVIOUS = re.compile(r"- Reasoning: (.*)\n- Score: (\d+) \(out of 100\)", re.DOTALL)
_ANSWER = re.compile(r"ANSWER of (.+?) to (.+)", re.DOTALL)


@dataclass(frozen=True)
class Asked:
    """What a request to a model is about; what a kind of request does not have is empty."""

    kind: Kind
    model: str
    query: str
    response: str = ""
    rubric: str = ""
    reasoning: str = ""
    score: int = -1

    @property
    def candidate(self) -> str:
        """Who wrote the response, if it is one of `render_completion`."""
        found = _ANSWER.fullmatch(self.response)
        assert found is not None, self.response
        return found[1]


def asked(request: Json) -> Asked:
    """A request, read."""
    content: str = request["messages"][-1]["content"]
    model: str = request["model"]
    first, *parts = _SECTIONS.split(content)
    if not parts:
        return Asked("answer", model, content)
    sections = {
        title.partition(" (")[0]: text.strip("\n")
        for title, text in zip(parts[::2], parts[1::2], strict=True)
    }
    about = sections["QUERY"], sections["CANDIDATE RESPONSE"], sections["RUBRIC"]
    if first.lstrip().startswith("Evaluate a candidate's response"):
        return Asked("judgment", model, *about)
    assert "You previously evaluated a candidate's response" in first
    previous = _PREVIOUS.fullmatch(sections["YOUR PREVIOUS EVALUATION"])
    assert previous is not None, content
    return Asked("critique", model, *about, previous[1], int(previous[2]))


def answer_of(name: str, query: str) -> str:
    """A model's answer, from which a judge's script knows whose it is."""
    return f"ANSWER of {name} to {query}"


def scored(score: Any, reasoning: str = "So it seems.") -> str:
    """A peer's evaluation."""
    return json.dumps({"reasoning": reasoning, "score": score})


Said = str | int | Reply
"""What a model says: a text, a whole reply, or a score with a reason."""


@dataclass(frozen=True)
class Minds:
    """How models answer, judge and critique; each is asked with what the request is about."""

    answer: Callable[[Asked], Said] = lambda it: answer_of(it.model, it.query)
    judgment: Callable[[Asked], Said] = lambda it: 50
    critique: Callable[[Asked], Said] = lambda it: it.score

    def __call__(self, request: Json, number: int) -> str | Reply:
        it = asked(request)
        said = {"answer": self.answer, "judgment": self.judgment, "critique": self.critique}[
            it.kind
        ](it)
        return scored(said) if isinstance(said, int) else said


@dataclass(frozen=True)
class Evaluated:
    """An evaluation that ended, and its run directory."""

    ended: Ended
    files: RunFiles

    @property
    def code(self) -> int:
        return self.ended.code

    @property
    def said(self) -> str:
        """What it said, in one line; a traceback is nothing to say."""
        assert "Traceback" not in self.ended.said
        return " ".join(self.ended.said.split())

    @property
    def metrics(self) -> dict[str, float]:
        return self.files.metrics

    @property
    def left_out(self) -> dict[str, str]:
        """Why metrics have no value, by their names without the prefix."""
        return self.files.left_out

    @property
    def markdown(self) -> str:
        return (self.files.path / "report.md").read_text(encoding="utf-8")

    @property
    def history(self) -> list[dict[str, Any]]:
        return self.files.lines("critique_history.jsonl")

    def table(self, number: int) -> list[list[str]]:
        """The cells of a round's CSV file, header included."""
        with (self.files.path / f"scores_round_{number}.csv").open(
            encoding="utf-8", newline=""
        ) as lines:
            return list(csv.reader(lines))

    def cells(self, uid: str) -> dict[tuple[str, str], dict[str, Any]]:
        """A query's cells, by judge and candidate."""
        (sample,) = (each for each in self.files.samples if each["uid"] == uid)
        return {(cell["judge"], cell["candidate"]): cell for cell in sample["detail"]["cells"]}

    def shown(self, name: str) -> list[list[str]]:
        """The rows of all tables on the terminal whose first cell is `name`."""
        rows = [
            [cell.strip() for cell in re.split("[│┃]", line)[1:-1]]
            for line in self.ended.out.splitlines()
            if line.startswith("│")
        ]
        return [row for row in rows if row[0] == name]

    @property
    def ranking(self) -> list[list[str]]:
        """The rows of the ranking in the report."""
        table = self.markdown.partition("## Ranking")[2].split("\n\n")[1]
        return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]


@dataclass
class Bench:
    """Models with their endpoints."""

    path: Path
    endpoints: dict[str, ScriptedEndpoint] = field(default_factory=dict)

    def model(self, name: str, **settings: Any) -> Row:
        """A model's settings."""
        return {"name": name, "base_url": self.endpoints[name].base_url, **settings}

    def models(self, *names: str) -> str:
        """Models as a flag takes them."""
        return json.dumps([self.model(name) for name in names or self.endpoints])

    def asked(self) -> list[Asked]:
        """Everything that the models were asked, by model and in the order of arrival."""
        return [asked(body) for endpoint in self.endpoints.values() for body in endpoint.bodies]

    def counts(self) -> dict[str, int]:
        """How often they were asked for what."""
        return dict(Counter(each.kind for each in self.asked()))

    def evaluate(
        self,
        *flags: str,
        rows: Sequence[Row] | None = None,
        candidates: str | None = None,
        run: str = "run",
        **env: str,
    ) -> Evaluated:
        """Compare all of them on one query, without pauses, unless told otherwise."""
        data = write_lines(self.path / f"{run}.jsonl", queries(1) if rows is None else rows)
        argv = [
            f"--env.dataset={data}",
            f"--env.candidates={self.models() if candidates is None else candidates}",
            f"--env.data_dir_to_save_evals={self.path / run}",
            "--env.retry_delay=0",
            *flags,
        ]
        return Evaluated(peer("evaluate", *argv, **env), RunFiles(self.path / run))


def peer(*argv: str, **env: str) -> Ended:
    """The command line of peer evaluation in this process."""
    return in_process(*argv, env=env, env_type=SelfCritiqueEnv)


def queries(count: int, **values: Any) -> list[Row]:
    """Rows."""
    return [
        {"uid": f"q{number}", "query": f"Question {number}?", **values} for number in range(count)
    ]


@contextmanager
def bench(path: Path, script: Script = Minds(), names: Sequence[str] = NAMES) -> Iterator[Bench]:
    """Models that all have one script."""
    with ExitStack() as stack:
        yield Bench(path, {name: stack.enter_context(serving(script)) for name in names})


def evaluate(
    path: Path, *flags: str, minds: Script = Minds(), names: Sequence[str] = NAMES, **how: Any
) -> Evaluated:
    """Compare models on one query unless told otherwise."""
    with bench(path, minds, names) as models:
        return models.evaluate(*flags, **how)
