"""The settings of an environment in which the policy may be the judge."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, model_validator
from typing_extensions import Self

from judgegym.engine.settings import EnvConfig
from judgegym.judges.config.fields import setting

Role = Annotated[
    Literal["policy", "judge"], BeforeValidator(lambda value: "policy" if value == "respondent" else value)
]
"""The role of the policy; `respondent`, the former name of `policy`, is still accepted."""


class RoleConfig(EnvConfig):
    """Whether the policy answers or judges."""

    role: Role = setting(
        "policy",
        "Choose what the policy does. policy: it answers, and a judge scores the answer. judge: it judges the row's "
        "answer, and its verdict is compared with the gold label.",
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
