"""Conversations of several turns: an environment with follow-ups, and a policy that returns what it sampled."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from judgegym.data.rows import Split
from judgegym.engine.completions import Completion, Conversation
from judgegym.engine.metrics import MetricAggregator
from judgegym.engine.records import Sample
from judgegym.engine.settings import EnvConfig
from judgegym.environments.base import JudgedEnv
from judgegym.environments.spec import EnvSpec
from judgegym.judges.core.judgment import CallRun, JudgeCall, Judgment, ScoreParts, Status
from judgegym.llm.wire import Message
from tests.core.environments.words import Word
from tests.scripted import Json, Reply, completion

MASKED = -100
_ROLES = {"user": 1, "assistant": 2}
_END = 3
_VALUE = re.compile(r"worth (\d)")

Line = Callable[[int, str], str]
"""What the policy says in a turn (from 1), of which rollout: `a`, `b`, … by its place in the first request."""


class TalkEnv(JudgedEnv[EnvConfig, Word, ScoreParts]):
    """Three turns, or fewer where the policy says goodbye; an answer `worth 7` has the score 0.7 of its turn."""

    spec = EnvSpec(name="talk", headline=("score", "score"))

    def tasks(self, split: Split) -> Sequence[Word]:
        return [Word(f"row-{number}") for number in range(8)]

    def conversations(self, task: Word) -> list[Conversation]:
        return [[Message(role="user", content=task.uid)]]

    async def follow_up(self, task: Word, completions: Sequence[Completion]) -> str | None:
        is_over = len(completions) == 3 or "goodbye" in completions[-1].answer
        return None if is_over else f"Go on after {len(completions)}."

    async def judge(self, task: Word, completions: Sequence[Completion]) -> Judgment[ScoreParts]:
        values = [
            int(found.group(1)) / 10 if (found := _VALUE.search(said.answer)) else 0.0
            for said in completions
        ]
        parts = {f"turn_{number}": value for number, value in enumerate(values, 1)}
        calls = (JudgeCall("call", "", None, None, None, CallRun(0.0, 1)),)
        return Judgment(sum(values) / len(values), Status.OK, calls=calls, detail=ScoreParts(parts))

    def record_metrics(
        self, metrics: MetricAggregator, task: Word, sample: Sample[ScoreParts]
    ) -> None:
        metrics.mean("score", sample.score or 0.0)


def turn_of(request: Json) -> int:
    """The number of the turn that is asked for."""
    return 1 + sum(message["role"] == "assistant" for message in request["messages"])


def name_in(request: Json) -> str:
    """The name of the rollout, which its first answer begins with."""
    said: str = next(
        message["content"] for message in request["messages"] if message["role"] == "assistant"
    )
    return said.removeprefix("hm~")[0]


@dataclass
class Talker:
    """A policy with ids and logprobs as vLLM gives them.

    Attributes:
        line: what it says.
        forgets: its template leaves what is before a `~` out of earlier answers, as templates do
            with thinking.
        sampled: what it has answered: ids of prompt and completion, with the logprobs.
        logprobs: of sampled ids after a prompt.
    """

    line: Line
    forgets: bool = False
    sampled: dict[tuple[tuple[int, ...], tuple[int, ...]], list[float]] = field(
        default_factory=dict
    )
    logprobs: Callable[[list[int], list[int]], list[float]] = lambda prompt, ids: [
        -1 - (token * 7 + place + len(prompt)) % 11 / 8 for place, token in enumerate(ids)
    ]

    def __call__(self, request: Json, number: int) -> Reply:
        turn = turn_of(request)
        names = "abcdefgh"[: request.get("n", 1)] if turn == 1 else name_in(request)
        texts = [self.line(turn, name) for name in names]
        prompt = self.prompt(request)
        body = completion(*texts)
        for choice, text in zip(body["choices"], texts, strict=True):
            ids = [*text.encode(), _END]
            choice["finish_reason"] = "content_filter" if text == "refused" else "stop"
            logprobs = self.logprobs(prompt, ids)
            self.sampled[tuple(prompt), tuple(ids)] = logprobs
            choice["token_ids"] = ids
            choice["logprobs"] = {"content": [{"logprob": each} for each in logprobs]}
        return Reply(body={**body, "prompt_token_ids": prompt})

    def prompt(self, request: Json) -> list[int]:
        """The template: role, text and end of each message, and the role of the answer."""
        ids: list[int] = []
        for message in request["messages"]:
            text = message["content"]
            if self.forgets and message["role"] == "assistant":
                text = text.rpartition("~")[2]
            ids += [_ROLES[message["role"]], *text.encode(), _END]
        return [*ids, _ROLES["assistant"]]

    def spans(self, group: dict[str, Any]) -> Iterator[list[str]]:
        """The texts that a group trains, of each sequence; each was sampled after these ids, with these logprobs."""
        sequences = zip(group["tokens"], group["masks"], group["inference_logprobs"], strict=True)
        for tokens, masks, logprobs in sequences:
            texts, place = list[str](), 0
            while place < len(tokens):
                if masks[place] == MASKED:
                    assert logprobs[place] == 1.0
                    place += 1
                    continue
                end = next(
                    (at for at in range(place, len(masks)) if masks[at] == MASKED), len(masks)
                )
                assert masks[place:end] == tokens[place:end]
                assert (
                    logprobs[place:end]
                    == self.sampled[tuple(tokens[:place]), tuple(tokens[place:end])]
                )
                texts.append(bytes(tokens[place : end - 1]).decode())
                place = end
            yield texts


def says(
    *endings: int,
    thinks: bool = False,
    worth: Callable[[int, str], int] = lambda turn, name: "abcdefgh".index(name),
) -> Line:
    """A line that names its rollout and says what it is worth; rollout `a` says goodbye in turn `endings[0]`, …"""

    def line(turn: int, name: str) -> str:
        ends = "abcdefgh".index(name) < len(endings) and endings["abcdefgh".index(name)] == turn
        said = f"{name}{turn} is worth {worth(turn, name)}{', goodbye' if ends else ''}"
        return f"hm~{said}" if thinks else said

    return line
