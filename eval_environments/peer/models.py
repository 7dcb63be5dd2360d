"""The models of a peer evaluation at work: candidates that answer, judges that score, and what that will cost."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from environments.completions import Conversation, read_completion
from environments.data.rows import Task, load_answers
from environments.policy import Policy
from environments.settings import EnvConfig
from eval_environments.peer.endpoints import ModelSettings
from eval_environments.peer.table import PeerAnswer, PeerCell, PeerTable, cell_of
from judges.core.judgment import CallRun, JudgeCall, Judgment, Status
from judges.core.self_critique import SelfCritique
from judges.llm.cache import JudgmentCache
from judges.llm.client import ChatClient
from judges.llm.errors import EndpointError
from judges.llm.wire import Choice
from judges.peers.judge import PeerDetail, PeerJudge

_ANSWER_TOKENS, _JUDGMENT_TOKENS = 500, 150
"""What an answer and a judgment are assumed to take, for the price that is said ahead of a run."""
_CHARACTERS_A_TOKEN = 4


class Candidate:
    """A model that answers, by its endpoint or from a file."""

    def __init__(self, name: str, policy: Policy | None, config: EnvConfig, *, answers: Path | None = None) -> None:
        """Answer through `policy`, or from a file."""
        self.name = name
        self._policy = policy
        self._file = answers
        self._config = config
        self._answers: Mapping[str, str] = {}

    def load(self, tasks: Sequence[Task]) -> None:
        """Read its answers, if they are in a file.

        Raises:
            DataError: the file cannot be loaded, or lacks one.
        """
        if self._file is not None:
            self._answers = load_answers(self._file, tasks)

    async def answer(self, uid: str, conversation: Conversation) -> tuple[PeerAnswer, CallRun | None]:
        """Its answer to a query; one that never came, or came in the wrong format, has a reason instead."""
        if self._policy is None:
            completion, run = read_completion(Choice(self._answers[uid]), self._config), None
        else:
            try:
                completion, run = await self._policy.complete(conversation)
            except EndpointError as error:
                run = CallRun(attempts=error.attempts, usage=error.usage)
                return PeerAnswer(self.name, None, f"the candidate at {error}"), run
        if completion.thinking_fault is not None:
            return PeerAnswer(self.name, None, f"the thinking is malformed: {completion.thinking_fault}"), run
        if not completion.answer.strip():
            return PeerAnswer(self.name, None, "the answer is empty"), run
        return PeerAnswer(self.name, completion.answer), run


@dataclass(frozen=True, slots=True)
class PeerModel:
    """A model that judges."""

    name: str
    judge: SelfCritique[..., PeerDetail]

    async def score(
        self, candidate: str, *, query: str, response: str, rubric: str
    ) -> tuple[PeerCell, Judgment[PeerDetail]]:
        """Its score of an answer, after its own critique."""
        judgment = await self.judge.judge(query=query, response=response, rubric=rubric)
        return cell_of(self.name, candidate, judgment), judgment


class Clients:
    """One client for each endpoint and model, whether it answers, judges, or both."""

    def __init__(self, config: EnvConfig, session: aiohttp.ClientSession, cache: JudgmentCache | None) -> None:
        """Open none yet."""
        self._config, self._session, self._cache = config, session, cache
        self._clients: dict[str, ChatClient] = {}

    @property
    def opened(self) -> list[ChatClient]:
        """All clients so far."""
        return list(self._clients.values())

    def of(self, settings: ModelSettings) -> ChatClient:
        """The client of a model with an endpoint.

        Raises:
            SettingsError: its API key is missing.
        """
        if settings.identity not in self._clients:
            chat = settings.chat_settings(self._config)
            self._clients[settings.identity] = ChatClient(chat, cache=self._cache, session=self._session)
        return self._clients[settings.identity]


def peer(name: str, client: ChatClient, rounds: int) -> PeerModel:
    """A model as judge, with so many rounds of self-critique."""
    return PeerModel(name, SelfCritique(PeerJudge(client), rounds))


@dataclass(frozen=True, slots=True)
class Column:
    """One answer with the judges' cells, in their order, and the calls that these took."""

    answer: PeerAnswer
    cells: tuple[PeerCell, ...]
    calls: tuple[JudgeCall, ...] = ()


