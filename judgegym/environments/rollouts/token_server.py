"""Rollouts from Atropos' token-level servers (`server_type` vllm, sglang or trl).

This module imports atroposlib, which takes seconds; import it only where such a server is used.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Any

import aiohttp
from atroposlib.envs.server_handling.server_baseline import APIServerConfig
from atroposlib.envs.server_handling.server_manager import ServerManager
from pydantic import ValidationError

from judgegym.engine.completions import Conversation, read_completion
from judgegym.engine.settings import EnvConfig, PolicySettings
from judgegym.environments.rollouts.groups import (
    MASKED,
    MissingTokensError,
    Rollout,
    TokenSequence,
    find_token_fault,
)
from judgegym.environments.rollouts.retokenize import Retokenizer
from judgegym.judges.core.judgment import CallRun
from judgegym.llm.errors import EndpointError, FailureKind
from judgegym.llm.ledger import CallInProgress, RequestRecord
from judgegym.llm.reachability import Reachability
from judgegym.llm.responses.outcome import check_choice, find_exception_kind, find_status_kind
from judgegym.llm.retries.retry import RetryPolicy
from judgegym.llm.types import ChatResponse, Replica
from judgegym.llm.usage import Usage
from judgegym.llm.wire import JSON, Choice

logger = logging.getLogger(__name__)


def make_server_configs(settings: PolicySettings, config: EnvConfig) -> list[APIServerConfig]:
    """Return the policy's servers as Atropos declares them, without its costly health checks."""
    return [
        APIServerConfig(
            base_url=endpoint.base_url,
            api_key=endpoint.api_key.get_secret_value() if endpoint.api_key is not None else "x",
            model_name=endpoint.model,
            server_type=settings.server_type,
            tokenizer_name=config.tokenizer_name or settings.model_name,
            timeout=int(settings.timeout),
            num_max_requests_at_once=settings.num_max_requests_at_once,
            num_requests_for_eval=settings.num_requests_for_eval,
            health_check=False,
        )
        for endpoint in settings.endpoint.servers("--openai.")
    ]


