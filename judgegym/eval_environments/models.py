"""Models that an evaluation compares: their settings, and rows that several candidates answer.

A candidate answers at its endpoint, from a file, or from an earlier run of a policy or of
candidates.

Guarantee: its answer is a completion like a policy's, with thinking split off and faults recorded;
a failure of its endpoint is a reply without a completion, never an exception.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_settings import NoDecode
from typing_extensions import Self

from judgegym.data.answers import load_answers
from judgegym.data.rows import Task, TaskT
from judgegym.data.task_list import list_uids
from judgegym.engine.completions import Completion, Conversation, Policy, read_completion
from judgegym.engine.records import Sample, SampleRun, digest, explain_errors
from judgegym.engine.settings import EnvConfig, EnvSettings
from judgegym.engine.settings.policy import CALLS, STAND_IN_POLICY
from judgegym.environments.base import DetailT
from judgegym.environments.contract import make_conversations
from judgegym.environments.evaluate.row import RowRunner
from judgegym.judges.config.endpoint import (
    CALL_NAMES,
    EndpointSettings,
    SettingNames,
    Settings,
    flat_names,
)
from judgegym.judges.config.field_types import BaseUrls, ExtraBody, FinishReasons, ModelName
from judgegym.judges.config.fields import operational, setting
from judgegym.judges.config.judge import FLAT_NAMES
from judgegym.judges.core.judgment import CallRun, Judgment
from judgegym.judges.core.naming import slug
from judgegym.llm import wire
from judgegym.llm.at_once import gather_results
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import EndpointError, SettingsError
from judgegym.llm.ledger import component
from judgegym.llm.providers import ApiName
from judgegym.llm.types import ChatSettings
from judgegym.llm.wire import JSON, Choice
from judgegym.reports.results.answers import (
    AnswersReader,
    EarlierAnswers,
    RowAnswers,
    are_verdicts,
    find_run,
)
from judgegym.reports.results.run import SavedRun

_KEPT = {field.name: field.name for field in dataclasses.fields(Completion)}
_KEPT |= {"answer": "model_answer", "short": "short_response"}
"""Fields of a completion in a candidate's answer, with their names in a line of a policy's run."""
_COMPLETION_ADAPTER = TypeAdapter(Completion)


class CandidatesAnswers(AnswersReader):
    """Reader of one candidate's answers by its name; in a run of one policy, of the policy's."""

    def __init__(self, name: str) -> None:
        """Read the answers of the candidate `name`."""
        self._name = name

    def read_sample_answer(self, sample: Sample[JSON]) -> tuple[tuple[Completion, ...], str | None]:
        """Return the candidate's answer, or why there is none.

        Raises:
            ValueError: the run compares other candidates.
        """
        answers = sample.detail.get("answers") if isinstance(sample.detail, Mapping) else None
        if sample.completions or not isinstance(answers, Sequence):
            return super().read_sample_answer(sample)
        by_name = {answer["candidate"]: answer for answer in answers if isinstance(answer, Mapping)}
        if self._name not in by_name:
            names = ", ".join(map(repr, by_name))
            raise ValueError(f"the run has no candidate {self._name!r}; its candidates are {names}")
        entry = by_name[self._name]
        if isinstance(entry.get("answer"), str):
            return (_read_completion(entry),), None
        error = entry.get("error")
        return (), error if isinstance(error, str) else "the candidate never answered"

    def parse_conversation_number(self, component: str) -> int | None:
        """Return the number of a call's conversation in its row; a candidate has one."""
        if component == f"candidate_{self._name}/policy":
            return 0
        return super().parse_conversation_number(component)


def _read_completion(answer: Mapping[str, JSON]) -> Completion:
    """Return the completion of an answer, with the fields that its run has kept.

    Raises:
        ValueError: a field has the wrong type.
    """
    fields = {line_name: answer[name] for name, line_name in _KEPT.items() if name in answer}
    try:
        return _COMPLETION_ADAPTER.validate_json(wire.dumps(fields), strict=True)
    except ValidationError as error:
        raise ValueError(explain_errors(error)) from error


