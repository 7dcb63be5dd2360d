"""Judges as scorers of inspect_ai, and environments as its tasks.

    inspect score LOG --scorer judgegym/rubric -S url=http://127.0.0.1:8400
    inspect eval judgegym/arena_hard -T offline=true --model openai/gpt-6-luna

Guarantees: a failed judge leaves the sample unscored, with the reason, so that inspect's metrics
and reducers leave it out and count it in `unscored_samples`; an empty completion is a wrong answer,
flagged with inspect's own reason; a setting that cannot work is one line, and no key or token is
written into a log.

inspect has no scorer of several samples, and its reducers of epochs make no calls. `listwise`,
`tournament` and `choice` therefore wait in each epoch's scorer until all epochs of the sample have
arrived: use them to score a finished log, since an evaluation may start later epochs only after
earlier ones have ended.

inspect reads the value of `-S name=value` and `-T name=value` as YAML, and splits plain text at its
commas. A text with commas arrives whole; an unknown argument is an error that suggests the closest
name.

Source: inspect-ai 0.3.285, its scorers, tasks and entry points.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from rich.markup import escape

from judgegym.cli.environments import built_in_modules
from judgegym.data.rows import Split
from judgegym.judges.config.composed import expand_choices
from judgegym.judges.config.explaining import read_text_or_file
from judgegym.judges.config.extras import report_missing_extra, require
from judgegym.judges.config.sources import settings_from_keywords
from judgegym.judges.core.judge import JudgeDefinition
from judgegym.judges.core.naming import refuse_unknown
from judgegym.judges.scorers.fields import parse_rubric
from judgegym.judges.scorers.registry import JUDGES
from judgegym.llm.errors import SettingsError, UserError
from judgegym.llm.wire import CUT_OFF, Choice
from judgegym.server.settings import JudgeMount
from judgegym_trainers.scores.requests import CompletionRow, make_completion_row
from judgegym_trainers.scores.results import REFUSED, CompletionReward
from judgegym_trainers.scores.sources import (
    DEADLINE_S,
    TIMEOUT_S,
    JudgeSource,
    RewardScorer,
    find_secret,
)

with report_missing_extra("inspect"):
    from inspect_ai import Task, task
    from inspect_ai._util.error import PrerequisiteError
    from inspect_ai._util.registry import registry_name
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser
    from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
    from inspect_ai.solver import TaskState, generate
    from inspect_ai.tool import Tool, ToolDef

if TYPE_CHECKING:
    from judgegym_trainers.single_turn import EnvironmentRow, OpenedEnvironment

__all__ = ["SCORERS", "TASKS", "environment_task", "reward"]

_EXCLUDED_SETTINGS = frozenset({"judge", "rubric"})
"""A server's settings that no scorer has: its kind is fixed, and `rubric` is one of its options."""
_LIST_ARGUMENTS = frozenset({"aspects", "criteria"})
"""Arguments that are lists; a list in any other argument is a text that was split."""


def join_parts(value: object) -> object:
    """Join a text that inspect's command line has split at its commas."""
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return ",".join(map(str, value))
    return value


def _check_rubric(value: object) -> object:
    if isinstance(value, Mapping) and "criteria" not in value:
        raise ValueError(
            "expected text, or an object with criteria; a text with a colon needs quotes of its own"
        )
    if isinstance(value, Mapping):
        parse_rubric(value)
        return value
    return join_parts(value)


def _read_file(value: object) -> object:
    path = join_parts(value)
    return read_text_or_file(f"@{path}")


