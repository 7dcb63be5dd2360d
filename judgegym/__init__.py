"""The public interface of JudgeGym, for scripts and notebooks.

    from judgegym import RubricJudge

    judge = RubricJudge("Is the answer correct?", judge_model_name="gpt-4.1-mini",
                        judge_base_url="https://api.openai.com/v1", judge_api_key_env="OPENAI_API_KEY")
    table = await judge.judge("What is 2 + 2?", ["4", "5", "It is four."])    # in a script: judge.judge_sync(…)

Names are imported when they are used, so that `import judgegym` is fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from judgegym._group_judges import ListwiseJudge, TournamentJudge
    from judgegym._group_table import GroupTable
    from judgegym._judges import ArenaHardJudge, AspectJudge, PeerJudge, RubricJudge
    from judgegym._own_judge import OwnJudge
    from judgegym._results import JudgmentTable
    from judgegym._rl4f import RL4FEvaluator
    from judgegym._table import TextTable
    from judges.core.judgment import Judgment, Status
    from judges.llm.errors import DataError, EndpointError, JudgeGymError, SettingsError
    from judges.rubrics.prompt import Rubric

    __version__: str

__all__ = [
    "ArenaHardJudge",
    "AspectJudge",
    "DataError",
    "EndpointError",
    "GroupTable",
    "JudgeGymError",
    "Judgment",
    "JudgmentTable",
    "ListwiseJudge",
    "OwnJudge",
    "PeerJudge",
    "RL4FEvaluator",
    "Rubric",
    "RubricJudge",
    "SettingsError",
    "Status",
    "TextTable",
    "TournamentJudge",
]

_HOMES = {
    "ArenaHardJudge": "judgegym._judges",
    "AspectJudge": "judgegym._judges",
    "GroupTable": "judgegym._group_table",
    "ListwiseJudge": "judgegym._group_judges",
    "OwnJudge": "judgegym._own_judge",
    "PeerJudge": "judgegym._judges",
    "RubricJudge": "judgegym._judges",
    "JudgmentTable": "judgegym._results",
    "RL4FEvaluator": "judgegym._rl4f",
    "TextTable": "judgegym._table",
    "TournamentJudge": "judgegym._group_judges",
    "Judgment": "judges.core.judgment",
    "Status": "judges.core.judgment",
    "DataError": "judges.llm.errors",
    "EndpointError": "judges.llm.errors",
    "JudgeGymError": "judges.llm.errors",
    "SettingsError": "judges.llm.errors",
    "Rubric": "judges.rubrics.prompt",
}


def __getattr__(name: str) -> object:
    """Import a name of `__all__` from its module.

    Raises:
        AttributeError: the name is not in `__all__`.
    """
    if name == "__version__":
        from judges.config.version import package_version

        return package_version()
    if name not in _HOMES:
        raise AttributeError(f"module 'judgegym' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names."""
    return [*__all__, "__version__"]