class Candidate:
    """A model that answers, at its endpoint, from a file or from a run."""

    def __init__(
        self, name: str, policy: Policy | None, config: EnvConfig, *, answers: Path | None = None
    ) -> None:
        """Answer through `policy`, or from a file or a run directory."""
        self.name = name
        self._policy = policy
        self._file = answers
        self._config = config
        self._answers: Mapping[str, str] = {}
        self.earlier: EarlierAnswers | None = None
        """Run whose answers it gives, if any."""

    @property
    def asks_endpoint(self) -> bool:
        """Whether its answers come from an endpoint."""
        return self._policy is not None

    def load(
        self,
        tasks: Sequence[TaskT],
        conversations: Callable[[TaskT], Sequence[Conversation]],
        environment: str,
    ) -> None:
        """Read its answers, if they are in a file or a run directory.

        Args:
            tasks: the rows that need an answer.
            conversations: the conversations that a policy would get for a row.
            environment: the name of the environment that evaluates.

        Raises:
            DataError: the answers cannot be loaded, one is missing, or they answer other questions.
            RunDirectoryError: the run directory is damaged.
        """

        def refusal(run: SavedRun, task: Task, row: RowAnswers) -> str | None:
            if are_verdicts(run, row, environment):
                return "they are verdicts of a policy that judged"
            return None

        if self._file is None:
            return
        run_path = find_run(self._file)
        if run_path is None:
            self._answers = load_answers(self._file, tasks)
        else:
            self.earlier = EarlierAnswers(run_path, list_uids(tasks), CandidatesAnswers(self.name))
            self.earlier.check(tasks, conversations, refusal)

    def find_stored_answer(self, uid: str) -> str | tuple[Completion, ...] | None:
        """Return its stored answer, if any; from a run also the reason why there is none."""
        if self.earlier is None:
            return self._answers.get(uid)
        row = self.earlier[uid]
        return row.completions or row.policy_error

    async def reply(
        self, uid: str, conversation: Conversation
    ) -> tuple[Completion | str, CallRun | None]:
        """Return its completion of a row, or why there is none, and the call if one was made."""
        if self.earlier is not None:
            row = self.earlier[uid]
            return row.completions[0] if row.policy_error is None else row.policy_error, None
        if self._policy is None:
            return read_completion(Choice(self._answers[uid]), self._config), None
        try:
            return await self._policy.complete(conversation)
        except EndpointError as error:
            return f"the candidate at {error}", CallRun(attempts=error.attempts, usage=error.usage)


AnswerT = TypeVar("AnswerT")


class CandidatesRunner(RowRunner[TaskT, DetailT], Generic[TaskT, DetailT, AnswerT]):
    """Runs rows that candidates answer; the policy of the `openai` settings is not called."""

    keeps_completions = False

    @property
    @abstractmethod
    def candidates(self) -> Sequence[Candidate]:
        """Candidates.

        Raises:
            SettingsError: there is no candidate, or an API key is missing.
        """

    @abstractmethod
    async def read_reply(self, task: TaskT, candidate: str, reply: Completion | str) -> AnswerT:
        """Make a candidate's answer to a row from its completion, or from why there is none."""

    @abstractmethod
    def find_answer_error(self, answer: AnswerT) -> str | None:
        """Return why a candidate has no answer to a row; `None` if it has one."""

    @abstractmethod
    async def judge_answers(self, task: TaskT, answers: Sequence[AnswerT]) -> Judgment[DetailT]:
        """Judge the answers to a row; at least one is there."""

    def prepare(self, tasks: Sequence[TaskT]) -> None:
        """Open the candidates, and read the answers that are in files and run directories.

        Raises:
            DataError: a candidate's answers cannot be loaded, or answer other questions.
            RunDirectoryError: a run directory is damaged.
            SettingsError: a model is missing, or its API key is.
        """
        if self._env.config.model_answers is not None:
            raise SettingsError(
                "--env.model_answers: give answers, or a run directory, as a candidate: "
                '{"name": "…", "answers": "file.jsonl"}'
            )
        for candidate in self.candidates:
            candidate.load(tasks, self._env.conversations, self._env.spec.name)

    async def finish(self, task: TaskT) -> Sample[DetailT]:
        """Ask all candidates at once, and judge the answers."""
        started = time.monotonic()
        (conversation,) = make_conversations(self._env, task)

        async def ask(candidate: Candidate) -> tuple[AnswerT, CallRun | None]:
            with component(f"candidate_{candidate.name}"):
                reply, run = await candidate.reply(task.uid, conversation)
                return await self.read_reply(task, candidate.name, reply), run

        replies = await gather_results(map(ask, self.candidates))
        answers = [answer for answer, _ in replies]
        run = SampleRun(
            time.monotonic() - started, tuple(run for _, run in replies if run is not None)
        )
        digest = self.digest(task)
        sample = Sample[DetailT](
            task.uid, task.category, task.question, run=run, task_digest=digest
        )
        errors = {
            candidate.name: self.find_answer_error(answer)
            for candidate, answer in zip(self.candidates, answers, strict=True)
        }
        if None not in errors.values():  # no judge was called, so none has failed
            reasons = {str(error) for error in errors.values()}
            if len(reasons) > 1:
                reasons = {"; ".join(f"{name}: {error}" for name, error in errors.items())}
            return replace(sample, policy_error=reasons.pop())
        judgment = await self.judge_answers(task, answers)
        judge_calls = {call.name: call.run for call in judgment.calls} or None
        run = SampleRun(time.monotonic() - started, run.policy_calls, judge_calls)
        return replace(sample, run=run, judgment=judgment, score=judgment.score)

    @property
    def subject(self) -> str:
        """Names of the candidates."""
        return ", ".join(candidate.name for candidate in self.candidates)

    @property
    def answers_run(self) -> JSON:
        """The runs whose answers are reused, by candidate; `None` if there are none."""
        runs = {
            candidate.name: candidate.earlier.to_json()
            for candidate in self.candidates
            if candidate.earlier is not None
        }
        return runs or None

    @property
    def notices(self) -> Sequence[str]:
        """Lines that name the candidates whose answers come from a run."""
        return [
            f"{candidate.name}: {candidate.earlier.description}"
            for candidate in self.candidates
            if candidate.earlier is not None
        ]

    def digest(self, task: TaskT) -> str:
        """Return a digest of the row, and of the answers in files and runs."""
        return digest(
            task,
            {
                candidate.name: candidate.find_stored_answer(task.uid)
                for candidate in self.candidates
            },
        )


