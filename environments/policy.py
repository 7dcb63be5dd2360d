"""The policy: conversations to completions, split into thinking and answer.

The policy is called through the project's chat client and not through Atropos' server manager, which nests three retry
loops, sends a real completion each second as a health check, and runs evaluation under training's limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from environments.settings import EnvConfig
from judges import prompts, thinking
from judges.client import ChatClient
from judges.errors import EndpointError, FailureKind
from judges.judgment import CallRun
from judges.thinking import ThinkingFault
from judges.wire import Choice, Message

Conversation: TypeAlias = Sequence[Message]


@dataclass(frozen=True, slots=True)
class Completion:
    """What a policy wrote.

    Attributes:
        answer: the text to judge: what follows the thinking, or all of it.
        thinking: the thinking, from the text or returned apart from it; empty if there is none.
        thinking_fault: what is wrong with the thinking, `None` if it is valid or was not asked for.
        finish_reason: as the endpoint said; `None` for an answer from a file.
        short: the answer stayed shorter than `min_response_length`.
    """

    answer: str
    thinking: str = ""
    thinking_fault: ThinkingFault | None = None
    finish_reason: str | None = None
    short: bool = False

    @property
    def valid(self) -> bool:
        """Whether the format is as asked for."""
        return self.thinking_fault is None


def system_messages(config: EnvConfig, thinking_prompt: str) -> list[Message]:
    """The system message, if there is one: the thinking prompt (in thinking mode), then the custom system prompt."""
    parts = [config.custom_thinking_prompt or thinking_prompt] if config.thinking_mode else []
    if config.custom_system_prompt:
        parts.append(config.custom_system_prompt)
    return [Message(role="system", content="\n\n".join(parts))] if parts else []


def default_thinking_prompt() -> str:
    """The prompt for thinking that assistants get unless an environment has its own."""
    return prompts.load("thinking_assistant")


class Policy:
    """Asks the policy in evaluation."""

    def __init__(self, client: ChatClient, config: EnvConfig) -> None:
        """Ask through `client`, as `config` says."""
        self.client = client
        self.config = config

    async def complete(self, conversation: Conversation) -> tuple[Completion, CallRun]:
        """One completion; one whose answer is too short is asked for again, up to `max_retries` times.

        An endpoint that answers with nothing, again and again, is a policy whose answer is empty.

        Raises:
            EndpointError: the policy never answered.
        """
        run = CallRun()
        for _ in range(self.config.max_retries + 1):
            completion, once = await self._ask(conversation)
            run = CallRun(run.latency_s + once.latency_s, run.attempts + once.attempts, False, run.usage + once.usage)
            if not completion.short:
                break
        return completion, run

    async def _ask(self, conversation: Conversation) -> tuple[Completion, CallRun]:
        config = self.config
        try:
            answer = await self.client.chat(
                conversation, temperature=config.eval_temperature, max_tokens=config.eval_max_tokens
            )
        except EndpointError as error:
            if error.kind is not FailureKind.EMPTY:
                raise
            return self.read(Choice("")), CallRun(attempts=error.attempts)
        return self.read(answer.first), CallRun(answer.latency_s, answer.attempts, answer.cached, answer.usage)

    def read(self, choice: Choice) -> Completion:
        """A completion from what the endpoint returned, or from a file."""
        return read_completion(choice, self.config)


def read_completion(choice: Choice, config: EnvConfig) -> Completion:
    """Split a choice; a refusal's words are its answer, reasoning returned apart from the text is valid thinking."""
    text = choice.text or choice.refusal or ""
    answer, thought, fault = text.strip() if config.thinking_mode else text, choice.reasoning or "", None
    if config.thinking_mode and choice.reasoning is None:
        parts = thinking.split(text, opened_by_template=config.thinking_opened_by_template)
        answer, thought, fault = parts.answer, parts.thinking, parts.reason
    elif config.thinking_mode and not answer:
        fault = "empty_answer"
    short = len(answer.strip()) < config.min_response_length
    return Completion(answer, thought, fault, choice.finish_reason, short)
