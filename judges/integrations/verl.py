"""A reward function for verl.

    custom_reward_function.path=judges/integrations/verl.py
    custom_reward_function.name=compute_score
    +custom_reward_function.reward_kwargs.url=http://127.0.0.1:8400

(on newer versions under `reward.custom_reward_function`). Instead of `url`, set a judge's settings in
`reward_kwargs.judge` (`judge.judge=rubric`, `judge.judge_model_name=…`) to run it in verl's process. Every sample has
the same keys, as verl requires. A failed judge raises no error, because verl would record it as a reward of 0.

Source: verl, January 2026, its custom reward functions.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, cast

from judges.integrations.scoring import Scoring, scoring
from judges.llm import wire
from judges.llm.errors import JudgeGymError
from judges.llm.wire import JSON
from judges.server.settings import JudgeMount

logger = logging.getLogger(__name__)

DEFAULT_URL = "http://127.0.0.1:8400"
_FIELDS = ("rubric", "aspects", "baseline", "context")

_SOURCES: dict[bytes, Scoring] = {}


async def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: object,
    extra_info: Mapping[str, object] | None = None,
    *,
    url: str | None = None,
    judge: Mapping[str, object] | None = None,
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
        ground_truth: the reference; ignored if it is empty or not text.
        extra_info: fields of the row: `question` or `prompt`, `rubric`, `aspects`, `baseline`, `context`,
            `reference`.
        url: the URL of the reward server; `DEFAULT_URL` if `judge` is not set either.
        judge: instead of `url`: the settings of a judge to run in this process, with the server's names.
        token: the server's bearer token.
        mount: the name of a judge at the server; empty for the judge at the root.
        fallback_score: the score for a failed judge.
        timeout_s: seconds for one attempt at the server.
        kwargs: further arguments of verl; ignored.

    Returns:
        `score` (0 to 1, or the fallback) and `judge_failed` (0 or 1).
    """
    try:
        source = _source(url, _settings(judge), token=token, mount=mount, timeout_s=timeout_s)
        (result,) = await source.score(_request(solution_str, ground_truth, extra_info or {}))
    except (ValueError, JudgeGymError):  # of the request or the settings: verl needs the same keys for every sample
        logger.exception("no score for a sample of %s", data_source)
        return {"score": fallback_score, "judge_failed": 1.0}
    if result.score is None:
        return {"score": fallback_score, "judge_failed": 1.0}
    return {"score": result.score, "judge_failed": 0.0}


async def close() -> None:
    """Close the sessions of this event loop."""
    for source in _SOURCES.values():
        await source.close()


def _source(
    url: str | None, judge: Mapping[str, JSON] | None, *, token: str | None, mount: str, timeout_s: float
) -> Scoring:
    """The source of scores for these arguments, which verl passes with each sample; samples share the source."""
    if judge is None and url is None:
        url = DEFAULT_URL
    key = wire.dumps([url, judge, token, mount, timeout_s])
    if key not in _SOURCES:
        own = None if judge is None else JudgeMount(**cast("dict[str, Any]", judge))  # validated here
        _SOURCES[key] = scoring(url, own, token=token, mount=mount, timeout_s=timeout_s)
    return _SOURCES[key]


def _settings(judge: Mapping[str, object] | None) -> Mapping[str, JSON] | None:
    return None if judge is None else {str(name): _plain(value) for name, value in judge.items()}


def _request(response: str, ground_truth: object, info: Mapping[str, object]) -> dict[str, JSON]:
    """The body of `POST /v1/score`."""
    request: dict[str, JSON] = {"prompt": "", "response": response}
    for name in ("prompt", "question", *_FIELDS):
        if value := _plain(info.get(name)):
            request["prompt" if name == "question" else name] = value
    reference = ground_truth if isinstance(ground_truth, str) and ground_truth else info.get("reference")
    if isinstance(reference, str) and reference:
        request["reference"] = reference
    return request


def _plain(value: object) -> JSON:
    """A value of a data frame or a configuration as JSON: arrays as lists, structs without null fields."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items() if item is not None}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(item) for item in value]
    return value if isinstance(value, bool | int | float | str) else None
