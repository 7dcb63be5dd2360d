"""Other wordings of a judge's prompt: three shipped ones for each built-in prompt, or a file's.

A wording is a text for the setting `judge_system_prompt`; verdicts are parsed by the same rules.
The shipped ones replace sentences of the prompt that the judge sends for these very rows, with its
scale and format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.parsing.verdict_parser import strip_form
from judgegym.judges.scorers.settings import AnyJudgeSettings
from judgegym.llm.errors import SettingsError
from judgegym_trials.audit.settings import read_mapping, read_shipped
from judgegym_trials.judged_rows import list_prompts

SHIPPED = "shipped"
_SETTING = "judge_system_prompt"


async def load_wordings(
    settings: AnyJudgeSettings, tasks: Sequence[JudgeTask], source: str
) -> Mapping[str, str] | str:
    """Return other wordings by name, or why there are none.

    Args:
        settings: the judge's settings.
        tasks: the rows that it judges with them.
        source: `shipped`, or a YAML file of names and prompts.

    Raises:
        SettingsError: the file cannot be read, or holds anything other than prompts.
    """
    file_wordings = {} if source == SHIPPED else _read_file(Path(source))
    if _SETTING in settings.ignored:
        return f"a judge of the kind {settings.judge} has no prompt of instructions"
    if file_wordings:
        return file_wordings
    how = "name a file of your own by --paraphrases"
    if settings.judge_system_prompt is not None:
        return (
            f"the shipped wordings are of built-in prompts, and this judge has another one; {how}"
        )
    prompts = set()
    for task in tasks:
        for message in chain.from_iterable(await list_prompts(settings, task)):
            if message["role"] == "system":
                prompts.add(strip_form(message["content"]))
    if len(prompts) > 1:
        return f"the rows have several prompts, as those with a reference and without one; {how}"
    prompt = next(iter(prompts), "")
    for wordings in read_shipped("wordings.yaml").values():
        if all(words in prompt for words in chain.from_iterable(wordings.values())):
            return {name: _replace_words(prompt, wording) for name, wording in wordings.items()}
    return f"there are no shipped wordings of this judge's prompt; {how}"


def _replace_words(prompt: str, wording: Mapping[str, str]) -> str:
    for words, others in wording.items():
        prompt = prompt.replace(words, others)
    return prompt


def _read_file(path: Path) -> Mapping[str, str]:
    wordings = read_mapping(
        path, "--paraphrases: ", "names of wordings with their prompts, such as strict: 'You are …'"
    )
    for name, prompt in wordings.items():
        if (
            not str(name).replace("_", "").replace("-", "").isalnum()
            or not isinstance(prompt, str)
            or not prompt
        ):
            raise SettingsError(
                f"--paraphrases: {path}: {name}: expected a name of letters and digits, and a "
                "prompt as text"
            )
    return wordings
