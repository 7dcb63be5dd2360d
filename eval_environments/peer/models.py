"""The models of peer evaluation: candidates that answer and judges that score, in evaluations and in training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from environments.clients import Clients
from environments.completions import Completion, Conversation, Policy, read_completion
from environments.data.answers import load_answers
from environments.data.rows import Task, TaskT
from environments.report.results.answers import RowAnswers, run_of
from environments.report.results.judged_again import JudgedAgain, are_verdicts
from environments.report.results.run import SavedRun
from environments.settings import EnvConfig, EnvSettings
from environments.settings.values import STAND_IN_POLICY
from environments.settings.verbs import Verb
from eval_environments.models.earlier import CandidatesAnswers
from eval_environments.models.endpoints import ModelSettings
from eval_environments.peer.settings import SelfCritiqueConfig
from eval_environments.peer.table import PeerAnswer
from judges.core.judge import Judge
from judges.core.judgment import CallRun
from judges.llm.client import ChatClient
from judges.llm.errors import EndpointError, SettingsError
from judges.llm.wire import Choice
from judges.peers.judge import PeerCase, PeerDetail, peer_judge
from judges.peers.settings import PeerJudgeSettings

POLICY = "policy"
"""The candidate's name in training."""
_OFFLINE_MODELS = 3


class Candidate:
    """A model that answers, at its endpoint, from a file or from a run."""

    def __init__(self, name: str, policy: Policy | None, config: EnvConfig, *, answers: Path | None = None) -> None:
        """Answer through `policy`, or from a file or a run directory."""
        self.name = name
        self._policy = policy
        self._file = answers
        self._config = config
        self._answers: Mapping[str, str] = {}
        self.earlier: JudgedAgain | None = None
        """The run whose answers it gives, if it gives those of a run."""

    def load(self, tasks: Sequence[TaskT], conversations: Callable[[TaskT], Sequence[Conversation]]) -> None:
        """Read its answers, if they are in a file or a run directory.

        Raises:
            DataError: they cannot be loaded, one is missing, or they are to other questions.
            RunDirectoryError: the run directory is damaged.
        """
        if self._file is None:
            return
        run_path = run_of(self._file)
        if run_path is None:
            self._answers = load_answers(self._file, tasks)
        else:
            reader = CandidatesAnswers(self.name)
            self.earlier = JudgedAgain.of(run_path, tasks, conversations, reader=reader, refusal=_refusal)

    def held_answer(self, uid: str) -> str | tuple[Completion, ...] | None:
        """Return its answer from its file or run, if it has one; of a run also the reason why there is none."""
        if self.earlier is None:
            return self._answers.get(uid)
        row = self.earlier.answers[uid]
        return row.completions or row.policy_error

    async def answer(self, uid: str, conversation: Conversation) -> tuple[PeerAnswer, CallRun | None]:
        """Return its answer to a query, or the reason why there is none or why its format is wrong."""
        if self.earlier is not None:
            row, run = self.earlier.answers[uid], None
            if row.policy_error is not None:
                return PeerAnswer(self.name, None, row.policy_error), run
            (completion,) = row.completions
        elif self._policy is None:
            completion, run = read_completion(Choice(self._answers[uid]), self._config), None
        else:
            try:
                completion, run = await self._policy.complete(conversation)
            except EndpointError as error:
                run = CallRun(attempts=error.attempts, usage=error.usage)
                return PeerAnswer(self.name, None, f"the candidate at {error}"), run
        if completion.refused:
            return PeerAnswer(self.name, None, "the candidate refused to answer"), run
        if completion.thinking_fault is not None:
            return PeerAnswer(self.name, None, f"the thinking is malformed: {completion.thinking_fault}"), run
        if not completion.answer.strip():
            return PeerAnswer(self.name, None, "the answer is empty"), run
        return PeerAnswer(self.name, completion.answer), run


def _refusal(run: SavedRun, task: Task, row: RowAnswers) -> str | None:
    return "they are verdicts of a policy that judged" if are_verdicts(run, row, "self_critique") else None


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
        names = [f"{STAND_IN_POLICY}-{number}" for number in range(1, _OFFLINE_MODELS + 1)]
        return [ModelSettings(name=name, base_url=self._settings.openai.base_url) for name in names]

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
