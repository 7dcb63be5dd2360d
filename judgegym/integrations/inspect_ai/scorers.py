"""Scorers: a judge each, and the reward of an environment.

inspect finds them by the entry point `inspect_ai`, under the names `judgegym/rubric` and so on. Each takes the
arguments of `ScorerOptions` and, without `url`, the settings of its judge under the names that the environments have.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

from judgegym.integrations.inspect_ai.arguments import judging_of, shown_as_one_line
from judgegym.integrations.inspect_ai.names import registered
from judgegym.integrations.inspect_ai.samples import choice_of, request_of
from judgegym.integrations.inspect_ai.sources import opened_source
from judgegym.integrations.scores.results import REFUSED, CompletionReward
from judgegym.judges.scorers.registry import JudgeKind

_METRICS = [mean(), stderr()]
_NO_RESPONSE = "no_response"
_EMPTY = "the completion is empty: there is nothing to judge"


@scorer(metrics=_METRICS, name=registered("rubric"))
def rubric(url: str | None = None, **arguments: object) -> Scorer:
    """Score from 0 to 1 by a rubric: (score − lowest) / (highest − lowest).

    Args:
        url: the URL of a reward server; without one, the judge runs in this process.
        arguments: those of `ScorerOptions`, and the settings of the judge (`scale_min`, `judge_model_name`, …).
    """
    return _judge("rubric", {"url": url, **arguments})


@scorer(metrics=_METRICS, name=registered("aspect"))
def aspect(url: str | None = None, **arguments: object) -> Scorer:
    """Score from 0 to 1: the weighted share of yes/no questions (`aspects`) that speak for the completion.

    Args:
        url: the URL of a reward server; without one, the judge runs in this process.
        arguments: those of `ScorerOptions`, and the settings of the judge (`strictness`, `judge_model_name`, …).
    """
    return _judge("aspect", {"url": url, **arguments})


@scorer(metrics=_METRICS, name=registered("peer"))
def peer(url: str | None = None, **arguments: object) -> Scorer:
    """Score from 0 to 1: a peer's 0 to 100 by a rubric in text, over 100.

    Args:
        url: the URL of a reward server; without one, the judge runs in this process.
        arguments: those of `ScorerOptions`, and the settings of the judge.
    """
    return _judge("peer", {"url": url, **arguments})


@scorer(metrics=_METRICS, name=registered("arena_hard"))
def arena_hard(url: str | None = None, **arguments: object) -> Scorer:
    """Score from 0 to 1: the win rate in both orders against the sample's `baseline`, or else its target.

    Args:
        url: the URL of a reward server; without one, the judge runs in this process.
        arguments: those of `ScorerOptions`, and the settings of the judge.
    """
    return _judge("arena_hard", {"url": url, **arguments})


@scorer(metrics=_METRICS, name=registered("listwise"))
def listwise(url: str | None = None, **arguments: object) -> Scorer:
    """Score from 0 to 1: a score for each epoch of a sample, in one call.

    Args:
        url: the URL of a reward server; without one, the judge runs in this process, and needs `group_size`.
        arguments: those of `ScorerOptions`, and the settings of the judge; `group_size` is the number of epochs.
    """
    return _judge("listwise", {"url": url, **arguments})


@scorer(metrics=_METRICS, name=registered("tournament"))
def tournament(url: str | None = None, **arguments: object) -> Scorer:
    """Score from 0 to 1: games between the epochs of a sample.

    Args:
        url: the URL of a reward server; without one, the judge runs in this process, and needs `group_size`.
        arguments: those of `ScorerOptions`, and the settings of the judge; `group_size` is the number of epochs.
    """
    return _judge("tournament", {"url": url, **arguments})


@scorer(metrics=_METRICS, name=registered("choice"))
def choice(url: str | None = None, **arguments: object) -> Scorer:
    """Score from 0 to 1: 1 for the best of the epochs of a sample, 0 for the others.

    Args:
        url: the URL of a reward server; without one, the judge runs in this process, and needs `group_size`.
        arguments: those of `ScorerOptions`, and the settings of the judge; `group_size` is the number of epochs.
    """
    return _judge("choice", {"url": url, **arguments})


@scorer(metrics=_METRICS, name=registered("reward"))
def reward(
    environment: str,
    config: str | Path | None = None,
    split: str = "eval",
    offline: bool = False,
    **settings: object,
) -> Scorer:
    """Score with the reward of an environment, in that environment's own range; a sample's id is the id of its row.

    Args:
        environment: a built-in name such as `arena_hard`, or `path/to/file.py:Class`.
        config: a YAML file or a preset with further settings.
        split: which rows the samples are.
        offline: judge with the stand-in, on the bundled samples; its rewards mean nothing.
        settings: the settings under `env`.
    """
    with shown_as_one_line():
        environment_opened = opened_source(environment, settings, config=config, split=split, offline=offline)

    async def score(state: TaskState, target: Target) -> Score:
        with shown_as_one_line():
            [result] = await environment_opened.rewards(str(state.sample_id), [choice_of(state)])
        return _score(state, result, result.metrics, invalid="invalid_response_format")

    return score


def _judge(kind: JudgeKind, arguments: Mapping[str, object]) -> Scorer:
    with shown_as_one_line():
        judging = judging_of(kind, arguments)

    async def score(state: TaskState, target: Target) -> Score:
        with shown_as_one_line():
            [[result]] = await judging.scoring.score([request_of(state, target, judging.options)])
        rewarded = result.rewarded(judging.options.invalid_completion_score)
        return _score(state, rewarded, {"judge_model": judging.model}, invalid=_NO_RESPONSE)

    return score


def _score(state: TaskState, rewarded: CompletionReward, further: Mapping[str, object], *, invalid: str) -> Score:
    """A sample's score; without one it is unscored, which inspect's metrics and reducers leave out.

    Args:
        state: the sample.
        rewarded: what its completion is worth.
        further: metadata beside status and label.
        invalid: inspect's reason for an invalid completion.
    """
    metadata = {"status": rewarded.status, "label": rewarded.label, **further}
    answer, reason = state.output.completion, invalid if rewarded.is_invalid else None
    explanation = rewarded.explanation or (_EMPTY if reason == _NO_RESPONSE else "")
    if rewarded.reward is not None:
        return Score(value=rewarded.reward, answer=answer, explanation=explanation, reason=reason, metadata=metadata)
    missing = "scoring_failed" if rewarded.status == REFUSED else "grader_failed"
    return Score.unscored(reason=reason or missing, answer=answer, explanation=explanation, metadata=metadata)
