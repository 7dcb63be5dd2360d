"""Rewards for OpenRLHF in its own process: as an agent, or as a reward function.

    # --train.agent_func_path FILE.py
    from judgegym_trainers.openrlhf import agent_executor
    AgentExecutor = agent_executor(judge={"judge": "listwise"}, group_size=8)

    # --reward.remote_url FILE.py
    from judgegym_trainers.openrlhf import reward_function
    reward_func = reward_function(
        judge={"judge": "rubric", "judge_model_name": "…"}, group_size=8, estimator="rloo"
    )

FILE.py is your own file, or this file itself, which reads the same arguments as a JSON object from
the variable `JUDGEGYM_OPENRLHF`.

OpenRLHF has no way to represent a missing reward. When a judge fails:

* the agent masks all tokens of the sample (`action_ranges`), so that no estimator trains it, and
  gives it the mean of its group, so that it moves no baseline;
* the reward function can only give the mean. This has no effect if the estimator subtracts the
  group's mean, and a wrong one otherwise. The function does not see OpenRLHF's arguments, so it has
  an argument `estimator`, and refuses estimators outside `ESTIMATORS`;
* with `on_failure="score"` both train the mean or `fallback_score` as a reward;
* `extra_logs.judge_failed` is 1 in all cases.

The reward function is called in a thread for each sample, with prompt and response in one text; the
agent has the response's own tokens. All samples of a prompt are generated in one process of
OpenRLHF, where they are gathered.

OpenRLHF loads such a file by its path and does not register it as a module. Therefore this file may
not define dataclasses, which look their module up.

Source: OpenRLHF 0.11.2, `openrlhf.utils.agent`, `openrlhf.trainer.ray.vllm_engine`,
`openrlhf.trainer.ppo_utils.experience_maker`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from typing import Any, cast

from judgegym.judges.config.extras import report_missing_extra
from judgegym.judges.core.event_loop import run_blocking
from judgegym.judges.core.naming import refuse_unknown
from judgegym.llm.at_once import gather_results
from judgegym.llm.errors import SettingsError
from judgegym.server.protocols.chat_tokens import (
    NOT_FOUND,
    find_response,
    plain_prompt,
    plain_response,
)
from judgegym_trainers.group_rewards import GroupSettings
from judgegym_trainers.scores.requests import CompletionRow, make_completion_row
from judgegym_trainers.scores.results import CompletionReward, FailureStreak
from judgegym_trainers.scores.sources import read_settings_variable

VARIABLE = "JUDGEGYM_OPENRLHF"
ESTIMATORS = ("rloo", "reinforce_baseline", "group_norm", "dr_grpo")
"""Values of `--algo.advantage.estimator` that subtract the group's or the leave-one-out mean."""
THREADS = 1024
"""Maximum number of samples that wait in the reward function for their group at the same time."""

RewardFunction = Callable[[Sequence[str], Sequence[str], Sequence[object]], dict[str, Any]]


def reward_function(
    url: str | None = None,
    *,
    group_size: int | None = None,
    estimator: str | None = None,
    **settings: Any,
) -> RewardFunction:
    """Make a `reward_func(queries, prompts, labels)`.

    A label is a reference, or an object (also as JSON text) of `reference`, `rubric` and `group`;
    with an environment it is a row's id.

    Args:
        url: the URL of a reward server.
        group_size: `--rollout.n_samples_per_prompt`: judge the samples of a prompt together, and
            give those without a score the mean of the others.
        estimator: `--algo.advantage.estimator`, one of `ESTIMATORS`.
        settings: further settings of `GroupSettings`:

            * `judge`, instead of a URL: the settings of a judge to run in this process, under the
              server's names;
            * `environment`, instead of a URL, for its rewards: a name, a source, or the arguments
              of `EnvironmentSource.from_settings`;
            * `token` and `mount` of the server;
            * `on_failure`: `leave_out`, or `score`, which allows any estimator and trains the mean,
              or else `fallback_score`, as a reward;
            * `invalid_completion_score`, `timeout_s`, `deadline_s`, `group_wait_s`.

    Raises:
        SettingsError: a setting is wrong, or a failed judge would be trained as a score.
    """
    group_settings, judge_response = _read_settings(url, group_size, settings)
    if group_settings.on_failure != "score" and (
        estimator not in ESTIMATORS or (group_size or 1) < 2
    ):
        estimators = ", ".join(ESTIMATORS)
        raise SettingsError(
            "estimator: a reward function can give a failed judge nothing but the mean of its "
            f"group, which only {estimators} subtract (--algo.advantage.estimator; OpenRLHF's "
            "default, gae, does not), with a group_size of 2 or more; found estimator "
            f"{estimator!r} and group_size {group_size!r}. Use one of these estimators with "
            "group_size >= 2; or agent_executor, which leaves such samples out with every "
            "estimator; or on_failure='score', which trains the mean or fallback_score as a reward"
        )
    _allow_more_threads()

    def reward_func(
        queries: Sequence[str], prompts: Sequence[str], labels: Sequence[object]
    ) -> dict[str, Any]:
        async def gather_rewards() -> list[CompletionReward]:
            samples = zip(queries, prompts, labels, strict=True)
            return await gather_results(
                judge_response(prompt, find_response(query, prompt), label)
                for query, prompt, label in samples
            )

        results = run_blocking(gather_rewards())
        logs = {
            name: [result.flags[name] for result in results]
            for name in (results[0].flags if results else ())
        }
        scores = [result.score for result in results]
        # `scores` are for OpenRLHF's filter of prompts and its logs; they are equal to the rewards.
        return {"rewards": scores, "scores": list(scores), "extra_logs": logs}

    return reward_func


