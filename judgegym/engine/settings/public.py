"""Settings without their secrets, which may be written to a file or shown."""

from __future__ import annotations

from pydantic import BaseModel

from judgegym.llm.urls import without_credentials, without_secret_fields
from judgegym.llm.wire import JSON


def without_secrets(model: BaseModel) -> dict[str, JSON]:
    """The settings as JSON, without secrets: API keys, headers, what of URLs and request fields is secret.

    In lists of models the default names of keys' variables are left out, too.
    """
    secret = {name for name, field in type(model).model_fields.items() if "SecretStr" in str(field.annotation)}
    dumped: dict[str, JSON] = model.model_dump(mode="json", exclude=secret)
    for name, value in dumped.items():
        if isinstance(value, str):
            dumped[name] = without_credentials(value)
        elif name.endswith("extra_body"):
            dumped[name] = without_secret_fields(value)
        models = getattr(model, name)
        if isinstance(models, list) and any(isinstance(item, BaseModel) for item in models):
            dumped[name] = [_without_variable(item) for item in models]
    return dumped


def _without_variable(model: BaseModel) -> dict[str, JSON]:
    """One model of a list, without the default name of its key's variable."""
    dumped = without_secrets(model)
    if "api_key_env" not in model.model_fields_set:  # a key whose variable is named may be sent to any host
        dumped.pop("api_key_env", None)
    return dumped
