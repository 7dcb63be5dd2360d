"""A reward function for verl.

    reward.custom_reward_function.path=pkg://judgegym_trainers.verl
    reward.custom_reward_function.name=compute_score
    +reward.custom_reward_function.reward_kwargs.url=http://127.0.0.1:8400
    +reward.custom_reward_function.reward_kwargs.on_failure=score

Older versions have no `reward.` prefix. The reward manager `remote` refuses async functions: set
`name` to `compute_score_sync` there. Instead of `url`, set a judge's settings in
`reward_kwargs.judge` (`judge.judge=rubric`, `judge.judge_model_name=…`) to run it in verl's
processes. With a reward server, verl's environment needs aiohttp and orjson only.

A setting that cannot work raises a `SettingsError` at the first sample, which ends the training
(except with the manager `rate_limited`, which turns every error into a reward of 0). A sample
without a score gets the fallback, and is flagged: every sample has the same keys, as verl requires.
Every estimator trains the fallback as a reward; the function therefore needs `on_failure=score`.
`loop.py` and `manager.py` can leave such a sample out.

A judge that compares responses runs in a reward server that gathers them (`--group_size` =
`rollout.n`), since verl calls this function for each sample in one of several processes. Its
managers do not pass the `uid` of a prompt: samples with the same question and `extra_info.index`
are a group, or with the same `extra_info.uid` if your own agent loop puts it into the
`extra_fields` of its output. The manager `rate_limited` needs a `max_concurrent` of whole groups.

verl loads a file by its path without an entry in `sys.modules`, which dataclasses need: this file
has none.

Source: verl 0.9.1, its custom reward functions and reward managers.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from judgegym.judges.core.event_loop import run_blocking
from judgegym.llm.errors import SettingsError
from judgegym_trainers.scores.requests import (
    CellError,
    CompletionRow,
    make_completion_row,
    parse_group_id,
    to_json,
)
from judgegym_trainers.scores.sources import close
from judgegym_trainers.verl.rewards import WITHIN, FunctionSettings, find_prompt, use_deployed_model

__all__ = ["close", "compute_score", "compute_score_sync"]

_GROUP_FIELDS = ("uid", "index")
"""Fields of a row that name its group: verl's own id, if an agent loop sets it, or its index."""
_VERL_ARGUMENTS = frozenset({"reward_router_address", "reward_model_tokenizer"})
"""Arguments that verl adds when it serves a reward model."""
_AS_SCORE = (
    f"{WITHIN}.on_failure: expected score: a reward function can give a failed judge nothing but "
    "fallback_score, which every estimator trains as a reward. The agent loop "
    "judgegym_trainers.verl.loop.JudgeAgentLoop leaves such samples out, and JudgeRewardManager "
    "gives them the mean of their group"
)

_NO_GROUPS = (
    "reward_kwargs.judge: a judge that compares responses cannot run in verl's reward workers, "
    "each of which gets some samples of a group; use the reward manager (JudgeRewardManager of "
    "pkg://judgegym_trainers.verl.manager), or start the reward server (judgegym judge-server "
    "--judge listwise --group_size N) and set url"
)

_SEEN = {"prompt": False}
"""Whether any sample had a question; verl calls a function, which has no other state."""


async def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: object,
    extra_info: Mapping[str, object] | None = None,
    **settings: Any,
) -> dict[str, float]:
    """Return the score of one response.

    Args:
        data_source: the dataset's name; not shown to the judge.
        solution_str: the response.
        ground_truth: the reference; a number or a list is sent as text, an object may have
            `reference` and `rubric`.
        extra_info: fields of the row: `question` or `prompt`, which the judge needs, `rubric`,
            `aspects`, `criteria`, `baseline`, `context`, `reference`.
        settings: those of `FunctionSettings`: `url` of the reward server, with `token`, `token_env`
            and `mount`; or `judge`, the settings of a judge to run in this process, with the
            server's names; `fallback_score`, `invalid_completion_score`, `timeout_s`, `deadline_s`,
            `on_failure`. verl's own arguments are ignored otherwise.

    Returns:
        `score` (0 to 1, or its substitute), `judge_failed` and `invalid_completion` (0 or
        1).

    Raises:
        SettingsError: a setting cannot work, or no row has a question.
    """
    verl_arguments = {name: settings.pop(name) for name in _VERL_ARGUMENTS if name in settings}
    judge = to_json(settings.get("judge"))
    if isinstance(judge, Mapping):
        settings["judge"] = use_deployed_model(judge, verl_arguments)
    function_settings = FunctionSettings.from_settings(settings, within=WITHIN)
    if function_settings.on_failure != "score":
        raise SettingsError(_AS_SCORE)
    if function_settings.compares:
        raise SettingsError(_NO_GROUPS)
    (result,) = await function_settings.get_shared_scorer().score_each(
        [_make_row(solution_str, ground_truth, extra_info or {})]
    )
    return result.or_else(function_settings.fallback_score).numbers


def compute_score_sync(*arguments: Any, **settings: Any) -> dict[str, float]:
    """Return `compute_score` without `await`, for verl's reward manager `remote`."""
    return run_blocking(compute_score(*arguments, **settings))


def _make_row(response: str, ground_truth: object, info: Mapping[str, object]) -> CompletionRow:
    """Return the response with the fields for its judge.

    The ids are for a judge that compares: the group's, if the row has one, and this call's, for its
    retries.

    Raises:
        SettingsError: no row has had a question so far.
    """
    try:
        prompt = find_prompt(info)
        group = next(
            (
                identifier
                for name in _GROUP_FIELDS
                if (identifier := parse_group_id(to_json(info.get(name)))) is not None
            ),
            None,
        )
    except CellError as error:
        return CompletionRow({}, response, str(error))
    if prompt:
        _SEEN["prompt"] = True
        return make_completion_row(
            prompt, response, info, ground_truth, group=group, member=uuid.uuid4().hex
        )
    expected = "extra_info: expected the question as text or messages in `question` or `prompt`"
    if not _SEEN["prompt"]:
        present = ", ".join(sorted(map(str, info))) or "no field"
        raise SettingsError(
            f"{expected}, found {present}; verl passes no prompt of its own, and a response "
            "without a question cannot be scored"
        )
    return CompletionRow({}, response, expected)