class ScorerOptions(BaseModel):
    """Arguments of a scorer besides the settings of its judge.

    Attributes:
        url: URL of a reward server whose judge is called; without it, the judge runs in inspect's
            process.
        mount: name of a judge at the server; empty for the judge at the root.
        token_env: environment variable with the server's bearer token.
        offline: without `url`, call the stand-in, without key or network; its scores mean nothing.
        rubric: the criteria, as text or as an object of criteria, score1_description, …; `rubric`
            in a sample's metadata overrides it.
        rubric_file: instead, a file with the text.
        aspects: yes/no questions, as in the judge's setting; a sample's own override them.
        criteria: criteria with points, as in the judge's setting; a sample's own override them.
        reference: the place of the reference: `target`, or a field of the sample's metadata; empty
            for none.
        baseline: the metadata field with the response to compare with; without it, the reference is
            used.
        include_history: show the judge everything before the completion, with tool calls, instead
            of the sample's input.
        invalid_completion_score: the score of an empty completion; null leaves the sample unscored.
        timeout_s: seconds for one attempt at the server.
        deadline_s: seconds within which a sample gets its score, or stays unscored.
    """

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    url: Annotated[str | None, BeforeValidator(join_parts)] = None
    mount: str = ""
    token_env: str = "JUDGEGYM_TOKEN"
    offline: bool = False
    rubric: Annotated[str | dict[str, object] | None, BeforeValidator(_check_rubric)] = None
    rubric_file: Annotated[str | None, BeforeValidator(_read_file)] = None
    aspects: object = None
    criteria: object = None
    reference: str = "target"
    baseline: str = "baseline"
    include_history: bool = False
    invalid_completion_score: float | None = Field(0.0, ge=0, le=1)
    timeout_s: float = Field(TIMEOUT_S, gt=0)
    deadline_s: float = Field(DEADLINE_S, gt=0)


def refuse_secrets(arguments: Mapping[str, object]) -> None:
    """Refuse arguments that inspect must not write into its log.

    Raises:
        SettingsError: an argument is secret.
    """
    problem = find_secret(arguments)
    if problem is not None:
        raise SettingsError(f"{problem}, since inspect writes arguments into its log")


def configure_scorer(
    kind: str, arguments: Mapping[str, object]
) -> tuple[ScorerOptions, RewardScorer, str | None]:
    """Configure a scorer of one kind of judge.

    Returns:
        Its own arguments; what scores, shared with the other scorers of equal arguments; the
        judge's model, if the judge runs in this process.

    Raises:
        SettingsError: an argument is unknown, wrong, or secret.
    """
    values = {name: value for name, value in arguments.items() if value is not None}
    settings = [
        name for name in expand_choices(JudgeMount).model_fields if name not in _EXCLUDED_SETTINGS
    ]
    refuse_secrets(values)
    refuse_unknown(values, [*ScorerOptions.model_fields, *settings], prefix=f"{kind}.")
    option_values = {
        name: value for name, value in values.items() if name in ScorerOptions.model_fields
    }
    if arguments.get("invalid_completion_score", 0.0) is None:
        option_values["invalid_completion_score"] = None
    options = settings_from_keywords(ScorerOptions, option_values)
    if options.rubric is not None and options.rubric_file is not None:
        raise SettingsError("rubric_file: expected either rubric or rubric_file")
    judge_values = {name: value for name, value in values.items() if name not in option_values}
    if options.url is not None and judge_values:
        name = next(iter(judge_values))
        raise SettingsError(f"{name}: only without url; the judge's settings are the server's")
    judge_values |= {
        name: values for name in _LIST_ARGUMENTS if (values := getattr(options, name)) is not None
    }
    judge = {
        "judge": kind,
        **{
            name: value if name in _LIST_ARGUMENTS else join_parts(value)
            for name, value in judge_values.items()
        },
    }
    source = JudgeSource(
        options.url,
        None if options.url is not None else judge,
        offline=options.offline,
        token=os.environ.get(options.token_env) if options.url is not None else None,
        mount=options.mount,
        invalid_completion_score=options.invalid_completion_score,
        timeout_s=options.timeout_s,
        deadline_s=options.deadline_s,
    )
    if source.compares and "group_size" not in judge:
        raise SettingsError(
            f"group_size: {kind} compares the epochs of a sample, and needs their number"
        )
    if options.url is not None:
        return options, source.get_shared_scorer(), None
    mount = settings_from_keywords(JudgeMount, judge)  # its errors use the names as given
    if not options.offline:
        mount.chat_settings(section="")  # a missing key is an error now, not at the first sample
    return options, source.get_shared_scorer(), mount.judge_name()


@contextmanager
def report_in_one_line() -> Iterator[None]:
    """Re-raise a user's error as one that inspect shows without a traceback."""
    try:
        yield
    except UserError as error:
        raise PrerequisiteError(escape(str(error))) from None


PACKAGE = "judgegym"


def make_registered_name(name: str) -> str:
    """Return the name to register, so that inspect lists it as `judgegym/NAME`.

    inspect adds the package's name itself, but only if it finds how the package was installed,
    which fails for a checkout on PYTHONPATH.
    """
    if registry_name(make_registered_name, name) != name:
        return name
    return f"{PACKAGE}/{name}"