def make_csv(rows: Iterable[Sequence[str]]) -> bytes:
    """Format a table as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8", "replace")


_OFFLINE_MODELS = 3
_MAX_NAMES = 2


class ModelSettings(Settings):
    """Settings of a model."""

    name: str = Field(
        min_length=1, description="Call the model by this unique name in tables and metrics."
    )
    model_name: ModelName | None = setting(None)
    """Ask for this model at the endpoint; if unset, for name."""
    base_url: BaseUrls | None = operational(None)
    """Call the model at this OpenAI-compatible URL; separate several replicas with commas."""
    api: ApiName = operational("openai")
    """Ask the model in this form: openai, anthropic or litellm."""
    api_key: SecretStr | None = operational(None)
    """Send this API key. Prefer api_key_env, which keeps the key out of files."""
    api_key_env: str = operational("OPENAI_API_KEY")
    """Read the API key from this environment variable."""
    answers: Path | None = setting(None)
    """Take the answers of this JSONL file (fields uid and answer) or run directory instead of
    asking an endpoint."""
    extra_body: ExtraBody = setting({})
    """Add these fields to each request."""
    finish_reasons: FinishReasons = operational([])
    """Take these finish reasons of the endpoint, beside the known ones, to mean a whole answer."""
    max_concurrency: int = operational(64, ge=1)
    """Send at most this many requests at once."""
    price_input: float | None = operational(None, ge=0)
    """Report the cost with this price in US dollars for a million prompt tokens; if no price is
    set, with those of the table of list prices, or else the cost is unknown."""
    price_output: float | None = operational(None, ge=0)
    """Report the cost with this price in US dollars for a million completion tokens; if no price is
    set, with those of the table of list prices, or else the cost is unknown."""
    price_cached_input: float | None = operational(None, ge=0)
    """Report the cost with this price in US dollars for a million prompt tokens that the endpoint
    had in a prefix cache; if unset, they cost what all prompt tokens cost."""

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if (self.base_url is None) == (self.answers is None):
            raise ValueError(
                f"the model {self.name!r} needs either a base_url or a file of answers"
            )
        return self

    @property
    def endpoint(self) -> EndpointSettings:
        """Endpoint of the model, without the settings of its calls."""
        return EndpointSettings().add(self, _NAMES, model=self.model_name or self.name)

    @property
    def identity(self) -> str:
        """All settings that a client depends on; models with the same identity share a client."""
        key = "" if self.api_key is None else self.api_key.get_secret_value()
        settings = self.model_dump_json(exclude={"name", "model_name", "api_key", "answers"})
        return f"{self.model_name or self.name} {key} {settings}"

    def chat_settings(self, config: EnvConfig, *, timeout_s: float | None = None) -> ChatSettings:
        """Return the settings of the model's chat client, with a judge's sampling by default.

        Args:
            config: the environment's settings.
            timeout_s: the timeout of one attempt of a call, for a model that only answers and is
                called as a policy; by default it may judge, too.

        Raises:
            SettingsError: the endpoint needs a key, and none is set.
        """
        endpoint = self.endpoint.add(config, _JUDGE_CALLS)
        if timeout_s is not None:
            endpoint = endpoint.add(config, CALLS, timeout=timeout_s)
        title = f"the model {self.name!r}"
        names = SettingNames(
            title,
            f"{title}: ",
            "env.",
            base_url=f"base_url of {self.name!r}",
            prices="price_input and price_output",
            max_tokens="--env.judge_max_tokens",
        )
        return endpoint.chat_settings(
            names,
            retry_delay=config.retry_delay,
            thinking_markers=config.added_markers,
            takes_tool_calls=timeout_s is not None,
        )


_NAMES = flat_names(ModelSettings)
_JUDGE_CALLS = {
    name: FLAT_NAMES[name]
    for name in ("temperature", "max_tokens", "timeout", "deadline", "max_retries", *CALL_NAMES)
}
"""Settings of a judge's calls, by their names in an endpoint."""


