"""From the settings of a reward function to what it scores with: a reward server, or a judge in this process."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, cast

from judgegym.integrations.scores.requests import plain
from judgegym.integrations.scores.results import check_seconds
from judgegym.integrations.scores.scoring import RewardScorer
from judgegym.integrations.scores.server_source import ServerSource
from judgegym.integrations.scores.settings import token_of
from judgegym.llm import wire
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON

if TYPE_CHECKING:
    from judgegym.integrations.scores.in_process import InProcessSource
    from judgegym.server.settings.server import JudgeMount

TIMEOUT_S = 150.0
"""Seconds for one attempt at a reward server."""
DEADLINE_S = 900.0
"""Seconds within which a trainer's function has its scores."""
_OF_GROUPS = frozenset({"choice", "listwise", "tournament"})
"""The kinds of judges that judge nothing but groups."""


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
        return token_of(self.token, self.token_env)

    def normal_form(self) -> JudgeSource:
        """The same with a judge in JSON, whichever configuration library its settings come from."""
        judge = self.judge
        if judge is not None:
            _refuse_text(judge)
            judge = judge if isinstance(judge, Mapping) else judge.model_dump(exclude_unset=True)
            judge = cast("Mapping[str, JSON]", plain(judge))
        values = {each.name: getattr(self, each.name) for each in dataclasses.fields(JudgeSource)}
        return JudgeSource(**{**values, "judge": judge})


class SharedScorings:
    """What scores, for functions that a trainer calls with their settings each time: one for equal settings."""

    def __init__(self) -> None:
        """Begin without any."""
        self._of: dict[bytes, RewardScorer] = {}

    def of(self, source: JudgeSource) -> RewardScorer:
        """What scores with these settings, which may be in the containers of any configuration library.

        Raises:
            SettingsError: see `JudgeSource.scoring`.
        """
        settings = source.normal_form()
        key = wire.dumps({**dataclasses.asdict(settings), "token": settings.bearer_token()})
        if key not in self._of:
            self._of[key] = settings.scoring()
        return self._of[key]

    async def close(self) -> None:
        """Close the connections now; otherwise they are closed when the process ends."""
        while self._of:
            await self._of.popitem()[1].close()


def _in_process(judge: JudgeMount | Mapping[str, object], deadline_s: float, *, offline: bool) -> InProcessSource:
    # Late: beside a reward server a trainer's environment needs none of the judges' packages.
    from judgegym.integrations.scores.in_process import InProcessSource
    from judgegym.judges.config.sources import settings_from_keywords
    from judgegym.server.settings.server import JudgeMount

    if isinstance(judge, Mapping):
        named = dict(judge)
        stands_in = named.pop("offline", False)
        if not isinstance(stands_in, bool):
            raise SettingsError(f"judge.offline: expected true or false, found {stands_in!r}")
        offline = offline or stands_in
        judge = settings_from_keywords(JudgeMount, named, prefix="judge.")
    return InProcessSource(judge, deadline_s=deadline_s, offline=offline)
