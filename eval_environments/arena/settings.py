"""The settings of Arena-Hard."""

from __future__ import annotations

from environments.settings.group_judge import GroupJudgeSettings
from environments.settings.verbs import EVALUATIONS, ROLLOUTS
from judges.arena.settings import ArenaJudgeSettings
from judges.config.fields import setting


class ArenaHardConfig(GroupJudgeSettings):
    """Arena-Hard's own settings."""

    answer_judge = ArenaJudgeSettings
    always_anchored = True

    style_control: bool = setting(
        False, "Also report the win rate adjusted to equal length and markdown of both answers.", verbs=EVALUATIONS
    )
    cluster_winrates: bool = setting(
        False, "Also report the win rate of each topic cluster of the prompts (column cluster).", verbs=EVALUATIONS
    )
    train_prompt_dataset: str = setting(
        "NousResearch/arena-hard-v1-prompts",
        "Read prompts from this dataset: hub name or file.",
        group="data",
        common=True,
    )
    train_baseline_dataset: str = setting(
        "NousResearch/gpt-4-0314-baseline-arenahard",
        "Read the baseline's answers from this dataset: hub name or file.",
        group="data",
        common=True,
    )
    eval_prompt_dataset: str | None = setting(
        None,
        "Read prompts for evaluations from this dataset; if unset, from train_prompt_dataset.",
        verbs=EVALUATIONS,
        group="data",
    )
    eval_baseline_dataset: str | None = setting(
        None,
        "Read the baseline's answers for evaluations from this dataset; if unset, from train_baseline_dataset.",
        verbs=EVALUATIONS,
        group="data",
    )
    train_split: str = setting("train", "Train on this split of hub datasets.", verbs=ROLLOUTS, group="data")
    eval_split: str = setting("train", "Evaluate on this split of hub datasets.", verbs=EVALUATIONS, group="data")
