"""From the settings of a trainer's reward function to what it scores with: a reward server, or a judge in this process.

Guarantees of a `RewardScorer`:

* A result within the deadline, which is a failure if there is no answer by then.
* Any event loop, or none, may ask: the work is done on the background loop of the process, which closes sessions when
  the process ends.
* A setting that cannot work (an unknown judge or mount, a missing key, a wrong token) raises a `SettingsError` at the
  first request.
* A row that cannot be judged is a `CompletionReward` without a reward, with one warning for each reason. If the whole
  first batch, or the first `REFUSED_AT_START` requests, are refused, the settings are at fault: a `SettingsError` says
  so.
* With a reward server only aiohttp and orjson are imported; a judge in this process needs all packages of the judges.
"""

from __future__ import annotations

import asyncio
import dataclasses
import difflib
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

from judgegym.integrations.scores.requests import RefusedError, Request, plain
from judgegym.integrations.scores.results import JUDGE_FAILED, REFUSED, CompletionReward, FirstRequests, check_seconds
from judgegym.integrations.scores.server import ServerSource
from judgegym.judges.core.event_loop import BACKGROUND
from judgegym.llm import wire
from judgegym.llm.at_once import all_results
from judgegym.llm.errors import SettingsError
from judgegym.llm.urls import without_credentials
from judgegym.llm.wire import JSON

if TYPE_CHECKING:
    from typing_extensions import Self

    from judgegym.integrations.scores.in_process import InProcessSource
    from judgegym.server.settings import JudgeMount

logger = logging.getLogger(__name__)

