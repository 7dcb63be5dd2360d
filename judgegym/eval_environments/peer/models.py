"""The models of peer evaluation: candidates that answer and judges that score, in evaluations and in training."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from judgegym.engine.clients import Clients
from judgegym.engine.completions import Policy
from judgegym.engine.settings import EnvSettings
from judgegym.engine.settings.verbs import Verb
from judgegym.eval_environments.models.candidate import Candidate
from judgegym.eval_environments.models.endpoints import ModelSettings, offline_models
from judgegym.eval_environments.peer.settings import SelfCritiqueConfig
from judgegym.judges.core.judge import Judge
from judgegym.judges.peers.judge import PeerCase, PeerDetail, peer_judge
from judgegym.judges.peers.settings import PeerJudgeSettings
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import SettingsError

POLICY = "policy"
"""The candidate's name in training."""


@dataclass(frozen=True, slots=True)
class PeerModel:
    """A model that judges."""

    name: str
    judge: Judge[PeerCase, PeerDetail]


def peer(name: str, client: ChatClient, settings: PeerJudgeSettings) -> PeerModel:
    """Make a judge of a model."""
    return PeerModel(name, peer_judge(settings, client))


class PeerModels:
    """The candidates and the judges; a model that answers and judges has one client.

    In training the policy is the only candidate, and the judges are frozen.
    """

    def __init__(self, settings: EnvSettings[SelfCritiqueConfig], clients: Clients, verb: Verb) -> None:
        """Open no client yet."""
        self._settings, self._config = settings, settings.env
        self._clients = clients
        self._is_training = verb == "serve"
        self._opened: dict[str, ChatClient] = {}

    @cached_property
    def candidate_settings(self) -> list[ModelSettings]:
        """The settings of the candidates; with --offline and without candidates, three stand-ins."""
        if self._config.candidates or "policy" not in self._settings.stand_ins:
            return self._config.candidates
        return offline_models(self._settings.openai.base_url)

    @cached_property
    def judge_settings(self) -> list[ModelSettings]:
        """The settings of the judges in evaluations: `judges`, or the candidates that have an endpoint."""
        return self._config.judges or [model for model in self.candidate_settings if model.base_url is not None]

    @cached_property
    def candidates(self) -> list[Candidate]:
        """The models that answer in an evaluation.

        Raises:
            SettingsError: there is none, or an API key is missing.
        """
        if self._is_training:
            return [Candidate(POLICY, self._clients.policy, self._config)]
        if not self.candidate_settings:
            raise SettingsError("--env.candidates: evaluate needs models to compare, as YAML or a JSON list")
        return [
            Candidate(
                model.name,
                None if model.base_url is None else Policy(self._client(model), self._config),
                self._config,
                answers=model.answers,
            )
            for model in self.candidate_settings
        ]

    @cached_property
    def judges(self) -> list[PeerModel]:
        """The models that judge in an evaluation.

        Raises:
            SettingsError: there is none, or an API key is missing.
        """
        if self._is_training:
            return self.frozen
        if not self.judge_settings:
            raise SettingsError("--env.judges: no model judges; name some, as YAML or a JSON list")
        return [self._peer(model) for model in self.judge_settings]

    @cached_property
    def frozen(self) -> list[PeerModel]:
        """The models that judge a policy in training.

        Raises:
            SettingsError: an API key is missing.
        """
        named = self._config.judges or [model for model in self._config.candidates if model.base_url is not None]
        if named:
            return [self._peer(model) for model in named]
        return [peer(self._config.judge_model_name, self._clients.judge, self._config)]

    @property
    def pairs(self) -> int:
        """Return the number of cells of one query."""
        return sum(
            self._config.include_self or judge.name != candidate.name
            for judge in self.judges
            for candidate in self.candidates
        )

    def _peer(self, model: ModelSettings) -> PeerModel:
        if model.base_url is None:
            raise SettingsError(f"--env.judges: the model {model.name!r} has a file of answers and cannot judge")
        return peer(model.name, self._client(model), self._config)

    def _client(self, model: ModelSettings) -> ChatClient:
        if model.identity not in self._opened:
            self._opened[model.identity] = self._clients.open_judge(model.chat_settings(self._config))
        return self._opened[model.identity]
