"""Settings from keyword arguments; an unknown name is an error."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from judgegym.judges.config.explaining import place_of
from judgegym.llm.errors import SettingsError

ModelT = TypeVar("ModelT", bound=BaseModel)


def settings_from_keywords(model: type[ModelT], values: Mapping[str, object], *, prefix: str = "") -> ModelT:
    """Validate keyword arguments.

    Args:
        model: the settings.
        values: the settings by name.
        prefix: the place of the values, for messages, such as `mounts.safety.`.

    Raises:
        SettingsError: a name is unknown or a value is wrong; the message shows no value, since it may be a key.
    """
    for name in values:
        if name not in model.model_fields:
            close = difflib.get_close_matches(name, list(model.model_fields), n=1, cutoff=0.6)
            hint = f", did you mean {close[0]}?" if close else ""
            raise SettingsError(f"{prefix}{name}: unknown setting of a judge{hint}")
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        message = first["msg"].removeprefix("Value error, ")
        place = ".".join(place_of(first))
        raise SettingsError(f"{prefix}{place}: {message[:1].lower()}{message[1:]}") from None
