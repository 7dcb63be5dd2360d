"""Does the answer keep to the language of the question? Yes or no, with a quote from the answer.

Copied to `judgegym/judges/language.py`, with `"language": language.JUDGE` in `JUDGES` of
`judgegym/judges/scorers/registry.py`, it is a kind of judge as the others are: in `judgegym score`, in
`judgegym evaluate prompts`, in the reward server, in the plugins.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import ClassVar

from judgegym.judges.config.judge import JudgeSettings
from judgegym.judges.core.calls import ask, failed_judgment
from judgegym.judges.core.delimiters import Lookalikes, Prompt
from judgegym.judges.core.judge import JudgeDefinition, SingleJudge
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.core.message_template import MessageTemplate
from judgegym.judges.core.prompt_format import PromptFormat, ShownPrompt
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.parsing.verdict_parser import ParsedVerdict, verdict_parser

# Settings and prompt. The answer comes last: a server with a prefix cache computes what comes before it once.


class LanguageJudgeSettings(JudgeSettings):
    """The settings that every judge has."""

    help_group: ClassVar[str] = "judge"


_REQUEST = """\
Is the answer written in the language of the question? Names, code and quoted words in another language do not count.
First quote the part of the answer that decides it, then end with a line LANGUAGE: same or LANGUAGE: other."""
_TEMPLATE = MessageTemplate(
    ("{request}", "QUESTION{tag}:\n{prompt}", "ANSWER{tag}:\n{response}"),
    Lookalikes("QUESTION:", "ANSWER:", "LANGUAGE:"),
)


@dataclass(frozen=True, slots=True)
class LanguageDetail:
    """The verdict, and the judge's words before it, with the quote."""

    same: bool
    quote: str


def language_prompt(task: JudgeTask, system_prompt: str | None = None) -> Prompt:
    """The judge's prompt; a system prompt replaces what it is asked."""
    words = {"request": _REQUEST} if system_prompt is None else {}
    return _TEMPLATE.fill({"prompt": task.prompt}, {"response": task.response}, words=words, system=system_prompt)


# Parser: the last verdict, on a line of its own, or none.


@verdict_parser
def same_language(own: str) -> ParsedVerdict[bool] | None:
    """Whether the last line `LANGUAGE: same` or `LANGUAGE: other` says that the languages are the same."""
    lines = [*re.finditer(r"^[*_ ]*LANGUAGE:[*_ ]*(same|other)[*_. ]*$", own, re.MULTILINE | re.IGNORECASE)]
    if not lines or re.search(r"LANGUAGE\s*[:=]", own[lines[-1].end() :], re.IGNORECASE):
        return None  # what comes after it may be another verdict
    return ParsedVerdict(lines[-1][1].lower() == "same", lines[-1].span(1))


def _reply(shown: ShownPrompt) -> str:
    """What the offline stand-in says in the judge's place."""
    return f'"{shown.sections["ANSWER"][:40]}"\n\nLANGUAGE: {"same" if shown.merit > 0.3 else "other"}'


PROMPT = PromptFormat(("QUESTION", "ANSWER"), ("ANSWER",), _reply, question="QUESTION")


class LanguageJudge(SingleJudge[LanguageJudgeSettings, LanguageDetail]):
    """1.0 for an answer in the language of the question, 0.0 for one in another."""

    async def judge(self, task: JudgeTask) -> Judgment[LanguageDetail]:
        """Judge one answer; without a verdict there is no score, and never an exception."""
        prompt = language_prompt(task, self.settings.judge_system_prompt)
        call = await ask(self.client, prompt.messages, same_language, name="language")
        if call.value is None:
            return replace(failed_judgment([call]), suspects=prompt.suspects)
        detail = LanguageDetail(call.value, call.text.rpartition("\n")[0].strip())
        label = "same" if call.value else "other"
        return Judgment(float(call.value), Status.OK, label, detail.quote, (call,), detail, suspects=prompt.suspects)


JUDGE = JudgeDefinition(LanguageJudgeSettings, "is it in the question's language", LanguageJudge, (PROMPT,))
