"""Models of peer evaluation: candidates that answer and judges that score.

The module also estimates the calls and the cost of a peer evaluation before it starts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from judgegym.engine.completions import Clients
from judgegym.engine.settings import EnvSettings
from judgegym.engine.settings.verbs import Verb
from judgegym.eval_environments.models import (
    Candidate,
    ModelSettings,
    open_candidates,
    select_models,
)
from judgegym.eval_environments.peer.settings import SelfCritiqueConfig
from judgegym.judges.core.judge import Judge
from judgegym.judges.peers import PeerDetail, PeerTaskJudge
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import SettingsError
from judgegym.llm.usage import Usage

POLICY = "policy"
"""Name of the policy as a candidate in training."""


@dataclass(frozen=True, slots=True)
class PeerModel:
    """One of the judging models, with its judge."""

    name: str
    judge: Judge[PeerDetail]


class PeerModels:
    """Candidates and judges; a model that answers and judges has one client.

    In training the policy is the only candidate, and the judges are frozen.
    """

    def __init__(
        self, settings: EnvSettings[SelfCritiqueConfig], clients: Clients, verb: Verb
    ) -> None:
        """Read the settings; clients are opened later.

        Args:
            settings: the settings of the run.
            clients: opens the clients.
            verb: the command; `serve` trains, all others evaluate.
        """
        self._settings, self._config = settings, settings.env
        self._clients = clients
        self._is_training = verb == "serve"
        self._opened: dict[str, ChatClient] = {}

    @cached_property
    def candidate_settings(self) -> list[ModelSettings]:
        """Settings of the candidates."""
        return select_models(self._config.candidates, self._settings)

    @cached_property
    def judge_settings(self) -> list[ModelSettings]:
        """Settings of the judges in evaluations: `judges`, or candidates with an endpoint."""
        return self._config.judges or [
            model for model in self.candidate_settings if model.base_url is not None
        ]

    @cached_property
    def candidates(self) -> list[Candidate]:
        """Models that answer in this run; in training only the policy.

        Raises:
            SettingsError: there is no candidate, or an API key is missing.
        """
        if self._is_training:
            return [Candidate(POLICY, self._clients.policy, self._config)]
        if not self.candidate_settings:
            raise SettingsError(
                "--env.candidates: evaluate needs models to compare, as YAML or a JSON list"
            )
        return open_candidates(self.candidate_settings, self._config, self._get_client)

    @cached_property
    def judges(self) -> list[PeerModel]:
        """Models that judge in this run; in training the frozen judges.

        Raises:
            SettingsError: there is no judge, or an API key is missing.
        """
        if self._is_training:
            return self.frozen_judges
        if not self.judge_settings:
            raise SettingsError("--env.judges: no model judges; name some, as YAML or a JSON list")
        return [self._open_judge(model) for model in self.judge_settings]

    @cached_property
    def frozen_judges(self) -> list[PeerModel]:
        """Models that judge a policy in training.

        Raises:
            SettingsError: an API key is missing.
        """
        judge_models = self._config.judges or [
            model for model in self._config.candidates if model.base_url is not None
        ]
        if judge_models:
            return [self._open_judge(model) for model in judge_models]
        return [
            PeerModel(
                self._config.judge_model_name, PeerTaskJudge(self._config, self._clients.judge)
            )
        ]

    @property
    def cell_count(self) -> int:
        """Number of pairs of candidate and judge for one query."""
        candidates = {candidate.name for candidate in self.candidates}
        cells = len(self.judges) * len(candidates)
        if self._config.include_self:
            return cells
        return cells - sum(judge.name in candidates for judge in self.judges)

    def _open_judge(self, model: ModelSettings) -> PeerModel:
        if model.base_url is None:
            raise SettingsError(
                f"--env.judges: the model {model.name!r} has a file of answers and cannot judge"
            )
        return PeerModel(model.name, PeerTaskJudge(self._config, self._get_client(model)))

    def _get_client(self, model: ModelSettings) -> ChatClient:
        if model.identity not in self._opened:
            self._opened[model.identity] = self._clients.open_judge(
                model.chat_settings(self._config)
            )
        return self._opened[model.identity]


_ANSWER_TOKENS, _JUDGMENT_TOKENS = 500, 150
"""Assumed lengths of an answer and of a judgment, in tokens."""
_CHARACTERS_PER_TOKEN = 4


def estimate_calls(
    candidates: Sequence[ModelSettings],
    judges: Sequence[ModelSettings],
    queries: Iterable[tuple[str, str]],
    *,
    rounds: int,
    include_self: bool,
) -> str:
    """Return the number of calls and the approximate cost, in one line.

    Args:
        candidates: the models that answer.
        judges: the models that judge.
        queries: each query with its rubric.
        rounds: maximum number of rounds of critique.
        include_self: whether models judge themselves.
    """
    answers = judgments = 0
    usages: defaultdict[str, Usage] = defaultdict(Usage)  # by model
    for query, rubric in queries:
        query_tokens = len(query) // _CHARACTERS_PER_TOKEN
        prompt_tokens = query_tokens + len(rubric) // _CHARACTERS_PER_TOKEN + _ANSWER_TOKENS
        for candidate in candidates:
            if candidate.base_url is not None:
                answers += 1
                usages[candidate.name] += candidate.endpoint.prices.price_usage(
                    Usage(query_tokens, _ANSWER_TOKENS)
                )
            for judge in judges:
                if include_self or judge.name != candidate.name:
                    judgments += 1
                    judge_usage = Usage(
                        prompt_tokens * (1 + rounds), _JUDGMENT_TOKENS * (1 + rounds)
                    )
                    usages[judge.name] += judge.endpoint.prices.price_usage(judge_usage)
    critique_count = judgments * rounds
    total = answers + judgments + critique_count
    call_text = f": {total} calls"
    if rounds:
        call_text = f" and up to {critique_count} critiques: up to {total} calls"
    cost = sum(usages.values(), Usage()).cost
    if cost is not None:
        price = (
            f"about ${cost:.2f} at {_ANSWER_TOKENS} tokens an answer and {_JUDGMENT_TOKENS} a "
            "judgment"
        )
    else:
        unknown = ", ".join(name for name, usage in usages.items() if usage.cost is None)
        price = f"the cost is unknown (set price_input and price_output of {unknown})"
    return f"{answers} answers, {judgments} judgments{call_text}; {price}"
