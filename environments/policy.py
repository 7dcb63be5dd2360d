"""The policy in evaluation: conversations to completions."""

from __future__ import annotations

from environments.completions import Completion, Conversation, read_completion
from environments.settings import EnvConfig
from judges.core.judgment import CallRun
from judges.llm.client import ChatClient
from judges.llm.errors import EndpointError, FailureKind
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
