"""A recorded call as the page shows it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from judgegym.engine.runs.recorded_calls import RecordedCall
from judgegym.llm.wire import Choice
from judgegym.reports.run_page.items import CallView, NamedText


def call_views(calls: Iterable[RecordedCall]) -> list[CallView]:
    """The calls, in the order of their answers; of several completions each is a view, with the usage at the first."""
    return [view for call in calls for view in _views(call)]


def _views(call: RecordedCall) -> Iterator[CallView]:
    answer, choices = call.answer, call.answer.choices
    name = call.component.rpartition("/")[2] if call.group is not None else call.component
    for number, choice in enumerate(choices):
        is_first = number == 0
        usage = answer.usage if is_first and not answer.cached else None
        yield CallView(
            name=name if len(choices) == 1 else f"{name}, {number + 1} of {len(choices)}",
            vote=call.vote,
            model=call.model,
            messages=_messages(call) if is_first else (),
            answer=_text(choice),
            reasoning=choice.reasoning,
            verdict_at=call.verdict_at if is_first else None,
            has_verdict=call.has_verdict,
            finish_reason=choice.finish_reason,
            prompt_tokens=None if usage is None else usage.prompt_tokens,
            cached_prompt_tokens=None if usage is None else usage.cached_prompt_tokens,
            completion_tokens=None if usage is None else usage.completion_tokens,
            cost=None if usage is None else usage.cost,
            seconds=answer.latency_s,
            attempts=answer.attempts,
        )


def _messages(call: RecordedCall) -> tuple[NamedText, ...] | None:
    if call.messages is None:
        return None
    return tuple(NamedText(message["role"], message["content"]) for message in call.messages)


def _text(choice: Choice) -> str:
    return choice.text or choice.refusal or ""
