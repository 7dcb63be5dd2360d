"""A policy and its completions: how it is asked, what of its answer is judged, and whether its format is right.

Only an evaluation asks through `Policy`: training samples its rollouts with their tokens (`environments.rollouts`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, TypeVar

from environments.settings import EnvConfig
from judges import prompts
from judges.core.judgment import CallRun, Judgment, Status
from judges.llm.client import ChatClient
from judges.llm.errors import EndpointError, FailureKind
from judges.llm.usage import Usage
from judges.llm.wire import Choice, Message
from judges.parsing import thinking
from judges.parsing.thinking import ThinkingFault

Conversation: TypeAlias = Sequence[Message]
TaskT = TypeVar("TaskT")
DetailT = TypeVar("DetailT")


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


def system_text(config: EnvConfig, built_in: Literal["thinking_assistant", "thinking_judge"]) -> str:
    """The thinking prompt (in thinking mode; built in unless there is a custom one), then the custom system prompt.

    Empty without either.
    """
    parts = [config.custom_thinking_prompt or prompts.load(built_in)] if config.thinking_mode else []
    if config.custom_system_prompt:
        parts.append(config.custom_system_prompt)
    return "\n\n".join(parts)


def system_messages(config: EnvConfig) -> list[Message]:
    """The system prompt of a policy that answers, as a message, if there is any."""
    text = system_text(config, "thinking_assistant")
    return [Message(role="system", content=text)] if text else []


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
        config, runs, kept = self.config, list[CallRun](), None
        while len(runs) <= config.max_retries and (kept is None or kept.short):
            try:
                answer = await self.client.chat(
                    conversation,
                    temperature=config.eval_temperature,
                    max_tokens=config.eval_max_tokens,
                    keep=lambda choice: False,  # a client that judges as well may have a cache; answers are drawn anew
                )
            except EndpointError as error:
                runs.append(CallRun(attempts=error.attempts, usage=error.usage))
                if kept is None and error.kind is not FailureKind.EMPTY:
                    raise
                kept = kept or read_completion(Choice(""), config)
                break
            runs.append(CallRun(answer.latency_s, answer.attempts, answer.cached, answer.usage))
            kept = read_completion(answer.choices[0], config)
        assert kept is not None  # the loop runs at least once, and ends with an answer or an error
        return kept, runs[0] if len(runs) == 1 else _sum(runs)


def _sum(runs: Sequence[CallRun]) -> CallRun:
    """Several calls, one after the other, as one."""
    usage = sum((run.usage for run in runs), Usage())
    return CallRun(sum(run.latency_s for run in runs), sum(run.attempts for run in runs), False, usage)


async def judge_completions(
    judge: Callable[[TaskT, Sequence[Completion]], Awaitable[Judgment[DetailT]]],
    task: TaskT,
    completions: Sequence[Completion],
    *,
    policy_is_judge: bool,
) -> Judgment[DetailT]:
    """An environment's judgment of completions; the one place that looks at their format.

    Malformed thinking makes the completions invalid without asking the judge. Where the policy is the judge, no verdict
    is read in a completion with malformed thinking or in one that was cut off: `judge` gets it with an empty answer.
    """
    if policy_is_judge:
        return await judge(task, [replace(each, answer="") if each.unreadable else each for each in completions])
    for completion in completions:
        if completion.thinking_fault is not None:
            return Judgment(None, Status.INVALID_COMPLETION, explanation=completion.thinking_fault)
    return await judge(task, completions)