TIMEOUT_S = 150.0
"""Seconds for one attempt at a reward server."""
DEADLINE_S = 900.0
"""Seconds within which a trainer's function has its scores."""
_MOST_WARNINGS = 100
_OF_GROUPS = frozenset({"choice", "listwise", "tournament"})
"""The kinds of judges that judge nothing but groups."""
_NO_KEY = ("", "none")
"""Values that say that there is no key."""
_EXPECTED = {
    **dict.fromkeys(("url", "token", "token_env", "mount", "on_failure"), "text"),
    **dict.fromkeys(("offline", "together"), "true or false"),
    "judge": "a mapping",
    "environment": "a name or a mapping",
}
_IS: Mapping[str, Callable[[JSON], bool]] = {
    "text": lambda value: isinstance(value, str),
    "true or false": lambda value: isinstance(value, bool),
    "a mapping": lambda value: isinstance(value, Mapping),
    "a name or a mapping": lambda value: isinstance(value, str | Mapping),
    "a number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}
"""What a setting is, by name; those that are not named are numbers. Numbers that are not finite read as missing."""


class Source(Protocol):
    """Scores requests; always used on the background loop."""

    async def score(self, request: Request) -> list[CompletionReward]:
        """A result for each response of the request, empty ones without a reward. A failed judge is a result, no error.

        Raises:
            RefusedError: the request cannot be judged (a missing baseline, a rubric of another scale, …).
            SettingsError: no request can be judged.
        """

    async def close(self) -> None:
        """Close what is open; the next request opens it again."""


class RewardScorer:
    """Scores the requests of a trainer's reward function."""

    def __init__(self, source: Source, *, deadline_s: float) -> None:
        """Score with `source`, until the end of the process or until `close`.

        Args:
            source: what scores.
            deadline_s: seconds after which a request without an answer has no score.
        """
        self._source = source
        self._deadline_s = deadline_s
        self._first = FirstRequests()
        self._said: set[str] = set()
        self._is_registered = False

    async def score(
        self, requests: Sequence[Request | RefusedError], invalid_completion_score: float | None = None
    ) -> list[list[CompletionReward]]:
        """A result for each response of each request, in order; all requests are judged at the same time.

        Args:
            requests: an error in the place of a request is a row of which no request can be made.
            invalid_completion_score: what an empty response is worth; `None`: it has no reward.

        Raises:
            SettingsError: a setting cannot work.
        """
        judged = await BACKGROUND.join(self._all(requests))
        return [[each.with_invalid(invalid_completion_score) for each in of_one] for of_one in judged]

    async def close(self) -> None:
        """Close the connections; the next request opens them again."""
        await BACKGROUND.join(self._source.close())

    async def _all(self, requests: Sequence[Request | RefusedError]) -> list[list[CompletionReward]]:
        if not self._is_registered:
            self._is_registered = True
            BACKGROUND.at_exit(self._source.close)
        keys = [(repr(request), _responses(request)) for request in requests]
        distinct = dict(zip(keys, requests, strict=True))  # equal completions are judged once
        judged = await all_results(self._one(request) for request in distinct.values())
        if self._first.are_refused(whole_batch=len(requests) > 1 and all(refusal for _, refusal in judged)):
            first = self._first
            raise SettingsError(f"the first {first.refused} requests for a score were refused: {first.refusal}")
        of_each = dict(zip(distinct, judged, strict=True))
        return [of_each[key][0] for key in keys]

    async def _one(self, request: Request | RefusedError) -> tuple[list[CompletionReward], str]:
        """The results of a request, and why it was refused."""
        count = _responses(request)
        try:
            if isinstance(request, RefusedError):
                raise request
            results = await asyncio.wait_for(self._source.score(request), self._deadline_s)
        except asyncio.TimeoutError:
            logger.warning("no score within %g s", self._deadline_s)
            late = f"no score within {self._deadline_s:g} s"
            return [CompletionReward(None, JUDGE_FAILED, explanation=late)] * count, ""
        except RefusedError as error:
            results = [CompletionReward(None, REFUSED, explanation=str(error))] * count
        (refusal,) = self._first.add(results)
        if refusal and refusal not in self._said and len(self._said) < _MOST_WARNINGS:
            self._said.add(refusal)
            logger.warning("a row has no score, because it cannot be judged (said once for each reason): %s", refusal)
        return results, refusal


def _responses(request: Request | RefusedError) -> int:
    """How many responses a request has."""
    if isinstance(request, RefusedError):
        return request.responses
    responses = request.get("responses")
    return len(responses) if isinstance(responses, Sequence) else 1


def is_of_groups(judge: JudgeMount | Mapping[str, object]) -> bool:
    """Whether the settings are those of a judge that needs the responses to a prompt together.

    Raises:
        SettingsError: they are a text.
    """
    _refuse_text(judge)
    if isinstance(judge, Mapping):
        return judge.get("judge") in _OF_GROUPS or judge.get("group_size") is not None
    return judge.judge in _OF_GROUPS or judge.group_size is not None


def _refuse_text(judge: object) -> None:
    """Refuse the name of a judge in the place of its settings.

    Raises:
        SettingsError: it is a text.
    """
    if isinstance(judge, str):
        raise SettingsError(f"judge: expected a mapping of settings, such as {{'judge': 'rubric'}}, found {judge!r}")


def refuse_groups(judge: JudgeMount | Mapping[str, object] | None) -> None:
    """Refuse a judge of groups where a trainer has one response at a time.

    Raises:
        SettingsError: it is one.
    """
    if judge is not None and is_of_groups(judge):
        raise SettingsError(
            "judge: a step has one response, and this judge compares several; set url to a reward server that gathers "
            "them (judgegym judge-server --judge listwise --group_size N)"
        )


def refuse_unknown(names: Iterable[str], known: Sequence[str], *, within: str) -> None:
    """Check the names of settings.

    Raises:
        SettingsError: one is not known; the message has the name that was probably meant.
    """
    for name in names:
        if name not in known:
            close_ones = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
            hint = f", did you mean {close_ones[0]}?" if close_ones else f"; expected one of {', '.join(known)}"
            raise SettingsError(f"{within}.{name}: unknown setting{hint}")


@dataclass(frozen=True)
class JudgeSource:
    """What scores completions: a reward server, or a judge in the process that asks.

    It pickles, and holds no connections. Its `repr` shows neither the token nor the judge's settings, which may have an
    API key.

    Attributes:
        url: the URL of a reward server; or
        judge: the settings of a judge to run in each process that judges, under the server's names; as a mapping also
            `offline`, with the meaning of the attribute.
        offline: with `judge`, ask the stand-in instead of its endpoint; its scores mean nothing.
        token: the server's bearer token, which trainers print and log with their settings.
        token_env: instead: the environment variable that has it, where the scores are made.
        mount: the name of a judge at the server; empty for the judge at the root.
        timeout_s: seconds for one attempt at the server.
        deadline_s: seconds within which a request has its scores; what has none by then is a failure.
    """

    url: str | None = None
    judge: JudgeMount | Mapping[str, object] | None = field(default=None, repr=False)
    _: KW_ONLY
    offline: bool = False
    token: str | None = field(default=None, repr=False)
    token_env: str | None = None
    mount: str = ""
    timeout_s: float = TIMEOUT_S
    deadline_s: float = DEADLINE_S

    @classmethod
    def of(cls, given: object, *, within: str) -> Self:
        """Read settings of which nobody has checked names and types, in the containers of any configuration library.

        Args:
            given: the settings by name; null is the default.
            within: where they stand, for messages.

        Raises:
            SettingsError: they are no mapping, or one is unknown or of another type.
        """
        values = plain(given or {})
        if not isinstance(values, Mapping):
            raise SettingsError(f"{within}: expected a mapping of settings, found {type(values).__name__}")
        known = {each.name: each.default for each in dataclasses.fields(cls)}
        refuse_unknown(values, list(known), within=within)
        values = {name: value for name, value in values.items() if value is not None or known[name] is not None}
        for name, value in values.items():
            expected = _EXPECTED.get(name, "a number")
            if not _IS[expected](value):
                raise SettingsError(f"{within}.{name}: expected {expected}, found {type(value).__name__}")
        return cls(**cast("dict[str, Any]", values))

    def scoring(self) -> RewardScorer:
        """What scores, with connections of its own.

        Raises:
            SettingsError: neither or both of `url` and `judge` are given, a setting is unknown or wrong, or the token's
                variable is not set.
        """
        check_seconds(timeout_s=self.timeout_s, deadline_s=self.deadline_s)
        if (self.url is None) == (self.judge is None):
            raise SettingsError("expected either url (of a reward server) or judge (to run in this process)")
        if self.judge is not None:
            _refuse_text(self.judge)
            of_server = {"mount": self.mount, "token": self.token, "token_env": self.token_env}
            misplaced = next((name for name, value in of_server.items() if value), None)
            if misplaced is not None:
                raise SettingsError(f"{misplaced}: only with url; a judge in this process has none")
            source = _in_process(self.judge, self.deadline_s, offline=self.offline)
            return RewardScorer(source, deadline_s=self.deadline_s)
        assert self.url is not None
        if self.offline:
            raise SettingsError("offline: only without url; the server says whether its judge is the stand-in")
        server = ServerSource(
            self.url,
            token=self.bearer_token(),
            mount=self.mount,
            timeout_s=self.timeout_s,
            deadline_s=self.deadline_s,
        )
        return RewardScorer(server, deadline_s=self.deadline_s)

    def bearer_token(self) -> str | None:
        """The server's token.

        Raises:
            SettingsError: its variable is not set, or the token is given, too.
        """
        if not self.token_env:
            return self.token
        if self.token:
            raise SettingsError("token_env: expected either token or token_env")
        if not os.environ.get(self.token_env):
            raise SettingsError(f"token_env: the environment variable {self.token_env} is not set")
        return os.environ[self.token_env]

    def normal_form(self) -> JudgeSource:
        """The same with a judge in JSON, whichever configuration library its settings come from."""
        judge = self.judge
        if judge is not None:
            _refuse_text(judge)
            judge = judge if isinstance(judge, Mapping) else judge.model_dump(exclude_unset=True)
            judge = cast("Mapping[str, JSON]", plain(judge))
        values = {each.name: getattr(self, each.name) for each in dataclasses.fields(JudgeSource)}
        return JudgeSource(**{**values, "judge": judge})


@dataclass(frozen=True, kw_only=True)
class RewardSettings(JudgeSource):
    """The settings of a trainer that takes nothing but numbers: a source, and two rewards.

    Attributes:
        fallback_score: the reward of a sample that the judge failed to score, where its group has no other reward.
        invalid_completion_score: the reward of an empty response, about which no judge is asked.
    """

    fallback_score: float = 0.0
    invalid_completion_score: float = 0.0


_SHARED: dict[bytes, RewardScorer] = {}


def shared_scoring(source: JudgeSource) -> RewardScorer:
    """What scores with these settings: one for equal settings, which a trainer passes to a function each time.

    Args:
        source: the settings, which may be in the containers of any configuration library.

    Raises:
        SettingsError: see `JudgeSource.scoring`.
    """
    settings = source.normal_form()
    key = wire.dumps({**dataclasses.asdict(settings), "token": settings.bearer_token()})
    if key not in _SHARED:
        _SHARED[key] = settings.scoring()
    return _SHARED[key]


async def close() -> None:
    """Close the connections that are shared now; otherwise they are closed when the process ends."""
    while _SHARED:
        await _SHARED.popitem()[1].close()


def _in_process(judge: JudgeMount | Mapping[str, object], deadline_s: float, *, offline: bool) -> InProcessSource:
    # Late: beside a reward server a trainer's environment needs none of the judges' packages.
    from judgegym.integrations.scores.in_process import InProcessSource
    from judgegym.judges.config.sources import settings_from_keywords
    from judgegym.server.settings import JudgeMount

    if isinstance(judge, Mapping):
        named = dict(judge)
        stands_in = named.pop("offline", False)
        if not isinstance(stands_in, bool):
            raise SettingsError(f"judge.offline: expected true or false, found {stands_in!r}")
        offline = offline or stands_in
        judge = settings_from_keywords(JudgeMount, named, prefix="judge.")
    return InProcessSource(judge, deadline_s=deadline_s, offline=offline)


def secret_in(settings: Mapping[str, object], within: str = "") -> str | None:
    """What is wrong with the first secret among settings: a key, a token, or a URL with a user, password or token."""
    for name, value in settings.items():
        place = f"{within}.{name}" if within else name
        if name.endswith("extra_headers") and value:
            return f"{place}: headers are secrets, and trainers log settings; expected them at a reward server"
        found = next((found for each in _mappings(value) if (found := secret_in(each, place)) is not None), None)
        if found is not None:
            return found
        if not isinstance(value, str):
            continue
        if (name == "token" or name.endswith("api_key")) and value not in _NO_KEY:
            return f"{place}: expected the name of an environment variable in {place}_env"
        if name.endswith("url") and (without_credentials(value) != value or "/token/" in value):
            return f"{place}: expected a URL without user, password and token"
    return None


def _mappings(value: object) -> Sequence[Mapping[str, object]]:
    """The settings in a setting: a section, or a list of them."""
    if isinstance(value, Mapping):
        return [value]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [item for item in value if isinstance(item, Mapping)]
    return []


def settings_in(variable: str, *, missing: str = "") -> dict[str, JSON]:
    """The settings in a variable, a JSON object by their names.

    Args:
        variable: its name.
        missing: what is read if it is not set.

    Raises:
        SettingsError: it is no JSON object.
    """
    try:
        given = wire.loads(os.environ.get(variable) or missing)
    except ValueError:
        given = None
    if not isinstance(given, Mapping):
        raise SettingsError(
            f'{variable}: expected a JSON object of settings, such as {{"url": "http://127.0.0.1:8400"}}'
        )
    return dict(given)
