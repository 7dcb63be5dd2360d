"""The prompts that the stand-in knows: those of this project's judges, and those that it is told of by reference.

A reference is `path/to/file.py:NAME` or `package.module:NAME`, where a module-level `PromptFormat` has that name.
"""

import importlib
import runpy
import sys
from pathlib import Path

from judgegym.judges.arena.plausible import ARENA_PROMPT
from judgegym.judges.aspects.plausible import ASPECT_PROMPT
from judgegym.judges.core.prompt_format import PromptFormat
from judgegym.judges.listwise.plausible import LISTWISE_PROMPT
from judgegym.judges.pairwise.plausible import CHOICE_PROMPT, RATING_PROMPT
from judgegym.judges.peers.plausible import PEER_CRITIQUE_PROMPT, PEER_PROMPT
from judgegym.judges.rubrics.plausible import RUBRIC_PROMPT

BUILT_IN: tuple[PromptFormat, ...] = (
    ARENA_PROMPT,
    ASPECT_PROMPT,
    CHOICE_PROMPT,
    LISTWISE_PROMPT,
    RATING_PROMPT,
    PEER_PROMPT,
    PEER_CRITIQUE_PROMPT,
    RUBRIC_PROMPT,
)


def load_prompt(reference: str) -> PromptFormat:
    """The format that a reference names; raises `ValueError` with one line that says what is wrong."""
    place, _, name = reference.rpartition(":")
    try:
        names = runpy.run_path(place) if place.endswith(".py") else vars(importlib.import_module(place))
    except Exception as error:  # whatever a user's module raises is why it cannot be loaded
        raise ValueError(f"--prompt {reference}: cannot load {place!r}: {type(error).__name__}: {error}") from error
    prompt_format = names.get(name)
    if not isinstance(prompt_format, PromptFormat):
        raise ValueError(f"--prompt {reference}: {place!r} has no PromptFormat named {name!r}")
    return prompt_format


def reference_of(prompt: PromptFormat | str) -> str:
    """The reference by which a process in another directory loads a prompt; `ValueError` if nothing names it."""
    if isinstance(prompt, str):
        place, _, name = prompt.rpartition(":")
        return f"{Path(place).resolve()}:{name}" if place.endswith(".py") else prompt
    for module in list(sys.modules.values()):
        named = next((name for name, value in vars(module).items() if value is prompt), None)
        path, spec = getattr(module, "__file__", None), getattr(module, "__spec__", None)
        if named is not None and path is not None:
            # A script is no module to another process, and a file may have been loaded under a name of its own.
            return f"{spec.name if spec is not None and '.' in spec.name else path}:{named}"
    raise ValueError(f"give the prompt with the sections {prompt.sections} a name at the top of its file")