async def score_all(
    peers: Sequence[PeerModel],
    answer: PeerAnswer,
    *,
    query: str,
    rubric: str,
    include_self: bool = True,
    again: bool = False,
    known: Sequence[PeerCell] = (),
) -> Column:
    """All judges' scores of one answer at once; where there is no answer, cells that say so and no calls.

    Args:
        peers: the judges.
        answer: what they judge.
        query: what it answers.
        rubric: by what they judge.
        include_self: whether the candidate is among its judges.
        again: a judge that fails is asked once more.
        known: scores that an earlier run has paid for.
    """
    judging = [each for each in peers if include_self or each.name != answer.candidate]
    response = answer.answer
    if response is None:
        empty = (PeerCell(each.name, answer.candidate, "policy_failed", error=answer.error) for each in judging)
        return Column(answer, tuple(empty))

    scores = {cell.judge: cell for cell in known if cell.score is not None and cell.candidate == answer.candidate}

    async def one(judge: PeerModel) -> tuple[PeerCell, tuple[JudgeCall, ...]]:
        if judge.name in scores:
            return scores[judge.name], ()
        cell, judgment = await judge.score(answer.candidate, query=query, response=response, rubric=rubric)
        if cell.score is not None or not again:
            return cell, judgment.calls
        cell, second = await judge.score(answer.candidate, query=query, response=response, rubric=rubric)
        return cell, (*judgment.calls, *second.calls)

    scored = await asyncio.gather(*(one(judge) for judge in judging))
    calls = [
        dataclasses.replace(call, name=f"{judge.name}_of_{answer.candidate}_{call.name}")
        for judge, (_, made) in zip(judging, scored, strict=True)
        for call in made
    ]
    return Column(answer, tuple(cell for cell, _ in scored), tuple(calls))


def combined(columns: Sequence[Column], peers: Sequence[PeerModel]) -> Judgment[PeerTable]:
    """One query as one judgment: the mean of its scores, from 0 to 100; it fails only if no cell has a score.

    Args:
        columns: the candidates' answers with their cells.
        peers: the judges; cells come in their order, those of the first judge first.
    """
    cells = tuple(cell for judge in peers for column in columns for cell in column.cells if cell.judge == judge.name)
    calls = tuple(call for column in columns for call in column.calls)
    table = PeerTable(tuple(column.answer for column in columns), cells)
    scores = [cell.score for cell in cells if cell.score is not None]
    if scores:
        said = "\n\n".join(f"{cell.judge}: {cell.score}. {cell.reasoning}" for cell in cells if cell.score is not None)
        return Judgment(sum(scores) / len(scores), Status.OK, explanation=said, calls=calls, detail=table)
    reasons = "; ".join(dict.fromkeys(cell.error for cell in cells if cell.error))
    unparsable = any(cell.status == Status.UNPARSABLE.value for cell in cells)
    status = Status.UNPARSABLE if unparsable else Status.JUDGE_FAILED
    return Judgment(None, status, explanation=reasons, calls=calls, detail=table)


def calls_and_price(
    candidates: Sequence[ModelSettings],
    judges: Sequence[ModelSettings],
    queries: Sequence[tuple[str, str]],
    *,
    rounds: int,
    include_self: bool,
) -> str:
    """What a run will call and roughly cost, in one line.

    Args:
        candidates: who answers.
        judges: who judges.
        queries: each query with its rubric.
        rounds: of critique, at the most.
        include_self: whether models judge themselves.
    """
    answers = judgments = 0
    cost = 0.0
    for query, rubric in queries:
        asked = len(query) / _CHARACTERS_A_TOKEN
        shown = asked + len(rubric) / _CHARACTERS_A_TOKEN + _ANSWER_TOKENS
        for candidate in candidates:
            if candidate.base_url is not None:
                answers += 1
                cost += asked * candidate.price_input + _ANSWER_TOKENS * candidate.price_output
            for judge in judges:
                if include_self or judge.name != candidate.name:
                    judgments += 1
                    once = shown * judge.price_input + _JUDGMENT_TOKENS * judge.price_output
                    cost += once * (1 + rounds)
    total = answers + judgments * (1 + rounds)
    price = f"about ${cost / 1e6:.2f}" if cost else "no price is known (price_input, price_output of the models)"
    critiques = f" and up to {judgments * rounds} critiques: up to {total} calls" if rounds else f": {total} calls"
    lengths = f" at {_ANSWER_TOKENS} tokens an answer and {_JUDGMENT_TOKENS} a judgment" if cost else ""
    return f"{answers} answers, {judgments} judgments{critiques}; {price}{lengths}"
