"""A reward function for verl.

    custom_reward_function.path=judges/integrations/verl.py
    custom_reward_function.name=compute_score
    +custom_reward_function.reward_kwargs.url=http://127.0.0.1:8400

(on newer versions under `reward.custom_reward_function`). Every sample has the same keys, as verl wants it, and nothing
is raised for a judge: verl would turn that into a reward of 0 that nobody can tell from a bad answer.

Source: verl, January 2026, its custom reward functions.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from judges.integrations.scoring import ServerScoring
from judges.wire import JSON

logger = logging.getLogger(__name__)

_SOURCES: dict[tuple[str, str | None, str, float], ServerScoring] = {}


async def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: object,
    extra_info: Mapping[str, object] | None = None,
    *,
    url: str = "http://127.0.0.1:8400",
    token: str | None = None,
    mount: str = "",
    fallback_score: float = 0.0,
    timeout_s: float = 150.0,
    **kwargs: object,
) -> dict[str, float]:
    """The score of one response.

    Args:
        data_source: the dataset's name; not shown to the judge.
        solution_str: the response.
        ground_truth: the reference, if it is text that is not empty.
        extra_info: the row's own fields: `question` or `prompt`, `rubric`, `baseline`, `context`, `reference`.
        url: of the reward server.
        token: its bearer token.
        mount: the name of a judge there; the root's if empty.
        fallback_score: what a failed judge is worth.
        timeout_s: seconds for one try.
        kwargs: what verl adds from version to version; ignored.

    Returns:
        `score` (0 to 1, or the fallback) and `judge_failed` (0 or 1).
    """
    info = extra_info or {}
    request: dict[str, JSON] = {"prompt": _text(info, "question", "prompt") or "", "response": solution_str}
    reference = ground_truth if isinstance(ground_truth, str) and ground_truth else _text(info, "reference")
    if reference is not None:
        request["reference"] = reference
    for name in ("rubric", "baseline", "context"):
        value = _text(info, name)
        if value is not None:
            request[name] = value
    key = (url, token, mount, timeout_s)
    if key not in _SOURCES:
        _SOURCES[key] = ServerScoring(url, token=token, judge=mount, timeout_s=timeout_s)
    try:
        (result,) = await _SOURCES[key].score(request)
    except ValueError:  # a request that the server refuses: verl must have its keys all the same
        logger.exception("no score for a sample of %s", data_source)
        return {"score": fallback_score, "judge_failed": 1.0}
    if result.score is None:
        return {"score": fallback_score, "judge_failed": 1.0}
    return {"score": result.score, "judge_failed": 0.0}


async def close() -> None:
    """Close this event loop's sessions, for those who want to leave none behind."""
    for source in _SOURCES.values():
        await source.close()


def _text(info: Mapping[str, object], *names: str) -> str | None:
    return next((value for name in names if isinstance(value := info.get(name), str) and value), None)
