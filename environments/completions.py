"""A policy's completion: what is judged, and whether its format is as asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from environments.settings import EnvConfig
from judges import prompts
from judges.llm.wire import Choice, Message
from judges.parsing import thinking
from judges.parsing.thinking import ThinkingFault

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

    @property
    def unreadable(self) -> str | None:
        """Why no verdict may be read in it: malformed thinking, or a text that was cut off and may end in a quote."""
        return "cut off" if self.finish_reason == "length" else self.thinking_fault


def system_text(config: EnvConfig, thinking_prompt: str) -> str:
    """The thinking prompt (in thinking mode), then the custom system prompt; empty without either."""
    parts = [config.custom_thinking_prompt or thinking_prompt] if config.thinking_mode else []
    if config.custom_system_prompt:
        parts.append(config.custom_system_prompt)
    return "\n\n".join(parts)


def system_messages(config: EnvConfig, thinking_prompt: str) -> list[Message]:
    """`system_text` as a message, if there is any."""
    text = system_text(config, thinking_prompt)
    return [Message(role="system", content=text)] if text else []


def default_thinking_prompt() -> str:
    """The prompt for thinking that assistants get unless an environment has its own."""
    return prompts.load("thinking_assistant")


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
