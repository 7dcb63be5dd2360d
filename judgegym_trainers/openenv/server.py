"""The server of a single-turn environment: OpenEnv's `create_app` over one in this process.

Arguments name the environment, or environment variables, as in a container:

    OPENENV_JUDGEGYM_ENVIRONMENT=arena_hard   # or path/to/file.py:Class, module:Class
    OPENENV_JUDGEGYM_SETTINGS='{"judge_model_name": "gpt-6-luna"}'   # JSON, YAML, or a file
    OPENENV_JUDGEGYM_SPLIT=train              # or eval
    OPENENV_JUDGEGYM_SESSIONS=256             # WebSocket sessions at once

The settings are those under `env`. `JUDGEGYM_ENV__…`, `JUDGEGYM_CONFIG` and `JUDGEGYM_OFFLINE` are
read as by every command.

The environment is OpenEnv's `Environment`: `reset` returns a row, `step` the reward of a
completion. Guarantees: the row depends on the seed alone; all instances share the environment that
is open in this process, with its judge's limits; any number of sessions is judged at once; a failed
judge is `reward=None`, flagged in the metadata.

Source: openenv 0.10.0, `openenv.core.env_server.http_server`, `openenv.core.env_server.interfaces`.
"""

from __future__ import annotations

import asyncio
import secrets
import uuid
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import JSONResponse

from judgegym.data.rows import Split
from judgegym.judges.config.extras import report_missing_extra
from judgegym.judges.config.presets import load_yaml
from judgegym.judges.core.event_loop import run_blocking
from judgegym.judges.core.seeding import derive_seed
from judgegym.llm.errors import DataError, SettingsError, UserError
from judgegym.llm.wire import Choice
from judgegym_trainers.openenv.client import CompletionAction, RowObservation, RowState
from judgegym_trainers.scores.results import JUDGE_FAILED, CompletionReward
from judgegym_trainers.single_turn import EnvironmentSource, OpenedEnvironment, get_environment

with report_missing_extra("openenv"):
    from openenv.core.env_server.http_server import create_app
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.types import EnvironmentMetadata
    from openenv.core.rubrics import Rubric

SESSIONS = 256
_VARIABLE_PREFIX = "OPENENV_JUDGEGYM_"
_SPLITS: dict[Split, str] = {"train": "train", "eval": "validation"}
"""JudgeGym's splits, with OpenEnv's types of them."""


class RowReward(Rubric):
    """The environment's reward of a completion, as OpenEnv's rubric."""

    def __init__(self, environment: OpenedEnvironment) -> None:
        """Reward with an environment that is open in this process."""
        super().__init__()
        self.environment = environment

    async def forward(self, action: CompletionAction, observation: RowObservation) -> float | None:
        """Return the reward, or `None`; the observation's metadata get the details."""
        choice = Choice(
            action.completion, reasoning=action.reasoning, finish_reason=action.finish_reason
        )
        (result,) = await self.environment.rewards(observation.uid, [choice])
        observation.metadata.update(describe_outcome(result))
        return result.reward


def describe_outcome(result: CompletionReward) -> dict[str, Any]:
    """Return an observation's metadata about a reward."""
    return {
        "judge_failed": result.is_failed,
        "invalid_completion": result.is_invalid,
        **result.outcome,
        "metrics": dict(result.metrics),
    }