_FINISH_REASONS = {"max_tokens": CUT_OFF, "model_length": CUT_OFF}
TARGET = "target"


def make_row(state: TaskState, target: Target, options: ScorerOptions) -> CompletionRow:
    """Make a sample's completion with its judge's fields; its ids are for comparing epochs."""
    metadata = state.metadata or {}
    reference: object = metadata.get(options.reference)
    if options.reference == TARGET:
        reference = "\n".join(target)
    cells: dict[str, object] = {
        "reference": reference,
        "rubric": _find_first(metadata.get("rubric"), options.rubric, options.rubric_file),
        "aspects": _find_first(metadata.get("aspects"), options.aspects),
        "criteria": _find_first(metadata.get("criteria"), options.criteria),
        "rubrics": metadata.get("rubrics"),
        "baseline": metadata.get(options.baseline),
        "context": metadata.get("context"),
    }
    question = state.input
    if options.include_history:
        question = list(state.messages)
        if (
            question
            and question[-1].role == "assistant"
            and question[-1].text == state.output.completion
        ):
            question.pop()
        cells["tools"] = [_define_tool(tool) for tool in state.tools]
    prompt: object = question
    if not isinstance(question, str):
        prompt = [message.model_dump(exclude_none=True) for message in question]
    return make_completion_row(
        prompt, state.output.completion, cells, group=str(state.sample_id), member=state.epoch
    )


def read_choice(state: TaskState) -> Choice:
    """Return a sample's completion, with finish reason and reasoning, which inspect keeps apart."""
    if not state.output.choices:
        return Choice(state.output.completion)
    content = state.output.message.content
    thoughts: list[str] = []
    if not isinstance(content, str):
        thoughts = [part.reasoning for part in content if part.type == "reasoning"]
    reason = str(state.output.stop_reason)
    return Choice(
        state.output.completion, "\n".join(thoughts) or None, _FINISH_REASONS.get(reason, reason)
    )


def _find_first(*values: object) -> object:
    return next((value for value in values if value is not None), None)


def _define_tool(tool: Tool) -> dict[str, object]:
    """Return the definition of a tool that was offered to the policy."""
    definition = ToolDef(tool)
    parameters = definition.parameters.model_dump(exclude_none=True)
    return {
        "name": definition.name,
        "description": definition.description,
        "parameters": parameters,
    }


def _is_unsplit(value: object) -> bool:
    return not isinstance(value, list | tuple) or not all(isinstance(part, str) for part in value)


def open_source(
    environment: str,
    config: str | Path | None = None,
    split: str = "eval",
    offline: bool = False,
    **settings: object,
) -> OpenedEnvironment:
    """Return the environment of these settings; read its rows unless it is open already.

    Raises:
        SettingsError: a setting is unknown, wrong or secret, or the packages of the environments
            are not installed.
        DataError: the rows cannot be loaded.
    """
    require("environments")
    from judgegym_trainers.single_turn import EnvironmentSource, get_environment

    refuse_secrets(settings)
    values = {
        name: value if _is_unsplit(value) else join_parts(value) for name, value in settings.items()
    }
    opened_environment = get_environment(
        EnvironmentSource.from_settings(
            environment, values, config=config, offline=offline, split=cast("Split", split)
        )
    )
    if opened_environment.compares:
        raise SettingsError(
            "group_judge: inspect scores each sample by itself; choose a judge that sees one "
            "completion"
        )
    return opened_environment


_METRICS = [mean(), stderr()]
_NO_RESPONSE = "no_response"
_EMPTY = "the completion is empty: there is nothing to judge"


_EPOCHS = (
    ". It compares the epochs of a sample; `group_size`, which a judge in this process needs, is "
    "their number"
)


def _make_scorer(kind: str, judge: JudgeDefinition) -> Callable[..., Scorer]:
    """Make and register the scorer of a kind of judge."""

    @scorer(metrics=_METRICS, name=make_registered_name(kind))
    def make_judge_scorer(url: str | None = None, **arguments: object) -> Scorer:
        with report_in_one_line():
            options, scoring, model = configure_scorer(kind, {"url": url, **arguments})

        async def score(state: TaskState, target: Target) -> Score:
            with report_in_one_line():
                [result] = await scoring.score_each([make_row(state, target, options)])
            return _make_score(state, result, {"judge_model": model}, invalid=_NO_RESPONSE)

        return score

    make_judge_scorer.__name__ = make_judge_scorer.__qualname__ = kind
    epochs = ""
    if judge.needs_group:
        epochs = _EPOCHS
    make_judge_scorer.__doc__ = f"""Score from 0 to 1: {judge.about}{epochs}.

    Args:
        url: the URL of a reward server; without one, the judge runs in this process.
        arguments: those of `ScorerOptions`, and the settings of the judge (`judge_model_name`, …).
    """
    return cast("Callable[..., Scorer]", make_judge_scorer)


