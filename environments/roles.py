"""What a policy is in an environment whose judge it could be itself."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator
from typing_extensions import Self

from environments.settings import EnvConfig
from judges.config.fields import setting

Role = Literal["respondent", "judge"]


class RoleConfig(EnvConfig):
    """Settings of an environment that trains and measures either side of the judge's table."""

    role: Role = setting(
        "respondent",
        "Give the policy this role. respondent: it answers, and a judge scores the answer. judge: it judges, and its "
        "verdict is compared with the row's gold label.",
        common=True,
    )

    @model_validator(mode="after")
    def _fits_its_role(self) -> Self:
        if self.role == "judge" and "min_response_length" not in self.model_fields_set:
            self.min_response_length = 0  # a verdict may be short
        if self.role == "judge" and self.judge_critique_rounds:
            raise ValueError("judge_critique_rounds: with role=judge there is no judge besides the policy")
        return self

    @property
    def policy_is_judge(self) -> bool:
        """Whether the policy judges, and no other judge is called."""
        return self.role == "judge"