class SingleTurnEnvironment(Environment[CompletionAction, RowObservation, RowState]):
    """One session: a row, then its reward; with OpenEnv's routes for tasks."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, environment: OpenedEnvironment) -> None:
        """Begin a session with an environment that is open in this process."""
        self._rewards = RowReward(environment)
        super().__init__(rubric=self._rewards)
        self._default_environment = environment
        self._state = RowState(environment=environment.name, split=environment.source.split)

    async def reset_async(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        uid: str | None = None,
        index: int | None = None,
        split: str | None = None,
        **further: Any,
    ) -> RowObservation:
        """Begin an episode.

        Args:
            seed: selects the row, unless `uid` or `index` does; by default a random seed, which is
                in the metadata.
            episode_id: the episode's id; by default a new one.
            uid: the row's id.
            index: the row's index in the split, from 0.
            split: `train` or `eval`; by default the server's.
            further: what clients may add; not used.

        Raises:
            DataError: there is no such row or split, or `uid` and `index` are both set.
        """
        environment = await self._open_split(split)
        if uid is not None and index is not None:
            raise DataError("reset: expected uid or index, found both")
        if uid is None and index is None:
            seed = secrets.randbits(32) if seed is None else seed
            index = derive_seed(seed, environment.name, "the row of an episode") % len(environment)
        if uid is None:
            if (
                not isinstance(index, int)
                or isinstance(index, bool)
                or not 0 <= index < len(environment)
            ):
                last = len(environment) - 1
                raise DataError(f"index: expected a number from 0 to {last}, found {index!r}")
            uid = environment.uids[index]
        row = environment.row(uid)
        self._rewards.environment = environment
        self._state = RowState(
            episode_id=episode_id or uuid.uuid4().hex,
            environment=environment.name,
            split=environment.source.split,
            uid=row.uid,
        )
        metadata = {"split": environment.source.split, "category": row.category, "seed": seed}
        return RowObservation(
            messages=[dict(message) for message in row.messages],
            uid=row.uid,
            metadata=metadata,
            done=False,
        )

    async def step_async(
        self,
        action: CompletionAction,
        timeout_s: float | None = None,
        split: str | None = None,
        **further: Any,
    ) -> RowObservation:
        """Reward a completion, which ends the episode.

        Args:
            action: the completion.
            timeout_s: seconds after which the judge has failed.
            split: the split of `action.uid`; by default the last reset's, or else the server's.
            further: what clients may add; not used.

        Raises:
            DataError: no row is known, or the episode has ended already.
        """
        uid = action.uid or self._state.uid
        if uid is None:
            raise DataError(
                "step: no row; reset the session first, or name the row in action.uid (POST /step)"
            )
        if self._state.done and action.uid is None:
            raise DataError("step: the episode has ended; reset the session first")
        if split is not None:
            self._rewards.environment = await self._open_split(split)
        metadata = {"split": self._rewards.environment.source.split}
        observation = RowObservation(uid=uid, done=True, metadata=metadata)
        try:
            observation.reward = await asyncio.wait_for(
                self._apply_rubric_async(action, observation), timeout_s
            )
        except asyncio.TimeoutError:
            timeout_result = CompletionReward(
                None, JUDGE_FAILED, explanation=f"no reward within {timeout_s:g} s"
            )
            observation.metadata.update(describe_outcome(timeout_result))
        self._state = self._state.model_copy(
            update={"uid": uid, "step_count": self._state.step_count + 1, "done": True}
        )
        return observation

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **row: Any
    ) -> RowObservation:
        """Begin an episode like `reset_async`, in code without `await`."""
        return run_blocking(self.reset_async(seed, episode_id, **row))

    def step(
        self, action: CompletionAction, timeout_s: float | None = None, **further: Any
    ) -> RowObservation:
        """Reward a completion like `step_async`, in code without `await`."""
        return run_blocking(self.step_async(action, timeout_s, **further))

    @property
    def state(self) -> RowState:
        """The state of the session."""
        return self._state

    def get_metadata(self) -> EnvironmentMetadata:
        """Return the metadata for `GET /metadata`."""
        count = len(self._default_environment)
        split = self._default_environment.source.split
        rows = f"{count} rows, split {split}"
        return EnvironmentMetadata(
            name=self._default_environment.name,
            description=f"JudgeGym's environment {self._default_environment.name}: {rows}",
            version="1",
        )

    def list_splits(self) -> list[dict[str, str]]:
        """List the splits."""
        return [{"name": name, "type": kind} for name, kind in _SPLITS.items()]

    async def num_tasks(self, split: str) -> int:
        """Return the number of rows of a split."""
        return len(await self._open_split(split))

    async def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """Return ids and indices of all rows."""
        return await self.get_task_range(split)

    async def get_task_range(
        self, split: str, start: int | None = None, stop: int | None = None
    ) -> list[dict[str, Any]]:
        """Return ids and indices of some rows."""
        uids = (await self._open_split(split)).uids
        return [{"id": uids[index], "index": index} for index in range(len(uids))[start:stop]]

    async def get_task(self, split: str, index: int) -> dict[str, Any]:
        """Return a row.

        Raises:
            IndexError: there is no row at this index.
        """
        environment = await self._open_split(split)
        if not 0 <= index < len(environment):
            raise IndexError(index)
        row = environment.row(environment.uids[index])
        messages = [dict(message) for message in row.messages]
        return {"id": row.uid, "index": index, "messages": messages, "category": row.category}

    async def _open_split(self, split: str | None) -> OpenedEnvironment:
        """Return the environment of a split; open it in a thread, since that reads its rows."""
        if split is None or split == self._default_environment.source.split:
            return self._default_environment
        if split not in _SPLITS:
            expected = " or ".join(_SPLITS)
            raise DataError(f"split: expected {expected}, found {split!r}")
        return await asyncio.to_thread(
            get_environment, replace(self._default_environment.source, split=split)
        )


def serve(source: EnvironmentSource, *, sessions: int = SESSIONS) -> Any:
    """Make the application: a FastAPI app with OpenEnv's routes.

    Args:
        source: the environment; its rows are read now, so that wrong settings fail at the start.
        sessions: limit of concurrent WebSocket sessions.

    Raises:
        SettingsError: a setting is wrong.
        DataError: the rows cannot be loaded.
    """
    environment = get_environment(source)
    app = create_app(
        partial(SingleTurnEnvironment, environment),
        CompletionAction,
        RowObservation,
        env_name=environment.name,
        max_concurrent_envs=sessions,
        state_cls=RowState,
    )
    app.add_exception_handler(UserError, _respond_with_error)
    return app


def from_variables(variables: Mapping[str, str]) -> Any:
    """Make the application that environment variables describe.

    Raises:
        SettingsError: no environment is named, or a setting is wrong.
        DataError: the rows cannot be loaded.
    """
    values_by_name = {
        name.removeprefix(_VARIABLE_PREFIX): value
        for name, value in variables.items()
        if name.startswith(_VARIABLE_PREFIX)
    }
    environment = values_by_name.pop("ENVIRONMENT", "").strip()
    if not environment:
        raise SettingsError(
            f"{_VARIABLE_PREFIX}ENVIRONMENT: expected the name of an environment, such as "
            "arena_hard"
        )
    settings = values_by_name.pop("SETTINGS", "").strip()
    split = values_by_name.pop("SPLIT", "train")
    sessions = values_by_name.pop("SESSIONS", str(SESSIONS))
    if values_by_name:
        expected = ", ".join(
            f"{_VARIABLE_PREFIX}{name}" for name in ("ENVIRONMENT", "SETTINGS", "SPLIT", "SESSIONS")
        )
        unknown = next(iter(values_by_name))
        raise SettingsError(f"{_VARIABLE_PREFIX}{unknown}: unknown; expected one of {expected}")
    if not sessions.isdecimal() or int(sessions) < 1:
        raise SettingsError(
            f"{_VARIABLE_PREFIX}SESSIONS: expected a positive number, found {sessions!r}"
        )
    is_file = settings.endswith((".yaml", ".yml", ".json"))
    try:
        values = load_yaml(Path(settings).read_bytes() if is_file else settings.encode()) or {}
    except OSError as error:
        raise SettingsError(
            f"{_VARIABLE_PREFIX}SETTINGS: {settings} cannot be read: {error.strerror}"
        ) from None
    except ValueError:
        values = None
    if not isinstance(values, Mapping):
        raise SettingsError(
            f"{_VARIABLE_PREFIX}SETTINGS: expected an object of settings as JSON or YAML, or a "
            "file of these"
        )
    source = EnvironmentSource.from_settings(
        environment, values, split=cast(Split, split)
    )  # `of` checks the split
    return serve(source, sessions=int(sessions))


async def _respond_with_error(request: Request, error: Exception) -> JSONResponse:
    """Respond with 400 and the reason to a caller's mistake; OpenEnv would send a bare 500."""
    return JSONResponse({"detail": str(error)}, status_code=400)
