"""Settings that the reward function and the reward manager share, as verl hands them over.

Source: verl 0.9.1, `reward.custom_reward_function.reward_kwargs` and the arguments of a deployed reward model.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from judgegym.integrations.scores.gathering import GROUP_WAIT_S, GatheringSettings, SampleBatcher, judged_by
from judgegym.integrations.scores.requests import plain
from judgegym.integrations.scores.sources import JudgeSource, is_of_groups, refuse_unknown
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON

if TYPE_CHECKING:
    from judgegym.integrations.single_turn.source import EnvironmentSource

DEADLINE_S = 280.0
"""Below the 300 s (`reward.timeout`) after which the manager `rate_limited` takes 0, unflagged."""
WITHIN = "reward_kwargs"
ESTIMATORS = (
    *("grpo", "grpo_vectorized", "rloo", "rloo_vectorized"),
    *("reinforce_plus_plus_baseline", "gpg", "gdpo"),
)
"""The values of `algorithm.adv_estimator` that subtract the mean of the group, or that of the others."""


def check_on_failure(value: object) -> None:
    """Check what is to become of a failed judge.

    Raises:
        SettingsError: the value is unknown.
    """
    if value not in ("leave_out", "score"):
        raise SettingsError(f"{WITHIN}.on_failure: expected leave_out or score, found {value!r}")


@dataclass(frozen=True, slots=True)
class Router:
    """The reward model that verl has deployed.

    Attributes:
        address: host and port of its router, which speaks the protocol of OpenAI.
        model: the name under which it is served: the path of its tokenizer, which is loaded from the same place.
    """

    address: str
    model: str | None

    @classmethod
    def of(cls, arguments: Mapping[str, object]) -> Router | None:
        """The router in the arguments that verl adds; `None` if it has deployed no reward model."""
        address = arguments.get("reward_router_address")
        if not isinstance(address, str):
            return None
        name = getattr(arguments.get("reward_model_tokenizer"), "name_or_path", None)
        return cls(address, name if isinstance(name, str) and name else None)

    def serving(self, judge: Mapping[str, JSON]) -> Mapping[str, JSON]:
        """The settings of a judge that is served by this router, unless they name another endpoint."""
        if judge.get("judge_base_url") is not None:
            return judge
        model: Mapping[str, JSON] = {} if self.model is None else {"judge_model_name": self.model}
        return {**model, **judge, "judge_base_url": f"http://{self.address}/v1"}


def judge_settings(judge: Mapping[str, object] | None, router: Router | None) -> Mapping[str, JSON] | None:
    """The settings of a judge in the containers of any configuration library, as JSON."""
    if judge is None:
        return None
    settings = cast("Mapping[str, JSON]", plain(judge))
    return settings if router is None else router.serving(settings)


@dataclass(frozen=True, kw_only=True)
class ManagerSettings(JudgeSource):
    """What the reward manager reads in `reward.custom_reward_function.reward_kwargs`: a source, and what follows.

    One of `url`, `judge` and `environment` is set.

    Attributes:
        environment: instead: an environment, whose rewards these are; `extra_info.uid` names its row.
        together: whether the samples of a prompt are one request; by default if `judge` is one that
            compares, or `environment` has a `group_judge`.
        fallback_score: the score of a sample whose group has no other.
        invalid_completion_score: the score of an empty response, about which no judge is asked.
        group_wait_s: seconds after its first sample for which a group waits for the others.
        on_failure: `leave_out`: a failed judgment adds nothing to the loss; or `score`: the mean of its group, or
            `fallback_score`, may be trained as a reward.
    """

    environment: EnvironmentSource | None = None
    together: bool | None = None
    fallback_score: float = 0.0
    invalid_completion_score: float = 0.0
    deadline_s: float = DEADLINE_S
    group_wait_s: float = GROUP_WAIT_S
    on_failure: str = "leave_out"

    @classmethod
    def of(cls, given: object, router: Router | None) -> ManagerSettings:
        """Read the settings, in the containers of any configuration library.

        Raises:
            SettingsError: one is unknown, or cannot work.
        """
        values = plain(given or {})
        if not isinstance(values, Mapping):
            raise SettingsError(f"{WITHIN}: expected a mapping of settings, found {type(values).__name__}")
        refuse_unknown(values, [field.name for field in dataclasses.fields(cls)], within=WITHIN)
        known: dict[str, Any] = dict(values)
        for name in ("fallback_score", "invalid_completion_score", "timeout_s", "deadline_s", "group_wait_s"):
            value = known.get(name, 0.0)
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise SettingsError(f"{WITHIN}.{name}: expected a number, found {value!r}")
        check_on_failure(known.get("on_failure", "leave_out"))
        if known.get("judge") is not None:
            if not isinstance(known["judge"], Mapping):
                raise SettingsError(f"{WITHIN}.judge: expected a mapping of settings")
            known["judge"] = judge_settings(known["judge"], router)
        if known.get("environment") is not None:
            from judgegym.integrations.single_turn.source import source_of  # late: it needs all packages

            known["environment"] = source_of(known["environment"])
        settings = cls(**known)
        if sum(each is not None for each in (settings.url, settings.judge, settings.environment)) != 1:
            raise SettingsError(f"{WITHIN}: expected one of url, judge and environment")
        if settings.environment is None:
            settings.scoring()  # so that a setting that cannot work is told here
        return settings

    def check_estimator(self, algorithm: Mapping[str, Any], size: int) -> None:
        """Check that the mean of its group is no reward to a sample without a score.

        Args:
            algorithm: verl's `algorithm`.
            size: `actor_rollout_ref.rollout.n`.

        Raises:
            SettingsError: the estimator trains it as one.
        """
        found = algorithm.get("adv_estimator")
        estimator = str(getattr(found, "value", found))
        if self.on_failure == "score" or (estimator in ESTIMATORS and size > 1):
            return
        raise SettingsError(
            "algorithm.adv_estimator: JudgeRewardManager can give a failed judge nothing but the mean of its group, "
            f"which {estimator} with rollout.n={size} trains as a reward. Expected {', '.join(ESTIMATORS)}, with a "
            "rollout.n of 2 or more; or the agent loop judgegym.integrations.verl.loop.JudgeAgentLoop, which leaves "
            f"such samples out with every estimator; or +reward.custom_reward_function.{WITHIN}.on_failure=score"
        )

    @property
    def compares(self) -> bool:
        """Whether the samples of a prompt are judged together; an environment is opened to know it.

        Raises:
            SettingsError: a setting of the environment is wrong.
            DataError: its rows cannot be loaded.
        """
        if self.together is not None:
            return self.together
        if self.environment is not None:
            from judgegym.integrations.single_turn.opened import opened  # late: it needs all packages

            return opened(self.environment).compares  # wherever its `group_judge` comes from: a file, a variable
        return self.judge is not None and is_of_groups(self.judge)

    def gathering(self, size: int) -> SampleBatcher:
        """What scores samples one by one, and lets those of a prompt meet.

        Args:
            size: `actor_rollout_ref.rollout.n`.

        Raises:
            SettingsError: a setting is wrong.
        """
        settings = GatheringSettings(
            size=size,
            together=self.compares,
            wait_s=self.group_wait_s,
            fallback_score=self.fallback_score,
            invalid_completion_score=self.invalid_completion_score,
        )
        if self.environment is None:
            return SampleBatcher(judged_by(self.scoring(), settings), settings)
        from judgegym.integrations.single_turn.opened import judged_in  # late: it needs all packages

        return SampleBatcher(judged_in(self.environment, deadline_s=self.deadline_s), settings)