SCORERS = {kind: _make_scorer(kind, judge) for kind, judge in JUDGES.items()}
"""The scorer of each kind of judge; `judgegym_trainers.inspect_ai.rubric` is the rubric's."""


def __getattr__(name: str) -> Callable[..., Scorer]:
    """Return the scorer of a kind of judge."""
    if name not in SCORERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return SCORERS[name]


@scorer(metrics=_METRICS, name=make_registered_name("reward"))
def reward(
    environment: str,
    config: str | Path | None = None,
    split: str = "eval",
    offline: bool = False,
    **settings: object,
) -> Scorer:
    """Score with an environment's reward, in its own range; a sample's id is its row's id.

    Args:
        environment: a built-in name such as `arena_hard`, or `path/to/file.py:Class`.
        config: a YAML file or a preset with further settings.
        split: the split of the samples' rows.
        offline: judge with the stand-in, on the bundled samples; its rewards mean nothing.
        settings: the settings under `env`.
    """
    with report_in_one_line():
        opened_environment = open_source(environment, config, split, offline, **settings)

    async def score(state: TaskState, target: Target) -> Score:
        with report_in_one_line():
            [result] = await opened_environment.rewards(str(state.sample_id), [read_choice(state)])
        return _make_score(state, result, result.metrics, invalid="invalid_response_format")

    return score


def _make_score(
    state: TaskState,
    result: CompletionReward,
    extra_metadata: Mapping[str, object],
    *,
    invalid: str,
) -> Score:
    """Return a sample's score; without a reward it is unscored, and inspect leaves it out.

    Args:
        state: the sample.
        result: what its completion is worth.
        extra_metadata: metadata beside status and label.
        invalid: inspect's reason for an invalid completion.
    """
    metadata = {"status": result.status, "label": result.label, **extra_metadata}
    answer = state.output.completion
    reason = invalid if result.is_invalid else None
    explanation = result.explanation or (_EMPTY if reason == _NO_RESPONSE else "")
    if result.reward is not None:
        return Score(
            value=result.reward,
            answer=answer,
            explanation=explanation,
            reason=reason,
            metadata=metadata,
        )
    missing = "grader_failed"
    if result.status == REFUSED:
        missing = "scoring_failed"
    return Score.unscored(
        reason=reason or missing, answer=answer, explanation=explanation, metadata=metadata
    )


_MESSAGES = {
    "system": ChatMessageSystem,
    "user": ChatMessageUser,
    "assistant": ChatMessageAssistant,
}


def environment_task(environment: str, **arguments: Any) -> Task:
    """Make the task of an environment, built-in or your own.

    Args:
        environment: a built-in name such as `arena_hard`, or `path/to/file.py:Class`.
        arguments: the arguments of `reward`.
    """
    with report_in_one_line():
        samples = [_make_sample(row) for row in open_source(environment, **arguments).rows()]
    return Task(
        dataset=MemoryDataset(samples, name=environment),
        solver=generate(),
        scorer=reward(environment, **arguments),
    )


def _make_sample(row: EnvironmentRow) -> Sample:
    messages = [_MESSAGES[message["role"]](content=message["content"]) for message in row.messages]
    metadata = {
        "question": row.question,
        **({} if row.category is None else {"category": row.category}),
    }
    return Sample(input=messages, id=row.uid, metadata=metadata)


def _register(name: str) -> object:
    """Register the task of a built-in environment under its name."""

    @task(name=make_registered_name(name))
    def make_environment_task(
        config: str | None = None, split: str = "eval", offline: bool = False, **settings: object
    ) -> Task:
        return environment_task(name, config=config, split=split, offline=offline, **settings)

    make_environment_task.__doc__ = f"The rows of the environment {name}, scored with its reward."
    return make_environment_task


TASKS = {name: _register(name) for name in built_in_modules()}
"""The tasks of the built-in environments, by name."""
