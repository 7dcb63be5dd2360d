"""Rewards for OpenRLHF in its own process: as an agent, and as a reward function.

    from judgegym.integrations.openrlhf import agent_executor
    AgentExecutor = agent_executor(judge={"judge": "listwise"}, group_size=8)     # --train.agent_func_path FILE.py

    from judgegym.integrations.openrlhf import reward_function
    reward_func = reward_function(                                                # --reward.remote_url FILE.py
        judge={"judge": "rubric", "judge_model_name": "…"}, group_size=8, estimator="rloo"
    )

Either is a file of one's own, or this file itself, which takes the same arguments as a JSON object from the variable
`JUDGEGYM_OPENRLHF`.

OpenRLHF reads no missing reward. The agent masks all tokens of a sample whose judge failed (`action_ranges`), so that
no estimator trains it, and gives it the mean of its group, so that it moves no baseline. The reward function can only
give the mean, which is no reward where the estimator subtracts the group's mean; neither form sees OpenRLHF's
arguments, so that the function is told the `estimator`, and refuses others. `on_failure="score"` trains the mean or
`fallback_score` as a reward. `extra_logs.judge_failed` is 1 in all forms. The reward function is called in a thread for
each sample, with prompt and response in one text; the agent has the response's own tokens. All samples of a prompt are
made in one process of OpenRLHF, where they meet.

OpenRLHF loads such a file by its path, without a module of that name: nothing here may need one (no dataclasses).

Source: OpenRLHF 0.11.2, `openrlhf.utils.agent`, `openrlhf.trainer.ray.vllm_engine`,
`openrlhf.trainer.ppo_utils.experience_maker`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

from judgegym.integrations.group_rewards import GroupSettings
from judgegym.integrations.scores.groups import SampleBatcher
from judgegym.integrations.scores.requests import CellError, CompletionRow, label_fields
from judgegym.integrations.scores.results import FailuresInARow, TrainerReward
from judgegym.integrations.scores.sources import is_of_groups, refuse_unknown, settings_in
from judgegym.judges.config.extras import needs
from judgegym.judges.core.event_loop import run_blocking
from judgegym.llm.at_once import all_results
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON
from judgegym.server.protocols.chat_tokens import plain_prompt, plain_response
from judgegym.server.protocols.continuation import NOT_FOUND, response_in

if TYPE_CHECKING:
    from judgegym.integrations.single_turn import EnvironmentSource

VARIABLE = "JUDGEGYM_OPENRLHF"
_SETTINGS = (
    *("token", "mount", "fallback_score", "invalid_completion_score"),
    *("timeout_s", "deadline_s", "group_wait_s"),
)
ESTIMATORS = ("rloo", "reinforce_baseline", "group_norm", "dr_grpo")
"""The values of `--algo.advantage.estimator` that subtract the mean of the group, or that of the others."""
THREADS = 1024
"""How many samples of the reward function may wait for their group at the same time."""

RewardFunction = Callable[[Sequence[str], Sequence[str], Sequence[object]], dict[str, Any]]


def reward_function(
    url: str | None = None,
    *,
    judge: Mapping[str, object] | None = None,
    environment: EnvironmentSource | Mapping[str, object] | str | None = None,
    group_size: int | None = None,
    estimator: str | None = None,
    on_failure: str = "leave_out",
    **settings: Any,
) -> RewardFunction:
    """Make a `reward_func(queries, prompts, labels)`.

    A label is a reference, or an object (also as JSON text) of `reference`, `rubric` and `group`; with an environment
    it is the id of one of its rows.

    Args:
        url: the URL of a reward server.
        judge: instead: the settings of a judge to run in this process, with the server's names.
        environment: instead: an environment, whose rewards these are: a name, a source, or the arguments of
            `EnvironmentSource.of`.
        group_size: `--rollout.n_samples_per_prompt`: judge the samples of a prompt together, and give those without a
            score the mean of the others.
        estimator: `--algo.advantage.estimator`, which is one of `ESTIMATORS`.
        on_failure: `leave_out`, or `score`, with any estimator: the mean, or else `fallback_score`, is a reward.
        settings: `token` and `mount` of the server; `fallback_score`, `invalid_completion_score`, `timeout_s`,
            `deadline_s`, `group_wait_s`.

    Raises:
        SettingsError: a setting is wrong, or a failed judge would be trained as a score.
    """
    rewards = _rewards(url, judge, environment, group_size, settings)
    if not _is_score(on_failure) and (estimator not in ESTIMATORS or (group_size or 1) < 2):
        raise SettingsError(
            "estimator: a reward function can give a failed judge nothing but the mean of its group, which only "
            f"{', '.join(ESTIMATORS)} subtract (--algo.advantage.estimator; OpenRLHF's default, gae, does not), with a "
            f"group_size of 2 or more; found estimator {estimator!r} and group_size {group_size!r}. Expected these, "
            "agent_executor, which leaves such samples out with every estimator, or on_failure='score', which trains "
            "the mean or fallback_score as a reward"
        )
    _more_threads()

    def reward_func(queries: Sequence[str], prompts: Sequence[str], labels: Sequence[object]) -> dict[str, Any]:
        async def all_of_them() -> list[TrainerReward]:
            samples = zip(queries, prompts, labels, strict=True)
            return await all_results(
                rewards.of(prompt, response_in(query, prompt), label) for query, prompt, label in samples
            )

        worths = [worth.numbers for worth in run_blocking(all_of_them())]
        scores = [worth.pop("score") for worth in worths]
        logs = {name: [worth[name] for worth in worths] for name in (worths[0] if worths else ())}
        return {"rewards": scores, "scores": list(scores), "extra_logs": logs}

    return reward_func


def agent_executor(
    url: str | None = None,
    *,
    judge: Mapping[str, object] | None = None,
    environment: EnvironmentSource | Mapping[str, object] | str | None = None,
    group_size: int | None = None,
    on_failure: str = "leave_out",
    **settings: Any,
) -> type:
    """Make an `AgentExecutor` of one turn, whose reward is the judge's. Other arguments are those of `reward_function`.

    Args:
        url: see `reward_function`.
        judge: see `reward_function`.
        environment: see `reward_function`.
        group_size: `--rollout.n_samples_per_prompt`, also where it is 1: the baseline of a group counts samples that
            are left out, so that these get the mean of the others.
        on_failure: `leave_out`: the tokens of a sample whose judge failed are masked; or `score`: they are trained.
        settings: see `reward_function`.

    Raises:
        SettingsError: a setting is wrong.
    """
    is_masked = not _is_score(on_failure)
    if is_masked and group_size is None:
        raise SettingsError(
            "group_size: expected --rollout.n_samples_per_prompt (1 where a prompt has one sample): the baseline of a "
            "group counts a sample that is left out, which gets the mean of the others"
        )
    with needs("openrlhf"):
        from openrlhf.utils.agent import SingleTurnAgentExecutor

    rewards = _rewards(url, judge, environment, group_size, settings)

    class AgentExecutor(SingleTurnAgentExecutor):
        """One turn, and its reward."""

        def __init__(self) -> None:
            super().__init__(None)
            self._failures = FailuresInARow(group_size or 1)

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
            """Sample as OpenRLHF does, and judge the tokens that were sampled."""
            output: dict[str, Any] = await super().execute(
                prompt, label, sampling_params, max_length, hf_tokenizer, llm_engine, images=images
            )
            ((start, end),) = output["action_ranges"]
            response = hf_tokenizer.decode(output["observation_tokens"][start:end], skip_special_tokens=False)
            worth = await rewards.of(prompt, response, label)
            numbers = worth.numbers
            score = numbers.pop("score")
            output |= {"reward": score, "scores": score, "extra_logs": numbers}
            if is_masked:
                self._failures.add(worth.rewarded)
            if is_masked and worth.rewarded.is_failed:
                # No token is an action: neither loss nor whitening counts it. A length penalty would move the baseline.
                output |= {"action_ranges": [], "truncated": False}
            return output

    return AgentExecutor


def __getattr__(name: str) -> Any:
    """What OpenRLHF looks for in this file, where no file of the user's has made it."""
    if name == "reward_func":
        return reward_function(**cast(Any, settings_in(VARIABLE)))
    if name == "AgentExecutor":
        return agent_executor(**cast(Any, settings_in(VARIABLE)))
    raise AttributeError(name)


