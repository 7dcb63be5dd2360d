"""Messages about settings, and settings that are texts or files.

Guarantee: a message names the setting, its source and what was expected, and shows no secret.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Annotated, TypeGuard

from pydantic import BaseModel, BeforeValidator, SecretStr
from pydantic_core import ErrorDetails

from judgegym.judges.config.fields import declared_settings, find_classes, find_section
from judgegym.judges.config.one_line_parser import suggest_flags
from judgegym.llm import wire
from judgegym.llm.urls import redact_credentials

_MAX_VALUE_LENGTH = 100
_ALTERNATIVE = re.compile(r"int|float|str|bool|none|constrained-\w+|[\w-]+\[.*\]", re.DOTALL)
"""Pydantic's names for the alternatives of a type in an error's location."""


def explain_flag(
    settings_type: type[BaseModel], message: str, argv: Sequence[str], verb: str | None = None
) -> str:
    """Explain in one line why a command line could not be parsed.

    Args:
        settings_type: the settings.
        message: the parser's message.
        argv: the command line.
        verb: suggests only settings of this verb.
    """
    unknown = re.search(r"unrecognized arguments: (.*)", message)
    unreadable = re.match(r"Parsing error encountered for (\S+):", message)
    if unreadable is not None:
        name = unreadable.group(1)
        words = chain.from_iterable(word.split("=", 1) for word in argv)
        pairs = pairwise(words)  # --name=value, or --name value
        flag_values = [value for flag, value in pairs if flag == f"--{name}"]
        is_shown = flag_values and _is_safe_to_show(settings_type, name.split("."))
        received = ""
        if is_shown:
            received = f", got {flag_values[-1][:_MAX_VALUE_LENGTH]!r}"
        return f"--{name} (command line): cannot be read; expected JSON{received}"
    if unknown is None:
        return "command line: " + re.sub(r"^error parsing CLI: ", "", message)
    flag, _, remainder = unknown.group(1).partition(" ")
    name = flag.lstrip("-").partition("=")[0]
    if not flag.startswith("-"):
        return f"command line: unexpected argument {flag!r}; settings are given as --name=value"
    is_known = remainder and name in _list_names(settings_type, verb)
    if is_known:
        dash_hint = " (a flag of this name exists: does its value begin with a dash?)"
    else:
        dash_hint = ""
    suggestion = suggest_settings(settings_type, name, verb)
    return f"command line: unknown flag --{name}{dash_hint}{suggestion}; --help_all lists all"


def explain_values(
    settings_type: type[BaseModel], errors: Sequence[ErrorDetails], origins: Mapping[str, str]
) -> list[str]:
    """Explain validation errors, one line for each setting."""
    by_place: dict[tuple[str, ...], list[ErrorDetails]] = {}
    for error in errors:
        by_place.setdefault(locate_error(error), []).append(error)
    return [_explain(settings_type, place, wrong, origins) for place, wrong in by_place.items()]


def locate_error(error: ErrorDetails) -> tuple[str, ...]:
    """Return an error's location, by names and indices; without the alternatives of types."""
    return tuple(str(part) for part in error["loc"] if not _ALTERNATIVE.fullmatch(str(part)))


def _explain(
    settings_type: type[BaseModel],
    parts: Sequence[str],
    errors: Sequence[ErrorDetails],
    origins: Mapping[str, str],
) -> str:
    """Explain in one line what is wrong with a setting."""
    error, name = errors[0], ".".join(parts)
    if not name:  # an error of several settings: its message begins with one of them
        problem = _rephrase(error["msg"])
        return f"--{problem}"
    section = find_section(settings_type, name)
    error_text = _rephrase(error["msg"])
    if section is not None and _begins_with_setting(
        section, error_text
    ):  # an error of several settings of a section
        return f"--{name}.{error_text}"
    prefixes = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
    origin_name = next((prefix for prefix in prefixes if prefix in origins), name)
    origin = f" ({origins[origin_name]})" if origin_name in origins else ""
    if error["type"] == "extra_forbidden":
        shown_name = name if name.isprintable() else repr(name)  # the message is one line
        siblings = _list_siblings(settings_type, parts)
        if siblings:
            close = difflib.get_close_matches(parts[-1], siblings, n=1)
            if close:
                hint = f", did you mean {close[0]}?"
            else:
                hint = f"; expected {', '.join(siblings)}"
            return f"{shown_name}{origin}: unknown setting{hint}"
        suggestion = suggest_settings(settings_type, name)
        return f"{shown_name}{origin}: unknown setting{suggestion}"
    if isinstance(error.get("ctx", {}).get("error"), json.JSONDecodeError):
        if _is_safe_to_show(settings_type, parts):
            received = f", got {_describe_received(error['input'])}"
        else:
            received = ""
        return f"--{name}{origin}: expected JSON{received}"
    first, *alternatives = dict.fromkeys(_rephrase(wrong["msg"]) for wrong in errors)
    message = ", or ".join(
        [first, *(alternative.removeprefix("expected ") for alternative in alternatives)]
    )
    is_safe = isinstance(error["input"], int | float | None) or _is_safe_to_show(
        settings_type, parts
    )
    if error["type"] in ("missing", "value_error") or not is_safe:
        return f"--{name}{origin}: {message}"
    error_input = _describe_received(error["input"])
    return f"--{name}{origin}: {message}, got {error_input}"


def _begins_with_setting(section: type[BaseModel], message: str) -> bool:
    """Return whether a message begins with a setting of a section, or a path within one."""
    return message.partition(":")[0].partition(".")[0] in section.model_fields


