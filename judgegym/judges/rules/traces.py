"""Rules over an agent's turns: which tools it called, in which order, and how it ends.

Guarantees: linear time, except for regular expressions over arguments, which a worker applies;
never raises on any trace. A name of a tool may be a pattern of Python's `fnmatch`. Arguments are
compared as JSON, in which 1 and 1.0 are equal and true is no number. A tool's result is an error if
its format says so, or if it is a JSON object with a non-empty `error`, or with `is_error` or
`isError` true; for any other text it is not known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache, wraps
from itertools import chain, product
from typing import NamedTuple, TypeAlias, cast

from judgegym.judges.conversations.turns import ToolCall, Turn
from judgegym.judges.parsing.thinking import cut_thinking
from judgegym.judges.rules.finding import RuleFinding, cannot_say
from judgegym.llm import wire
from judgegym.llm.wire import JSON

ToolComparison: TypeAlias = Callable[[Sequence[ToolCall], str], RuleFinding]
"""Compares the calls of a trace with the expected tools."""
NO_TRACE = (
    "the response came as a text, so its tool calls are not known; give a list of messages in its "
    "place, such as "
    '[{"role": "assistant", "content": …, "tool_calls": […]}, {"role": "tool", "content": …}, …]'
)
_NAME = re.compile(r"[^\s,{}\"']+")


class _Tool(NamedTuple):
    """Expected tool: its name or a pattern, and a call's arguments or a text about them."""

    name: str
    arguments: Mapping[str, JSON] | str

    @property
    def patterns(self) -> Sequence[JSON]:
        """The arguments as regular expressions."""
        if isinstance(self.arguments, str):
            return [self.arguments]
        return [*self.arguments.values()]


def _parse_tools(expected: str, *, as_text: bool = False) -> list[_Tool]:
    """Parse expected tools: names between commas, or JSON.

    JSON is a name, an object, or a list of these.

    Args:
        expected: the value.
        as_text: arguments may be a text; arguments by name are texts, too: regular expressions.

    Raises:
        ValueError: it names no tool, or has arguments of another form.
    """
    if expected.lstrip()[:1] in ("[", "{"):
        entries = wire.loads(expected)
    else:
        entries = [*map(str.strip, expected.split(","))]
    tools = list[_Tool]()
    for entry in (entries if isinstance(entries, list) else [entries]) or [""]:
        fields = {"name": entry} if isinstance(entry, str) else entry
        if not isinstance(fields, Mapping) or fields.keys() - {"name", "arguments"}:
            raise ValueError("expected names of tools, or objects with name and arguments")
        name, arguments = fields.get("name"), fields.get("arguments", {})
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(
                f"expected the name of a tool, or a pattern such as delete_*, not {name!r:.80}"
            )
        tool = _Tool(name, cast("Mapping[str, JSON] | str", arguments))
        if not (isinstance(arguments, Mapping) or (as_text and isinstance(arguments, str))):
            raise ValueError(f"the arguments of {name}: expected an object")
        for pattern in tool.patterns if as_text else ():
            if not isinstance(pattern, str):
                raise ValueError(
                    f"the arguments of {name}: expected regular expressions, not {pattern!r:.80}"
                )
            re.compile(pattern)
        tools.append(tool)
    return tools


def _parse_object(text: str) -> Mapping[str, JSON] | None:
    try:
        value = wire.loads(text)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    return cast("Mapping[str, JSON]", value)


def _equals_as_json(first: object, second: object) -> bool:
    """Return whether two values are equal as JSON."""
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(
            _equals_as_json(value, second[name]) for name, value in first.items()
        )
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(_equals_as_json, first, second))
    return first == second and isinstance(first, bool) is isinstance(second, bool)


def _matches_call(tool: _Tool, call: ToolCall) -> bool:
    """Return whether a call is of this tool and has these arguments among its own."""
    if not fnmatchcase(call.name, tool.name):
        return False
    arguments, wanted = (
        _parse_object(call.arguments) or {},
        cast("Mapping[str, JSON]", tool.arguments),
    )
    return all(
        name in arguments and _equals_as_json(value, arguments[name])
        for name, value in wanted.items()
    )


def _never_raise(compare: ToolComparison) -> ToolComparison:
    """Make a comparison that never raises: an expected value that names no tools is unusable."""

    @wraps(compare)
    def compare_safely(calls: Sequence[ToolCall], expected: str) -> RuleFinding:
        if not all(call.name for call in calls):
            return cannot_say("a tool call has no name", expected=expected)
        try:
            return compare(calls, expected)
        except (ValueError, OverflowError, re.error) as error:
            return cannot_say(f"cannot be read: {error}", expected=expected, is_unusable=True)
        except RecursionError:
            return cannot_say("the arguments are nested too deeply", expected=expected)

    return compare_safely


