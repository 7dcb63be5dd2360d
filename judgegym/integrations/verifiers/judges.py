"""Judge plugins: one class over a reward server or a judge in this process, made for each kind of judge.

Plugged with `[[env.taskset.task.judges]]` and one of the ids `judgegym-rubric`, `judgegym-aspect`, …. Guarantees: a
score from 0 to 1 for each trace, or an error where the judge failed (verifiers 0.4: the trace is not `ok`, its reward
is `None`); traces of one process share connections, limits and the judge's cache. A judge that compares needs a server,
or a judge in this process, that gathers the traces of a task (`group_size`); the Env `judgegym-group` does not.
"""

from __future__ import annotations

from typing import ClassVar

import verifiers.v1 as vf

from judgegym.integrations.scores.results import CompletionReward
from judgegym.integrations.scores.sources import is_of_groups
from judgegym.integrations.verifiers.recording import record
from judgegym.integrations.verifiers.scores import ScoresConfig
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON

_UNSET = ""
_OF_CLIENT = {"model": "judge_model_name", "base_url": "judge_base_url", "api_key_var": "judge_api_key_env"}
"""verifiers' names of what a judge in this process calls by its own."""


class JudgePluginConfig(ScoresConfig, vf.JudgeConfig):
    """Settings of a plugged judge; `model`, `base_url` and `api_key_var` are those of a judge in this process."""

    model: str = _UNSET
    base_url: str = _UNSET
    api_key_var: str = _UNSET


class ScoreJudge(vf.Judge[float, JudgePluginConfig]):
    """One of the judges; a subclass names its kind."""

    KIND: ClassVar[str]

    async def score(self, task: vf.TaskData, trace: vf.Trace) -> float:
        """The score of a trace.

        Raises:
            NoRewardError: the judge failed.
            CellError: a field of the task cannot be sent to a judge.
            SettingsError: a setting cannot work.
        """
        config, name = self.config, self.reward_name
        request = {**config.fields(task), "response": config.response(trace)}
        ids: dict[str, JSON] = {"group": trace.task.key or trace.task.hash, "member": trace.id}
        scoring = config.scoring({} if config.url else self._settings())
        ((scored,),) = await scoring.score([{**request, **ids}])
        verdict: CompletionReward = scored.rewarded(config.invalid_completion_score)
        record(verdict, trace, name, request, prefix=f"{name}/")
        if verdict.reward is None:
            raise verdict.error()
        return verdict.reward

    def _settings(self) -> dict[str, object]:
        """The settings of a judge in this process.

        Raises:
            SettingsError: it is one of another kind, or it compares, and nothing gathers the traces of a task.
        """
        config = self.config
        of_client = {ours: value for name, ours in _OF_CLIENT.items() if (value := getattr(config, name))}
        settings = {"judge": self.KIND, **of_client, **config.settings}
        if settings["judge"] != self.KIND:
            raise SettingsError(f"settings.judge: expected {self.KIND} or nothing, found {settings['judge']}")
        if is_of_groups(settings) and not settings.get("group_size"):
            raise SettingsError(
                f"the judge {self.KIND} compares completions: use the environment judgegym-group, or set group_size to "
                "the number of rollouts of a task"
            )
        return settings


def judge_of(kind: str) -> type[ScoreJudge]:
    """The plugin's class for a kind of judge."""
    return type(f"{kind.title().replace('_', '')}Judge", (ScoreJudge,), {"KIND": kind, "__module__": __name__})
