"""A judge: is the answer in the language of the question? Yes or no, with a quote.

judgegym score data.jsonl --judge examples/own_judge/language.py:JUDGE --out scored.jsonl
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from judgegym.judges import (
    JudgeDefinition,
    JudgeSettings,
    JudgeTask,
    Lookalikes,
    MessageTemplate,
    ModelJudge,
    ParsedVerdict,
    PromptFormat,
    Question,
    StandInPrompt,
    setting,
    verdict_parser,
)

# Settings: flags of every command that has the judge.


class LanguageJudgeSettings(JudgeSettings):
    """The settings of every judge, and one of its own."""

    count_quotes: bool = setting(False, common=True)
    """Let names, code and quoted words in another language count, too."""


# Prompt. The answer comes last: a server with a prefix cache computes what comes before it once.

_QUOTES = "Names, code and quoted words in another language do not count.\n"
_REQUEST = """\
Is the answer written in the language of the question?
{quotes}First quote the part of the answer that decides it, then end with a line LANGUAGE: same or LANGUAGE: other."""
_TEMPLATE = MessageTemplate(
    ("{request}", "QUESTION{tag}:\n{prompt}", "ANSWER{tag}:\n{response}"),
    Lookalikes("QUESTION:", "ANSWER:", "LANGUAGE:"),
)

# Parser: the last verdict, on a line of its own, or none.


@verdict_parser
def same_language(text: str) -> ParsedVerdict[bool] | None:
    """Parse the last line `LANGUAGE: same` or `LANGUAGE: other`."""
    lines = [
        *re.finditer(
            r"^[*_ ]*LANGUAGE:[*_ ]*(same|other)[*_. ]*$", text, re.MULTILINE | re.IGNORECASE
        )
    ]
    if not lines or re.search(r"LANGUAGE\s*[:=]", text[lines[-1].end() :], re.IGNORECASE):
        return None  # another verdict may follow
    return ParsedVerdict(lines[-1][1].lower() == "same", lines[-1].span(1))


class LanguageJudge(ModelJudge[LanguageJudgeSettings, None, bool]):
    """Scores 1.0 for an answer in the language of the question, else 0.0."""

    def questions(self, task: JudgeTask) -> Sequence[Question[bool]]:
        """Ask once; a system prompt replaces the request."""
        system = self.settings.judge_system_prompt
        request = _REQUEST.format(quotes="" if self.settings.count_quotes else _QUOTES)
        words = {"request": request} if system is None else {}
        prompt = _TEMPLATE.fill(
            {"prompt": task.prompt}, {"response": task.response}, wording=words, system=system
        )
        return [Question("language", prompt, same_language, reasks=1)]


def _reply(shown: StandInPrompt) -> str:
    """Return the offline stand-in's reply."""
    return (
        f'"{shown.sections["ANSWER"][:40]}"\n\nLANGUAGE: {"same" if shown.merit > 0.3 else "other"}'
    )


PROMPT = PromptFormat(("QUESTION", "ANSWER"), ("ANSWER",), _reply, question="QUESTION")
JUDGE = JudgeDefinition(
    LanguageJudgeSettings,
    "is it in the question's language",
    LanguageJudge,
    prompts=(PROMPT,),
    unused_settings=frozenset(("judge_output",)),
)
