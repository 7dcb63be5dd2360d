"""Sample rollouts from Atropos' token-level servers (`server_type` vllm, sglang or trl).

This module imports atroposlib, which takes seconds; import it only where such a server is used.
"""

from __future__ import annotations

import time
from typing import Any

import aiohttp
from atroposlib.envs.server_handling.server_baseline import APIServerConfig
from atroposlib.envs.server_handling.server_manager import ServerManager

from environments.completions import Conversation, read_completion
from environments.rollouts.retokenize import Retokenizer
from environments.rollouts.rollout import NoTokens, Rollout
from environments.rollouts.sequences import MASKED, TokenSequence
from environments.settings import EnvConfig, PolicySettings
from judges.core.judgment import CallRun
from judges.llm.errors import EndpointError, FailureKind
from judges.llm.replicas import Replica
from judges.llm.retry import classify_exception, classify_status
from judges.llm.usage import Usage
from judges.llm.wire import Choice


def server_configs(settings: PolicySettings, config: EnvConfig) -> list[APIServerConfig]:
    """Return the policy's servers as Atropos declares them; without its health checks, which cost completions."""
    return [
        APIServerConfig(
            base_url=endpoint.base_url,
            api_key=endpoint.api_key.get_secret_value() if endpoint.api_key is not None else "x",
            model_name=endpoint.model,
            server_type=settings.server_type,
            tokenizer_name=config.tokenizer_name,
            timeout=int(settings.timeout),
            num_max_requests_at_once=settings.num_max_requests_at_once,
            num_requests_for_eval=settings.num_requests_for_eval,
            health_check=False,
        )
        for endpoint in settings.endpoints()
    ]


class TokenServer:
    """Samples from token-level servers."""

    def __init__(self, settings: PolicySettings, config: EnvConfig, retokenizer: Retokenizer) -> None:
        """Build Atropos' server manager."""
        first = settings.endpoints()[0]
        self._manager = ServerManager(server_configs(settings, config))
        self._config = config
        self._retokenizer = retokenizer
        self._replica = Replica(first)
        self._endpoint = first.shown

    def rescale(self, share: float) -> None:
        """Do nothing: Atropos' servers have limits of their own."""

    async def sample(self, conversation: Conversation, n: int) -> tuple[list[Rollout], CallRun]:
        """See `RolloutSource`; raise `NoTokens` if the numbers of ids and logprobs differ."""
        started = time.monotonic()
        longest = {"max_tokens": self._config.train_max_tokens} if self._config.train_max_tokens else {}
        async with self._manager.managed_server(tokenizer=self._retokenizer.tokenizer) as managed:
            try:
                answer = await managed.chat_completion(
                    messages=list(conversation), n=n, temperature=self._config.rollout_temperature, **longest
                )
            except Exception as error:  # Atropos' retries raise whatever the last attempt raised
                raise self._failure(_innermost(error)) from error
            nodes = managed.get_state()["nodes"]
        if len(answer.choices) != n:
            problem = f"{len(answer.choices)} completions where {n} were asked for"
            raise EndpointError(FailureKind.MALFORMED, endpoint=self._endpoint, answer=problem)
        rollouts = [self._rollout(choice, node) for choice, node in zip(answer.choices, nodes, strict=True)]
        return rollouts, CallRun(time.monotonic() - started, attempts=1, usage=Usage(cost=None))

    def _failure(self, error: BaseException) -> EndpointError:
        """Convert a failure of Atropos' client."""
        status = error.status if isinstance(error, aiohttp.ClientResponseError) else None
        kind = classify_exception(error) if status is None else classify_status(status)
        problem = self._replica.redact(f"none ({error or type(error).__name__})")
        return EndpointError(kind, endpoint=self._endpoint, status=status, answer=problem)

    def _rollout(self, choice: Any, node: Any) -> Rollout:
        prompt_length = sum(1 for token in node.masked_tokens if token == MASKED)
        completion, logprobs = node.tokens[prompt_length:], node.logprobs[prompt_length:]
        if len(completion) != len(logprobs) or any(logprob > 0 for logprob in logprobs):
            # Atropos fills missing logprobs with 1.0, which is no logprob.
            raise NoTokens(f"{self._endpoint}: {len(completion)} tokens came without a logprob each")
        text = choice.message.content or ""
        sequence = TokenSequence(tuple(node.tokens[:prompt_length]), tuple(completion), tuple(logprobs))
        read = read_completion(Choice(text, finish_reason=choice.finish_reason), self._config)
        return Rollout(read, sequence, text)


def _innermost(error: BaseException) -> BaseException:
    """Return the error inside tenacity's wrappers."""
    last = getattr(error, "last_attempt", None)
    cause = last.exception() if last is not None else None
    return _innermost(cause) if cause is not None else error
