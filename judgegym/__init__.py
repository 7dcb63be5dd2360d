"""The public interface of JudgeGym, for scripts and notebooks.

    from judgegym import RubricJudge

    judge = RubricJudge("Is the answer correct?", judge_model_name="gpt-6-luna",
                        judge_base_url="https://api.openai.com/v1",
                        judge_api_key_env="OPENAI_API_KEY")
    table = await judge.judge("What is 2 + 2?", ["4", "5", "It is four."])    # in a script:
    judge.judge_sync(…)

Names are imported when they are used, so that `import judgegym` is fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from judgegym._lazy import import_lazily

if TYPE_CHECKING:
    from judgegym.api.group_judges import GroupTable, ListwiseJudge, TournamentJudge
    from judgegym.api.judges import (
        ArenaHardJudge,
        AspectJudge,
        Cascade,
        ChecklistJudge,
        Jury,
        OwnJudge,
        PeerJudge,
        PromptJudge,
        RewardJudge,
        RewardModel,
        RubricJudge,
        RuleJudge,
        Steps,
    )
    from judgegym.api.results import JudgmentTable, TextTable
    from judgegym.api.rl4f import RL4FEvaluator
    from judgegym.judges.aspects.prompt import SUPPORTED_ASPECTS
    from judgegym.judges.core.judgment import Judgment, Status
    from judgegym.judges.rubrics.prompt import Rubric
    from judgegym.llm.errors import (
        DataError,
        EndpointError,
        EndpointOutage,
        JudgeGymError,
        SettingsError,
    )

    __version__: str

__all__ = [
    "SUPPORTED_ASPECTS",
    "ArenaHardJudge",
    "AspectJudge",
    "Cascade",
    "ChecklistJudge",
    "DataError",
    "EndpointError",
    "EndpointOutage",
    "GroupTable",
    "JudgeGymError",
    "Judgment",
    "JudgmentTable",
    "Jury",
    "ListwiseJudge",
    "OwnJudge",
    "PeerJudge",
    "PromptJudge",
    "RL4FEvaluator",
    "RewardJudge",
    "RewardModel",
    "Rubric",
    "RubricJudge",
    "RuleJudge",
    "SettingsError",
    "Status",
    "Steps",
    "TextTable",
    "TournamentJudge",
]

_MODULES = {
    "judgegym.api.group_judges": ("GroupTable", "ListwiseJudge", "TournamentJudge"),
    "judgegym.api.judges": (
        "ArenaHardJudge",
        "AspectJudge",
        "Cascade",
        "ChecklistJudge",
        "Jury",
        "OwnJudge",
        "PeerJudge",
        "PromptJudge",
        "RewardJudge",
        "RewardModel",
        "RubricJudge",
        "RuleJudge",
        "Steps",
    ),
    "judgegym.api.results": ("JudgmentTable", "TextTable"),
    "judgegym.api.rl4f": ("RL4FEvaluator",),
    "judgegym.judges.aspects.prompt": ("SUPPORTED_ASPECTS",),
    "judgegym.judges.core.judgment": ("Judgment", "Status"),
    "judgegym.judges.rubrics.prompt": ("Rubric",),
    "judgegym.llm.errors": (
        "DataError",
        "EndpointError",
        "EndpointOutage",
        "JudgeGymError",
        "SettingsError",
    ),
}
_import_name = import_lazily(__name__, _MODULES)


def __getattr__(name: str) -> object:
    """Import a name of `__all__` from its module.

    Raises:
        AttributeError: the name is not in `__all__`.
    """
    if name == "__version__":
        from judgegym.judges.config.extras import package_version

        return package_version()
    return _import_name(name)


def __dir__() -> list[str]:
    """Return the public names."""
    return [*__all__, "__version__"]
