"""The policy: conversations to completions in evaluation, and to rollouts from Atropos' token-level servers.

In evaluation the policy is called through the project's chat client and not through Atropos' server manager, which
nests three retry loops, sends a real completion each second as a health check, and runs evaluation under training's
limit.
"""

from __future__ import annotations

import time
from typing import Any

import aiohttp
from atroposlib.envs.server_handling.server_baseline import APIServerConfig
from atroposlib.envs.server_handling.server_manager import ServerManager

from environments.completions import Completion, Conversation, read_completion
from environments.rollouts.retokenize import Retokenizer
from environments.rollouts.sequences import MASKED, TokenSequence
from environments.rollouts.sources import NoTokens, Rollout
from environments.settings import EnvConfig, PolicySettings
from judges.core.judgment import CallRun
from judges.llm.client import ChatClient
from judges.llm.errors import EndpointError, FailureKind
from judges.llm.replicas import Replica
from judges.llm.retry import classify_exception, classify_status
from judges.llm.wire import Choice


class Policy:
    """Asks the policy in evaluation."""

    def __init__(self, client: ChatClient, config: EnvConfig) -> None:
        """Ask through `client`, as `config` says."""
        self.client = client
        self.config = config

    async def complete(self, conversation: Conversation) -> tuple[Completion, CallRun]:
        """One completion; one whose answer is too short is asked for again, up to `max_retries` times.

        An answer that is there is kept, whatever becomes of asking again; an endpoint that answers with nothing,
        again and again, is a policy whose answer is empty.

        Raises:
            EndpointError: the policy never answered.
        """
        run, kept = CallRun(), None
        for _ in range(self.config.max_retries + 1):
            try:
                kept, once = await self._ask(conversation)
            except EndpointError as error:
                run = _and(run, CallRun(attempts=error.attempts, usage=error.usage))
                if kept is None and error.kind is FailureKind.EMPTY:
                    kept = read_completion(Choice(""), self.config)
                if kept is None:
                    raise
                break
            run = _and(run, once)
            if not kept.short:
                break
        assert kept is not None  # the loop runs at least once, and ends with an answer or an error
        return kept, run

    async def _ask(self, conversation: Conversation) -> tuple[Completion, CallRun]:
        config = self.config
        answer = await self.client.chat(
            conversation,
            temperature=config.eval_temperature,
            max_tokens=config.eval_max_tokens,
            keep=lambda choice: False,  # a client that judges as well may have a cache; answers are drawn anew
        )
        run = CallRun(answer.latency_s, answer.attempts, answer.cached, answer.usage)
        return read_completion(answer.first, config), run


def _and(first: CallRun, second: CallRun) -> CallRun:
    """Two calls, one after the other, as one."""
    return CallRun(
        first.latency_s + second.latency_s, first.attempts + second.attempts, False, first.usage + second.usage
    )


class TokenServer:
    """Rollouts from Atropos' token-level servers (`server_type` vllm, sglang or trl), as they were sampled."""

    def __init__(self, settings: PolicySettings, config: EnvConfig, retokenizer: Retokenizer) -> None:
        """Build Atropos' server manager; its health checks, which are completions, stay off."""
        endpoints = settings.endpoints()
        servers = [
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
            for endpoint in endpoints
        ]
        self._manager = ServerManager(servers)
        self._config = config
        self._retokenizer = retokenizer
        self._replica = Replica(endpoints[0])
        self._endpoint = endpoints[0].shown

    async def sample(self, conversation: Conversation, n: int) -> tuple[list[Rollout], CallRun]:
        """`n` rollouts of one conversation.

        Raises:
            EndpointError: the server never answered.
            NoTokens: ids and logprobs do not fit together.
        """
        started = time.monotonic()
        longest = {"max_tokens": self._config.train_max_tokens} if self._config.train_max_tokens else {}
        async with self._manager.managed_server(tokenizer=self._retokenizer.tokenizer) as managed:
            try:
                answer = await managed.chat_completion(
                    messages=list(conversation), n=n, temperature=self._config.rollout_temperature, **longest
                )
            except Exception as error:  # Atropos' retries end in whatever the last attempt raised
                raise self._failure(_innermost(error)) from error
            nodes = managed.get_state()["nodes"]
        if len(answer.choices) != n:
            said = f"{len(answer.choices)} completions where {n} were asked for"
            raise EndpointError(FailureKind.MALFORMED, endpoint=self._endpoint, answer=said)
        rollouts = [self._rollout(choice, node) for choice, node in zip(answer.choices, nodes, strict=True)]
        return rollouts, CallRun(time.monotonic() - started, attempts=1)

    def _failure(self, error: BaseException) -> EndpointError:
        """What a failure of Atropos' client is in our terms."""
        status = error.status if isinstance(error, aiohttp.ClientResponseError) else None
        kind = classify_exception(error) if status is None else classify_status(status)
        said = self._replica.redact(f"none ({error or type(error).__name__})")
        return EndpointError(kind, endpoint=self._endpoint, status=status, answer=said)

    def _rollout(self, choice: Any, node: Any) -> Rollout:
        prompt_length = sum(1 for each in node.masked_tokens if each == MASKED)
        completion, logprobs = node.tokens[prompt_length:], node.logprobs[prompt_length:]
        if len(completion) != len(logprobs) or any(each > 0 for each in logprobs):
            # Atropos fills missing logprobs with 1.0, which no token has.
            raise NoTokens(f"{self._endpoint}: {len(completion)} tokens came without a logprob each")
        text = choice.message.content or ""
        sequence = TokenSequence(tuple(node.tokens[:prompt_length]), tuple(completion), tuple(logprobs))
        read = read_completion(Choice(text, finish_reason=choice.finish_reason), self._config)
        return Rollout(read, sequence, text)


def _innermost(error: BaseException) -> BaseException:
    """What is at the bottom of tenacity's wrapping."""
    last = getattr(error, "last_attempt", None)
    cause = last.exception() if last is not None else None
    return _innermost(cause) if cause is not None else error