def _list_siblings(model: type[BaseModel], parts: Sequence[str]) -> list[str]:
    """List the names that an object in a list may have.

    None for a setting outside a list, or in a list of several kinds.
    """
    for part in parts:
        section = find_section(model, part)
        field = model.model_fields.get(part)
        if section is None:
            classes = [] if field is None else find_classes(field.annotation)
            models = [member for member in classes if issubclass(member, BaseModel)]
            if len(models) == 1:
                return list(models[0].model_fields)
            return []
        model = section
    return []


def _rephrase(message: str) -> str:
    """Rephrase pydantic's message in the words of the other messages."""
    message = re.sub(r", unable to parse .*", "", message.removeprefix("Value error, "))
    message = re.sub(r"^Input should be ", "expected ", message)
    return message[:1].lower() + message[1:]


def suggest_settings(settings_type: type[BaseModel], name: str, verb: str | None = None) -> str:
    """Return a suggestion for an unknown name, for the end of a message; may be empty."""
    return suggest_flags(name, _list_names(settings_type, verb))


def _list_names(settings_type: type[BaseModel], verb: str | None) -> list[str]:
    return [setting.name for setting in declared_settings(settings_type, verb=verb)]


def _is_safe_to_show(model: type[BaseModel], parts: Sequence[str]) -> bool:
    """Return whether a value cannot hold a secret: its type has neither a secret nor a model."""
    field = model.model_fields.get(parts[0])
    if field is None:
        return False
    section = find_section(model, parts[0])
    if section is not None:
        return len(parts) > 1 and _is_safe_to_show(section, parts[1:])
    return not any(
        issubclass(member, BaseModel | SecretStr) for member in find_classes(field.annotation)
    )


def _describe_received(value: object) -> str:
    """Return a plain value as text; of any other only its type, as it may hold a secret."""
    plain = str | int | float | None
    if isinstance(value, plain) or (
        isinstance(value, list) and all(isinstance(item, plain) for item in value)
    ):
        return repr(redact_credentials(str(value))[:_MAX_VALUE_LENGTH])
    value_type = type(value).__name__
    return f"a {value_type}"


_MAX_NAME_LENGTH = 1024
_PROMPT_FILE_SUFFIXES = (".yaml", ".yml")
_TEXT_FILE = re.compile(
    r"\S+\.(?:txt|text|md|markdown|rst|ya?ml|jsonl?|toml|csv|j2|jinja2?|prompt)|\S*[/\\]\S*\.[A-Za-z][A-Za-z0-9]{0,5}",
    re.IGNORECASE,
)
"""A word that can only be the name of a text file, because of its ending, or a slash and an
ending."""


def read_text_or_file(value: object) -> object:
    """Read the file of `@path`; return any other value unchanged.

    Raises:
        ValueError: the file cannot be read, or is not UTF-8; or the text is the name of a file
            without the `@`, or looks like the name of a file that does not exist.
    """
    is_name = (
        isinstance(value, str)
        and len(value) <= _MAX_NAME_LENGTH
        and _TEXT_FILE.fullmatch(value) is not None
    )
    if isinstance(value, str) and is_name and not value.startswith("@") and not _is_file(value):
        raise ValueError(
            f"there is no file {value}; expected a text, or @PATH for the text of a file"
        )
    return read_any_text_or_file(value)


def read_any_text_or_file(value: object) -> object:
    """Do the same where a text may look like a file name, such as a rule's expected value."""
    if not isinstance(value, str):
        return value
    if not value.startswith("@"):
        if _is_file(value):
            raise ValueError(f"there is a file of this name; to read it write @{value}")
        return value
    try:
        return (
            Path(value[1:]).expanduser().read_bytes().decode("utf-8")
        )  # byte for byte, newlines included
    except OSError as error:
        raise ValueError(f"{value[1:]} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{value[1:]} is not UTF-8 text") from error


def _is_file(text: str) -> bool:
    """Return whether a text is the name of an existing file with an ending.

    A rubric that is such a name is a mistake.
    """
    if "\n" in text or "." not in text or len(text) > _MAX_NAME_LENGTH:
        return False
    try:
        return Path(text).expanduser().is_file()
    except (OSError, ValueError, RuntimeError):  # not a file name at all, or no home directory
        return False


def is_prompt_file(name: object) -> TypeGuard[str]:
    """Return whether the name of a judge is the path of a prompt file."""
    return (
        isinstance(name, str) and name.lower().endswith(_PROMPT_FILE_SUFFIXES) and "\n" not in name
    )


def split_commas(value: object) -> object:
    """Split `a,b` into a list, or parse a text that begins like JSON.

    Any other value is returned unchanged.

    Raises:
        ValueError: the text begins like JSON but is not JSON.
    """
    if not isinstance(value, str):
        return value
    if value.lstrip()[:1] in ("[", "{"):
        return wire.loads(value)
    return [word for word in map(str.strip, value.split(",")) if word]


TextOrFile = Annotated[str, BeforeValidator(read_text_or_file)]
"""A prompt, a rubric or another text, or `@path` for the text of a file."""
AnyTextOrFile = Annotated[str, BeforeValidator(read_any_text_or_file)]
"""Any text, or `@path` for the text of a file."""


def prompt_digest(prompt: str) -> str:
    """Return the SHA-256 digest of a prompt's UTF-8 bytes, as `sha256sum` does for its file.

    >>> prompt_digest("Judge.")[:19]
    'sha256:581f76da77db'
    """
    digest = hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()
    return f"sha256:{digest}"
