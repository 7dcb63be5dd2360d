"""The server of a single-turn environment: OpenEnv's `create_app` over one that is open in this process.

Which environment is said by arguments, or by environment variables, as a container has them:

    OPENENV_JUDGEGYM_ENVIRONMENT=arena_hard                             a name, path/to/file.py:Class or module:Class
    OPENENV_JUDGEGYM_SETTINGS='{"judge_model_name": "gpt-4.1-mini"}'    those under `env`, as JSON or YAML, or a file
    OPENENV_JUDGEGYM_SPLIT=train                                        or eval
    OPENENV_JUDGEGYM_SESSIONS=256                                       WebSocket sessions at once

`JUDGEGYM_ENV__…`, `JUDGEGYM_CONFIG` and `JUDGEGYM_OFFLINE` are read as by every command.

Source: openenv 0.10.0, `openenv.core.env_server.http_server`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

from judgegym.judges.config.extras import needs

with needs("openenv"):
    from openenv.core.env_server.http_server import create_app

from starlette.requests import Request
from starlette.responses import JSONResponse

from judgegym.data.rows import Split
from judgegym.integrations.openenv.environment import SingleTurnEnvironment
from judgegym.integrations.openenv.models import CompletionAction, RowObservation, RowState
from judgegym.integrations.single_turn.opened import opened
from judgegym.integrations.single_turn.source import EnvironmentSource
from judgegym.judges.config.presets import load_yaml
from judgegym.llm.errors import SettingsError, UserError

SESSIONS = 256
_VARIABLE = "OPENENV_JUDGEGYM_"


def serve(source: EnvironmentSource, *, sessions: int = SESSIONS) -> Any:
    """The application: a FastAPI app with OpenEnv's routes.

    Args:
        source: the environment; its rows are read now, so that a wrong setting ends the start.
        sessions: how many WebSocket sessions there may be at once.

    Raises:
        SettingsError: a setting is wrong.
        DataError: the rows cannot be loaded.
    """
    environment = opened(source)
    app = create_app(
        partial(SingleTurnEnvironment, environment),
        CompletionAction,
        RowObservation,
        env_name=environment.name,
        max_concurrent_envs=sessions,
        state_cls=RowState,
    )
    app.add_exception_handler(UserError, _refuse)
    return app


def from_variables(variables: Mapping[str, str]) -> Any:
    """The application that environment variables name.

    Raises:
        SettingsError: no environment is named, or a setting is wrong.
        DataError: the rows cannot be loaded.
    """
    named = {name.removeprefix(_VARIABLE): value for name, value in variables.items() if name.startswith(_VARIABLE)}
    environment = named.pop("ENVIRONMENT", "").strip()
    if not environment:
        raise SettingsError(f"{_VARIABLE}ENVIRONMENT: expected the name of an environment, such as arena_hard")
    settings = _settings(named.pop("SETTINGS", ""))
    split, sessions = named.pop("SPLIT", "train"), named.pop("SESSIONS", str(SESSIONS))
    if named:
        known = ", ".join(f"{_VARIABLE}{name}" for name in ("ENVIRONMENT", "SETTINGS", "SPLIT", "SESSIONS"))
        raise SettingsError(f"{_VARIABLE}{next(iter(named))}: unknown; expected one of {known}")
    if not sessions.isdecimal() or int(sessions) < 1:
        raise SettingsError(f"{_VARIABLE}SESSIONS: expected a positive number, found {sessions!r}")
    source = EnvironmentSource.of(environment, settings, split=cast(Split, split))  # `of` checks the split
    return serve(source, sessions=int(sessions))


def _settings(text: str) -> Mapping[str, object]:
    name = f"{_VARIABLE}SETTINGS"
    is_file = text.strip().endswith((".yaml", ".yml", ".json"))
    try:
        values = load_yaml(Path(text.strip()).read_bytes() if is_file else text.encode())
    except OSError as error:
        raise SettingsError(f"{name}: {text} cannot be read: {error.strerror}") from None
    except ValueError:
        raise SettingsError(f"{name}: expected a JSON object, YAML, or the path of a file of these") from None
    if not isinstance(values, Mapping | None):
        raise SettingsError(f"{name}: expected an object of settings, found {type(values).__name__}")
    return values or {}


async def _refuse(request: Request, error: Exception) -> JSONResponse:
    """What the caller can correct is a 400 with the reason; OpenEnv would answer 500 without one."""
    return JSONResponse({"detail": str(error)}, status_code=400)
