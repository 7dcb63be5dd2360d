"""From the settings of a reward function to what it scores with: a reward server, or a judge in this process."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from judgegym.integrations.scores.cells import plain
from judgegym.integrations.scores.numbers import check_seconds
from judgegym.integrations.scores.scoring import Scoring
from judgegym.integrations.scores.server_source import ServerSource
from judges.llm import wire
from judges.llm.errors import SettingsError
from judges.llm.wire import JSON

if TYPE_CHECKING:
    from judgegym.integrations.scores.in_process import InProcessSource
    from judges.server.settings.mount import JudgeMount

_OF_GROUPS = frozenset({"choice", "listwise", "tournament"})
"""The kinds of judges that judge nothing but groups."""


def is_of_groups(judge: JudgeMount | Mapping[str, object]) -> bool:
    """Whether the settings are those of a judge that needs the responses to a prompt together."""
    if isinstance(judge, Mapping):
        return judge.get("judge") in _OF_GROUPS or judge.get("group_size") is not None
    return judge.judge in _OF_GROUPS or judge.group_size is not None


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


class SharedScorings:
    """What scores, for functions that a trainer calls with their settings each time: one for equal settings."""

    def __init__(self) -> None:
        """Begin without any."""
        self._of: dict[bytes, Scoring] = {}

    def of(
        self,
        url: str | None,
        judge: Mapping[str, object] | None,
        *,
        token: str | None,
        mount: str,
        timeout_s: float,
        deadline_s: float,
        offline: bool = False,
    ) -> Scoring:
        """See `scoring_of`; settings may be in the containers of any configuration library."""
        settings = None if judge is None else cast("Mapping[str, JSON]", plain(judge))
        key = wire.dumps([url, settings, token, mount, timeout_s, deadline_s, offline])
        if key not in self._of:
            self._of[key] = scoring_of(
                url,
                settings,
                token=token,
                mount=mount,
                timeout_s=timeout_s,
                deadline_s=deadline_s,
                offline=offline,
            )
        return self._of[key]

    async def close(self) -> None:
        """Close the connections now; otherwise they are closed when the process ends."""
        while self._of:
            await self._of.popitem()[1].close()


def scoring_of(
    url: str | None,
    judge: JudgeMount | Mapping[str, object] | None,
    *,
    token: str | None,
    mount: str,
    timeout_s: float,
    deadline_s: float,
    offline: bool = False,
) -> Scoring:
    """Score with the server at `url`, or with `judge` (settings under the server's names) in this process.

    Args:
        url: the server's URL.
        judge: the judge's settings; as mapping also `offline`, with the meaning of the argument.
        token: the server's bearer token.
        mount: the name of a judge at the server.
        timeout_s: seconds for one attempt at the server.
        deadline_s: seconds within which each request has its result.
        offline: with `judge`, ask the stand-in instead of the judge's endpoint; its scores mean nothing.

    Raises:
        SettingsError: neither or both are given, or a setting is unknown or wrong.
    """
    check_seconds(timeout_s=timeout_s, deadline_s=deadline_s)
    if (url is None) == (judge is None):
        raise SettingsError("expected either url (of a reward server) or judge (to run in this process)")
    if judge is not None:
        if mount or token:
            raise SettingsError(f"{'mount' if mount else 'token'}: only with url; a judge in this process has none")
        return Scoring(_in_process(judge, deadline_s, offline=offline), deadline_s=deadline_s)
    assert url is not None
    if offline:
        raise SettingsError("offline: only without url; the server says whether its judge is the stand-in")
    return Scoring(ServerSource(url, token=token, mount=mount, timeout_s=timeout_s), deadline_s=deadline_s)


def _in_process(judge: JudgeMount | Mapping[str, object], deadline_s: float, *, offline: bool) -> InProcessSource:
    # Late: beside a reward server a trainer's environment needs none of the judges' packages.
    from judgegym.integrations.scores.in_process import InProcessSource
    from judges.config.keywords import settings_from_keywords
    from judges.server.settings.mount import JudgeMount

    if isinstance(judge, Mapping):
        named = dict(judge)
        stands_in = named.pop("offline", False)
        if not isinstance(stands_in, bool):
            raise SettingsError(f"judge.offline: expected true or false, found {stands_in!r}")
        offline = offline or stands_in
        judge = settings_from_keywords(JudgeMount, named, prefix="judge.")
    return InProcessSource(judge, deadline_s=deadline_s, offline=offline)
