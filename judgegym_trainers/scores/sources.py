"""Sources of scores for a trainer's reward function: a reward server, or a judge in this process.

Guarantees of a `RewardScorer`:

* A result within the deadline; without a response by then it is a failure.
* It works in any event loop, or without one: the work runs on the process's background loop, which
  closes sessions when the process ends. Identical requests of a batch are sent once.
* A setting that cannot work (an unknown judge or mount, a missing key, a wrong token) raises a
  `SettingsError` at the first request.
* A reward server whose budget is spent raises a `BudgetError`: all further rewards would be
  missing.
* A row that cannot be judged is a `CompletionReward` without a reward, with one warning for each
  reason. If all prompts of a first batch of several prompts, or the first `REFUSED_AT_START`
  requests, are refused, a `SettingsError` says that the settings are wrong. All completions of one
  prompt in a batch count as one request, since that prompt alone may be at fault.
* With a reward server only aiohttp and orjson are imported; a judge in this process needs all
  packages of the judges.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Protocol, cast

from judgegym.judges.core.event_loop import BACKGROUND
from judgegym.judges.core.naming import refuse_unknown
from judgegym.llm import wire
from judgegym.llm.at_once import gather_results
from judgegym.llm.errors import SettingsError
from judgegym.llm.urls import redact_credentials
from judgegym.llm.wire import JSON
from judgegym_trainers.scores.requests import CompletionRow, find_group_error, to_json
from judgegym_trainers.scores.results import (
    REFUSED,
    CompletionReward,
    FirstRequests,
    RefusedError,
    make_failures,
)
from judgegym_trainers.scores.server import ServerSource

if TYPE_CHECKING:
    from typing_extensions import Self

    from judgegym.judges.core.judge import JudgeDefinition

logger = logging.getLogger(__name__)

TIMEOUT_S = 150.0
"""Seconds for one attempt at a reward server."""
DEADLINE_S = 900.0
"""Seconds within which a trainer's function gets its scores."""
_MOST_WARNINGS = 100
_NO_KEY = ("", "none")
"""Values that mean that there is no key."""


class Source(Protocol):
    """Scores requests; always used on the background loop."""

    async def score(self, group: Sequence[CompletionRow]) -> list[CompletionReward]:
        """Return a result for each completion of a request: one, or several that are compared.

        Empty completions have no reward. A failed judge is a result, not an error.

        Raises:
            RefusedError: the request cannot be judged (a missing baseline, a rubric of another
                scale, …).
            SettingsError: no request can be judged.
            BudgetError: no further request will be judged.
        """

    async def close(self) -> None:
        """Close all connections; the next request opens them again."""


