"""A judge alone as an environment of skyrl-gym, for a dataset of one's own.

Source: skyrl-gym 0.4.0, `skyrl_gym.register` and `BaseTextEnv`.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import skyrl_gym
from skyrl_gym.envs.base_text_env import BaseTextEnvStepOutput

from judgegym.integrations.scores.requests import CellError, Conversation, conversation_json, fields_in, group_id, plain
from judgegym.integrations.scores.results import check_finite
from judgegym.integrations.scores.scoring import RefusedError, Request
from judgegym.integrations.scores.sources import (
    DEADLINE_S,
    TIMEOUT_S,
    JudgeSource,
    SharedScorings,
    refuse_groups,
)
from judgegym.integrations.skyrl_gym.episode import SkyRLEpisode
from judgegym.judges.core.event_loop import run_blocking
from judgegym.llm.wire import JSON

if TYPE_CHECKING:
    from judgegym.server.settings.server import JudgeMount

_SCORINGS = SharedScorings()


class JudgeEnv(SkyRLEpisode):
    """A prompt of any dataset, and a judge's score of the completion."""

    def __init__(
        self,
        env_config: object = None,
        extras: Mapping[str, Any] | None = None,
        *,
        source: JudgeSource,
        fallback_score: float = 0.0,
        invalid_completion_score: float = 0.0,
    ) -> None:
        """Judge with the source that `register_judge` makes, by the row's `reward_spec`."""
        super().__init__()
        self._extras = extras or {}
        self._scoring = _SCORINGS.of(source)
        self._fallback, self._invalid = fallback_score, invalid_completion_score
        self._prompt: Conversation = ()

    def init(self, prompt: Any) -> tuple[Any, dict[str, Any]]:
        """Keep the prompt, which the judge is shown."""
        self._prompt = prompt
        return prompt, {}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """The score of a completion; blocks until it is there.

        Raises:
            SettingsError: the first requests were all refused.
        """
        ((result,),) = run_blocking(self._scoring.score([self._request(action)]))
        return self.end(result.rewarded(self._invalid), self._fallback)

    def _request(self, action: str) -> Request | RefusedError:
        if not self._prompt:
            return RefusedError("no prompt; init comes before step")
        spec = self._extras.get("reward_spec")
        spec = spec if isinstance(spec, Mapping) else {}
        try:
            fields = fields_in(spec, spec.get("ground_truth"))
            return {"prompt": conversation_json(self._prompt), "response": action, **fields, **self._ids()}
        except CellError as error:
            return RefusedError(str(error))

    def _ids(self) -> dict[str, JSON]:
        """The ids for a server that gathers groups: the row's, if it has one, and one of this step, for its retries."""
        info = self._extras.get("extra_info")
        group = group_id(plain(info.get("index"))) if isinstance(info, Mapping) else None
        return {} if group is None else {"group": group, "member": uuid.uuid4().hex}


def register_judge(
    url: str | None = None,
    *,
    judge: JudgeMount | Mapping[str, object] | None = None,
    token: str | None = None,
    mount: str = "",
    fallback_score: float = 0.0,
    invalid_completion_score: float = 0.0,
    timeout_s: float = TIMEOUT_S,
    deadline_s: float = DEADLINE_S,
    offline: bool = False,
    env_class: str = "judgegym",
) -> str:
    """Register an environment that gives the score of a judge, from 0 to 1, for a dataset of one's own.

    A row's `reward_spec.ground_truth` is the reference, or an object of `reference` and `rubric`; `reference`,
    `rubric`, `aspects`, `baseline` and `context` in `reward_spec` reach the judge, too.

    Args:
        url: the URL of a reward server.
        judge: the settings of a judge to run in this process, under the server's names.
        token: the server's bearer token.
        mount: the name of a judge at the server; empty for the judge at the root.
        fallback_score: the reward of a completion whose judge failed.
        invalid_completion_score: the reward of an empty completion, about which no judge is asked.
        timeout_s: seconds for one attempt at the server.
        deadline_s: seconds within which a step has its score; what has none by then has failed.
        offline: ask the stand-in instead of the endpoint of `judge`; its scores mean nothing.
        env_class: the id.

    Returns:
        The id, which the dataset's rows have as `env_class`.

    Raises:
        SettingsError: a setting is wrong, or neither or both of `url` and `judge` are given.
    """
    check_finite(fallback_score=fallback_score, invalid_completion_score=invalid_completion_score)
    refuse_groups(judge)
    source = JudgeSource(
        url, judge, token=token, mount=mount, timeout_s=timeout_s, deadline_s=deadline_s, offline=offline
    )
    _SCORINGS.of(source)  # a wrong setting is an error now
    kwargs = {"source": source, "fallback_score": fallback_score, "invalid_completion_score": invalid_completion_score}
    skyrl_gym.register(id=env_class, entry_point=f"{__name__}:JudgeEnv", kwargs=kwargs)
    return env_class


async def close() -> None:
    """Close the judges' connections now; otherwise they are closed when the process ends."""
    await _SCORINGS.close()
