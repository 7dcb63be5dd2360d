"""What mkdocs does with prompts: a link that stands alone in its line becomes a block with what a model is asked.

A link to a file of `judgegym/judges/prompts/` gives the file's text. A link whose text is in `ASKED` gives the messages
that the judge's own code makes, with `{question}`, `{answer}` … where the texts of a row stand. So no page holds a copy
of a prompt. Where pages are read without the site, the line is a link to the file or to the code.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
PROMPTS = "judgegym/judges/prompts/"
ALONE = re.compile(r"^\[(?P<text>[^\]]+)\]\((?P<target>[^)]+)\)$", re.MULTILINE)

_CRITERIA = read_criteria(
    ["{criterion}", {"text": "{criterion with options}", "options": {"{lowest}": 0, "{highest}": 1}}]
)
_CHECKED = JudgeTask("{prompt}", ("{answer}",), "{reference}", context="{contexts}")
_SUBMISSION = JudgeTask("{question}", ("{answer}",), "{reference}", context="{contexts}")
_ASPECT = Aspect(name="aspect", definition="{definition of the aspect}")
_RUBRIC = Rubric("{criteria}", {1: "{score1_description}", 5: "{score5_description}"})
_RESPONSE = JudgeTask("{instruction}", ("{response}",), "{reference_answer}")

ASKED: dict[str, Callable[[], Sequence[Message]]] = {
    "Arena-Hard: what the judge is asked": lambda: (
        game_prompt("{prompt}", "{the policy's answer}", "{the baseline's answer}", protocol="three_way").messages
    ),
    "Tournament: what the judge of a choice is asked": lambda: (
        choice_prompt("{prompt}", ["{one answer}", "{the other answer}"]).messages
    ),
    "Pairwise judgement: what the policy is asked for a choice": lambda: (
        choice_prompt("{prompt}", [f"{{answer {letter}}}" for letter in "ABCD"], system="{thinking prompt}").messages
    ),
    "Pairwise judgement: what the policy is asked for a rating": lambda: (
        rating_prompt("{prompt}", "{answer}", system="{thinking prompt}").messages
    ),
    "Aspect critique: what the judge is asked": lambda: (
        aspect_prompt(_SUBMISSION, _ASPECT, AspectJudgeSettings(judge_prompt_layout="published")).messages
    ),
    "Rubric checklist: what the judge is asked": lambda: (
        checklist_prompt(_CHECKED, _CRITERIA, ChecklistJudgeSettings()).prompt.messages
    ),
    "Rubric-absolute: what the judge is asked": lambda: (
        rubric_prompt(_RUBRIC, _RESPONSE, RubricJudgeSettings()).messages
    ),
    "Self-critique: what a judge is asked": lambda: peer_prompt("{query}", "{answer}", "{rubric}").messages,
    "Self-critique: what it is asked in a round of critique": lambda: (
        peer_prompt("{query}", "{answer}", "{rubric}", previous=ScoreObject(70, "{the judge's reasoning}")).messages
    ),
    "Groups judged together: what the listwise judge is asked": lambda: (
        listwise_prompt(
            shared_texts(JudgeTask("{question}", (), context="{contexts}")), {"kqzrt": "{answer}", "hmwpx": "{answer}"}
        ).messages
    ),
}
"""By the text of the link: the messages."""


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put what a model is asked in the place of the links to it."""
    return with_prompts(markdown, posixpath.dirname(page.file.src_uri))


def with_prompts(markdown: str, folder: str) -> str:
    """Return a page of a folder of `docs/` with blocks in the place of its links to prompts."""

    def block(link: re.Match[str]) -> str:
        text = link["text"]
        path = posixpath.normpath(posixpath.join("docs", folder, link["target"]))
        if text in ASKED:
            said = "\n\n".join(f"{message['role']}:\n\n{message['content']}" for message in ASKED[text]())
        elif path.startswith(PROMPTS):
            said = (ROOT / path).read_text(encoding="utf-8").rstrip("\n")
        else:
            return link[0]
        lines = ["```text", *said.split("\n"), "```"]
        return f'??? quote "{text}"\n\n' + "\n".join(f"    {line}".rstrip() for line in lines)

    return ALONE.sub(block, markdown)