class RewardScorer:
    """Scores the completions of a trainer's reward function.

    Attributes:
        first: tells whether all first requests were refused.
    """

    def __init__(
        self,
        source: Source,
        *,
        deadline_s: float | None,
        invalid_completion_score: float | None = None,
    ) -> None:
        """Score with `source`, until the end of the process or until `close`.

        Args:
            source: makes the scores.
            deadline_s: seconds after which a request without a response has no score.
            invalid_completion_score: the reward of an empty completion; `None` for no reward.
        """
        self._source = source
        self._deadline_s = deadline_s
        self._invalid = invalid_completion_score
        self.first_requests = FirstRequests()
        self._logged_refusals: set[str] = set()
        self._is_registered = False

    async def score(
        self, groups: Sequence[Sequence[CompletionRow]]
    ) -> list[list[CompletionReward]]:
        """Return the results of each group's completions, in order.

        Each group is one request, and all are judged concurrently.

        Raises:
            SettingsError: a setting cannot work.
            BudgetError: a budget of the reward server is spent.
        """
        results = await self.score_part(groups)
        self.first_requests.check(zip((group[0].shared for group in groups), results, strict=True))
        return results

    async def score_part(
        self, groups: Sequence[Sequence[CompletionRow]]
    ) -> list[list[CompletionReward]]:
        """Score a part of a batch; call `first.check` with the whole batch afterwards."""
        return await BACKGROUND.join(self._score_groups(groups))

    async def score_each(self, rows: Sequence[CompletionRow]) -> list[CompletionReward]:
        """Return the results of completions that are judged alone.

        Raises:
            SettingsError: a setting cannot work.
        """
        return [result for (result,) in await self.score([[row] for row in rows])]

    async def close(self) -> None:
        """Close the connections; the next request opens them again."""
        await BACKGROUND.join(self._source.close())

    async def _score_groups(
        self, groups: Sequence[Sequence[CompletionRow]]
    ) -> list[list[CompletionReward]]:
        if not self._is_registered:
            self._is_registered = True
            BACKGROUND.close_at_exit(self._source.close)
        keys = [repr(group) for group in groups]
        distinct = dict(zip(keys, groups, strict=True))
        with self.first_requests:
            results_by_key = dict(
                zip(
                    distinct,
                    await gather_results(map(self._score_group, distinct.values())),
                    strict=True,
                )
            )
        return [results_by_key[key] for key in keys]

    async def _score_group(self, group: Sequence[CompletionRow]) -> list[CompletionReward]:
        try:
            if error := find_group_error(group):
                raise RefusedError(error)
            results = await asyncio.wait_for(self._source.score(group), self._deadline_s)
        except asyncio.TimeoutError:
            message = f"no score within {self._deadline_s:g} s"
            logger.warning("%s", message)
            return make_failures(message, len(group))
        except RefusedError as error:
            results = make_failures(str(error), len(group), REFUSED)
        refusal = self.first_requests.add(results)
        if (
            refusal
            and refusal not in self._logged_refusals
            and len(self._logged_refusals) < _MOST_WARNINGS
        ):
            self._logged_refusals.add(refusal)
            logger.warning(
                "a row has no score, because it cannot be judged (logged once for each reason): %s",
                refusal,
            )
        no_reward = [result.is_invalid and result.reward is None for result in results]
        return [
            replace(reward, reward=self._invalid) if is_empty else reward
            for reward, is_empty in zip(results, no_reward, strict=True)
        ]


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


_TEXT = "text"
_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    _TEXT: lambda value: isinstance(value, str),
    "true or false": lambda value: isinstance(value, bool),
    "a mapping": lambda value: isinstance(value, Mapping),
    "leave_out or score": lambda value: value in ("leave_out", "score"),
    "a finite number": _is_finite,
    "a number of seconds above 0": lambda value: _is_finite(value) and value > 0,
}
"""Checks of setting values, by the text that messages use."""
_EXPECTED = {
    **dict.fromkeys(("offline", "together"), "true or false"),
    **dict.fromkeys(("url", "token", "token_env", "mount"), _TEXT),
    **dict.fromkeys(("timeout_s", "deadline_s", "group_wait_s"), "a number of seconds above 0"),
    "judge": "a mapping",
    "on_failure": "leave_out or score",
}
"""Expected type of each setting; settings that are not listed are numbers, or checked elsewhere."""


def check_settings(**settings: object) -> None:
    """Check the types and values of settings.

    Raises:
        SettingsError: a setting has the wrong type, or cannot work.
    """
    for name, value in settings.items():
        expected = _EXPECTED.get(name, "a finite number")
        if not _CHECKS[expected](value):
            description = (
                type(value).__name__ if expected in (_TEXT, "a mapping") else repr(value)
            )  # a text may be a secret
            raise SettingsError(f"{name}: expected {expected}, found {description}")


