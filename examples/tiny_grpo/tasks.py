"""What the policy can be trained for: rows, the judge that rewards, and the letters that the policy has.

* `scripted`: a rubric that a script of one rule judges: the more of one letter, the better (`judge.py`).
* `offline`: the stand-in that judges wherever this project runs with `--offline`. It compares words: an answer is the
  better, the more of the question's and the reference's words it has, the longer it is, and the less it repeats. In
  these rows the words are single letters, so that a policy can find them by chance, and it writes a small alphabet.

Both are the environment `rubric_absolute` with the rubric judge, unchanged: prompts, parsers, retries and scores are
those of any other judge. The scale is finer than the usual one from 1 to 5, so that a small step can be seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_ROWS = Path(__file__).parent / "rows"
LETTERS = "abcdefghijklmnopqrstuvwxyz "


@dataclass(frozen=True)
class Task:
    """A task.

    Attributes:
        name: in a word; folders are named after it.
        title: for people.
        judge: the module of the judge's endpoint, with its flags; `--port` is added.
        rows: the questions with their rubrics.
        serve: further settings of `judgegym serve`.
        environment: the environment that serves.
        alphabet: what the policy writes.
        letter: whose share is recorded; `None`: of none.
        max_tokens: the most tokens of a completion.
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


SCRIPTED = Task(
    name="scripted",
    title="scripted judge",
    judge=("examples.tiny_grpo.judge", "--letter=e"),
    rows=_ROWS / "questions.jsonl",
    serve=("--env.scale_min=0", "--env.scale_max=20"),
    letter="e",
)
OFFLINE = Task(
    name="offline",
    title="offline judge",
    judge=("judges.offline", "--judge_only"),
    rows=_ROWS / "letters.jsonl",
    serve=("--env.scale_min=0", "--env.scale_max=100"),
    alphabet="abcdefgh ",
)
TASKS = {task.name: task for task in (SCRIPTED, OFFLINE)}