def agent_executor(
    url: str | None = None, *, group_size: int | None = None, **settings: Any
) -> type:
    """Make a single-turn `AgentExecutor` whose reward is the judge's.

    Args:
        url: the URL of a reward server.
        group_size: `--rollout.n_samples_per_prompt`, even if it is 1: a group's baseline counts
            samples that are left out, which therefore get the mean of the others.
        settings: as for `reward_function`; `on_failure="leave_out"` masks the tokens of a sample
            whose judge failed, `"score"` trains them.

    Raises:
        SettingsError: a setting is wrong.
    """
    group_settings, judge_response = _read_settings(url, group_size, settings)
    is_masked = group_settings.on_failure != "score"
    if is_masked and group_size is None:
        raise SettingsError(
            "group_size: expected --rollout.n_samples_per_prompt (1 where a prompt has one "
            "sample): the baseline of a group counts a sample that is left out, which gets the "
            "mean of the others"
        )
    with report_missing_extra("openrlhf"):
        from openrlhf.utils.agent import SingleTurnAgentExecutor

    class AgentExecutor(SingleTurnAgentExecutor):
        """One turn, and its reward."""

        def __init__(self) -> None:
            super().__init__(None)
            self._failures = FailureStreak()

        async def execute(
            self,
            prompt: str,
            label: object,
            sampling_params: Any,
            max_length: int,
            hf_tokenizer: Any,
            llm_engine: Any,
            images: Any = None,
        ) -> dict[str, Any]:
            """Sample as OpenRLHF does, and judge the sampled tokens."""
            output: dict[str, Any] = await super().execute(
                prompt, label, sampling_params, max_length, hf_tokenizer, llm_engine, images=images
            )
            ((start, end),) = output["action_ranges"]
            response = hf_tokenizer.decode(
                output["observation_tokens"][start:end], skip_special_tokens=False
            )
            result = await judge_response(prompt, response, label)
            output |= {"reward": result.score, "scores": result.score, "extra_logs": result.flags}
            if is_masked:
                # May raise, which stops the training: the judge failed too often in a row.
                self._failures.add(result, group_size or 1)
            if is_masked and result.is_failed:
                # Without action tokens neither loss nor whitening counts the sample. If it stayed
                # marked as truncated, a penalty for length would move the group's baseline.
                output |= {"action_ranges": [], "truncated": False}
            return output

    return AgentExecutor


def __getattr__(name: str) -> Any:
    """Make the object that OpenRLHF looks for in this file, with arguments from the variable."""
    if name == "reward_func":
        return reward_function(**cast(Any, read_settings_variable(VARIABLE)))
    if name == "AgentExecutor":
        return agent_executor(**cast(Any, read_settings_variable(VARIABLE)))
    raise AttributeError(name)


def _read_settings(
    url: str | None, group_size: int | None, settings: Mapping[str, Any]
) -> tuple[GroupSettings, Callable[[str, str | None, object], Awaitable[CompletionReward]]]:
    """Return the settings, and a function that judges a response.

    The function takes `None` for a response that was not found in its query.

    Raises:
        SettingsError: a setting is unknown or wrong, or there can be no groups of this size.
    """
    is_size = isinstance(group_size, int) and not isinstance(group_size, bool) and group_size > 0
    if group_size is not None and not is_size:
        raise SettingsError(
            f"group_size: expected the number of samples of a prompt, found {group_size!r}"
        )
    refuse_unknown(settings, [field.name for field in fields(GroupSettings)], prefix="settings.")
    group_settings = GroupSettings(url, **settings)
    if group_settings.judge is not None and group_settings.compares and group_size is None:
        raise SettingsError(
            "group_size: a judge that compares needs --rollout.n_samples_per_prompt"
        )
    size = group_size or 1
    if group_settings.together is None:
        group_settings = replace(
            group_settings,
            together=size > 1
            and (
                group_settings.judge is None
                or group_settings.compares
                or group_settings.depends_on_group
            ),
        )
    batcher = group_settings.make_batcher(size)

    async def judged(prompt: str, response: str | None, label: object) -> CompletionReward:
        text = plain_response(response or "")
        if group_settings.environment is not None:
            row = CompletionRow({"uid": label if isinstance(label, str) else None}, text)
        else:
            row = make_completion_row(plain_prompt(prompt), text, label=label)
        row = replace(row, error=NOT_FOUND) if response is None else row
        # OpenRLHF passes no group id. Prompt and label replace it; in the next epoch they name
        # another group (`recurs`).
        return await batcher.score(f"{prompt}\n{label!r}", row, recurs=True)

    return group_settings, judged


def _allow_more_threads() -> None:
    """Let many samples wait for their judge: OpenRLHF calls the function in its few threads."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:  # loaded outside of OpenRLHF
        return
    loop.set_default_executor(ThreadPoolExecutor(THREADS, thread_name_prefix="reward"))
