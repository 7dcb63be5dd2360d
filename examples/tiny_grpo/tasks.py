"""The training tasks: rows, the judge that rewards, and the policy's alphabet.

* `scripted`: a rubric, judged by a script with one rule: the more of one letter, the better
  (`judge.py`).
* `offline`: the stand-in of `--offline`. It compares words: an answer is better the more words it
  shares with question and reference, the longer it is, and the less it repeats. In these rows the
  words are single letters, so that a policy with a small alphabet can find them by chance.
* `composite`: a reward of two parts, in the environment `prompts`: a judge that likes the letter
  and long answers, and a length penalty (`docs/judges/composite.md`).
* `noisy`: the scripted judge, which errs differently each time; `signal_groups` judges 64 groups
  twice (`docs/monitoring/signal.md`).
* `two_turns`, `by_turn`: conversations of two turns (`two_turns.py`), with one reward or a reward
  for each turn.

The first two use the environment `rubric_absolute` with the rubric judge, unchanged: prompts,
parsers, retries and scores are those of any other judge. The scale is finer than the usual 1 to 5,
so that a small step shows.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROWS = Path(__file__).parent / "rows"
LETTERS = "abcdefghijklmnopqrstuvwxyz "

THINKING_LETTERS = f"{LETTERS}</>"


@dataclass(frozen=True)
class WarmUp:
    """Supervised training in the form of thinking.

    Attributes:
        rows: a JSONL file with the questions (`prompt`).
        system: the system prompt.
        steps: the number of optimizer steps.
    """

    rows: str
    system: str
    steps: int = 200


@dataclass(frozen=True)
class Task:
    """A task.

    Attributes:
        name: one word; folders are named after it.
        title: the title for people.
        judge: the module of the judge's endpoint, with its flags; `--port` is added.
        rows: the questions, with further columns that the environment needs.
        row_settings: the environment's settings that name the rows.
        serve: further settings of `judgegym serve`.
        environment: the environment that serves.
        alphabet: the characters that the policy writes.
        letter: the letter whose share is recorded; `None` for none.
        max_tokens: the most tokens of a completion.
        steps: the trainer's steps, unless set on the command line; `None` for the default.
        others: further judges by name, like `judge`; in `serve` the name in braces is the URL.
        warm_up: the supervised training of a policy that thinks first; `None` for one that does not
            think.
    """

    name: str
    title: str
    judge: tuple[str, ...]
    rows: Path
    serve: tuple[str, ...]
    environment: str = "rubric_absolute"
    alphabet: str = LETTERS
    letter: str | None = None
    max_tokens: int = 24
    row_settings: tuple[str, ...] = ("train_dataset",)
    warm_up: WarmUp | None = None
    steps: int | None = None
    others: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def add_judge_flags(self, words: Sequence[str]) -> Task:
        """Return the same task with further flags for its judge."""
        return replace(self, judge=(*self.judge, *words))


SCRIPTED = Task(
    name="scripted",
    title="scripted judge",
    judge=("examples.tiny_grpo.judge", "--letter=e"),
    rows=ROWS / "questions.jsonl",
    serve=("--env.scale_min=0", "--env.scale_max=20"),
    letter="e",
)
OFFLINE = Task(
    name="offline",
    title="offline judge",
    judge=("judgegym.offline", "--judge_only"),
    rows=ROWS / "letters.jsonl",
    serve=("--env.scale_min=0", "--env.scale_max=100"),
    alphabet="abcdefgh ",
)
_JUDGED: dict[str, object] = {"judge": "rubric", "scale_min": 0, "scale_max": 20}
_LENGTH = {
    "rule": "length",
    "rule_length_unit": "characters",
    "rule_soft_limit": 8,
    "rule_hard_limit": 16,
}


def _reward(**parts: object) -> tuple[str, ...]:
    return ("--env.judge=composite", f"--env.reward={json.dumps(parts)}")


COMPOSITE = replace(
    SCRIPTED,
    name="composite",
    title="judge and length penalty",
    judge=(*SCRIPTED.judge, "--length_bias=0.3"),
    environment="prompts",
    serve=_reward(letter=_JUDGED, length={"judge": "rule", **_LENGTH, "penalty": 1}),
)
WITHOUT_PENALTY = replace(
    COMPOSITE, name="judge-alone", title="judge alone", serve=_reward(letter=_JUDGED)
)
# Both judges give 60 of 100 points for the letter; the weak one pays up to 60 more for a text that
# says nothing.
_LETTER = (*SCRIPTED.judge, "--letter_weight=0.6")
_FINE: dict[str, object] = {"judge": "rubric", "scale_min": 0, "scale_max": 100}
_SECOND = {**_FINE, "judge_base_url": "{second}", "judge_model_name": "second"}
_GOLD = {**_FINE, "judge_base_url": "{gold}", "judge_model_name": "gold"}
# A run of 140 steps has 1,120 groups. The first 128 are the reference, that is the first 16 steps,
# and each later check has two steps: the defaults (384 groups, and 32 of a quarter of the groups)
# are for runs of thousands. The tolerance is below the default (0.05), since the two judges agree
# but for the text.
_WATCHED = (
    f"--env.gold_judge={json.dumps(_GOLD)}",
    "--env.gold_share=1",
    "--env.gold_reference=128",
    "--env.gold_rollouts=16",
    "--env.gold_tolerance=0.02",
)

HACKED = replace(
    SCRIPTED,
    name="hacked",
    title="one judge",
    judge=(*_LETTER, "--phrase=he", "--phrase_weight=0.6"),
    others=(("gold", _LETTER),),
    environment="prompts",
    serve=(*_reward(letter=_FINE), *_WATCHED),
    steps=140,
)
"""The judge rewards a text that the gold judge does not reward."""

MENDED = replace(
    HACKED,
    name="mended",
    title="the lower of two judges",
    others=(*HACKED.others, ("second", (*_LETTER, "--phrase=me", "--phrase_weight=0.6"))),
    serve=(*_reward(first=_FINE, second=_SECOND), "--env.combine=min", *_WATCHED),
)
"""The same with a second judge, equally weak, with another weakness."""

ALTERNATED = replace(
    MENDED,
    name="alternated",
    title="two judges in turn",
    serve=(*_reward(first=_FINE, second=_SECOND), "--env.combine=alternate", *_WATCHED),
)
"""The same two judges; each judges about half of the groups."""

TWO_TURNS = replace(
    SCRIPTED,
    name="two_turns",
    title="two turns",
    environment="examples.tiny_grpo.two_turns:TwoTurnsEnv",
    serve=("--env.judge=rubric", *SCRIPTED.serve),
    max_tokens=16,
)
"""Conversations of two turns; each conversation is one sequence."""

BY_TURN = replace(
    TWO_TURNS,
    name="by_turn",
    title="each turn for itself",
    serve=(*TWO_TURNS.serve, "--env.reward_by=turn"),
)
"""The same, with a group and a reward of each turn."""

NOISY = replace(
    SCRIPTED,
    name="noisy",
    title="noisy judge",
    judge=(*SCRIPTED.judge, "--jitter=0.05"),
    serve=(*SCRIPTED.serve, "--env.signal_groups=64"),
)
ON_REQUEST = {task.name: task for task in (TWO_TURNS, BY_TURN, NOISY)}
TASKS = {task.name: task for task in (SCRIPTED, OFFLINE, COMPOSITE)}
