"""A small environment: two conversations for each row, a judge that is a function."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from typing import Any

from judgegym.data.rows import Split
from judgegym.engine.completions import Clients, Completion, Conversation
from judgegym.engine.metrics import MetricAggregator
from judgegym.engine.records import Sample
from judgegym.engine.settings import BUNDLED_TOKENIZER, EnvConfig
from judgegym.engine.settings.verbs import Verb
from judgegym.environments.base import JudgedEnv
from judgegym.environments.command_line.arguments import load_settings
from judgegym.environments.spec import EnvSpec
from judgegym.judges.core.judgment import CallRun, JudgeCall, Judgment, Status
from judgegym.llm.http.exchange import open_session
from judgegym.llm.wire import Message
from tests.scripted import Json, Reply, Script, ScriptedEndpoint


@dataclass(frozen=True)
class Word:
    uid: str
    category: str | None = None

    @property
    def question(self) -> str:
        return f"Say {self.uid}, forwards and backwards."


@dataclass(frozen=True)
class Said:
    forwards: str
    backwards: str


class WordsEnv(JudgedEnv[EnvConfig, Word, Said]):
    """Is what was said backwards the mirror of what was said forwards?"""

    spec = EnvSpec(name="words", headline=("right", "right"), invalid_score=-1.0)

    def tasks(self, split: Split) -> Sequence[Word]:
        return [Word(f"{split}-{number}") for number in range(8)]

    def conversations(self, task: Word) -> list[Conversation]:
        return [
            [Message(role="user", content=f"{way}: {task.uid}")]
            for way in ("forwards", "backwards")
        ]

    async def judge(self, task: Word, completions: Sequence[Completion]) -> Judgment[Said]:
        texts = [completion.answer for completion in completions]
        said = Said(texts[0], texts[-1])
        right = (
            said.forwards == said.backwards[::-1] if len(texts) == 2 else said.forwards == task.uid
        )
        calls = (JudgeCall("compare", "", None, None, None, CallRun(0.0, 1)),)
        return Judgment(float(right), Status.OK, str(right), "", calls, said)

    def record_metrics(self, metrics: MetricAggregator, task: Word, sample: Sample[Said]) -> None:
        metrics.mean("right", sample.score or 0.0)


def speaking(request: Json, number: int) -> str:
    """A policy that does as it is told."""
    way, _, word = request["messages"][-1]["content"].partition(": ")
    return word if way == "forwards" else word[::-1]


@asynccontextmanager
async def opened(
    script: Script | Reply | str,
    *flags: str,
    verb: Verb = "evaluate",
    env_type: type[JudgedEnv[Any, Any, Any]] = WordsEnv,
) -> AsyncIterator[tuple[Any, ScriptedEndpoint]]:
    """The environment with its policy at a scripted endpoint."""
    async with ScriptedEndpoint(script) as endpoint, open_session() as session:
        urls = [
            f"--env.judge_base_url={endpoint.base_url}",
            f"--openai.base_url={endpoint.base_url}",
        ]
        quick = ["--env.retry_delay=0", "--env.min_response_length=0"]
        settings = load_settings(env_type, [*urls, *quick, *flags], verb=verb).settings
        settings.env.tokenizer_name = str(BUNDLED_TOKENIZER)
        with closing(Clients(settings, session)) as clients:
            yield env_type(settings, clients, verb=verb), endpoint
