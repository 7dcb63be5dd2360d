"""Show on a page what a model is asked: a file of `judgegym/judges/prompts/`, or the messages that a judge makes.

`{question}`, `{answer}` … stand where the texts of a row stand. The messages come from the judge's
own code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from judgegym.judges.arena import game_prompt
from judgegym.judges.aspects.prompt import Aspect, AspectJudgeSettings, aspect_prompt
from judgegym.judges.checklists.criteria import read_criteria
from judgegym.judges.checklists.prompt import ChecklistJudgeSettings, checklist_prompt
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.listwise.prompt import listwise_prompt, shared_texts
from judgegym.judges.pairwise import choice_prompt, rating_prompt
from judgegym.judges.parsing.scores import ScoreObject
from judgegym.judges.peers import peer_prompt
from judgegym.judges.rubrics.prompt import Rubric, RubricJudgeSettings, rubric_prompt
from judgegym.llm.wire import Message

FOLDER = Path(__file__).resolve().parents[2] / "judgegym" / "judges" / "prompts"

_CRITERIA = read_criteria(
    [
        "{criterion}",
        {"text": "{criterion with options}", "options": {"{lowest}": 0, "{highest}": 1}},
    ]
)
_CHECKED = JudgeTask("{prompt}", ("{answer}",), "{reference}", context="{contexts}")
_SUBMISSION = JudgeTask("{question}", ("{answer}",), "{reference}", context="{contexts}")
_ASPECT = Aspect(name="aspect", definition="{definition of the aspect}")
_RUBRIC = Rubric("{criteria}", {1: "{score1_description}", 5: "{score5_description}"})
_RESPONSE = JudgeTask("{instruction}", ("{response}",), "{reference_answer}")

MESSAGES: Mapping[str, Callable[[], Sequence[Message]]] = {
    "Arena-Hard: what the judge is asked": lambda: (
        game_prompt(
            "{prompt}", "{the policy's answer}", "{the baseline's answer}", protocol="three_way"
        ).messages
    ),
    "Tournament: what the judge of a choice is asked": lambda: (
        choice_prompt("{prompt}", ["{one answer}", "{the other answer}"]).messages
    ),
    "Pairwise judgement: what the policy is asked for a choice": lambda: (
        choice_prompt(
            "{prompt}", [f"{{answer {letter}}}" for letter in "ABCD"], system="{thinking prompt}"
        ).messages
    ),
    "Pairwise judgement: what the policy is asked for a rating": lambda: (
        rating_prompt("{prompt}", "{answer}", system="{thinking prompt}").messages
    ),
    "Aspect critique: what the judge is asked": lambda: (
        aspect_prompt(
            _SUBMISSION, _ASPECT, AspectJudgeSettings(judge_prompt_layout="published")
        ).messages
    ),
    "Rubric checklist: what the judge is asked": lambda: (
        checklist_prompt(_CHECKED, _CRITERIA, ChecklistJudgeSettings()).prompt.messages
    ),
    "Rubric-absolute: what the judge is asked": lambda: (
        rubric_prompt(_RUBRIC, _RESPONSE, RubricJudgeSettings()).messages
    ),
    "Self-critique: what a judge is asked": lambda: (
        peer_prompt("{query}", "{answer}", "{rubric}").messages
    ),
    "Self-critique: what it is asked in a round of critique": lambda: (
        peer_prompt(
            "{query}", "{answer}", "{rubric}", previous=ScoreObject(70, "{the judge's reasoning}")
        ).messages
    ),
    "Groups judged together: what the listwise judge is asked": lambda: (
        listwise_prompt(
            shared_texts(JudgeTask("{question}", (), context="{contexts}")),
            {"kqzrt": "{answer}", "hmwpx": "{answer}"},
        ).messages
    ),
}
"""By the title of the block."""

FILES: Mapping[str, str] = {
    "Arena-Hard: the system prompt of judge_protocol=arena_hard_v0.1": "arena_hard_v0_1.txt",
    "Arena-Hard: what the judge is asked after an answer without a verdict": "arena_hard_reask.txt",
    "Groups judged together: what is added to the judge's prompt": "shared_texts.txt",
    "Self-critique of a judge: what it is asked in a round": "critique.txt",
    "Self-critique: the rubric for rows without a rubric": "peer_rubric.txt",
    "Prompts: the prompt of a simulated user": "user.txt",
}
"""The file of a block, by its title."""


def prompt_block(title: str) -> str:
    """Return a block that opens to the text of a prompt."""
    if title in FILES:
        text = (FOLDER / FILES[title]).read_text(encoding="utf-8").rstrip("\n")
    else:
        text = "\n\n".join(
            f"{message['role']}:\n\n{message['content']}" for message in MESSAGES[title]()
        )
    lines = "\n".join(line.rstrip() for line in text.split("\n"))
    return (
        f'<details markdown="1">\n<summary>{title}</summary>\n\n```text\n{lines}\n```\n\n</details>'
    )