def _from_json(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return wire.loads(value)
    except ValueError as error:
        example = '[{"name": "a", "answers": "a.jsonl"}]'
        raise ValueError(f"expected a JSON list of models, such as {example}: {error}") from None


def check_names(models: list[ModelSettings]) -> list[ModelSettings]:
    """Return the models, after a check that their names differ.

    Raises:
        ValueError: two models have the same name.
    """
    slugs = [slug(model.name) for model in models]
    duplicates = [
        model.name
        for model, other_slug in zip(models, slugs, strict=True)
        if slugs.count(other_slug) > 1
    ]
    if len(set(duplicates)) == 1:
        raise ValueError(f"two models have the name {duplicates[0]!r}")
    if duplicates:
        names = ", ".join(map(repr, duplicates))
        raise ValueError(f"models with the same name, as metrics have it: {names}")
    pairs = {"_".join(pair): pair for pair in permutations(slugs, 2)}
    if len(pairs) < len(slugs) * (len(slugs) - 1):
        clash = next(pair for pair in permutations(slugs, 2) if pairs["_".join(pair)] != pair)
        name = "_".join(clash)
        raise ValueError(
            f"two pairs of models have the name {name!r}, as metrics have it; choose others"
        )
    return models


Models = Annotated[
    list[ModelSettings], NoDecode, BeforeValidator(_from_json), AfterValidator(check_names)
]
"""Models from YAML or a JSON list."""


def select_models(models: list[ModelSettings], settings: EnvSettings[Any]) -> list[ModelSettings]:
    """Return the models to compare: those of the settings, or three stand-ins with `--offline`.

    There are stand-ins only if the settings have no models.
    """
    if models or "policy" not in settings.stand_ins:
        return models
    names = [f"{STAND_IN_POLICY}-{number}" for number in range(1, _OFFLINE_MODELS + 1)]
    return [ModelSettings(name=name, base_url=settings.openai.base_url) for name in names]


def open_candidates(
    models: Sequence[ModelSettings],
    config: EnvConfig,
    get_client: Callable[[ModelSettings], ChatClient],
) -> list[Candidate]:
    """Return the models as candidates; those with an endpoint answer by their client.

    Raises:
        SettingsError: an API key is missing.
    """
    policies = [
        None if model.base_url is None else Policy(get_client(model), config) for model in models
    ]
    pairs = zip(models, policies, strict=True)
    return [Candidate(model.name, policy, config, answers=model.answers) for model, policy in pairs]


def list_urls(models: Sequence[ModelSettings]) -> tuple[str, ...]:
    """Return the base URLs of the models that have an endpoint."""
    return tuple(model.base_url for model in models if model.base_url is not None)


def join_names(models: Sequence[ModelSettings]) -> str:
    """Return the names of the first two models and the number of others, for the name of a run."""
    names = [model.name for model in models[:_MAX_NAMES]]
    more = len(models) - _MAX_NAMES
    if more > 0:
        names.append(f"{more} more")
    return "+".join(names)