def _make_finding(
    *, holds: bool, calls: Sequence[ToolCall], expected: str, why: str = ""
) -> RuleFinding:
    names = ", ".join(call.name for call in calls) or "no tool call"
    return RuleFinding.from_outcome(holds=holds, actual=names, expected=expected, why=why)


@_never_raise
def tool_called(calls: Sequence[ToolCall], expected: str) -> RuleFinding:
    """Check that each expected tool was called with the expected arguments.

    They must be among the arguments of one call. Cannot say: a call has no name.
    """
    holds = all(any(_matches_call(tool, call) for call in calls) for tool in _parse_tools(expected))
    return _make_finding(holds=holds, calls=calls, expected=expected)


@_never_raise
def tool_order(calls: Sequence[ToolCall], expected: str) -> RuleFinding:
    """Check that the tools were called in this order; others may stand between them.

    Cannot say: a call has no name.
    """
    left = iter(calls)  # each search continues after the last match
    holds = all(any(_matches_call(tool, call) for call in left) for tool in _parse_tools(expected))
    return _make_finding(holds=holds, calls=calls, expected=expected)


@lru_cache
def tool_not_called() -> ToolComparison:
    """Check that no call is of one of the tools with arguments that match.

    Cannot say: a call has no name.

    If the arguments of a call are no JSON object, each expression is searched in their whole text,
    so that a call cannot hide behind a broken argument.
    """

    def matches(tool: _Tool, call: ToolCall) -> bool:
        arguments = _parse_object(call.arguments)
        if isinstance(tool.arguments, str):
            # Search in the arguments as written, and without JSON's escapes.
            return any(
                re.search(tool.arguments, text)
                for text in (call.arguments, _argument_text(arguments))
            )
        texts = [
            call.arguments if arguments is None else _argument_text(arguments.get(name))
            for name in tool.arguments
        ]
        return all(
            re.search(cast(str, pattern), text)
            for pattern, text in zip(tool.patterns, texts, strict=True)
        )

    @_never_raise
    def compare(calls: Sequence[ToolCall], expected: str) -> RuleFinding:
        tools = _parse_tools(expected, as_text=True)
        of_tools = (
            (call, tool)
            for call, tool in product(calls, tools)
            if fnmatchcase(call.name, tool.name)
        )
        forbidden = next((call for call, tool in of_tools if matches(tool, call)), None)
        why = ""
        if forbidden is not None:
            why = f"called {forbidden.name}({forbidden.arguments})"
        return _make_finding(
            holds=forbidden is None, calls=calls, expected=f"no call of {expected}", why=why
        )

    return compare


def _argument_text(value: JSON) -> str:
    """Return an argument as a regular expression sees it: a text, or JSON, or nothing."""
    if isinstance(value, str):
        return value
    return "" if value is None else wire.dumps(value).decode()


def ends_with_answer(trace: Sequence[Turn]) -> RuleFinding:
    """Check that the last turn is the assistant's, with an answer, and that no call is open.

    An answer is a text behind the thinking. A call of an earlier turn
    is open if no result answers its id; where results have no ids this is not checked.
    """
    last, answered = trace[-1], {turn.answers for turn in trace}
    has_ids = all(turn.answers for turn in trace if not turn.is_policy_turn)
    earlier: list[ToolCall] = []
    if has_ids:
        earlier_calls = chain.from_iterable(turn.calls for turn in trace[:-1])
        earlier = [call for call in earlier_calls if call.id]
    still_open = [*last.calls, *(call for call in earlier if call.id not in answered)]
    if not last.is_policy_turn:
        return RuleFinding.from_outcome(
            holds=False, actual=f"a turn of the {last.role}", expected="an answer"
        )
    if still_open:
        return RuleFinding.from_outcome(
            holds=False, actual=f"an open call of {still_open[0].name}", expected="an answer"
        )
    text = cut_thinking(last.text).strip()
    return RuleFinding.from_outcome(
        holds=bool(text), actual=text or "a turn without a text", expected="an answer"
    )


def tool_errors(trace: Sequence[Turn]) -> RuleFinding:
    """Compute 1 − the share of tool results that are errors.

    Cannot say: there is no result, or one is unclear.
    """
    results = [_is_error(turn) for turn in trace if turn.role == "tool"]
    unknown = results.count(None)
    if not results:
        return cannot_say("the trace has no tool result")
    if unknown:
        count = len(results)
        return cannot_say(
            f"{unknown} of {count} tool results are no JSON object, and their format does "
            "not say whether they are errors"
        )
    errors = results.count(True)
    count = len(results)
    return RuleFinding(1.0 - errors / count, f"{errors} errors of {count} tool results", "no error")


def _is_error(result: Turn) -> bool | None:
    """Return whether a tool's result is an error; `None` if that is not known."""
    if result.is_error is not None:
        return result.is_error
    value = _parse_object(result.shown)
    if value is None:
        return None
    return bool(value.get("error")) or True in (value.get("is_error"), value.get("isError"))