def _is_score(on_failure: object) -> bool:
    """Whether a failed judge is to be trained as a score.

    Raises:
        SettingsError: the setting has another value.
    """
    if on_failure not in ("leave_out", "score"):
        raise SettingsError(f"on_failure: expected leave_out or score, found {on_failure!r}")
    return on_failure == "score"


def _rewards(
    url: str | None,
    judge: Mapping[str, object] | None,
    environment: EnvironmentSource | Mapping[str, object] | str | None,
    group_size: int | None,
    settings: Mapping[str, Any],
) -> _Rewards:
    """What gives the rewards, by settings that may come from a variable, of which nobody has checked names and types.

    Raises:
        SettingsError: a setting is unknown or wrong, or there can be no groups of this size.
    """
    refuse_unknown(settings, _SETTINGS, within="settings")
    is_size = isinstance(group_size, int) and not isinstance(group_size, bool) and group_size > 0
    if group_size is not None and not is_size:
        raise SettingsError(f"group_size: expected the number of samples of a prompt, found {group_size!r}")
    if judge is not None and is_of_groups(judge) and group_size is None:
        raise SettingsError("group_size: a judge that compares needs --rollout.n_samples_per_prompt")
    size = group_size or 1
    together = size > 1 and (judge is None or is_of_groups(judge))
    given = GroupSettings(url=url, judge=judge, environment=environment, together=together, **settings)
    return _Rewards(given.gathering(size), is_environment=environment is not None)


class _Rewards:
    """Scores samples one by one, and lets those of a prompt meet."""

    def __init__(self, gathering: SampleBatcher, *, is_environment: bool) -> None:
        self._gathering = gathering
        self._is_environment = is_environment

    async def of(self, prompt: str, response: str | None, label: object) -> TrainerReward:
        """What a response is worth; `None` is one that was not found in the query."""
        group = f"{prompt}\n{label!r}"  # OpenRLHF passes no id of the group
        return await self._gathering.score(group, self._row(prompt, response, label), recurs=True)

    def _row(self, prompt: str, response: str | None, label: object) -> CompletionRow:
        error = NOT_FOUND if response is None else ""
        text = plain_response(response or "")
        if self._is_environment:
            return CompletionRow({"uid": label if isinstance(label, str) else None}, text, error)
        shared: dict[str, JSON] = {"prompt": plain_prompt(prompt)}
        try:
            return CompletionRow(shared | label_fields(label), text, error)
        except CellError as refusal:
            return CompletionRow(shared, text, str(refusal))


def _more_threads() -> None:
    """Let many samples wait for their judge: OpenRLHF calls the function in threads, of which there are few."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:  # loaded outside of OpenRLHF
        return
    loop.set_default_executor(ThreadPoolExecutor(THREADS, thread_name_prefix="reward"))