@dataclass(frozen=True)
class JudgeSource:
    """A source of scores: a reward server, or a judge in the calling process.

    It pickles, and holds no connections. Its `repr` shows neither the token nor the judge's
    settings, which may include an API key.

    Attributes:
        url: URL of a reward server; or
        judge: settings of a judge to run in each process that judges, under the server's names: a
            mapping of any configuration library, or a `JudgeMount`. A mapping may also have
            `offline`, like the attribute, and `monitor`: `run_dir`, `gold_judge` and the server's
            other settings of monitors.
        offline: with `judge`, call the stand-in instead of its endpoint; its scores mean nothing.
        token: the server's bearer token; trainers print and log it with their settings.
        token_env: instead, the environment variable that has the token where the scores are made.
        mount: name of a judge at the server; empty for the judge at the root.
        invalid_completion_score: the reward of an empty completion, which is not judged; `None` for
            no reward.
        timeout_s: seconds for one attempt at the server.
        deadline_s: seconds within which a request gets its scores; without them it has failed.
    """

    url: str | None = None
    judge: Any = field(default=None, repr=False)
    _: KW_ONLY
    offline: bool = False
    token: str | None = field(default=None, repr=False)
    token_env: str | None = None
    mount: str = ""
    invalid_completion_score: float | None = 0.0
    timeout_s: float = TIMEOUT_S
    deadline_s: float = DEADLINE_S

    def __post_init__(self) -> None:
        """Check the types, and convert the judge's settings to JSON.

        Raises:
            SettingsError: a setting has the wrong type, or cannot work.
        """
        if isinstance(self.judge, str):
            raise SettingsError(
                f"judge: expected a mapping of settings, such as {{'judge': 'rubric'}}, found "
                f"{self.judge!r}"
            )
        if hasattr(self.judge, "model_dump"):
            object.__setattr__(self, "judge", self.judge.model_dump(exclude_unset=True))
        settings = {setting.name: getattr(self, setting.name) for setting in fields(self)}
        settings.pop("environment", None)
        check_settings(**{name: value for name, value in settings.items() if value is not None})
        if self.judge is not None:
            object.__setattr__(self, "judge", to_json(self.judge))

    @classmethod
    def from_settings(cls, settings: object, *, within: str) -> Self:
        """Read unchecked settings, in the containers of any configuration library.

        Args:
            settings: the settings by name; null means the default.
            within: their place, for messages.

        Raises:
            SettingsError: they are no mapping, or a setting is unknown or has the wrong type.
        """
        values = to_json(settings or {})
        if not isinstance(values, Mapping):
            kind = type(values).__name__
            raise SettingsError(f"{within}: expected a mapping of settings, found {kind}")
        defaults = {setting.name: setting.default for setting in fields(cls)}
        refuse_unknown(values, defaults, prefix=f"{within}.")
        unset = {name for name, default in defaults.items() if default is None}
        unset &= {name for name, value in values.items() if value is None}
        values = {name: value for name, value in values.items() if name not in unset}
        try:
            check_settings(
                **{name: value for name, value in values.items() if value is None}
            )  # numbers that are not finite
            return cls(**cast("dict[str, Any]", values))
        except SettingsError as error:
            raise SettingsError(f"{within}.{error}") from None

    @property
    def compares(self) -> bool:
        """Whether the judge needs the completions of a prompt together."""
        judge = self._definition
        return (judge is not None and judge.needs_group) or (self.judge or {}).get(
            "group_size"
        ) is not None

    @property
    def depends_on_group(self) -> bool:
        """Whether the judge puts completions judged together on one scale, as a cascade does."""
        if not self.judge:
            return False
        from judgegym.judges.parts.cascade import CascadeSettings  # late, as below

        return self._definition is not None and self._definition.settings is CascadeSettings

    @property
    def _definition(self) -> JudgeDefinition | None:
        """The kind of the judge in this process; `None` if a server judges."""
        if not self.judge:
            return None
        # Late: with a reward server a trainer's environment needs none of the judges' packages.
        from judgegym.judges.scorers.settings import find_named_definition

        return find_named_definition(self.judge)

    def make_scorer(self) -> RewardScorer:
        """Make a scorer with connections of its own.

        Raises:
            SettingsError: neither or both of `url` and `judge` are given, a setting is unknown or
                wrong, or the token's variable is not set.
        """
        if (self.url is None) == (self.judge is None):
            raise SettingsError(
                "expected either url (of a reward server) or judge (to run in this process)"
            )
        source: Source
        if self.url is None:
            server_settings = {
                "mount": self.mount,
                "token": self.token,
                "token_env": self.token_env,
            }
            misplaced = next((name for name, value in server_settings.items() if value), None)
            if misplaced is not None:
                raise SettingsError(f"{misplaced}: only with url; a judge in this process has none")
            # Late: with a reward server a trainer's environment needs none of the judges'
            # packages.
            from judgegym_trainers.scores.in_process import InProcessSource

            source = InProcessSource(self.judge, deadline_s=self.deadline_s, offline=self.offline)
        elif self.offline:
            raise SettingsError(
                "offline: only without url; the server says whether its judge is the stand-in"
            )
        else:
            source = ServerSource(
                self.url,
                token=self.bearer_token(),
                mount=self.mount,
                timeout_s=self.timeout_s,
                deadline_s=self.deadline_s,
            )
        return RewardScorer(
            source,
            deadline_s=self.deadline_s,
            invalid_completion_score=self.invalid_completion_score,
        )

    def get_shared_scorer(self) -> RewardScorer:
        """Return the scorer that equal settings share, since trainers pass the settings each time.

        Raises:
            SettingsError: see `make_scorer`.
        """
        judge = sorted((self.judge or {}).items())
        key = wire.dumps({**asdict(self), "judge": judge, "token": self.bearer_token()})
        if key not in _SHARED_SCORERS:
            _SHARED_SCORERS[key] = self.make_scorer()
        return _SHARED_SCORERS[key]

    def bearer_token(self) -> str | None:
        """Return the server's token.

        Raises:
            SettingsError: the variable is not set, or a token is given as well.
        """
        if not self.token_env:
            return self.token
        if self.token:
            raise SettingsError("token_env: expected either token or token_env")
        if not os.environ.get(self.token_env):
            raise SettingsError(f"token_env: the environment variable {self.token_env} is not set")
        return os.environ[self.token_env]


