"""The judge `syllables`: how close a poem is to 5, 7 and 5 syllables, as a model counts them."""

import re
from collections.abc import Sequence

from judgegym import judges

_TEMPLATE = judges.MessageTemplate(
    (
        "Count the syllables of each line of the poem. End with a line SYLLABLES: 5, 7, 5.",
        "POEM{tag}:\n{response}",
    ),
    judges.Lookalikes("POEM:", "SYLLABLES:"),
)


@judges.verdict_parser
def nearness(text: str) -> judges.ParsedVerdict[float] | None:
    """Return 1 for 5, 7 and 5 syllables, less for others; `None` without a line of counts."""
    lines = [*re.finditer(r"^SYLLABLES: (\d+(?:, \d+)*)$", text, re.MULTILINE)]
    if not lines:
        return None
    counts = [int(number) for number in lines[-1][1].split(", ")]
    misses = sum(abs(count - wanted) for count, wanted in zip(counts, (5, 7, 5), strict=False))
    return judges.ParsedVerdict(1 / (1 + misses) if len(counts) == 3 else 0.0, lines[-1].span(1))


class SyllablesJudge(judges.ModelJudge[judges.JudgeSettings, None, float]):
    """Scores poems by their syllables."""

    def questions(self, task: judges.JudgeTask) -> Sequence[judges.Question[float]]:
        prompt = _TEMPLATE.fill(
            {}, {"response": task.response}, system=self.settings.judge_system_prompt
        )
        return [judges.Question("syllables", prompt, nearness)]


def _reply(shown: judges.StandInPrompt) -> str:
    return f"I counted.\nSYLLABLES: 5, {round(7 * shown.merit)}, 5"


JUDGE = judges.JudgeDefinition(
    judges.JudgeSettings,
    "5, 7 and 5 syllables",
    SyllablesJudge,
    prompts=(judges.PromptFormat(("POEM",), ("POEM",), _reply),),
    unused_settings=frozenset(("judge_output",)),
)
