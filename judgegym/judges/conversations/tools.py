"""Tool definitions, read from the forms of OpenAI, Anthropic and MCP.

Guarantees: a schema has no null fields, which tables and models fill in. Anything else is never
taken for a definition. The only import is the JSON encoder: a trainer that calls a reward server
reads tools here, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from judgegym.llm import wire
from judgegym.llm.wire import JSON

_SCHEMAS = ("parameters", "input_schema", "inputSchema")


@dataclass(frozen=True, slots=True)
class Tool:
    """Tool definition; `parameters` is its JSON schema without null fields, or `None`."""

    name: str
    description: str = ""
    parameters: JSON = field(default=None, hash=False)  # mappings cannot be hashed

    @property
    def shown(self) -> str:
        """The definition as a judge sees it: a line of JSON."""
        fields = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return wire.dumps({name: value for name, value in fields.items() if value}).decode()


def parse_tools(value: object) -> tuple[Tool, ...] | None:
    """Parse a list of tool definitions, also as JSON text; `None` for anything else.

    The forms of OpenAI and other usual forms are read.

    >>> parse_tools([{"type": "function", "function": {"name": "search"}}])
    (Tool(name='search', description='', parameters=None),)
    """
    try:
        definitions = wire.loads(value) if isinstance(value, str) and value.strip() else value
    except ValueError:
        return None
    tools: list[Tool | None] = []
    if isinstance(definitions, list | tuple):
        tools = [_parse_tool(definition) for definition in definitions]
    elif definitions:
        tools = [None]
    parsed = tuple(tool for tool in tools if tool is not None)
    if len(parsed) < len(tools):
        return None
    return parsed


def _parse_tool(value: object) -> Tool | None:
    fields = value.get("function", value) if isinstance(value, Mapping) else {}
    name = (fields.get("name") or fields.get("type")) if isinstance(fields, Mapping) else None
    if not isinstance(name, str):  # a tool that the endpoint runs has only a type
        return None
    schema = next((fields[field] for field in _SCHEMAS if fields.get(field)), None)
    return Tool(name, str(fields.get("description") or ""), drop_null(schema))


def drop_null(value: JSON) -> JSON:
    """Return a value without the fields that a table or a model filled with null."""
    if isinstance(value, Mapping):
        return {name: drop_null(inner) for name, inner in value.items() if inner is not None}
    if not isinstance(value, list | tuple):
        return value
    return [drop_null(item) for item in value]