@dataclass(frozen=True, kw_only=True)
class RewardSettings(JudgeSource):
    """Settings of a trainer that accepts only numbers: a source, and a fallback.

    Attributes:
        fallback_score: the reward of a sample whose judge failed, if its group has no other reward.
    """

    fallback_score: float = 0.0


def make_single_source(url: str | None, settings: Mapping[str, Any]) -> JudgeSource:
    """Make a source for a trainer that judges one response at a time.

    Raises:
        SettingsError: a setting is wrong, or the judge compares several responses.
    """
    source = JudgeSource(url, **settings)
    if source.compares:
        raise SettingsError(
            "judge: a step has one response, and this judge compares several; set url to a reward "
            "server that gathers them (judgegym judge-server --judge listwise --group_size N)"
        )
    return source


_SHARED_SCORERS: dict[bytes, RewardScorer] = {}


async def close() -> None:
    """Close the shared connections now; otherwise they are closed when the process ends."""
    while _SHARED_SCORERS:
        await _SHARED_SCORERS.popitem()[1].close()


def find_secret(settings: Mapping[str, object], within: str = "") -> str | None:
    """Return a message about the first secret in settings: a key, a token, or URL credentials."""
    for name, value in settings.items():
        location = name
        if within:
            location = f"{within}.{name}"
        if name.endswith("extra_headers") and value:
            return (
                f"{location}: headers are secrets, and trainers log settings; expected them at a "
                "reward server"
            )
        problem = next(
            (
                problem
                for section in _find_sections(value)
                if (problem := find_secret(section, location)) is not None
            ),
            None,
        )
        if problem is not None:
            return problem
        if not isinstance(value, str):
            continue
        if (name == "token" or name.endswith("api_key")) and value not in _NO_KEY:
            return f"{location}: expected the name of an environment variable in {location}_env"
        if name.endswith("url") and (redact_credentials(value) != value or "/token/" in value):
            return f"{location}: expected a URL without user, password and token"
    return None


def _find_sections(value: object) -> Sequence[Mapping[str, object]]:
    """Return the mappings in a setting: a section, or a list of sections."""
    if isinstance(value, Mapping):
        return [value]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [item for item in value if isinstance(item, Mapping)]
    return []


def read_settings_variable(variable: str, *, missing: str = "") -> dict[str, JSON]:
    """Read the settings in an environment variable, a JSON object.

    Args:
        variable: the variable's name.
        missing: the text to read if it is not set.

    Raises:
        SettingsError: the variable has no JSON object.
    """
    settings = wire.loads_or_none(os.environ.get(variable) or missing)
    if not isinstance(settings, Mapping):
        raise SettingsError(
            f'{variable}: expected a JSON object of settings, such as {{"url": '
            f'"http://127.0.0.1:8400"}}'
        )
    return dict(settings)
