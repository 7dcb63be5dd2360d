"""A reward function for verl.

    reward.custom_reward_function.path=pkg://judgegym.integrations.verl
    reward.custom_reward_function.name=compute_score
    +reward.custom_reward_function.reward_kwargs.url=http://127.0.0.1:8400
    +reward.custom_reward_function.reward_kwargs.on_failure=score

(on older versions without `reward.`). The reward manager `remote` refuses async functions: its `name` is
`compute_score_sync`. Instead of `url`, set a judge's settings in `reward_kwargs.judge` (`judge.judge=rubric`,
`judge.judge_model_name=…`) to run it in verl's processes. Beside a reward server, verl's environment needs aiohttp and
orjson only.

A setting that cannot work raises a `SettingsError` at the first sample, which ends the training (but for the manager
`rate_limited`, which turns every error into a reward of 0). A sample without a score gets the fallback, and is flagged:
every sample has the same keys, as verl requires. That is a reward to every estimator, so that the function needs
`on_failure=score`; `loop.py` and `manager.py` can leave such a sample out.

A judge that compares responses runs in a reward server that gathers them (`--group_size` = `rollout.n`), since verl
calls this function for each sample in one of several processes. Its managers do not pass the `uid` of a prompt:
samples with one question and one `extra_info.index` are a group, or with one `extra_info.uid` where an agent loop of
one's own puts it into the `extra_fields` of its output. The manager `rate_limited` needs a `max_concurrent` of whole
groups.

Source: verl 0.9.1, its custom reward functions and reward managers.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, cast

from judgegym.integrations.scores.requests import CellError, RefusedError, Request, fields_in, group_id, plain
from judgegym.integrations.scores.results import check_finite
from judgegym.integrations.scores.sources import (
    TIMEOUT_S,
    JudgeSource,
    close,
    is_of_groups,
    refuse_unknown,
    shared_scoring,
)
from judgegym.integrations.verl.rewards import DEADLINE_S, WITHIN, Router, prompt_in
from judgegym.judges.core.event_loop import run_blocking
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON

__all__ = ["close", "compute_score", "compute_score_sync"]

_GROUPS = ("uid", "index")
"""The fields of a row that name its group: verl's own id, if an agent loop has put it there; the row's."""
_OF_VERL = frozenset({"reward_router_address", "reward_model_tokenizer"})
"""Arguments that verl adds where it serves a reward model."""
_SETTINGS = (
    *("url", "judge", "token", "token_env", "mount", "fallback_score", "invalid_completion_score"),
    *("timeout_s", "deadline_s", "on_failure"),
)
_AS_SCORE = (
    f"{WITHIN}.on_failure: expected score: a reward function can give a failed judge nothing but fallback_score, which "
    "every estimator trains as a reward. The agent loop judgegym.integrations.verl.loop.JudgeAgentLoop leaves such "
    "samples out, and JudgeRewardManager gives them the mean of their group"
)

_NO_GROUPS = (
    "reward_kwargs.judge: a judge that compares responses cannot run in verl's reward workers, each of which gets some "
    "samples of a group; use the reward manager (JudgeRewardManager of pkg://judgegym.integrations.verl.manager), or "
    "start the reward server (judgegym judge-server --judge listwise --group_size N) and set url"
)

_SEEN = {"prompt": False}
"""Whether a sample had a question so far: verl calls a function, which has no other memory."""


async def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: object,
    extra_info: Mapping[str, object] | None = None,
    *,
    url: str | None = None,
    judge: Mapping[str, object] | None = None,
    token: str | None = None,
    token_env: str | None = None,
    mount: str = "",
    fallback_score: float = 0.0,
    invalid_completion_score: float = 0.0,
    timeout_s: float = TIMEOUT_S,
    deadline_s: float = DEADLINE_S,
    on_failure: str = "leave_out",
    **further: object,
) -> dict[str, float]:
    """The score of one response.

    Args:
        data_source: the dataset's name; not shown to the judge.
        solution_str: the response.
        ground_truth: the reference; a number or a list is sent as text, an object may hold `reference` and `rubric`.
        extra_info: fields of the row: `question` or `prompt`, which the judge needs, `rubric`, `aspects`, `baseline`,
            `context`, `reference`.
        url: the URL of the reward server; or `judge`.
        judge: instead of `url`: the settings of a judge to run in this process, with the server's names.
        token: the server's bearer token, which verl prints with its configuration.
        token_env: instead: the environment variable that has it.
        mount: the name of a judge at the server; empty for the judge at the root.
        fallback_score: the score of a sample that the judge failed to score.
        invalid_completion_score: the score of an empty response, about which no judge is asked.
        timeout_s: seconds for one attempt at the server.
        deadline_s: seconds within which a sample has its score, or is flagged.
        on_failure: `score`, which this form needs: a failed judge is trained as `fallback_score`.
        further: what verl adds; anything else is refused.

    Returns:
        `score` (0 to 1, or what stands in for it), `judge_failed` and `invalid_completion` (0 or 1).

    Raises:
        SettingsError: a setting cannot work, or no row has a question.
    """
    refuse_unknown((name for name in further if name not in _OF_VERL), _SETTINGS, within=WITHIN)
    check_finite(fallback_score=fallback_score, invalid_completion_score=invalid_completion_score)
    if on_failure == "leave_out":
        raise SettingsError(_AS_SCORE)
    if on_failure != "score":
        raise SettingsError(f"{WITHIN}.on_failure: expected leave_out or score, found {on_failure!r}")
    if judge is not None and is_of_groups(judge):
        raise SettingsError(_NO_GROUPS)
    if judge is not None and (router := Router.of(further)) is not None:
        judge = router.serving(cast("Mapping[str, JSON]", plain(judge)))
    source = JudgeSource(
        url, judge, token=token, token_env=token_env, mount=mount, timeout_s=timeout_s, deadline_s=deadline_s
    )
    request = _request(solution_str, ground_truth, extra_info or {})
    ((result,),) = await shared_scoring(source).score([request], invalid_completion_score)
    return result.worth(fallback_score).numbers


def compute_score_sync(*arguments: Any, **settings: Any) -> dict[str, float]:
    """As `compute_score`, with its arguments and without `await`: for verl's reward manager `remote`."""
    return run_blocking(compute_score(*arguments, **settings))


def _request(response: str, ground_truth: object, info: Mapping[str, object]) -> Request | RefusedError:
    """The body of `POST /v1/score`, or why there is none.

    Raises:
        SettingsError: no row had a question so far.
    """
    try:
        prompt = prompt_in(info)
        fields = fields_in(info, ground_truth)
    except CellError as error:
        return RefusedError(str(error))
    if not prompt:
        return _without_prompt(info)
    _SEEN["prompt"] = True
    return {"prompt": prompt, "response": response, **fields, **_ids(info)}


def _ids(info: Mapping[str, object]) -> dict[str, JSON]:
    """The ids for a judge that compares: the group's, if the row has one, and one of this call, for its retries."""
    group = next((known for name in _GROUPS if (known := group_id(plain(info.get(name)))) is not None), None)
    return {"member": uuid.uuid4().hex, **({} if group is None else {"group": group})}


def _without_prompt(info: Mapping[str, object]) -> RefusedError:
    found = ", ".join(sorted(map(str, info))) or "no field"
    message = f"extra_info: expected the question as text or messages in `question` or `prompt`, found {found}"
    if not _SEEN["prompt"]:
        raise SettingsError(f"{message}; verl passes no prompt of its own, and an answer to no question has no score")
    return RefusedError("extra_info: expected the question as text or messages in `question` or `prompt`")
