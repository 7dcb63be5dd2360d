"""Facts about an environment: names, judge, metrics in tables, samples for `--offline`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from judgegym.engine.terminal.summary import Outcome
from judgegym.judges.core.judge import Judge
from judgegym.judges.core.judgment import Judgment
from judgegym.judges.core.prompt_format import PromptFormat
from judgegym.llm.client import ChatClient


@dataclass(frozen=True, kw_only=True)
class EnvSpec:
    """Facts about an environment.

    >>> EnvSpec(name="haiku", headline=("mean_score", "score"), judge="rubric").reward_range
    (0.0, 1.0)

    Attributes:
        name: the environment's name in paths and metric tables.
        headline: the metric, and its label, that the progress display and the training log show; a
            ratio, mean or rate that `record_metrics` adds to, so that each row's share of it is
            known.
        training_headline: the name of the headline metric in training, if it differs.
        reward_range: the lowest and the highest reward of a judged completion; monitors of training
            scale rewards by it to scores from 0 to 1, as a gold judge gives them.
        judge: the judge that the environment asks (`JudgedEnv.answer_judge`): a kind of `judgegym
            score --judge`, whose settings the environment's inherit, or a function of settings and
            client that opens a judge. `None`: the settings choose it (`AnyJudgeConfig`), or there
            is none.
        jury_detail: makes the detail of a jury's judgment from its members' judgments that have a
            score; `None` takes the detail of the member whose score is nearest to the jury's.
        invalid_score: the score in evaluations of a completion in the wrong format, which counts as
            a wrong answer.
        metric_notes: explanations of metrics with misleading names, for the table of an evaluation.
        outcomes: the metrics that the printed table shows beside the headline.
        documented: metrics that an evaluation lists even without a value: the reason for none, then
            their names. Names with `{category}` stand for one metric per category of the rows; the
            same holds for any attribute of a task.
        offline_samples: the settings that name the bundled samples, for `--offline`.
        offline_prompts: the prompts of the environment's own judge, for `--offline`; references are
            `path/to/file.py:NAME`.
    """

    name: str
    headline: tuple[str, str]
    training_headline: str | None = None
    reward_range: tuple[float, float] = (0.0, 1.0)
    judge: str | Callable[[Any, ChatClient], Judge[Any]] | None = None
    jury_detail: Callable[[Sequence[Judgment[Any]]], object] | None = None
    invalid_score: float = 0.0
    metric_notes: Mapping[str, str] = field(default_factory=dict)
    outcomes: Sequence[Outcome] = ()
    documented: Sequence[tuple[str, ...]] = ()
    offline_samples: Mapping[str, str] = field(default_factory=dict)
    offline_prompts: Sequence[str | PromptFormat] = ()

    @property
    def training_metric(self) -> str:
        """Name of the headline metric in training."""
        return self.training_headline or self.headline[0]

    def __post_init__(self) -> None:
        """Check that the headline is a pair; a metric without its label is an easy mistake.

        Raises:
            TypeError: the headline is no pair of texts.
        """
        is_pair = isinstance(self.headline, tuple) and len(self.headline) == 2
        if not is_pair or not all(isinstance(part, str) for part in self.headline):
            raise TypeError(
                'EnvSpec: expected a metric and its label, headline=("mean_reward", "reward"), '
                f"found {self.headline!r}"
            )
