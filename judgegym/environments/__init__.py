"""Environments: the loop behind serve, process and evaluate, and the training environments.

The names that an environment of your own needs are here: `from judgegym.environments import
JudgedEnv, …`. Each is imported when it is first used.
"""

import os
from itertools import chain
from typing import TYPE_CHECKING

from judgegym._lazy import import_lazily

if TYPE_CHECKING:
    from judgegym.data.answers import PromptTask as PromptTask
    from judgegym.data.answers import prompt_tasks as prompt_tasks
    from judgegym.data.rows import Split as Split
    from judgegym.data.task_list import TaskList as TaskList
    from judgegym.engine.completions import Completion as Completion
    from judgegym.engine.completions import Conversation as Conversation
    from judgegym.engine.metrics import GoldLabel as GoldLabel
    from judgegym.engine.metrics import MetricAggregator as MetricAggregator
    from judgegym.engine.records import Sample as Sample
    from judgegym.engine.settings.env import EnvConfig as EnvConfig
    from judgegym.engine.settings.group_judge import GroupJudgeSettings as GroupJudgeSettings
    from judgegym.engine.terminal.summary import Outcome as Outcome
    from judgegym.environments.answer_judge import AnyJudgeConfig as AnyJudgeConfig
    from judgegym.environments.base import JudgedEnv as JudgedEnv
    from judgegym.environments.spec import EnvSpec as EnvSpec
    from judgegym.judges.config.fields import setting as setting
    from judgegym.judges.core.judgment import Judgment as Judgment
    from judgegym.judges.core.judgment import ScoreParts as ScoreParts
    from judgegym.judges.core.judgment import Status as Status
    from judgegym.judges.core.tasks import JudgeTask as JudgeTask

if __name__ != "judgegym.environments":  # classes that are imported twice are not the same
    raise ImportError(
        "the package is judgegym.environments: `environments/` is a link to its files",
        name=__name__,
    )

# transformers is used for tokenizers only: do not warn that PyTorch is missing.
os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")

_MODULES = {
    "judgegym.data.answers": ("PromptTask", "prompt_tasks"),
    "judgegym.data.rows": ("Split",),
    "judgegym.data.task_list": ("TaskList",),
    "judgegym.engine.completions": ("Completion", "Conversation"),
    "judgegym.engine.metrics": ("GoldLabel", "MetricAggregator"),
    "judgegym.engine.records": ("Sample",),
    "judgegym.engine.settings.env": ("EnvConfig",),
    "judgegym.engine.settings.group_judge": ("GroupJudgeSettings",),
    "judgegym.engine.terminal.summary": ("Outcome",),
    "judgegym.environments.base": ("JudgedEnv",),
    "judgegym.environments.answer_judge": ("AnyJudgeConfig",),
    "judgegym.environments.spec": ("EnvSpec",),
    "judgegym.judges.config.fields": ("setting",),
    "judgegym.judges.core.judgment": ("Judgment", "ScoreParts", "Status"),
    "judgegym.judges.core.tasks": ("JudgeTask",),
}

__all__ = list(chain.from_iterable(_MODULES.values()))
__getattr__ = import_lazily(__name__, _MODULES)
