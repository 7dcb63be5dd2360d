"""A judge with the resources it needs: its client, its cache and, offline, its stand-in.

Guarantees: nothing is opened before the first call; everything is closed by `close`, at the end of
    a `with` block, or when the process ends; the judge always runs on the process's background
    loop. Errors name arguments as the caller knows them; signatures show all settings to help and
    Tab.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import re
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, TypeVar

from typing_extensions import Self

from judgegym.judges.config.batches import open_client
from judgegym.judges.config.endpoint import STAND_IN_IDENTITY
from judgegym.judges.config.judge import JudgeSettings
from judgegym.judges.config.sources import settings_from_keywords
from judgegym.judges.core.event_loop import BACKGROUND
from judgegym.judges.core.prompt_format import PromptFormat
from judgegym.judges.scorers.stand_in import list_references
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import DataError, SettingsError

SettingsT = TypeVar("SettingsT", bound=JudgeSettings)
JudgeT = TypeVar("JudgeT")
SelfT = TypeVar("SelfT")
ResultT = TypeVar("ResultT")
Arguments = ParamSpec("Arguments")


def make_sync(
    method: Callable[Concatenate[SelfT, Arguments], Coroutine[Any, Any, ResultT]],
) -> Callable[Concatenate[SelfT, Arguments], ResultT]:
    """Wrap an async method for code without `await`."""

    @functools.wraps(method)
    def wrapper(
        self: SelfT, /, *arguments: Arguments.args, **keywords: Arguments.kwargs
    ) -> ResultT:
        try:
            return BACKGROUND.run(method(self, *arguments, **keywords))
        except KeyboardInterrupt as error:
            table = getattr(self, "last_table", None)
            if table is not None:
                error.table = table  # type: ignore[attr-defined]  # what is paid for is not lost
                sys.stderr.write(
                    f"interrupted: {table.judged_words}; the judge's last_table has them\n"
                )
            raise

    wrapper.__doc__ = f"The same as `{method.__name__}`, in code without `await`."
    return wrapper


def check_text(value: object, name: str) -> str:
    """Return a text unchanged.

    Raises:
        DataError: it is no text; the message names the argument.
    """
    if not isinstance(value, str):
        value_kind = describe_kind(value)
        raise DataError(f"{name}: expected a text, found {value_kind}")
    return value


def check_optional_text(value: object, name: str) -> str | None:
    """Return a text unchanged, or `None`.

    Raises:
        DataError: it is something else; the message names the argument.
    """
    if value is None:
        return None
    return check_text(value, name)


def read_list(value: object, name: str, read: Callable[[object, str], ResultT]) -> list[ResultT]:
    """Read each of several answers with `read(value, name)`; a single text is a list of one.

    Raises:
        DataError: it is no list, or an answer cannot be read; the message names the argument and
            the index.
    """
    if isinstance(value, str):
        return [read(value, name)]
    if not isinstance(value, Iterable) or isinstance(value, Mapping | bytes):
        value_kind = describe_kind(value)
        raise DataError(f"{name}: expected a text or a list of texts, found {value_kind}")
    return [read(item, f"{name}[{index}]") for index, item in enumerate(value)]


def describe_kind(value: object) -> str:
    """Describe an argument's type or value, for messages."""
    kind = type(value).__name__
    if isinstance(value, int | float):
        return f"{value!r} ({kind})"
    if value is None:
        return "None"
    return f"a {kind}"


async def stand_in_settings(
    stack: AsyncExitStack, settings: SettingsT, prompts: Sequence[str | PromptFormat] = ()
) -> SettingsT:
    """Return the settings with a stand-in as endpoint, which also knows these prompts.

    `stack` stops the stand-in.

    Raises:
        SettingsError: a prompt cannot be loaded in another process.
    """
    from judgegym.offline import StandIn  # late: only offline use starts a child process

    try:
        stand_in = await stack.enter_async_context(
            StandIn(prompts=[*prompts, *list_references(settings)])
        )
    except (ValueError, RuntimeError) as error:
        raise SettingsError(f"offline: {error}") from error
    return settings.model_copy(
        update={"judge_base_url": stand_in.base_url, "judge_api_key": None, "judge_api": "openai"}
    )


class JudgeSession(Generic[JudgeT]):
    """A judge that connects at its first call, until `close` or the end of the process.

    A subclass names its settings type and the factory that makes the judge; its signature shows all
    settings with types and defaults.
    """

    _settings_type: ClassVar[type[JudgeSettings]]
    _factory: Callable[[Any, ChatClient], JudgeT]
    _offline_prompts: Sequence[str | PromptFormat] = ()
    """Prompts of judges that are not built in, for the stand-in."""

    def __init_subclass__(
        cls, settings: type[JudgeSettings] | None = None, factory: Callable[..., Any] | None = None
    ) -> None:
        """Set the settings type and the judge's factory, and build the signature."""
        super().__init_subclass__()
        if settings is None:
            return
        cls._settings_type = settings
        if factory is not None:
            cls._factory = staticmethod(factory)
        signature = inspect.signature(cls)
        parameters = [
            parameter
            for parameter in signature.parameters.values()
            if parameter.kind is not parameter.VAR_KEYWORD
        ]
        parameters += [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.get_default(call_default_factory=True, validated_data={}),
                annotation=field.annotation,
            )
            for name, field in settings.model_fields.items()
            if name not in signature.parameters
        ]
        cls.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # inspect reads it

    def __init__(self, *, offline: bool = False, **settings: object) -> None:
        """Check the settings; connections are opened at the first call.

        Args:
            offline: use the stand-in as the judge model, without key or network; its scores mean
                nothing.
            settings: the settings by name.

        Raises:
            SettingsError: a setting is unknown or wrong.
        """
        self.settings = settings_from_keywords(self._settings_type, settings)
        self._offline = offline
        self._stack: AsyncExitStack | None = None
        self._judge: JudgeT | None = None
        self._open_lock = asyncio.Lock()

    async def _open_judge(self) -> JudgeT:
        """Open the judge, or return it if it is open. Run this on the background loop.

        Raises:
            SettingsError: the judge cannot be opened with its settings.
        """
        async with self._open_lock:
            if self._judge is None:
                async with AsyncExitStack() as stack:
                    try:
                        settings, identity = self.settings, ""
                        if self._offline and settings.asks_endpoint:
                            settings = await stand_in_settings(
                                stack, settings, self._offline_prompts
                            )
                            identity = STAND_IN_IDENTITY
                        client = await open_client(stack, settings, identity=identity)
                        self._judge = self._factory(self.settings, client)
                    except SettingsError as error:
                        raise SettingsError(self._name_arguments(str(error))) from None
                    self._stack = stack.pop_all()
                BACKGROUND.close_at_exit(self._close)
            return self._judge

    def _name_arguments(self, message: str) -> str:
        """Replace flags in a message by argument names: `judge_base_url` for `--judge_base_url`."""
        names = "|".join(sorted(self._settings_type.model_fields, key=len, reverse=True))
        return re.sub(rf"--({names})\b", r"\1", message)

    async def _close(self) -> None:
        """Close the client; the next call opens another. Run this on the background loop."""
        BACKGROUND.forget(self._close)
        stack, self._stack, self._judge = self._stack, None, None
        if stack is not None:
            await stack.aclose()

    def close(self) -> None:
        """Close the endpoint's connections; the next call opens them again."""
        BACKGROUND.run(self._close())

    def __enter__(self) -> Self:
        """Return the judge."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the endpoint's connections."""
        self.close()
