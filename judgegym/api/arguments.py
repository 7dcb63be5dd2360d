"""The arguments of the judges in Python: checked by the names that the caller knows, and shown to help and Tab."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from pydantic import BaseModel

from judgegym.llm.errors import DataError

ClassT = TypeVar("ClassT", bound=type)


def text(value: object, name: str) -> str:
    """A text as it is.

    Raises:
        DataError: it is no text; the message names the argument.
    """
    if not isinstance(value, str):
        raise DataError(f"{name}: expected a text, found {_found(value)}")
    return value


def optional_text(value: object, name: str) -> str | None:
    """A text as it is, or `None`.

    Raises:
        DataError: it is something else; the message names the argument.
    """
    return None if value is None else text(value, name)


def texts(value: object, name: str) -> list[str]:
    """Texts as a list; a single text becomes a list of one.

    Raises:
        DataError: it is neither; the message names the argument and the place in it.
    """
    if isinstance(value, str):
        return [value]
    if not isinstance(value, Iterable) or isinstance(value, Mapping | bytes):
        raise DataError(f"{name}: expected a text or a list of texts, found {_found(value)}")
    return [text(each, f"{name}[{place}]") for place, each in enumerate(value)]


def without_dashes(message: str, settings: Iterable[str]) -> str:
    """A message about settings as a caller in Python has them: `judge_base_url` for `--judge_base_url`."""
    names = "|".join(sorted(settings, key=len, reverse=True))
    return re.sub(rf"--({names})\b", r"\1", message)


def shows_settings(settings_type: type[BaseModel]) -> Callable[[ClassT], ClassT]:
    """Show the settings that a class takes as keywords, with types and defaults, to `help` and completion."""

    def shown(cls: ClassT) -> ClassT:
        own = inspect.signature(cls)
        parameters = [each for each in own.parameters.values() if each.kind is not each.VAR_KEYWORD]
        parameters += [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.get_default(call_default_factory=True, validated_data={}),
                annotation=field.annotation,
            )
            for name, field in settings_type.model_fields.items()
            if name not in own.parameters
        ]
        cls.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]  # inspect reads it
        return cls

    return shown


def _found(value: object) -> str:
    kind = type(value).__name__
    return f"{value!r} ({kind})" if isinstance(value, int | float) else "None" if value is None else f"a {kind}"
