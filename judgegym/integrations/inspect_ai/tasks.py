"""Tasks: a row of an environment is a sample, and the environment's reward is its score."""

from __future__ import annotations

from pathlib import Path

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser
from inspect_ai.solver import generate

from judgegym.cli.environments import built_in
from judgegym.integrations.inspect_ai.arguments import shown_as_one_line
from judgegym.integrations.inspect_ai.names import registered
from judgegym.integrations.inspect_ai.scorers import reward
from judgegym.integrations.inspect_ai.sources import opened_source
from judgegym.integrations.single_turn.source import EnvironmentRow

_MESSAGES = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}


def environment_task(
    environment: str,
    config: str | Path | None = None,
    split: str = "eval",
    offline: bool = False,
    **settings: object,
) -> Task:
    """The task of an environment, built-in or of one's own.

    Args:
        environment: a built-in name such as `arena_hard`, or `path/to/file.py:Class`.
        config: a YAML file or a preset with further settings.
        split: which rows.
        offline: judge with the stand-in, on the bundled samples; its rewards mean nothing.
        settings: the settings under `env`.
    """
    with shown_as_one_line():
        rows = opened_source(environment, settings, config=config, split=split, offline=offline).rows()
        samples = [_sample(row) for row in rows]
    return Task(
        dataset=MemoryDataset(samples, name=environment),
        solver=generate(),
        scorer=reward(environment, config=config, split=split, offline=offline, **settings),
    )


def _sample(row: EnvironmentRow) -> Sample:
    messages = [_MESSAGES[message["role"]](content=message["content"]) for message in row.messages]
    metadata = {"question": row.question, **({} if row.category is None else {"category": row.category})}
    return Sample(input=messages, id=row.uid, metadata=metadata)


def _register(name: str) -> object:
    """Register the task of a built-in environment under its name."""

    @task(name=registered(name))
    def of_environment(
        config: str | None = None, split: str = "eval", offline: bool = False, **settings: object
    ) -> Task:
        return environment_task(name, config=config, split=split, offline=offline, **settings)

    of_environment.__doc__ = f"The rows of the environment {name}, scored with its reward."
    return of_environment


TASKS = {name: _register(name) for name in built_in()}
"""The tasks of the built-in environments, by name."""
