"""Comparisons of trainings that differ in one rule, to show what goes wrong without it.

The rewards of the two cannot be compared, since the rule changes the reward. The comparison uses
measures that are independent of judges: the share of the letter in the answers, their length, the
share of well-formed answers.

* `failures`: six of ten judgments of long answers fail, as if long prompts were too much for the
  judge. A masked failure has no effect; scored lowest, it teaches that long answers are bad, which
  the rubric does not say.
* `random_failures`: three of ten judgments fail, whatever the answer.
* `thinking`: rewards from −1 to 1, and a baseline that is better than the policy at first.
  Malformed thinking has the lowest reward, or 0.0, which is more than a lost game.
* `position`: the judge prefers the answer that it is shown first, and is not sure of itself. Both
  orders are played, or the one with the policy's answer first.
* `hack`: the judge pays for a text that says nothing, which a gold judge does not. The reward is
  the lower score of two judges with different weaknesses, or that judge's alone; further, the score
  of one of the two judges in turn. The gold judge watches all of them (`hacking.py`).
* `length`: the judge likes long answers. A length penalty is a part of the reward, or the judge is
  all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from examples.tiny_grpo.picture import FORMED, GOLD, LENGTH, REWARD, SHARE, Panel
from examples.tiny_grpo.tasks import (
    ALTERNATED,
    COMPOSITE,
    HACKED,
    MENDED,
    ROWS,
    SCRIPTED,
    THINKING_LETTERS,
    WITHOUT_PENALTY,
    Task,
    WarmUp,
)

_CARELESS = "examples.tiny_grpo.careless"
_JUDGE = SCRIPTED.judge
_THINK = "think"


@dataclass(frozen=True)
class Comparison:
    """The same training with a rule and without it.

    Attributes:
        name: one word.
        title: the title of the picture.
        rule: the task with the rule.
        without: the task without it.
        panels: the panels of the picture.
        measure: the panel that tells the two apart.
        further: further tasks, shown beside the two.
    """

    name: str
    title: str
    rule: Task
    without: Task
    panels: tuple[Panel, ...]
    measure: Panel
    further: tuple[Task, ...] = ()

    def add_judge_flags(self, words: Sequence[str]) -> Comparison:
        """Return the same comparison with further flags for its judge."""
        further = tuple(task.add_judge_flags(words) for task in self.further)
        return replace(
            self,
            rule=self.rule.add_judge_flags(words),
            without=self.without.add_judge_flags(words),
            further=further,
        )


def _duel(answer: str, *judge: str) -> Task:
    """Return a task of answers against a baseline."""
    rows = ROWS / f"{answer}_baseline.jsonl"
    row_settings = ("train_prompt_dataset", "train_baseline_dataset")
    return replace(
        SCRIPTED,
        environment="arena_hard",
        judge=(*_JUDGE, *judge),
        rows=rows,
        row_settings=row_settings,
        serve=(),
    )


def _failures(name: str, title: str, panels: tuple[Panel, ...], *judge: str) -> Comparison:
    rule = replace(
        SCRIPTED, name=f"{name}-masked", title="masked (the rule)", judge=(*_JUDGE, *judge)
    )
    careless = f"{_CARELESS}:FailuresScoredLowest"
    without = replace(
        rule, name=f"{name}-scored", title="scored as the lowest", environment=careless
    )
    return Comparison(name, title, rule, without, panels, panels[0])


def _thinking() -> Comparison:
    duel = _duel("good", "--noise=0.1")
    rule = replace(
        duel,
        name="thinking-lowest",
        title="lowest reward (the rule)",
        alphabet=THINKING_LETTERS,
        max_tokens=40,
        warm_up=WarmUp(str(duel.rows), _THINK),
        serve=_thinking_settings(-1.0),
    )
    without = replace(rule, name="thinking-zero", title="0.0", serve=_thinking_settings(0.0))
    return Comparison(
        "thinking", "Malformed thinking", rule, without, (FORMED, SHARE, REWARD), FORMED
    )


def _thinking_settings(malformed: float) -> tuple[str, ...]:
    mode = ("--env.thinking_mode=True", f"--env.custom_thinking_prompt={_THINK}")
    return (*mode, f"--env.invalid_thinking_reward={malformed}")


def _position() -> Comparison:
    duel = _duel("plain", "--position_bias=0.3", "--noise=0.1")
    rule = replace(duel, name="position-both", title="both orders (the rule)")
    one_order = replace(
        duel, name="position-one", title="one order", environment=f"{_CARELESS}:OneOrder"
    )
    return Comparison(
        "position", "A judge that prefers the first answer", rule, one_order, (SHARE, REWARD), SHARE
    )


COMPARISONS = {
    comparison.name: comparison
    for comparison in (
        _failures(
            "failures",
            "Judgments of long answers fail",
            (LENGTH, SHARE, REWARD),
            *("--failures=0.6", "--failures_from=16"),
        ),
        _failures("random_failures", "Judgments fail at random", (SHARE, REWARD), "--failures=0.3"),
        _thinking(),
        _position(),
        Comparison(
            "length",
            "A judge that likes long answers",
            replace(COMPOSITE, title="with a length penalty"),
            WITHOUT_PENALTY,
            (LENGTH, SHARE, REWARD),
            LENGTH,
        ),
        Comparison(
            "hack", "A judge that is hacked", MENDED, HACKED, (REWARD, GOLD), GOLD, (ALTERNATED,)
        ),
    )
}
