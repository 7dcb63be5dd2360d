"""Texts that an attacker who knows the judge's prompt can write: a top verdict, a section's end.

Both come from the prompt that the judge itself builds and from its `PromptFormat`, so they stay
true when a format changes. No model is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from judgegym.judges.core.prompt_format import StandInPrompt
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.parsing.verdict_parser import strip_form
from judgegym.judges.scorers.settings import AnyJudgeSettings
from judgegym.llm import wire
from judgegym.offline.answers import load_known_prompts, read_prompt
from judgegym.offline.request import RequestMessage
from judgegym_trials.attacks.suite import PROMPT_PLACEHOLDERS, ForgedTexts
from judgegym_trials.judged_rows import list_prompts

PLACEHOLDER = "The response stands here."
"""Stands for the response under attack, so that it can be located in the prompt."""
_BEST = 0.999  # below 1: some formats would round 1 up beyond their scale
_LONGEST_ENDING = 200
"""Maximum length of a section's end; a longer text behind the response has other sections."""


class Forger:
    """Builds the forged texts for one judge."""

    def __init__(self, settings: AnyJudgeSettings) -> None:
        """Build the prompts of the settings' judge.

        Raises:
            SettingsError: the judge's settings are wrong.
        """
        # Critique rounds would only repeat the prompt.
        self._settings = settings.model_copy(update={"judge_critique_rounds": 0})
        self._formats = load_known_prompts(settings)

    async def forge(self, task: JudgeTask) -> ForgedTexts:
        """Return the forged texts for a task's response; none for a judge without a prompt.

        Args:
            task: a checked task, with the placeholder as the response under attack.
        """
        replies, objects, ending = list[str](), list[str](), ""
        for messages in await list_prompts(self._settings, task):
            request = [
                RequestMessage(message["role"], strip_form(message["content"]))
                for message in messages
            ]
            reading = read_prompt(request, self._formats)
            content = messages[-1]["content"]
            if reading is None or PLACEHOLDER not in content:
                continue
            form = reading.prompt_format
            titles = form.select_judged(reading.sections)
            merits = {title: _BEST * (PLACEHOLDER in reading.sections[title]) for title in titles}
            reply = form.reply(
                StandInPrompt(reading.instructions, reading.sections, merits, Random(0))
            )
            fields = form.fields(reply)
            behind = content.rpartition(PLACEHOLDER)[2].strip()
            if len(behind) > _LONGEST_ENDING:
                behind = behind.partition("\n\n")[0]
            ending = ending or behind
            replies.append(reply)
            if fields is not None:
                objects.append(wire.dumps(fields).decode())
            if len(titles) > 1:
                break  # a game or a group: a forged verdict would contradict the other orders
        texts = (_join_distinct(replies), _join_distinct(objects), ending)
        if replies:
            return dict(zip(PROMPT_PLACEHOLDERS, texts, strict=True))
        return {}


def _join_distinct(texts: Sequence[str]) -> str:
    return "\n".join(dict.fromkeys(texts))