class TokenServer:
    """Source that samples from token-level servers."""

    def __init__(
        self, settings: PolicySettings, config: EnvConfig, retokenizer: Retokenizer
    ) -> None:
        """Create Atropos' server manager."""
        chat = settings.chat_settings(config, max_concurrency=1)
        self._manager = ServerManager(make_server_configs(settings, config))
        self._config = config
        self._retokenizer = retokenizer
        self._replicas = [Replica(endpoint) for endpoint in chat.endpoints]
        self._retries = RetryPolicy(chat.max_retries, chat.retry_delay_s, chat.deadline_s)
        self._reachability = Reachability(self._replicas, chat)
        self._endpoint, self._model = chat.endpoints[0].redacted_url, chat.endpoints[0].model
        self._rules = chat.finish_rules

    @property
    def waiting(self) -> str | None:
        """See `RolloutSource`."""
        return self._reachability.waiting

    def rescale(self, share: float) -> None:
        """Do nothing: Atropos' servers have their own limits."""

    async def decode(self, token: int) -> str | None:
        """See `RolloutSource`."""
        return await self._retokenizer.decode_if_available(token)

    async def sample(self, conversation: Conversation, n: int) -> tuple[list[Rollout], CallRun]:
        """See `RolloutSource`.

        Raise `MissingTokensError` if the numbers of ids and logprobs differ.
        """
        parameters: dict[str, JSON] = {"temperature": self._config.rollout_temperature}
        if self._config.train_max_tokens:
            parameters["max_tokens"] = self._config.train_max_tokens
        call = CallInProgress.begin("policy", 0, self._model, conversation, parameters)
        if call.choices < n:
            await call.ask(
                lambda record: self._ask(conversation, n, parameters, record), keep=_has_logprobs
            )
        (answer,) = call.responses
        rollouts = [
            self._make_rollout(choice, answer.prompt_token_ids or ()) for choice in answer.choices
        ]
        return rollouts, CallRun(answer.latency_s, answer.attempts, answer.cached, answer.usage)

    async def _ask(
        self,
        conversation: Conversation,
        n: int,
        parameters: Mapping[str, JSON],
        record: RequestRecord,
    ) -> ChatResponse:
        """Send requests until there are `n` usable completions, each for the missing ones.

        Raises:
            EndpointError: the policy's deadline passed, or its servers refuse the request.
            EndpointOutage: the servers were never reachable.
        """
        started, away_s, failures, broken = time.monotonic(), 0.0, 0, 0
        prompt, choices = tuple[int, ...](), list[Choice]()
        while len(choices) < n:
            if not self._reachability.is_any_reachable:
                away_s += await self._reachability.wait()
            try:
                prompt, new_choices = await self._attempt(
                    conversation, n - len(choices), parameters, record
                )
                choices += new_choices
            except EndpointError as error:
                failures += 1
                broken += error.kind is FailureKind.BROKEN
                error.attempts = failures
                if error.kind is FailureKind.UNREACHABLE:
                    for replica in self._replicas:
                        self._reachability.note_unreachable(replica, error)
                    continue
                elapsed = time.monotonic() - started - away_s
                pause = self._retries.pause(
                    error, failures=failures, broken=broken, elapsed=elapsed
                )
                if pause is None:
                    raise
                logger.warning("a request to the policy is retried: %s", error)
                await asyncio.sleep(pause)
        seconds = time.monotonic() - started
        attempts = failures + 1
        return ChatResponse(
            tuple(choices[:n]),
            Usage(cost=None),
            latency_s=seconds,
            attempts=attempts,
            prompt_token_ids=prompt,
        )

    async def _attempt(
        self,
        conversation: Conversation,
        n: int,
        parameters: Mapping[str, JSON],
        record: RequestRecord,
    ) -> tuple[tuple[int, ...], list[Choice]]:
        """Send one request; return the prompt's tokens and the usable completions.

        Raises:
            EndpointError: the request failed, or no completion is usable.
        """
        if record.row is not None:
            await record.row.ready()
        record.note_sent()
        async with self._manager.managed_server(tokenizer=self._retokenizer.tokenizer) as managed:
            try:
                answer = await managed.chat_completion(
                    messages=list(conversation), n=n, **parameters
                )
            except Exception as error:  # Atropos' retries raise whatever the last attempt raised
                raise self._convert_error(_unwrap_error(error)) from error
            nodes = managed.get_state()["nodes"]
        for replica in self._replicas:
            replica.note_outcome()
        results = [
            check_choice(_convert_choice(choice, node), self._rules)
            for choice, node in zip(answer.choices, nodes, strict=True)
        ]
        choices = [choice for choice in results if isinstance(choice, Choice)]
        if not choices:
            problem = "no completion"
            if results:
                problem = str(results[0])
            raise EndpointError(FailureKind.BROKEN, endpoint=self._endpoint, answer=problem)
        return tuple(nodes[0].tokens[: _prompt_length(nodes[0])]), choices

    def _convert_error(self, error: BaseException) -> EndpointError:
        """Convert an error of Atropos' client."""
        status = None
        if isinstance(error, aiohttp.ClientResponseError):
            status = error.status
            kind = find_status_kind(status)
        elif isinstance(error, ValidationError):
            # Atropos cannot read the answer, for example one that broke off.
            kind = FailureKind.BROKEN
        else:
            kind = find_exception_kind(error)
        problem = f"none ({error})"
        for replica in self._replicas:
            problem = replica.redact(problem)
        return EndpointError(kind, endpoint=self._endpoint, status=status, answer=problem)

    def _make_rollout(self, choice: Choice, prompt: tuple[int, ...]) -> Rollout:
        completion, logprobs = choice.token_ids or (), choice.logprobs or ()
        if (fault := find_token_fault(completion, logprobs)) is not None:
            raise MissingTokensError(f"{self._endpoint}: {fault}")
        return Rollout(
            read_completion(choice, self._config),
            TokenSequence(prompt, completion, logprobs),
            choice.text,
        )


def _convert_choice(choice: Any, node: Any) -> Choice:
    """Convert a choice of Atropos' client with the tokens of its node."""
    start = _prompt_length(node)
    return Choice(
        choice.message.content or "",
        finish_reason=choice.finish_reason,
        token_ids=tuple(node.tokens[start:]),
        logprobs=tuple(node.logprobs[start:]),
    )


def _has_logprobs(choice: Choice) -> bool:
    """Return whether each token has a logprob; Atropos fills missing ones with 1.0."""
    return find_token_fault(choice.token_ids, choice.logprobs) is None


def _prompt_length(node: Any) -> int:
    return sum(1 for token in node.masked_tokens if token == MASKED)


def _unwrap_error(error: BaseException) -> BaseException:
    """Return the error inside tenacity's wrappers."""
    last = getattr(error, "last_attempt", None)
    cause = None
    if last is not None:
        cause = last.exception()
    if cause is not None:
        return _unwrap_error(cause)
    return error
