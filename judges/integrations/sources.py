"""From the settings of a reward function to what it scores with: a reward server, or a judge in this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from judges.integrations.scoring import Scoring
from judges.integrations.server_source import ServerSource
from judges.llm.errors import SettingsError

if TYPE_CHECKING:
    from judges.integrations.in_process import InProcessSource
    from judges.server.settings import JudgeMount


def scoring_of(
    url: str | None,
    judge: JudgeMount | Mapping[str, object] | None,
    *,
    token: str | None,
    mount: str,
    timeout_s: float,
    deadline_s: float,
) -> Scoring:
    """Score with the server at `url`, or with `judge` (settings under the server's names) in this process.

    Args:
        url: the server's URL.
        judge: the judge's settings.
        token: the server's bearer token.
        mount: the name of a judge at the server.
        timeout_s: seconds for one attempt at the server.
        deadline_s: seconds within which each request has its result.

    Raises:
        SettingsError: neither or both are given, or a setting is unknown or wrong.
    """
    if (url is None) == (judge is None):
        raise SettingsError("expected either url (of a reward server) or judge (to run in this process)")
    if judge is not None:
        if mount or token:
            raise SettingsError(f"{'mount' if mount else 'token'}: only with url; a judge in this process has none")
        return Scoring(_in_process(judge, deadline_s), deadline_s=deadline_s)
    assert url is not None
    return Scoring(ServerSource(url, token=token, mount=mount, timeout_s=timeout_s), deadline_s=deadline_s)


def _in_process(judge: JudgeMount | Mapping[str, object], deadline_s: float) -> InProcessSource:
    # Late: beside a reward server a trainer's environment needs none of the judges' packages.
    from judges.config.keywords import settings_from_keywords
    from judges.integrations.in_process import InProcessSource
    from judges.server.settings import JudgeMount

    if isinstance(judge, Mapping):
        judge = settings_from_keywords(JudgeMount, judge, prefix="judge.")
    return InProcessSource(judge, deadline_s=deadline_s)
